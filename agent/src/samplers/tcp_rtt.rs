//! Smoothed round trips of TCP by interface and class of destination, seen by a probe in the kernel at each segment
//! received (`ebpf/probes/src/bin/tcp_rtt.rs`). The yardstick beside RDMA.

use super::{Period, Sampler, Spec};
use crate::batch::{Batch, SampleError};
use crate::ebpf::{Hook, Peers, Probe, summed};
use crate::subject::Subject;
use aya::include_bytes_aligned;
use aya::maps::{MapData, PerCpuArray};
use fabriclens_catalog::Source;
use fabriclens_catalog::metrics::host::TCP_RTT;
use fabriclens_ebpf_abi::destination::CLASSES;
use fabriclens_ebpf_abi::histogram::{BOUNDS, BUCKETS, SUM, WORDS, bound};
use fabriclens_ebpf_abi::{INTERFACES, tcp_rtt::Record};
use fabriclens_wire::{Histogram, Value};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// See the module.
pub const SPEC: Spec = Spec {
    name: "tcp_rtt",
    source: Source::Ebpf,
    period: Period::Full,
    default: false,
    needs: "CAP_BPF, CAP_PERFMON and tracefs",
    applies: |subject| subject.device.is_none() && subject.netdev.is_none(),
    open,
};

const HOOK: Hook = Hook {
    program: "tcp_probe",
    tracepoint: "tcp/tcp_probe",
    fields: &[("SADDR", "saddr"), ("DADDR", "daddr"), ("SRTT", "srtt")],
};
static OBJECT: &[u8] = include_bytes_aligned!("../../../ebpf/objects/tcp_rtt.o");
/// Addresses of a host change rarely.
const REFRESH: Duration = Duration::from_secs(10);
/// Microseconds to seconds.
const SECONDS: f64 = 1e-6;

fn open(subject: &Subject) -> Result<Box<dyn Sampler>, SampleError> {
    let places = (INTERFACES * CLASSES) as u32;
    let mut probe = Probe::attach(&subject.roots, OBJECT, &HOOK, &[("RTT", places)])?;
    let mut peers = probe.peers()?;
    peers.refresh(&subject.roots, &*subject.calls, &subject.destinations)?;
    // The first octaves are finer than a microsecond: their buckets have one bound.
    let mut bounds: Vec<u64> = (0..BOUNDS).map(bound).collect();
    bounds.dedup();
    Ok(Box::new(TcpRtt {
        records: probe.per_cpu("RTT")?,
        bounds: bounds.into_iter().map(|micros| micros as f64 * SECONDS).collect(),
        peers,
        refreshed: Instant::now(),
        subject: subject.clone(),
        _attached: probe,
    }))
}

struct TcpRtt {
    records: PerCpuArray<MapData, Record>,
    bounds: Arc<[f64]>,
    peers: Peers,
    refreshed: Instant,
    subject: Subject,
    _attached: Probe,
}

impl Sampler for TcpRtt {
    fn sample(&mut self, _: &[bool], out: &mut Batch) -> Result<(), SampleError> {
        if self.refreshed.elapsed() > REFRESH {
            self.peers.refresh(&self.subject.roots, &*self.subject.calls, &self.subject.destinations)?;
            self.refreshed = Instant::now();
        }
        let mut record = [0; WORDS];
        for (place, netdev, destination) in self.peers.places() {
            summed(&self.records, place, &mut record)?;
            // No traffic yet is no distribution, not an empty one.
            if record[..BUCKETS].iter().any(|n| *n > 0) {
                let labels = [("destination", destination), ("netdev", netdev)];
                out.fact(&TCP_RTT, &labels, Value::Histogram(Arc::new(told(&record, &self.bounds))));
            }
        }
        Ok(())
    }
}

/// Buckets that share a bound become one.
fn told(record: &Record, bounds: &Arc<[f64]>) -> Histogram {
    let mut counts = Vec::with_capacity(bounds.len() + 1);
    let mut last = None;
    for (bucket, count) in record[..BOUNDS].iter().enumerate() {
        match counts.last_mut().filter(|_| last == Some(bound(bucket))) {
            Some(same) => *same += count,
            None => counts.push(*count),
        }
        last = Some(bound(bucket));
    }
    counts.push(record[BOUNDS]);
    Histogram { bounds: Arc::clone(bounds), counts, sum: record[SUM] as f64 * SECONDS }
}
