//! One golden exposition for each host in `tests/fixtures/hosts`: a change to any metric shows as a diff in review.
//! `FABRICLENS_BLESS=1` rewrites them. A catalog row without a golden must have a reason here.

use fabriclens_agent::capture::{Options, capture};
use fabriclens_agent::exposition::{Format, render};
use fabriclens_agent::schedule::{Settings, once};
use fabriclens_agent_host::roots::Roots;
use fabriclens_catalog::metrics;
use fabriclens_wire::{Section, Value};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

const TESTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests");

/// Series about the agent itself differ from run to run; `tests/daemon.rs` checks them.
const OWN: &str = "fabriclens.agent.";

/// Rows that no sample of a recorded host can hold, and why. A row that appears after all must leave this list.
const EXCUSED: &[(&str, &[&str])] = &[
    (
        "a probe: sent only with `[probes]`, between two hosts",
        &[
            "fabric.probe.probes",
            "fabric.probe.lost",
            "fabric.probe.rtt",
            "fabric.probe.host.delay",
            "fabric.probe.refused",
            "fabric.probe.discarded",
            "fabric.probe.answered",
            "fabric.probe.rate.share",
            "fabric.probe.open",
        ],
    ),
    (
        "asked of a running job, only with `[collectives]`; tests/integration/collectives.rs",
        &[
            "fabric.collective.readable",
            "fabric.collective.communicator.info",
            "fabric.collective.omitted",
            "fabric.collective.ranks",
            "fabric.collective.operations",
            "fabric.collective.lag",
            "fabric.collective.behind",
            "fabric.collective.straggler.info",
            "fabric.collective.host.info",
            "fabric.collective.idle",
            "fabric.collective.executions",
            "fabric.collective.execution.time",
            "fabric.collective.execution.mean",
            "fabric.collective.bus_bandwidth",
            "fabric.collective.bus",
            "fabric.collective.wait",
            "fabric.collective.late.info",
            "fabric.collective.message",
            "fabric.collective.mpi.info",
            "fabric.collective.mpi.entered",
            "fabric.collective.mpi.inside",
            "fabric.collective.rank.info",
            "fabric.collective.mpi.share",
            "fabric.collective.log.lines",
            "fabric.collective.network.info",
            "fabric.collective.queue_pair.info",
        ],
    ),
    (
        "a peak, a share or a window: needs more than one sample, and `once` takes one",
        &[
            "fabric.port.io.peak",
            "fabric.rdma.io.peak",
            "fabric.netdev.io.peak",
            "fabric.pfc.pause.share",
            "fabric.pfc.pause.share.max",
            "fabric.pfc.frames.peak",
            "fabric.pause.share",
            "fabric.pause.share.max",
            "fabric.cnp.packets.peak",
            "fabric.ecn.packets.peak",
            "fabric.port.xmit_wait.share",
            "fabric.port.xmit_wait.share.max",
        ],
    ),
    ("counted from events as they happen, and a recording has none", &["fabric.port.async_events"]),
    (
        "the kernel log, which no recording has, because it may name users; kernel_log.rs",
        &["fabric.kernel_log.events", "fabric.kernel_log.records"],
    ),
    ("told only where the configuration asks for it", &["fabric.vendor.counter"]),
    (
        "measured by a probe in a running kernel; tests/ebpf.rs",
        &[
            "fabric.tcp.rtt",
            "fabric.tcp.retransmit.segments",
            "fabric.tcp.retransmit.io",
            "fabric.tcp.window.closed",
            "fabric.tcp.connection.attempts",
            "fabric.tcp.connection.established",
            "fabric.tcp.connection.failures",
            "fabric.tcp.connection.latency",
            "fabric.tcp.connection.resets",
        ],
    ),
    (
        "measured by a probe in a running kernel; tests/ebpf_microburst.rs",
        &[
            "fabric.microburst.io.peak",
            "fabric.microburst.packets.peak",
            "fabric.microburst.threshold",
            "fabric.microburst.time",
            "fabric.microburst.ce_packets",
            "fabric.microburst.roce_packets",
            "fabric.microburst.missed",
            "fabric.microburst.dumps",
        ],
    ),
    (
        "measured by a probe in a running kernel; tests/ebpf_traffic.rs",
        &["fabric.tcp.io", "fabric.tcp.io.segments", "fabric.tcp.io.ce_segments", "fabric.tcp.io.unplaced"],
    ),
];

fn hosts() -> Vec<PathBuf> {
    let dir = Path::new(TESTS).join("fixtures/hosts");
    let mut hosts: Vec<PathBuf> = std::fs::read_dir(&dir)
        .unwrap_or_else(|e| panic!("{}: {e}", dir.display()))
        .flatten()
        .map(|e| e.path())
        .filter(|p| p.join("sys").is_dir())
        .collect();
    hosts.sort();
    assert!(!hosts.is_empty(), "no host in {}", dir.display());
    hosts
}

/// One sample without the rows that differ from run to run.
fn sample(root: &Path, host: &str) -> Vec<Section> {
    let roots = Arc::new(Roots::new(Some(root.to_owned())));
    let (mut sections, _) = once(roots, &Settings { host: host.to_owned(), ..Settings::default() });
    for section in &mut sections {
        let varies = |name: &str| name.starts_with(OWN);
        let values = section.columns.iter().zip(&section.values);
        section.values = values.map(|(c, v)| if varies(c.metric.name) { Value::Absent } else { v.clone() }).collect();
    }
    sections
}

/// The first lines that differ, with what was there before.
fn diff(old: &str, new: &str) -> String {
    let (old_set, new_set): (BTreeSet<&str>, BTreeSet<&str>) = (old.lines().collect(), new.lines().collect());
    let gone = old.lines().filter(|l| !new_set.contains(l)).map(|l| format!("- {l}\n"));
    let come = new.lines().filter(|l| !old_set.contains(l)).map(|l| format!("+ {l}\n"));
    gone.chain(come).take(60).collect()
}

#[test]
fn hosts_match_their_golden_exposition() {
    let mut wrong = String::new();
    for host in hosts() {
        let name = host.file_name().unwrap().to_string_lossy().into_owned();
        let text = render(&sample(&host, &name), Format::Prometheus);
        let path = Path::new(TESTS).join("golden").join(format!("{name}.prom"));
        if fabriclens_testing::blesses() {
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, &text).unwrap();
        }
        let golden = std::fs::read_to_string(&path).unwrap_or_default();
        if golden != text {
            wrong.push_str(&format!("{} differs:\n{}\n", path.display(), diff(&golden, &text)));
        }
    }
    assert!(wrong.is_empty(), "{wrong}\nFABRICLENS_BLESS=1 rewrites, if this is meant");
}

#[test]
fn catalog_rows_appear_in_goldens() {
    let mut seen = BTreeSet::new();
    for section in hosts().iter().flat_map(|h| sample(h, "x")) {
        let values = section.columns.iter().zip(&section.values);
        seen.extend(values.filter(|(_, v)| **v != Value::Absent).map(|(c, _)| c.metric.name));
    }
    let unread = |name: &str| metrics::NOT_EXPORTED.iter().any(|(_, rows)| rows.iter().any(|m| m.name == name));
    let excused =
        |name: &str| name.starts_with(OWN) || unread(name) || EXCUSED.iter().any(|(_, names)| names.contains(&name));
    let missing: Vec<&str> = metrics::all().map(|m| m.name).filter(|n| !seen.contains(n) && !excused(n)).collect();
    let n = missing.len();
    assert!(missing.is_empty(), "{n} rows in no golden; add them to a fixture host or say why not: {missing:#?}");
    let given: Vec<&&str> = seen.iter().filter(|name| unread(name)).collect();
    assert!(given.is_empty(), "{given:?} are in a golden; take them out of metrics::NOT_EXPORTED");
    for (why, name) in EXCUSED.iter().flat_map(|(why, names)| names.iter().map(move |n| (why, n))) {
        assert!(metrics::by_name(name).is_some(), "{name} is no catalog row; take it out of EXCUSED");
        assert!(!seen.contains(name), "{name} is in a golden; take it out of EXCUSED, where it says: {why}");
    }
}

/// Support bundles serve as fixtures: a capture of a host gives the same series.
#[test]
fn captures_of_hosts_replay() {
    for host in hosts() {
        let dir = tempfile::tempdir().unwrap();
        let options = Options {
            dir: dir.path().to_owned(),
            ticks: None,
            interval: Duration::ZERO,
            scrub: false,
            host: "x".into(),
            exclude_devices: vec![],
        };
        capture(&Arc::new(Roots::new(Some(host.clone()))), &options).unwrap();
        let text = |root: &Path| render(&sample(root, "x"), Format::Prometheus);
        let (before, after) = (text(&host), text(dir.path()));
        assert!(before == after, "{} differs:\n{}", host.display(), diff(&before, &after));
    }
}
