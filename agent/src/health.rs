//! The agent's own metrics and facts of the host, as ordinary catalog rows.
//! The host thread of `schedule` calls it each second.

use crate::budget::{Cost, WindowUsage};
use crate::device::SourceStats;
use crate::probing::ProbingCounts;
use crate::sandbox;
use crate::schedule::Outcome;
use fabriclens_agent_host::batch::Batch;
use fabriclens_agent_host::clock::Clock;
use fabriclens_agent_host::inventory::{Class, Inventory};
use fabriclens_agent_host::roots::Roots;
use fabriclens_agent_host::sysfile::maybe;
use fabriclens_catalog::metrics::{self_, state};
use fabriclens_wire::{Column, Resource, Section, Value};
use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Files with the name of the distribution.
pub const OS_RELEASE: [&str; 2] = ["etc/os-release", "usr/lib/os-release"];
/// Longest distribution name, bytes; longer ones are cut.
const LONGEST_NAME: usize = 100;

/// Numbers that only `schedule` has.
#[derive(Debug, Clone)]
pub struct Counts {
    /// Sections waiting in the ring.
    pub ring_depth: usize,
    /// Sections that the ring dropped.
    pub ring_dropped: u64,
    /// Devices that vanished since the start.
    pub gone: u64,
    /// Deadline of a read.
    pub deadline: Duration,
    /// Steps below the configured sampling rate.
    pub slowed: usize,
    /// Cost in the last complete window.
    pub used: Option<WindowUsage>,
    /// Sandbox state of the threads.
    pub sandbox: Option<sandbox::State>,
    /// Counts of tracing and probing, if they are on.
    pub probing: Option<ProbingCounts>,
}

/// Builder of the agent's own sections.
#[derive(Debug)]
pub struct Health {
    resource: Arc<Resource>,
    start_ns: u64,
    columns: Arc<[Column]>,
    starts: Arc<[u64]>,
    batch: Batch,
    /// Columns of [`host_facts`].
    host: Arc<[Column]>,
}

impl Health {
    /// Creates the builder for an agent that starts now.
    pub fn new(host: &Arc<str>, start_ns: u64) -> Self {
        let resource = host_resource(host);
        Self {
            resource,
            start_ns,
            columns: Arc::from([]),
            starts: Arc::from([]),
            batch: Batch::default(),
            host: Arc::from([]),
        }
    }

    /// [`host_facts`], with the same columns as long as the facts do not change.
    pub fn host_facts(&mut self, roots: &Roots, host: &Arc<str>, found: &Inventory, now_ns: u64) -> Section {
        let mut section = host_facts(roots, host, found, now_ns);
        if section.columns != self.host {
            self.host = section.columns;
        }
        section.columns = Arc::clone(&self.host);
        section
    }

    /// Sections with the agent's own metrics.
    pub fn sections(
        &mut self,
        clock: &Clock,
        stats: &[SourceStats],
        found: &Inventory,
        counts: &Counts,
    ) -> Vec<Section> {
        let begin_ns = clock.now();
        let mut batch = std::mem::take(&mut self.batch);
        batch.begin();
        let steps = clock.steps();
        batch.fact(&self_::AGENT_INFO, &[("version", env!("CARGO_PKG_VERSION"))], Value::Int(1));
        batch.fact(&self_::AGENT_START, &[], Value::Float(self.start_ns as f64 / 1e9));
        batch.fact(&self_::CLOCK_STEPS, &[], Value::Int(steps.forward + steps.backward));
        batch.fact(&self_::RING_DEPTH, &[("ring", "samples")], Value::Int(counts.ring_depth as u64));
        batch.fact(&self_::RING_DROPPED, &[("ring", "samples")], Value::Int(counts.ring_dropped));
        batch.fact(&self_::SLOWED, &[], Value::Int(counts.slowed as u64));
        batch.fact_if(&self_::CPU_SHARE, &[], counts.used.map(|used| Value::Float(used.cpu)));
        if let Some(state) = &counts.sandbox {
            for (part, said) in [("calls", &state.calls), ("files", &state.files)] {
                batch.fact(&self_::SANDBOX, &[("part", part)], Value::Int(said.is_ok().into()));
            }
        }
        if let Some(probing) = &counts.probing {
            probing.facts(&mut batch);
        }
        devices(&mut batch, found, counts);
        process(&mut batch);
        for source_stats in stats {
            source(&mut batch, source_stats, counts.deadline, begin_ns);
        }
        discontinuities(&mut batch, stats);
        let end_ns = clock.now();
        let same =
            self.columns.len() == batch.facts.len() && self.columns.iter().zip(&batch.facts).all(|(h, (c, _))| h == c);
        let mut sections = Vec::new();
        if !same {
            let ended: Vec<Column> =
                self.columns.iter().filter(|h| batch.facts.iter().all(|(c, _)| c != *h)).cloned().collect();
            if !ended.is_empty() {
                sections.push(self.section(
                    begin_ns,
                    end_ns,
                    ended.iter().map(|c| (c.clone(), Value::Stale)).collect(),
                ));
            }
            self.columns = batch.facts.iter().map(|(column, _)| column.clone()).collect();
            self.starts = vec![self.start_ns; self.columns.len()].into();
        }
        sections.push(Section {
            resource: Arc::clone(&self.resource),
            columns: Arc::clone(&self.columns),
            begin_ns,
            end_ns,
            starts: Arc::clone(&self.starts),
            values: batch.facts.iter().map(|(_, value)| value.clone()).collect(),
            urgent: false,
        });
        self.batch = batch;
        sections
    }

    fn section(&self, begin_ns: u64, end_ns: u64, facts: Vec<(Column, Value)>) -> Section {
        let values: Vec<Value> = facts.iter().map(|(_, value)| value.clone()).collect();
        Section {
            resource: Arc::clone(&self.resource),
            starts: vec![self.start_ns; values.len()].into(),
            columns: facts.into_iter().map(|(column, _)| column).collect(),
            begin_ns,
            end_ns,
            values,
            urgent: false,
        }
    }
}

fn source(out: &mut Batch, stats: &SourceStats, deadline: Duration, now_ns: u64) {
    let status = &stats.status;
    let labels = [("sampler", stats.spec.name), ("target", status.target.as_str())];
    let stalled = stats.under_way.is_some_and(|(began, _)| began.elapsed() > deadline);
    let (state, counters) = match &status.outcome {
        _ if stalled => ("stalled", None),
        Outcome::Data { counters } => ("data", Some(*counters)),
        Outcome::Absent(_) => ("absent", None),
        Outcome::Error(_) => ("error", None),
        Outcome::Stalled(_) => ("stalled", None),
    };
    let with_state = [labels[0], ("state", state), labels[1]];
    out.fact(&self_::SAMPLER_STATE, &with_state, Value::Int(1));
    // An absent source has no cost and no counters, so it gets no series.
    if state == "absent" {
        return;
    }
    out.fact(&self_::SAMPLER_BUSY, &labels, Value::Float(stats.busy.as_secs_f64()));
    out.fact(&self_::SAMPLER_READS, &labels, Value::Int(status.reads));
    out.fact(&self_::SAMPLER_ERRORS, &labels, Value::Int(status.errors));
    out.fact(&self_::SAMPLER_STALLS, &labels, Value::Int(stats.stalls));
    out.fact(&self_::SAMPLER_MISSED, &labels, Value::Int(stats.missed));
    out.fact(&self_::SAMPLER_PANICS, &labels, Value::Int(stats.panics));
    out.fact_if(&self_::SAMPLER_READ_LAST, &labels, status.last_read.map(|d| Value::Float(d.as_secs_f64())));
    out.fact_if(&self_::SAMPLER_COUNTERS, &labels, counters.map(|n| Value::Int(n as u64)));
    out.fact(&self_::UNKNOWN_COUNTERS, &labels, Value::Int(stats.unknown as u64));
    let left_out = Some(stats.left_out).filter(|n| *n > 0).map(|n| Value::Int(n as u64));
    out.fact_if(&self_::PASSTHROUGH_LEFT_OUT, &labels, left_out);
    let age = (stats.sampled_ns > 0).then(|| now_ns.saturating_sub(stats.sampled_ns) as f64 / 1e9);
    out.fact_if(&self_::SAMPLE_AGE, &labels, age.map(Value::Float));
}

fn discontinuities(out: &mut Batch, stats: &[SourceStats]) {
    let mut sums: BTreeMap<(&str, &str), u64> = BTreeMap::new();
    for source_stats in stats {
        let d = source_stats.discontinuities;
        let by_reason = [
            ("reset", d.reset),
            ("wrap", d.wrap),
            ("saturated", d.saturated),
            ("implausible", d.implausible),
            ("invalid", d.invalid),
        ];
        for (reason, count) in by_reason {
            *sums.entry((reason, &source_stats.status.target)).or_default() += count;
        }
    }
    for ((reason, target), count) in sums {
        out.fact(&self_::DISCONTINUITIES, &[("reason", reason), ("target", target)], Value::Int(count));
    }
}

fn devices(out: &mut Batch, found: &Inventory, counts: &Counts) {
    let restricted = found.devices.iter().filter(|d| d.class == Class::Restricted).count();
    let sampled = found.devices.iter().filter(|d| d.class.may_read()).count() + found.netdevs.len();
    for (state, count) in [("sampled", sampled as u64), ("restricted", restricted as u64), ("gone", counts.gone)] {
        out.fact(&self_::DEVICES, &[("state", state)], Value::Int(count));
    }
}

/// Metrics of the agent's own process: always from the real `/proc`, also with `--root`.
fn process(out: &mut Batch) {
    let cost = Cost::now();
    out.fact(&self_::PROCESS_CPU, &[], Value::Float(cost.cpu.as_secs_f64()));
    out.fact_if(&self_::PROCESS_MEMORY, &[], Some(cost.memory).filter(|n| *n > 0).map(Value::Int));
    let own = Path::new("/proc/self");
    // The links of a directory are its sub-directories, `.` and `..`.
    let threads = std::fs::metadata(own.join("task")).ok().map(|meta| meta.nlink().saturating_sub(2));
    out.fact_if(&self_::PROCESS_THREADS, &[], threads.map(Value::Int));
    let folder = own.join("fd");
    // Since Linux 6.2 the size of the directory is the number of descriptors; before, it is 0 and they are listed.
    let size = std::fs::metadata(&folder).ok().map(|meta| meta.len()).filter(|n| *n > 0);
    let open = size.or_else(|| std::fs::read_dir(&folder).map(|dir| dir.count() as u64).ok());
    out.fact_if(&self_::PROCESS_FDS, &[], open.map(Value::Int));
}

fn host_resource(host: &Arc<str>) -> Arc<Resource> {
    Arc::new(Resource { host: Arc::clone(host), device: None, port: None })
}

/// Name of the distribution from `os-release`; `None` if the host's root is not visible.
fn distribution(roots: &Roots) -> Option<String> {
    let text = OS_RELEASE.iter().find_map(|file| maybe(&roots.base().join(file)))?;
    let name = text.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="))?;
    let name = name.trim_matches(['"', '\'']);
    Some(name.chars().filter(|c| !c.is_control()).take(LONGEST_NAME).collect())
}

/// Kernel, boot id and number of ports by kind; zeros on a host without ports.
pub fn host_facts(roots: &Roots, host: &Arc<str>, found: &Inventory, now_ns: u64) -> Section {
    let mut batch = Batch::default();
    let kernel = |name: &str| maybe(&roots.proc().join("sys/kernel").join(name)).unwrap_or_default();
    let labels = [
        ("arch", kernel("arch")),
        ("boot_id", kernel("random/boot_id")),
        ("kernel", kernel("osrelease")),
        ("os", distribution(roots).unwrap_or_else(|| kernel("ostype"))),
    ];
    let labels: Vec<(&str, &str)> = labels.iter().map(|(name, value)| (*name, value.as_str())).collect();
    batch.fact(&state::HOST_INFO, &labels, Value::Int(1));
    let mut ports: BTreeMap<&str, u64> = ["infiniband", "roce", "ethernet"].map(|fabric| (fabric, 0)).into();
    for port in found.devices.iter().flat_map(|d| &d.ports) {
        *ports.entry(port.transport.fabric()).or_default() += 1;
    }
    for _ in &found.netdevs {
        *ports.entry("ethernet").or_default() += 1;
    }
    for (fabric, count) in ports.into_iter().filter(|(fabric, _)| !fabric.is_empty()) {
        batch.fact(&state::HOST_PORTS, &[("fabric", fabric)], Value::Int(count));
    }
    batch.section(host_resource(host), 0, now_ns)
}
