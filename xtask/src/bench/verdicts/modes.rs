//! Modes of degradation: what is left out of a simulation, or changed in it, before it is judged.

use super::broken_counters::Defect;

/// A mode of degradation.
#[derive(Clone, Copy)]
pub struct Mode {
    /// Row name of the table.
    pub name: &'static str,
    /// No switch is read.
    pub hosts_only: bool,
    /// Every other switch is not read.
    pub half_of_switches: bool,
    /// A quarter of the hosts is not read.
    pub missing: bool,
    /// Keeps one of so many samples.
    pub every: usize,
    /// Clocks of every other node are so late, in real nanoseconds.
    pub skew_ns: i64,
    /// Each node samples in its own phase, every 1, 2 or 5 samples.
    pub phases: bool,
    /// Switches keep one of so many samples, each in its own phase; hosts keep all.
    pub switches_every: usize,
    /// Counters are those of InfiniBand.
    pub infiniband: bool,
    /// Nodes, ports and jobs get other names, and the ports of an instant another order.
    pub renamed: bool,
    /// Links and what they carry are so many times as fast.
    pub faster: f64,
    /// Cables are left out and must be inferred.
    pub unwired: bool,
    /// An unrelated simulation runs in another part of the fabric.
    pub unrelated: bool,
    /// Counters of one host are broken.
    pub defect: Option<Defect>,
    /// Files of paths, queue pairs and probes that are given as they are.
    pub routes: &'static [&'static str],
}

const fn mode(name: &'static str) -> Mode {
    Mode {
        name,
        hosts_only: false,
        half_of_switches: false,
        missing: false,
        every: 1,
        skew_ns: 0,
        phases: false,
        switches_every: 1,
        infiniband: false,
        renamed: false,
        faster: 1.0,
        unwired: false,
        unrelated: false,
        defect: None,
        routes: &[],
    }
}

/// 200 ms.
const SKEW_NS: i64 = 200_000_000;

/// Complete input.
pub const ALL_PORTS: Mode = mode("all ports");
const RENAMED: Mode = Mode { renamed: true, ..mode("other names and order") };
const FASTER: Mode = Mode { faster: 4.0, ..mode("links four times as fast") };
const SLOWER: Mode = Mode { faster: 0.25, ..mode("links a quarter as fast") };
const PHASES: Mode = Mode { phases: true, ..mode("own phases and periods") };
const FIVE: Mode = Mode { every: 5, ..mode("each five seconds") };
const TEN: Mode = Mode { every: 10, ..mode("each ten seconds") };
const SWITCHES_FIVE: Mode = Mode { switches_every: 5, ..mode("switches each five seconds") };
const SWITCHES_TEN: Mode = Mode { switches_every: 10, ..mode("switches each ten seconds") };
const HALF_OF_SWITCHES: Mode = Mode { half_of_switches: true, ..mode("half of the switches") };
const HOSTS: Mode = Mode { hosts_only: true, ..mode("host ports") };
const HOSTS_PHASES: Mode = Mode { hosts_only: true, phases: true, ..mode("host ports, own phases") };

/// The modes that are measured for each set.
pub static MAIN: [Mode; 12] = [
    ALL_PORTS,
    RENAMED,
    FASTER,
    SLOWER,
    PHASES,
    FIVE,
    TEN,
    SWITCHES_FIVE,
    SWITCHES_TEN,
    HALF_OF_SWITCHES,
    HOSTS,
    HOSTS_PHASES,
];

/// Further modes, of recordings with traced paths and probes.
pub static ROUTES: [Mode; 3] = [
    Mode { hosts_only: true, routes: &["flows_seen.csv.gz"], ..mode("host ports, queue pairs") },
    Mode { hosts_only: true, routes: &["flows_seen.csv.gz", "paths.csv.gz"], ..mode("host ports, paths") },
    Mode {
        hosts_only: true,
        routes: &["flows_seen.csv.gz", "paths.csv.gz", "probes.csv.gz"],
        ..mode("host ports, paths, probes")
    },
];

/// Further modes, of the simplest recordings.
pub static OTHERS: [Mode; 14] = [
    Mode { unwired: true, ..mode("cables inferred") },
    Mode { unwired: true, skew_ns: SKEW_NS, ..mode("the same, clocks apart") },
    Mode { hosts_only: true, every: 10, ..mode("host ports, each ten") },
    Mode { hosts_only: true, unwired: true, ..mode("host ports, no cables") },
    Mode { unrelated: true, ..mode("another fault elsewhere") },
    Mode { unrelated: true, hosts_only: true, ..mode("the same, host ports") },
    Mode { missing: true, ..mode("a quarter of hosts missing") },
    Mode { skew_ns: SKEW_NS, ..mode("clocks 200 ms apart") },
    Mode { defect: Some(Defect::Stuck(usize::MAX / 2)), ..mode("a host stuck") },
    Mode { defect: Some(Defect::Stuck(40)), ..mode("the same for 40 s") },
    Mode { defect: Some(Defect::Twice), ..mode("a host counts twice") },
    Mode { defect: Some(Defect::Pauses), ..mode("a host says it pauses") },
    Mode { infiniband: true, ..mode("InfiniBand's counters") },
    Mode { infiniband: true, hosts_only: true, ..mode("InfiniBand's, host ports") },
];

/// All modes.
pub fn all() -> impl Iterator<Item = &'static Mode> {
    MAIN.iter().chain(&ROUTES).chain(&OTHERS)
}
