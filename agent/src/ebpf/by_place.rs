//! Probes that keep one record for each interface and class of destinations; their samplers only say what the words of a
//! record mean.

use super::{Design, Peers, Probe, summed};
use crate::subject::Subject;
use aya::maps::{MapData, PerCpuArray};
use fabriclens_agent_host::batch::{Batch, SampleError};
use fabriclens_ebpf_abi::destination::CLASSES;
use fabriclens_ebpf_abi::histogram::{BOUNDS, BUCKETS, SUM, bound};
use fabriclens_ebpf_abi::{INTERFACES, histogram};
use fabriclens_wire::Histogram;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Addresses of a host change rarely.
const REFRESH: Duration = Duration::from_secs(10);
/// Microseconds in a second.
const MICROS: f64 = 1e6;

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

/// Upper bounds of the histograms of probes, seconds.
pub fn bounds() -> Arc<[f64]> {
    // The first octaves are finer than a microsecond: their buckets have one bound.
    let mut bounds: Vec<u64> = (0..BOUNDS).map(bound).collect();
    bounds.dedup();
    bounds.into_iter().map(|micros| micros as f64 / MICROS).collect()
}

/// The histogram at the beginning of a record, if it holds anything; no observation yet is no distribution, not an empty
/// one. Buckets that share a bound become one.
pub fn histogram<const N: usize>(record: &[u64; N], bounds: &Arc<[f64]>) -> Option<Arc<Histogram>> {
    const { assert!(N >= histogram::WORDS) };
    if record[..BUCKETS].iter().all(|n| *n == 0) {
        return None;
    }
    let mut counts: Vec<u64> = Vec::with_capacity(bounds.len() + 1);
    let mut last = None;
    for (bucket, count) in record[..BOUNDS].iter().enumerate() {
        match counts.last_mut().filter(|_| last == Some(bound(bucket))) {
            Some(same) => *same = same.saturating_add(*count),
            None => counts.push(*count),
        }
        last = Some(bound(bucket));
    }
    counts.push(record[BOUNDS]);
    Some(Arc::new(Histogram { bounds: Arc::clone(bounds), counts, sum: record[SUM] as f64 / MICROS }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_short_numbers_that_rise() {
        let bounds = bounds();
        assert!(bounds.is_sorted_by(|a, b| a < b) && bounds[0] == 1e-6 && bounds.last() == Some(&16.777_216));
        assert!(bounds.iter().all(|bound| bound.to_string().len() <= 9), "{bounds:?}");
    }

    #[test]
    fn buckets_that_are_full_do_not_overflow_where_they_become_one() {
        let bounds = bounds();
        let full = histogram(&[u64::MAX; histogram::WORDS], &bounds).unwrap();
        assert_eq!((full.counts[0], full.count()), (u64::MAX, u64::MAX));
        assert!(full.cumulative().all(|(_, n)| n == u64::MAX));
    }
}
