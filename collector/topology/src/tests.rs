//! Rounds over time: what is remembered, kept and reported.

use super::*;
use fabriclens_correlate::topology::Provenance;
use fabriclens_store::Options;
use std::path::Path;

/// Base time, Unix ms.
const NOW: i64 = 1_700_000_000_000;
const MINUTE: i64 = 60_000;

fn port(host: &str, switch: &str, switch_port: &str) -> PortInfo {
    let all = [("host", host), ("device", "mlx5_0"), ("port", "1"), ("switch", switch), ("switch_port", switch_port)];
    PortInfo::of(&fabriclens_model::Labels::new(all)).unwrap()
}

fn table(dir: &Path) -> fabriclens_store::MetadataTable {
    let store = Store::open(&dir.join("db"), Options { background: false, ..Options::default() }).unwrap();
    store.table(TABLE)
}

std::thread_local! {
    /// Clock by which age is measured, Unix ms.
    static AGE: std::cell::Cell<i64> = const { std::cell::Cell::new(NOW) };
}

fn over(dir: &Path, files: &[&str], now_ms: i64) -> Topologies {
    AGE.set(now_ms);
    let history = History::open(table(dir), Duration::from_secs(86_400), Arc::new(|| AGE.get())).unwrap();
    Topologies::with_history(
        history,
        files.iter().map(|f| dir.join(f)).collect(),
        BTreeMap::new(),
        HostSenders::default(),
        now_ms,
    )
}

fn report_ports(topologies: &Topologies, at_ms: i64, ports: &[PortInfo]) {
    AGE.set(at_ms);
    report_in_doubt(topologies, at_ms, ports);
}

/// The same, with a clock that is in doubt.
fn report_in_doubt(topologies: &Topologies, at_ms: i64, ports: &[PortInfo]) {
    let reports = ports.iter().map(|p| Report { port: p.clone(), reported_ms: at_ms }).collect();
    topologies.round(Some(reports), at_ms);
}

/// Far end of the port of a host.
fn leads(topology: &Topology, host: &str) -> Option<String> {
    let node = topology.node(host)?;
    let far = |n: usize, l: &fabriclens_correlate::Link| (l.ends[n].node == node).then(|| l.ends[1 - n].clone());
    let end = topology.links.iter().find_map(|l| far(0, l).or_else(|| far(1, l)))?;
    Some(format!("{} {}", topology.nodes[end.node].name, end.port))
}

fn now(topologies: &Topologies, host: &str) -> Option<String> {
    leads(&topologies.current(), host)
}

#[test]
fn silent_ports_stay_and_moved_ports_move() {
    let dir = tempfile::tempdir().unwrap();
    let t = over(dir.path(), &[], NOW);
    report_ports(&t, NOW, &[port("h1", "leaf1", "1"), port("h2", "leaf1", "2")]);
    assert_eq!(now(&t, "h1").unwrap(), "leaf1 1");
    // The agent restarts: first no report, then a port without neighbor, and in between agents cannot be queried.
    report_ports(&t, NOW + MINUTE, &[port("h2", "leaf1", "2")]);
    t.round(None, NOW + 2 * MINUTE);
    report_ports(&t, NOW + 3 * MINUTE, &[port("h1", "", ""), port("h2", "leaf1", "2")]);
    assert_eq!(now(&t, "h1").unwrap(), "leaf1 1");
    // All agents are unreachable for long.
    report_ports(&t, NOW + 60 * MINUTE, &[]);
    assert_eq!(now(&t, "h1").unwrap(), "leaf1 1");
    // A cable moves while the old series still exists.
    let (old, new) = (port("h1", "leaf1", "1"), port("h1", "leaf2", "9"));
    let reports = vec![
        Report { port: new, reported_ms: NOW + 61 * MINUTE },
        Report { port: old, reported_ms: NOW + 60 * MINUTE },
        Report { port: port("h2", "leaf1", "2"), reported_ms: NOW + 61 * MINUTE },
    ];
    t.round(Some(reports), NOW + 61 * MINUTE);
    assert_eq!(now(&t, "h1").unwrap(), "leaf2 9");
    // Not reported for ten minutes while others are: the port is gone.
    report_ports(&t, NOW + 70 * MINUTE, &[port("h2", "leaf1", "2")]);
    assert_eq!(now(&t, "h1").unwrap(), "leaf2 9");
    report_ports(&t, NOW + 71 * MINUTE, &[port("h2", "leaf1", "2")]);
    assert_eq!((now(&t, "h1"), t.current().node("h1")), (None, None));
    // So is a neighbor that the port has not seen for as long.
    report_ports(&t, NOW + 80 * MINUTE, &[port("h2", "", "")]);
    assert_eq!(now(&t, "h2").unwrap(), "leaf1 2");
    report_ports(&t, NOW + 82 * MINUTE, &[port("h2", "", "")]);
    assert_eq!(now(&t, "h2"), None);
    assert!(t.current().node("h2").is_some());
}

#[test]
fn versions_survive_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let at = |minute: i64| (NOW + minute * MINUTE) * 1_000_000;
    let t = over(dir.path(), &[], NOW);
    assert_eq!(t.version(at(0)), (0, t.current()), "there is no version yet");
    report_ports(&t, NOW + MINUTE, &[port("h1", "leaf1", "1")]);
    report_ports(&t, NOW + 2 * MINUTE, &[port("h1", "leaf1", "1")]);
    report_ports(&t, NOW + 3 * MINUTE, &[port("h1", "leaf2", "1")]);
    let seen = |t: &Topologies| {
        [0, 1, 2, 3, 9].map(|m| (t.version(at(m)).0 / 1_000_000 - NOW, leads(&t.at(at(m)), "h1").unwrap()))
    };
    let first = (MINUTE, "leaf1 1".to_owned());
    let second = (3 * MINUTE, "leaf2 1".to_owned());
    let expected = [first.clone(), first.clone(), first, second.clone(), second];
    assert_eq!(seen(&t), expected, "before the first version the first one is returned");
    drop(t);
    let t = over(dir.path(), &[], NOW + 30 * MINUTE);
    assert_eq!(seen(&t), expected);
    // Other agents report before that of h1, which may be late.
    report_ports(&t, NOW + 31 * MINUTE, &[port("h2", "leaf2", "2")]);
    assert_eq!(now(&t, "h1").unwrap(), "leaf2 1");
    // A day later older versions are deleted, except the one valid then.
    report_ports(&t, NOW + 31 * MINUTE + 86_400_000, &[port("h2", "leaf2", "2")]);
    assert_eq!(t.version(0).0, at(31));
    assert_eq!(t.history.last().unwrap().1, *t.current());
}

#[test]
fn clock_leaps_lose_no_version() {
    let dir = tempfile::tempdir().unwrap();
    let at = |minute: i64| (NOW + minute * MINUTE) * 1_000_000;
    let year = 365 * 86_400_000;
    let t = over(dir.path(), &[], NOW);
    report_ports(&t, NOW + MINUTE, &[port("h1", "leaf1", "1")]);
    report_ports(&t, NOW + 2 * MINUTE, &[port("h1", "leaf2", "1")]);
    report_in_doubt(&t, NOW + 3 * MINUTE + year, &[port("h1", "leaf3", "1")]);
    let then = |t: &Topologies| [1, 2, 3, 5].map(|m| leads(&t.at(at(m)), "h1").unwrap());
    assert_eq!(then(&t)[..2], ["leaf1 1", "leaf2 1"]);
    report_ports(&t, NOW + 4 * MINUTE, &[port("h1", "leaf3", "1")]);
    assert_eq!(then(&t), ["leaf1 1", "leaf2 1", "leaf2 1", "leaf3 1"]);
    drop(t);
    let t = over(dir.path(), &[], NOW + 5 * MINUTE);
    assert_eq!(then(&t), ["leaf1 1", "leaf2 1", "leaf2 1", "leaf3 1"]);
}

#[test]
fn invalid_files_keep_the_previous_version() {
    let dir = tempfile::tempdir().unwrap();
    let write = |text: &str| std::fs::write(dir.path().join("topology.conf"), text).unwrap();
    write("SwitchName=leaf1 Nodes=h[1-2]\n");
    let t = over(dir.path(), &["topology.conf", "missing.json"], NOW);
    assert_eq!(now(&t, "h1").unwrap(), "leaf1 ?h1");
    assert_eq!(t.current().links[0].known, Provenance::Scheduler);
    let [conf, missing] = t.files().try_into().unwrap();
    assert_eq!((conf.format, conf.cables, conf.error), (Some("Slurm topology.conf"), 2, None));
    assert!(missing.error.unwrap().contains("check the path under topology.files"));
    write("SwitchName=leaf9 Nodes=h[1-2\n");
    t.round(None, NOW + MINUTE);
    assert_eq!(now(&t, "h1").unwrap(), "leaf1 ?h1");
    let files = t.files();
    assert!(files[0].error.as_ref().unwrap().contains("line 1"), "{files:?}");
    std::fs::remove_file(dir.path().join("topology.conf")).unwrap();
    t.round(None, NOW + 2 * MINUTE);
    assert_eq!(now(&t, "h1").unwrap(), "leaf1 ?h1");
    write("SwitchName=leaf77 Nodes=h[1-2]\n");
    t.round(None, NOW + 3 * MINUTE);
    assert_eq!((now(&t, "h1").unwrap(), &t.files()[0].error), ("leaf77 ?h1".into(), &None));
    // Agents outrank files; contradictions are reported.
    report_ports(&t, NOW + 4 * MINUTE, &[port("h1", "leaf1", "3"), port("h2", "leaf77", "4")]);
    assert_eq!(now(&t, "h1").unwrap(), "leaf1 3");
    assert_eq!(t.current().contradictions.len(), 1);
}

#[test]
fn changes_are_counted_by_cable() {
    let dir = tempfile::tempdir().unwrap();
    let t = over(dir.path(), &[], NOW);
    report_ports(&t, NOW, &[port("h1", "leaf1", "1"), port("h2", "leaf1", "2"), port("h3", "leaf1", "3")]);
    let old = t.current();
    let gone = (NOW + 11 * MINUTE, [port("h1", "leaf1", "1"), port("h2", "leaf2", "2"), port("h4", "leaf1", "4")]);
    report_ports(&t, gone.0, &gone.1);
    assert_eq!(Change::between(&old, &t.current()).counts(), [1, 1, 1, 0]);
}
