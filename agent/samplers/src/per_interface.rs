//! Probes with one record per interface and destination class; their samplers only define the meaning of the record's
//! words.

use crate::target::SamplingTarget;
use aya::maps::{MapData, PerCpuArray};
use fabriclens_agent_host::batch::{Batch, SampleError};
use fabriclens_agent_probes::{Peers, Probe, ProbeSpec, summed};
use fabriclens_ebpf_abi::INTERFACES;
use fabriclens_ebpf_abi::destination::CLASSES;
use std::time::{Duration, Instant};

/// Interval between two reads of the host's addresses, which change rarely.
const REFRESH: Duration = Duration::from_secs(10);
/// Attached probe that counts into `N` words per interface and class.
pub struct PerInterfaceProbe<const N: usize> {
    records: PerCpuArray<MapData, [u64; N]>,
    peers: Peers,
    refreshed: Instant,
    target: SamplingTarget,
    probe: Probe,
}

impl<const N: usize> PerInterfaceProbe<N> {
    /// Attaches a probe whose records are in `map`; `sizes` are those of its host-dependent maps.
    ///
    /// # Errors
    /// As [`Probe::attach`].
    pub fn open(
        target: &SamplingTarget,
        design: &'static ProbeSpec,
        map: &'static str,
        sizes: &[(&'static str, u32)],
    ) -> Result<Self, SampleError> {
        let places = (INTERFACES * CLASSES) as u32;
        let mut loaded = Probe::load(&target.roots, design, &[&[(map, places)], sizes].concat())?;
        let mut peers = loaded.peers()?;
        // Before attaching, so that the first event is counted in the right place.
        peers.refresh(&target.roots, &*target.calls, &target.destinations)?;
        let records = loaded.per_cpu(map)?;
        Ok(Self { records, peers, refreshed: Instant::now(), target: target.clone(), probe: loaded.attach()? })
    }

    /// Whether this kernel has the member or field of `global`.
    pub fn has(&self, global: &str) -> bool {
        self.probe.has(global)
    }

    /// Passes each non-zero record with its labels to `each`, then adds the probe's own cost.
    ///
    /// # Errors
    /// When the kernel cannot read the maps.
    pub fn read(
        &mut self,
        out: &mut Batch,
        mut each: impl FnMut(&mut Batch, &[u64; N], [(&'static str, &str); 2]),
    ) -> Result<(), SampleError> {
        if self.refreshed.elapsed() > REFRESH {
            self.peers.refresh(&self.target.roots, &*self.target.calls, &self.target.destinations)?;
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
