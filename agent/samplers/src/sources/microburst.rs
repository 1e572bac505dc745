//! Microbursts on selected interfaces, from a probe on the packet path (`ebpf/probes/src/bin/microburst.rs`) that
//! counts in bins of one millisecond. The kernel keeps the bins of the last seconds in a ring of blocks; each block is
//! read once, when it is complete.

use crate::microburst::{Bin, Dump, Microburst, NAMES, Recorder, Window};
use crate::sampler::{Period, Sampler, Spec};
use crate::target::SamplingTarget;
use aya::include_bytes_aligned;
use aya::maps::{MapData, PerCpuArray};
use aya::util::nr_cpus;
use fabriclens_agent_host::batch::{Batch, SampleError};
use fabriclens_agent_host::clock::Clock;
use fabriclens_agent_probes::cost;
use fabriclens_agent_probes::netdev::{ATTACH_METHODS, Interface, NetdevProbe};
use fabriclens_base::error_chain::with_causes;
use fabriclens_catalog::CounterSource;
use fabriclens_catalog::metrics::microburst as rows;
use fabriclens_ebpf_abi::microburst::{BIN, BIN_NS, BINS, BYTES, Block, CE, DIRECTIONS, PACKETS, ROCE, STAMPS, WORDS};
use fabriclens_wire::Value;
use rustix::time::{ClockId, clock_gettime};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Table row of this sampler.
pub const SPEC: Spec = Spec {
    name: "microburst",
    source: CounterSource::Ebpf,
    period: Period::Full,
    default: false,
    needs: "microburst.netdevs in the config, CAP_BPF and CAP_NET_ADMIN (CAP_NET_RAW before Linux 6.6)",
    applies: SamplingTarget::is_host,
    open,
};

static OBJECT: &[u8] = include_bytes_aligned!("../../../../ebpf/objects/microburst.o");
/// Interval between two looks for interfaces and their speed, which change rarely.
const REFRESH: Duration = Duration::from_secs(10);
/// Blocks of the ring: four seconds, or two on hosts with many CPUs, as each CPU has a ring.
const BLOCKS: u32 = 256;
const MANY_CPUS: usize = 32;
const BLOCK_NS: u64 = BINS as u64 * BIN_NS;
const BIN_SECONDS: f64 = BIN_NS as f64 / 1e9;

fn open(target: &SamplingTarget) -> Result<Box<dyn Sampler>, SampleError> {
    if target.microburst.netdevs.is_empty() {
        return Err(SampleError::Absent("no interface is selected; set microburst.netdevs".into()));
    }
    let mut opened = MicroburstSampler { watched: BTreeMap::new(), refreshed: Instant::now(), target: target.clone() };
    match (opened.refresh(), opened.watched.is_empty()) {
        (Some(error), true) => Err(error),
        _ => Ok(Box::new(opened)),
    }
}

struct MicroburstSampler {
    watched: BTreeMap<String, WatchedInterface>,
    refreshed: Instant,
    target: SamplingTarget,
}

impl Sampler for MicroburstSampler {
    fn sample(&mut self, _: &[bool], out: &mut Batch) -> Result<(), SampleError> {
        if self.refreshed.elapsed() > REFRESH
            && let Some(error) = self.refresh()
        {
            tracing::debug!(%error, "cannot watch an interface for microbursts");
        }
        let settings = &self.target.microburst;
        for watch in self.watched.values_mut() {
            watch.read(settings)?;
            watch.tell(settings, out);
        }
        cost::tell(SPEC.name, self.watched.values().map(|watch| &watch.attached.cost), out)
    }
}

impl MicroburstSampler {
    /// Attaches to new interfaces and detaches from removed ones. Returns the first failure.
    fn refresh(&mut self) -> Option<SampleError> {
        self.refreshed = Instant::now();
        let mut first = None;
        for name in &self.target.microburst.netdevs {
            let Some(interface) = Interface::find(&self.target.roots, name) else {
                self.watched.remove(name);
                first.get_or_insert(SampleError::Absent(format!(
                    "there is no interface {name}; see microburst.netdevs"
                )));
                continue;
            };
            match self.watched.get_mut(name) {
                Some(watch) if watch.interface.index == interface.index => watch.interface = interface,
                _ => match WatchedInterface::new(&self.target, interface) {
                    Ok(watch) => _ = self.watched.insert(name.clone(), watch),
                    Err(error) => {
                        self.watched.remove(name);
                        first.get_or_insert(error);
                    }
                },
            }
        }
        first
    }
}

/// State of one interface.
struct WatchedInterface {
    interface: Interface,
    ring: PerCpuArray<MapData, Block>,
    blocks: u64,
    /// Number of the next block to read.
    next: u64,
    recorder: Recorder,
    /// Highest counts of a bin in this sample; `None` if no bin was read.
    peak: Option<Bin>,
    totals: Bin,
    bursts: [u64; DIRECTIONS],
    missed: u64,
    dumps: u64,
    attached: NetdevProbe,
}

impl WatchedInterface {
    fn new(target: &SamplingTarget, interface: Interface) -> Result<Self, SampleError> {
        let cpus = nr_cpus().map_err(|(what, e)| SampleError::Failed(format!("counting CPUs in {what}: {e}")))?;
        let blocks = if cpus > MANY_CPUS { BLOCKS / 2 } else { BLOCKS };
        let mut probe = NetdevProbe::attach(
            &target.roots,
            &interface,
            OBJECT,
            &[("BLOCKS", blocks)],
            &[("RING", blocks)],
            ATTACH_METHODS,
        )?;
        tracing::info!(netdev = interface.name, method = ?probe.method(), "watching interface for microbursts");
        Ok(Self {
            ring: probe.per_cpu("RING")?,
            blocks: u64::from(blocks),
            // The current block began before the probe was attached.
            next: monotonic() / BLOCK_NS + 1,
            recorder: Recorder::default(),
            peak: None,
            totals: [0; BIN],
            bursts: [0; DIRECTIONS],
            missed: 0,
            dumps: 0,
            interface,
            attached: probe,
        })
    }

    /// Reads complete blocks: not the current one, nor the one before, which a slow CPU may still write.
    fn read(&mut self, settings: &Microburst) -> Result<(), SampleError> {
        self.peak = None;
        let now = monotonic();
        let end = (now / BLOCK_NS).saturating_sub(1);
        // The oldest block may be overwritten during the read.
        let oldest = end.saturating_sub(self.blocks - 3);
        if self.next < oldest {
            self.missed += (oldest - self.next) * BINS as u64;
            self.next = oldest;
        }
        let threshold = settings.threshold(self.interface.rate);
        while self.next < end {
            let place = (self.next & (self.blocks - 1)) as u32;
            let cpus = self.ring.get(&place, 0);
            let cpus = cpus.map_err(|e| SampleError::Failed(format!("reading the ring: {}", with_causes(&e))))?;
            let block = summed(&cpus, self.next);
            for (at, bin) in block.iter().enumerate() {
                if let Some(window) = self.take(self.next * BINS as u64 + at as u64, bin, threshold) {
                    self.dumps += 1;
                    settings.dumps.push(dump(&self.interface.name, window, now));
                }
            }
            self.next += 1;
        }
        Ok(())
    }

    fn take(&mut self, number: u64, bin: &Bin, threshold: Option<u64>) -> Option<Window> {
        let peak = self.peak.get_or_insert([0; BIN]);
        for ((peak, total), n) in peak.iter_mut().zip(&mut self.totals).zip(bin) {
            *peak = (*peak).max(*n);
            *total += n;
        }
        for (way, bursts) in self.bursts.iter_mut().enumerate() {
            *bursts += u64::from(threshold.is_some_and(|threshold| bin[way * WORDS + BYTES] >= threshold));
        }
        self.recorder.push(number, bin, threshold)
    }

    fn tell(&self, settings: &Microburst, out: &mut Batch) {
        let netdev = [("netdev", &*self.interface.name)];
        let threshold = settings.threshold(self.interface.rate);
        for (way, direction) in NAMES.iter().enumerate() {
            let labels = [("direction", *direction), ("netdev", &*self.interface.name)];
            let of = |bin: &Bin, what: usize| bin[way * WORDS + what];
            let peak = |what| self.peak.as_ref().map(|bin| Value::Float(of(bin, what) as f64 / BIN_SECONDS));
            out.fact_if(&rows::BURST_IO_PEAK, &labels, peak(BYTES));
            out.fact_if(&rows::BURST_PACKETS_PEAK, &labels, peak(PACKETS));
            out.fact(&rows::BURST_CE, &labels, Value::Int(of(&self.totals, CE)));
            out.fact(&rows::BURST_ROCE, &labels, Value::Int(of(&self.totals, ROCE)));
            let time = Value::Float(self.bursts[way] as f64 * BIN_SECONDS);
            out.fact_if(&rows::BURST_TIME, &labels, threshold.map(|_| time));
        }
        let rate = threshold.map(|bytes| Value::Float(bytes as f64 / BIN_SECONDS));
        out.fact_if(&rows::BURST_THRESHOLD, &netdev, rate);
        out.fact(&rows::BURST_MISSED, &netdev, Value::Float(self.missed as f64 * BIN_SECONDS));
        out.fact(&rows::BURST_DUMPS, &netdev, Value::Int(self.dumps));
    }
}

/// Bins of block `number`, summed over CPUs; a CPU without traffic in it has an older block in its place.
fn summed(cpus: &[Block], number: u64) -> [Bin; BINS] {
    let mut sum = [[0; BIN]; BINS];
    for block in cpus {
        for (at, bin) in sum.iter_mut().enumerate() {
            if block[STAMPS + at] == number * BINS as u64 + at as u64 + 1 {
                bin.iter_mut().zip(&block[at * BIN..]).for_each(|(sum, n)| *sum += n);
            }
        }
    }
    sum
}

fn dump(netdev: &str, window: Window, now: u64) -> Dump {
    let ago = now.saturating_sub(window.first * BIN_NS);
    Dump { netdev: netdev.to_owned(), begin_ns: Clock::new().now().saturating_sub(ago), window }
}

/// Time of the clock that the probe uses, ns.
fn monotonic() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    u64::try_from(now.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(now.tv_nsec).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use fabriclens_ebpf_abi::microburst::word;

    #[test]
    fn cpu_with_an_older_block_adds_nothing() {
        let mut cpus = [[0; STAMPS + BINS]; 3];
        let number = 7 * BINS as u64 + 3;
        for (cpu, stamp) in [number + 1, 4, number + 1].into_iter().enumerate() {
            cpus[cpu][STAMPS + 3] = stamp;
            cpus[cpu][word(3, 1, PACKETS)] = 10 + cpu as u64;
            cpus[cpu][word(4, 1, PACKETS)] = 1000;
        }
        let sum = summed(&cpus, 7);
        assert_eq!(sum[3][WORDS + PACKETS], 22);
        assert_eq!(sum.as_flattened().iter().sum::<u64>(), 22, "the stamp is no count");
    }
}
