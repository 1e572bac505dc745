//! Probes that keep one record for each interface and class of destinations; their samplers only say what the words of a
//! record mean.

use crate::target::Subject;
use aya::maps::{MapData, PerCpuArray};
use fabriclens_agent_host::batch::{Batch, SampleError};
use fabriclens_agent_probes::{Design, Peers, Probe, summed};
use fabriclens_ebpf_abi::INTERFACES;
use fabriclens_ebpf_abi::destination::CLASSES;
use std::time::{Duration, Instant};

/// Addresses of a host change rarely.
const REFRESH: Duration = Duration::from_secs(10);
/// A probe at work that counts into `N` words for each interface and class.
pub struct ByPlace<const N: usize> {
    records: PerCpuArray<MapData, [u64; N]>,
    peers: Peers,
    refreshed: Instant,
    subject: Subject,
    probe: Probe,
}

impl<const N: usize> ByPlace<N> {
    /// Attaches a probe whose records are in `map`; `sizes` of its other maps, where they depend on the host.
    ///
    /// # Errors
    /// As [`Probe::attach`].
    pub fn open(
        subject: &Subject,
        design: &'static Design,
        map: &'static str,
        sizes: &[(&'static str, u32)],
    ) -> Result<Self, SampleError> {
        let places = (INTERFACES * CLASSES) as u32;
        let mut loaded = Probe::load(&subject.roots, design, &[&[(map, places)], sizes].concat())?;
        let mut peers = loaded.peers()?;
        // Before it is attached, so that the first event finds its place.
        peers.refresh(&subject.roots, &*subject.calls, &subject.destinations)?;
        let records = loaded.per_cpu(map)?;
        Ok(Self { records, peers, refreshed: Instant::now(), subject: subject.clone(), probe: loaded.attach()? })
    }

    /// Whether this kernel has what `global` asks for.
    pub fn has(&self, global: &str) -> bool {
        self.probe.has(global)
    }

    /// Hands each record that has counted anything to `each`, with the labels of its place; then tells the probe's cost.
    ///
    /// # Errors
    /// When the kernel does not give them.
    pub fn read(
        &mut self,
        out: &mut Batch,
        mut each: impl FnMut(&mut Batch, &[u64; N], [(&'static str, &str); 2]),
    ) -> Result<(), SampleError> {
        if self.refreshed.elapsed() > REFRESH {
            self.peers.refresh(&self.subject.roots, &*self.subject.calls, &self.subject.destinations)?;
            self.refreshed = Instant::now();
        }
        let mut record = [0; N];
        for (place, netdev, destination) in self.peers.places() {
            summed(&self.records, place, &mut record)?;
            if record.iter().any(|n| *n > 0) {
                each(out, &record, [("destination", destination), ("netdev", netdev)]);
            }
        }
        self.probe.tell(out)
    }
}
