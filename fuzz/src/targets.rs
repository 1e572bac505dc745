//! The table of targets.

use crate::paths::scratch;
use crate::seeds::{self, disk, host, kernel, method, people, sender, switch};
use fabriclens_agent::schedule;
use fabriclens_agent_collectives::{inspector, listeners, log, mpi, ras};
use fabriclens_agent_host::sysfile;
use fabriclens_agent_samplers::kernel_log::matching::find;
use fabriclens_agent_samplers::kernel_log::record::Record;
use fabriclens_agent_workload::{cgroup, environ};
use fabriclens_base::terminal;
use fabriclens_catalog::MetricKind;
use fabriclens_config as config;
use fabriclens_config::HostId;
use fabriclens_core::exposition::Exposition;
use fabriclens_core::telemetry::Telemetry;
use fabriclens_correlate::topology;
use fabriclens_foreign::{Meaning, SOURCES, Value, canonical, meaning};
use fabriclens_forward as forward;
use fabriclens_ingest as ingest;
use fabriclens_job_sources as jobs;
use fabriclens_jobs::{HostNames, kubernetes, slurm};
use fabriclens_kernel::{live, lldp, recorded};
use fabriclens_model::names::{check_series, is_plain_metric};
use fabriclens_model::{Budget, Labels, MAX_COMPILED, Matcher, Patterns, Read, ReadError, Series};
use fabriclens_promql::{Engine, Limits};
use fabriclens_server::auth::Certificate;
use fabriclens_wire::Section;
use fabriclens_wire::decode::Decoder;
use std::collections::BTreeMap;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tempfile::TempDir;

/// A parser of untrusted bytes.
pub struct Target {
    /// Name on the command line.
    pub name: &'static str,
    /// Origin of the bytes, and their format.
    pub origin: &'static str,
    /// Creates the initial inputs.
    pub seeds: fn() -> Vec<Vec<u8>>,
    /// Parses one input; a panic is a finding.
    pub run: fn(&[u8]),
}

const fn row(name: &'static str, origin: &'static str, seeds: fn() -> Vec<Vec<u8>>, run: fn(&[u8])) -> Target {
    Target { name, origin, seeds, run }
}

/// All targets.
pub const ALL: &[Target] = &[
    row("otlp", "senders: metrics by OTLP, decoded by hand", sender::otlp, otlp),
    row("remote_write", "senders: snappy and remote write", sender::remote_write, ingest::fuzzing::remote_write),
    row("gzip", "senders: compressed bodies", sender::gzip, ingest::fuzzing::gunzip),
    row("zstd", "senders: bodies compressed by zstd", sender::zstd, ingest::fuzzing::unzstd),
    row("otlp_json", "senders: metrics by OTLP in JSON", sender::otlp_json, otlp_json),
    row("lease", "agents: questions for the lease of a subnet", method::lease, ingest::fuzzing::lease),
    row("probe_plan", "agents: requests for a probe plan", method::probe_plans, ingest::fuzzing::probe_plan),
    row(
        "probe_report",
        "agents: traced paths and results of probes",
        method::probe_reports,
        ingest::fuzzing::probe_report,
    ),
    row(
        "forwarding_tables",
        "agents: forwarding tables of a subnet, and paths from them",
        method::forwarding_tables,
        ingest::fuzzing::forwarding_tables,
    ),
    row("lines", "people: JSON lines of an import", people::lines, ingest::fuzzing::lines),
    row("foreign", "switches and exporters: names and values under foreign names", switch::foreign, foreign),
    row("gnmi", "switches: messages of gNMI", switch::gnmi, fabriclens_gnmi::fuzzing::message),
    row("names", "senders: names and values of labels, through every writer of text", people::names, names),
    row("certificate", "clients: names in certificates", sender::certificates, certificate),
    row("promql", "people: queries, parsed and evaluated", people::promql, promql),
    row("patterns", "people: regular expressions of matchers and label functions", people::patterns, patterns),
    row("block", "the disk: block files", disk::blocks, fabriclens_store::fuzzing::block),
    row("log", "the disk: the store's log", disk::logs, fabriclens_store::fuzzing::log),
    row("forward", "the disk: queues to other servers", disk::queues, forward),
    row("spool", "the disk: segments of an agent's spool", disk::spools, spool),
    row("kept", "the disk: a request in an agent's spool", disk::kept, fabriclens_agent_uplink::fuzzing::kept),
    row("state", "the disk: counters that an agent keeps over a restart", host::states, state),
    row("netlink", "the kernel: netlink, ethtool, DCB and uevents", kernel::answers, live::fuzzing::answer),
    row(
        "kernel_log",
        "the kernel, and programs that make it print: records of its log",
        kernel::kernel_log,
        kernel_log,
    ),
    row("module", "optical modules: their memory", kernel::modules, live::fuzzing::module),
    row("mad", "the fabric: management datagrams of InfiniBand", kernel::mad, fabriclens_agent_mad::fuzzing::mad),
    row("lldp", "the wire: LLDP frames", kernel::lldp, |b| _ = lldp::parse(b)),
    row("recorded", "recordings: ethtool, rdma and dcb", host::recorded, |b| text(b, recorded::fuzzing::file)),
    row("ebpf", "the kernel: BTF, tracepoints, records of maps", kernel::ebpf, ebpf),
    row("processes", "processes: control groups, environments", kernel::processes, processes),
    row(
        "collectives",
        "jobs: answers of NCCL's RAS service, its Inspector's files, its log, counters of MPI",
        kernel::collectives,
        collectives,
    ),
    row("host", "sysfs and procfs: one file of a host changed, all samplers run", host::hosts, host),
    row("topology", "people: topologies in every format", || seeds::files("fuzz/seeds/topology"), topology_file),
    row("jobs", "schedulers: Slurm, Kubernetes, bodies of jobs", || seeds::files("fuzz/seeds/jobs"), job_list),
    row("job_bodies", "users: bodies of jobs with lists of hosts", people::job_bodies, job_body),
    row("agent_config", "administrators: the agent's configuration", people::agent_config, agent_config),
    row("config", "administrators: the collector's configuration", people::config, collector_config),
];

fn kernel_log(bytes: &[u8]) {
    let Some(record) = Record::parse(bytes) else { return };
    if let Some(found) = find(record.message, record.micros) {
        assert!(
            found.code.is_none_or(|code| code.len() <= 16 && code.bytes().all(|b| b.is_ascii_hexdigit() || b == b'x'))
        );
        assert!(found.pci.is_none_or(|pci| fabriclens_agent_host::discover::is_address(&pci)));
    }
}

fn text(bytes: &[u8], read: impl FnOnce(&str)) {
    if let Ok(text) = std::str::from_utf8(bytes) {
        read(text);
    }
}

fn collectives(bytes: &[u8]) {
    let limits = ras::Limits::default();
    _ = ras::parse_json(bytes, &limits);
    _ = ras::parse_text(bytes, &limits);
    text(bytes, |text| {
        inspector::parse_prometheus(text);
        listeners::listeners(text, &[ras::PORT]);
        let mut reader = log::Reader::default();
        text.lines().for_each(|line| _ = reader.line(line));
    });
    let mut observations = Vec::new();
    inspector::parse_json(bytes, &mut observations);
    let mut totals = inspector::Totals::default();
    observations.iter().for_each(|observation| totals.add(observation));
    totals.end_window();
    if let Ok(counters) = mpi::parse(bytes) {
        let mut follower = mpi::Follower::default();
        follower.look(&counters, 1);
        follower.look(&counters, 1 << 40);
    }
}

fn otlp(bytes: &[u8]) {
    let mut decoder = Decoder::default();
    let first = decoder.bytes(bytes);
    // The second time every sender is known, which takes another code path to the same rows.
    let second = decoder.bytes(bytes);
    assert_eq!(first.is_ok(), second.is_ok());
    if let (Ok(first), Ok(second)) = (first, second) {
        assert_eq!(first.samples(), second.samples(), "known senders decode to the same samples");
    }
}

fn otlp_json(bytes: &[u8]) {
    if let Some(plain) = ingest::fuzzing::json(bytes) {
        otlp(&plain);
    }
}

/// A few series of each kind, for queries.
struct FewSeries(Vec<Series>);

impl Read for FewSeries {
    fn select_within(
        &self,
        matchers: &[Matcher],
        start: i64,
        end: i64,
        _: &dyn Budget,
    ) -> Result<Vec<Series>, ReadError> {
        let within = |s: &Series| {
            let (times, values) = s.times.iter().zip(&s.values).filter(|(t, _)| (start..=end).contains(*t)).unzip();
            Series { labels: s.labels.clone(), times, values }
        };
        let fits = |s: &&Series| matchers.iter().all(|m| m.matches(&s.labels));
        Ok(self.0.iter().filter(fits).map(within).filter(|s| !s.times.is_empty()).collect())
    }
}

fn promql(bytes: &[u8]) {
    static SERIES: LazyLock<FewSeries> = LazyLock::new(|| {
        let series = |name: &str, n: usize, labels: [(&str, &str); 2]| Series {
            labels: Labels::new([("__name__", name)].into_iter().chain(labels)),
            times: (0..40).map(|t| t * 15_000).collect(),
            values: (0..40)
                .map(|t| [t as f64, f64::NAN, -(t as f64), fabriclens_model::stale()][(t / 8 + n) % 4])
                .collect(),
        };
        let names = ["a", "b", "requests_total", "latency_bucket"];
        let each = |(n, name)| [0, 1].map(|i| series(name, n, [("job", ["x", "y"][i]), ("le", ["0.5", "+Inf"][i])]));
        FewSeries(names.into_iter().enumerate().flat_map(each).collect())
    });
    let limits = Limits { max_samples: 200_000, max_steps: 40, timeout: Duration::from_secs(5), ..Limits::default() };
    let engine = Engine::new(limits);
    text(bytes, |query| {
        let checked = fabriclens_promql::check(query);
        let instant = engine.instant(&*SERIES, query, 300_000);
        assert!(checked.is_ok() || instant.is_err(), "invalid queries have no result");
        _ = engine.range(&*SERIES, query, 0, 600_000, 60_000);
        _ = fabriclens_promql::format(query, &fabriclens_model::Unlimited);
        _ = fabriclens_promql::selector(query, &mut Patterns::default());
    });
}

/// Grants a number of bytes, and counts them.
#[derive(Debug)]
struct CountingBudget(AtomicUsize);

/// Enough for each pattern that is accepted.
const PATTERN_BYTES: usize = 64 << 20;

impl Budget for CountingBudget {
    fn take(&self, bytes: usize) -> bool {
        self.0.fetch_add(bytes, Ordering::Relaxed) + bytes <= PATTERN_BYTES
    }
}

fn patterns(bytes: &[u8]) {
    text(bytes, |pattern| {
        let budget = CountingBudget(AtomicUsize::new(0));
        let compiled = Patterns::new(&budget).compile(pattern);
        let charged = budget.0.load(Ordering::Relaxed);
        if let Ok(compiled) = &compiled {
            assert!(compiled.memory() <= charged, "{} bytes held, {charged} charged", compiled.memory());
            assert!(compiled.memory() <= 2 * MAX_COMPILED + 16 * pattern.len(), "{} bytes held", compiled.memory());
            _ = compiled.matches("") || compiled.matches("gpu-01");
        }
        if let Ok(groups) = Patterns::new(&budget).with_groups(pattern) {
            _ = groups.find("gpu-01").map(|found| found.expand("$1 ${a}"));
        }
        // The same pattern in a selector is accepted or refused without a panic, and never by the grammar.
        let quoted = pattern.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
        _ = fabriclens_promql::selector(&format!("m{{a=~\"{quoted}\"}}"), &mut Patterns::new(&budget));
    });
}

fn forward(bytes: &[u8]) {
    static TELEMETRY: LazyLock<Telemetry> = LazyLock::new(|| Telemetry::new().expect("metrics register once"));
    let dir = scratch();
    forward::fuzzing::segment(dir.path(), bytes, &TELEMETRY);
}

/// Whatever the segment holds, the spool returns each request once and is then empty.
fn spool(bytes: &[u8]) {
    let (dir, segment) = disk::spool(&[b"x"]);
    std::fs::write(segment, bytes).expect("the directory accepts files");
    let (mut spool, now) = disk::opened(dir.path());
    let (held, mut left) = (spool.held().points, 0);
    for _ in 0..=bytes.len() {
        let (lost, next) = spool.next(now);
        left += lost.damaged + lost.unreadable;
        let Some(request) = next.expect("the disk is intact") else { break };
        left += request.points + spool.done(&request).expect("nothing is dropped").damaged;
    }
    assert!(spool.is_empty() && left >= held, "{held} points were in the spool, {left} were returned");
}

/// Whatever state file an agent finds, it sends well-formed samples.
fn state(bytes: &[u8]) {
    static HOST: LazyLock<host::RestartedHost> = LazyLock::new(host::RestartedHost::new);
    check_sections(&HOST.sampled(bytes));
}

/// Checks that the decoder accepts every sample of an agent.
fn check_sections(sections: &[Section]) {
    let request = fabriclens_wire::encode::request_bytes(sections);
    let rows = Decoder::default().bytes(&request).expect("requests of agents are well formed");
    assert!(rows.rejected.is_empty(), "samples of an agent are rejected: {:?}", rows.rejected);
}

/// Certificates name the hosts that a caller may write: no name is empty or a wildcard.
fn certificate(bytes: &[u8]) {
    static HOST_ID: LazyLock<HostId> = LazyLock::new(|| HostId::parse("spiffe://*/host/{host}").expect("a pattern"));
    if let Some(certificate) = Certificate::read(bytes, &HOST_ID) {
        assert!(certificate.names().all(|name| !name.is_empty()) && certificate.names().count() > 0);
        assert!(certificate.hosts.iter().all(|host| !host.is_empty() && host != "*"));
    }
}

fn ebpf(bytes: &[u8]) {
    fabriclens_agent_probes::fuzzing::btf(bytes);
    fabriclens_agent_probes::fuzzing::record(bytes);
    text(bytes, fabriclens_agent_probes::fuzzing::tracepoint);
}

fn processes(bytes: &[u8]) {
    _ = sysfile::number(bytes);
    _ = environ::of_environment(bytes);
    _ = environ::kept(bytes);
    text(bytes, |lines| {
        _ = cgroup::of_process(lines);
        _ = cgroup::of_path(lines);
        _ = cgroup::leads_to_jobs(lines);
    });
}

fn host(bytes: &[u8]) {
    static HOSTS: LazyLock<host::Hosts> = LazyLock::new(|| host::Hosts::copied(scratch()));
    HOSTS.with_changed(bytes, |roots| {
        let settings = schedule::Settings { host: "h".into(), ..schedule::Settings::default() };
        check_sections(&schedule::once(roots, &settings).0);
    });
}

fn topology_file(bytes: &[u8]) {
    text(bytes, |text| {
        if let Ok(described) = topology::parse("fuzz", text) {
            _ = topology::merge(&[described], &topology::HostNames::new(&[], &BTreeMap::new()));
        }
    });
}

fn job_list(bytes: &[u8]) {
    _ = slurm::jobs(bytes, "lab");
    if let Ok((pods, _)) = kubernetes::page(bytes) {
        _ = kubernetes::jobs(&pods, "lab", &HostNames::default());
    }
    _ = jobs::Body::read(bytes).and_then(jobs::Body::record);
    _ = jobs::Change::read(bytes).and_then(jobs::Change::record);
}

/// Most hosts of a list in Slurm's notation, and bytes of their names.
const HOSTS: (usize, usize) = (65_536, 4 << 20);

fn job_body(bytes: &[u8]) {
    let bounded = |record: fabriclens_jobs::JobRecord| {
        let names: usize = record.hosts.keys().map(String::len).sum();
        // A list that is written out is no longer than the body.
        let most = HOSTS.1.max(bytes.len());
        assert!(record.hosts.len() <= HOSTS.0.max(bytes.len()) && names <= most, "{} hosts", record.hosts.len());
    };
    _ = jobs::Body::read(bytes).and_then(jobs::Body::record).map(|(_, record)| bounded(record));
    _ = jobs::Change::read(bytes).and_then(jobs::Change::record).map(bounded);
}

/// Whatever a switch calls its counters, the store takes the canonical series, and no counter is negative.
fn foreign(bytes: &[u8]) {
    text(bytes, |all| {
        let parts: Vec<&str> = all.split('\0').collect();
        let (name, told) = (parts[0], parts.get(1).copied().unwrap_or_default());
        let pairs = parts.iter().skip(2).collect::<Vec<_>>();
        let attributes: Vec<(&str, &str)> =
            pairs.chunks(2).map(|pair| (*pair[0], pair.get(1).map_or("", |value| **value))).collect();
        for source in SOURCES {
            let Meaning::Series(series) = meaning(source, name, &attributes[..]) else { continue };
            let labels = canonical::labels(&"leaf1".into(), series.metric, series.port.as_deref(), &series.labels);
            assert!(check_series(labels.iter()).is_ok(), "the store does not take {labels}");
            let number = told.parse().unwrap_or(f64::NAN);
            for value in [Value::Text(told), Value::Number(number)] {
                let stored = canonical::value(series.metric, series.conversion, value);
                assert!(stored.is_none_or(|stored| series.metric.kind != MetricKind::Counter || stored >= 0.0));
            }
        }
    });
}

fn names(bytes: &[u8]) {
    text(bytes, |all| {
        let parts: Vec<&str> = all.split('\0').collect();
        let pairs = parts.chunks(2).map(|pair| (pair[0], pair.get(1).copied().unwrap_or_default()));
        let labels = Labels::new(pairs);
        let admitted = check_series(labels.iter()).is_ok();
        let mut out = Exposition::new(true);
        out.push(&labels, None, 1.5, 7);
        let (written, skipped) = out.finish();
        assert_eq!((skipped, written.lines().count()), if admitted { (0, 2) } else { (1, 0) }, "{written:?}");
        // A reader finds these labels and no others.
        if let Some(sample) = written.lines().nth(1).and_then(|line| line.strip_suffix(" 1.5 7")) {
            let budget = CountingBudget(AtomicUsize::new(0));
            // In quotes, because a keyword of PromQL may be a metric.
            let metric = labels.metric();
            let quoted = match sample.strip_prefix(metric).filter(|_| is_plain_metric(metric)) {
                Some("") => format!("{{\"{metric}\"}}"),
                Some(rest) => format!("{{\"{metric}\",{}", &rest[1..]),
                None => sample.to_owned(),
            };
            let read = fabriclens_promql::selector(&quoted, &mut Patterns::new(&budget)).expect("a selector");
            assert!(read.len() == labels.iter().count() && read.iter().all(|m| m.matches(&labels)), "{sample:?}");
        }
        let cell = terminal::csv_cell(all);
        let is_number = all.parse::<f64>().is_ok();
        assert!(is_number || !cell.starts_with(['=', '+', '-', '@', '\t', '\r']), "{cell:?}");
        for shown in [terminal::line(all), terminal::lines(all), cell.into(), terminal::json(all)] {
            assert!(!shown.contains(['\x1b', '\u{9b}', '\u{202e}']), "{shown:?}");
        }
    });
}

/// Calls `read` with a file that holds the bytes; each thread reuses its file.
fn with_file(bytes: &[u8], read: impl FnOnce(&std::path::Path)) {
    static DIR: LazyLock<TempDir> = LazyLock::new(scratch);
    let path = DIR.path().join(format!("{:?}.toml", std::thread::current().id()));
    std::fs::write(&path, bytes).expect("the directory takes files");
    read(&path);
}

fn agent_config(bytes: &[u8]) {
    let samplers: Vec<&str> = fabriclens_agent_samplers::ALL.iter().map(|s| s.name).collect();
    with_file(bytes, |path| _ = fabriclens_agent::config::load(Some(path), [], &Default::default(), &samplers));
}

fn collector_config(bytes: &[u8]) {
    with_file(bytes, |path| _ = config::load(Some(path), [], &Default::default()));
}
