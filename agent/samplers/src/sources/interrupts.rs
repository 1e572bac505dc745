//! Where the interrupts of a device are handled: on CPUs near its PCIe slot, or on others. Read slowly, by files of the kernel
//! that access no hardware.

use crate::sampler::{Period, Sampler, Spec};
use crate::target::SamplingTarget;
use fabriclens_agent_host::batch::{Batch, SampleError};
use fabriclens_agent_host::sysfile::maybe;
use fabriclens_catalog::{CounterSource, metrics::pcie};
use fabriclens_wire::Value;
use std::path::{Path, PathBuf};

/// Table row of this sampler.
pub const SPEC: Spec = Spec {
    name: "interrupts",
    source: CounterSource::Pci,
    period: Period::Slow,
    default: true,
    needs: "",
    applies: |target| target.port.is_none() && target.device.is_some(),
    open,
};

/// Most interrupts of a device that are looked at; adapters have one for each CPU and a few more.
const MOST: usize = 256;

fn open(target: &SamplingTarget) -> Result<Box<dyn Sampler>, SampleError> {
    let dir = target.device.as_ref().and_then(|d| d.pci_dir.clone());
    let dir = dir.ok_or_else(|| SampleError::Absent("no PCI function below".into()))?;
    let mut opened = Interrupts { dir, irqs: target.roots.proc().join("irq"), sys: target.roots.sys().into() };
    let mut batch = Batch::default();
    opened.sample(&[], &mut batch)?;
    Ok(Box::new(opened))
}

struct Interrupts {
    /// The PCI function.
    dir: PathBuf,
    /// `<proc>/irq`
    irqs: PathBuf,
    sys: PathBuf,
}

impl Sampler for Interrupts {
    fn sample(&mut self, _: &[bool], out: &mut Batch) -> Result<(), SampleError> {
        let near = cpus(&self.dir.join("local_cpulist")).unwrap_or_default();
        let all = cpus(&self.sys.join("devices/system/cpu/online")).unwrap_or_default();
        if near.is_empty() || all.iter().all(|range| covers(&near, *range)) {
            return Err(SampleError::Absent(format!("{}: all CPUs are equally near", self.dir.display())));
        }
        let (mut on_near, mut on_far) = (0, 0);
        for number in numbers(&self.dir.join("msi_irqs")) {
            let of = |file: &str| cpus(&self.irqs.join(number.to_string()).join(file));
            // The CPUs that the interrupt controller uses, of those that are allowed. Older kernels tell the latter only.
            let Some(used) = of("effective_affinity_list").or_else(|| of("smp_affinity_list")) else { continue };
            match used.iter().any(|range| common(&near, *range) > 0) {
                true => on_near += 1,
                false => on_far += 1,
            }
        }
        if on_near + on_far == 0 {
            return Err(SampleError::Absent(format!("{}: no message-signaled interrupts", self.dir.display())));
        }
        out.fact(&pcie::INTERRUPTS, &[("locality", "near")], Value::Int(on_near));
        out.fact(&pcie::INTERRUPTS, &[("locality", "far")], Value::Int(on_far));
        Ok(())
    }
}

/// Names of a directory that are numbers, the lowest ones.
fn numbers(dir: &Path) -> Vec<u32> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().filter_map(Result::ok);
    let mut numbers: Vec<u32> = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    numbers.sort_unstable();
    numbers.truncate(MOST);
    numbers
}

/// First and last CPU.
type Range = (u32, u32);

/// Ranges of a list such as `0-31,64-95`; `None` if there is none.
fn cpus(path: &Path) -> Option<Vec<Range>> {
    let text = maybe(path)?;
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let range: Range = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        (range.0 <= range.1).then_some(range)
    };
    let ranges: Vec<Range> = text.split(',').map_while(range).collect();
    (!ranges.is_empty()).then_some(ranges)
}

/// How many CPUs of the range the list has. The kernel's lists name each CPU once.
fn common(list: &[Range], (first, last): Range) -> u64 {
    let overlap = |of: &Range| u64::from(of.1.min(last)) + 1 - u64::from(of.0.max(first));
    list.iter().filter(|of| of.0 <= last && first <= of.1).map(overlap).sum()
}

/// Whether the list has all CPUs of the range.
fn covers(list: &[Range], (first, last): Range) -> bool {
    common(list, (first, last)) > u64::from(last.saturating_sub(first))
}

#[cfg(test)]
mod tests {
    use super::*;
    use fabriclens_agent_host::inventory::Device;
    use fabriclens_agent_host::roots::Roots;
    use std::sync::Arc;

    #[test]
    fn interrupts_are_near_where_a_local_cpu_handles_them() {
        let dir = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = dir.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write("sys/devices/system/cpu/online", "0-127\n");
        write("sys/pci/local_cpulist", "32-63,96-127\n");
        for (number, file, list) in [
            (40, "effective_affinity_list", "33\n"),
            (41, "effective_affinity_list", "100\n"),
            (42, "effective_affinity_list", "64\n"),
            (43, "smp_affinity_list", "0-127\n"),
            (44, "effective_affinity_list", "\n"),
        ] {
            write(&format!("sys/pci/msi_irqs/{number}"), "msix\n");
            write(&format!("proc/irq/{number}/{file}"), list);
        }
        let target = || {
            let pci_dir = Some(dir.path().join("sys/pci"));
            let device = Arc::new(Device { pci_dir, ..Device::bare("mlx5_0", "mlx5_core") });
            let roots = Arc::new(Roots::new(Some(dir.path().into())));
            SamplingTarget::of_device(&roots, &"h".into(), &device).remove(0)
        };
        let mut batch = Batch::default();
        open(&target()).unwrap().sample(&[], &mut batch).unwrap();
        let told: Vec<_> = batch.facts.iter().map(|fact| format!("{fact:?}")).collect();
        assert!(told.len() == 2 && told[0].contains("Int(3)") && told[1].contains("Int(1)"), "{told:?}");
        write("sys/pci/local_cpulist", "0-127\n");
        let Err(SampleError::Absent(why)) = open(&target()).map(drop) else { panic!("one node has no far CPUs") };
        assert!(why.contains("equally near"), "{why}");
    }
}
