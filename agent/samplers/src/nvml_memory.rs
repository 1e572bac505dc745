//! What must be known of earlier reports of NVML: which links were active, and when the next report may be asked for.

use fabriclens_kernel::nvml::NvmlGpu;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Reports in which a link must be inactive to count as down.
const MISSED: u32 = 3;
/// A report that takes longer is not cheap: the driver starts the GPUs for it.
const CHEAP: Duration = Duration::from_secs(1);
/// Part of the time that reports which are not cheap may take.
const SHARE: u32 = 100;

/// Memory of the thread that asks NVML; it outlives the sampler, which is opened again after each absence.
#[derive(Debug, Default)]
pub struct NvmlMemory {
    /// Reports without activity since the link was last active, by GPU and link.
    missed: BTreeMap<(String, u32), u32>,
    /// Duration of the last report if it was not cheap, and the time of the next one.
    postponed: Option<(Duration, Instant)>,
}

impl NvmlMemory {
    /// Duration of the last report and the time until the next one, if that must wait.
    pub fn wait(&self, now: Instant) -> Option<(Duration, Duration)> {
        let (took, next) = self.postponed?;
        (now < next).then(|| (took, next - now))
    }

    /// Records that a report took this long.
    pub fn took(&mut self, time: Duration, now: Instant) {
        self.postponed = (time > CHEAP).then(|| (time, now + time * SHARE));
    }

    /// Records which links are active.
    pub fn observe(&mut self, gpu: &NvmlGpu) {
        for link in &gpu.links {
            let key = (gpu.pci_address.clone(), link.link);
            if link.is_active {
                self.missed.insert(key, 0);
            } else if let Some(missed) = self.missed.get_mut(&key) {
                *missed = missed.saturating_add(1);
            }
        }
    }

    /// Whether a link is down; `None` if it was never active.
    pub fn is_down(&self, gpu: &NvmlGpu, link: u32) -> Option<bool> {
        self.missed.get(&(gpu.pci_address.clone(), link)).map(|missed| *missed >= MISSED)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fabriclens_kernel::nvml::NvLink;

    #[test]
    fn links_that_were_never_active_are_not_down() {
        let mut memory = NvmlMemory::default();
        let mut report = |active: [bool; 2]| {
            let link = |(link, is_active): (usize, &bool)| NvLink {
                link: link as u32,
                is_active: *is_active,
                ..NvLink::default()
            };
            let links = active.iter().enumerate().map(link).collect();
            let gpu = NvmlGpu { pci_address: "0000:19:00.0".into(), links, ..NvmlGpu::default() };
            memory.observe(&gpu);
            [0, 1].map(|link| memory.is_down(&gpu, link))
        };
        assert_eq!(report([false, false]), [None, None], "it trains, or is wired to nothing");
        assert_eq!(report([true, false]), [Some(false), None]);
        assert_eq!(report([false, false]), [Some(false), None], "once is nothing");
        assert_eq!(report([false, false]), [Some(false), None]);
        assert_eq!(report([false, false]), [Some(true), None]);
        assert_eq!(report([true, false]), [Some(false), None], "it is back");
    }

    #[test]
    fn slow_reports_are_rare() {
        let (mut memory, now) = (NvmlMemory::default(), Instant::now());
        memory.took(Duration::from_millis(50), now);
        assert_eq!(memory.wait(now), None);
        memory.took(Duration::from_secs(3), now);
        assert_eq!(memory.wait(now), Some((Duration::from_secs(3), Duration::from_secs(300))));
        assert_eq!(memory.wait(now + Duration::from_secs(300)), None);
    }
}
