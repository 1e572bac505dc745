//! What probing a fleet costs: time and memory of its plans, packets and bytes by host, links that traces cross within a minute, and CPU
//! of the collector for the results. `cargo xtask bench probes` prints the table of a fleet of 2,016 hosts with eight ports.

mod agent;
mod minute;
mod plans;
mod table;

use std::sync::Arc;
use std::time::Duration;

use fabriclens_config::Probes;

use self::agent::Pace;
use self::minute::{SECONDS, TOLD, minute};
use self::table::{line, rss_mb};
use crate::coverage::Coverage;
use crate::fleet::{Fleet, LARGE};

#[test]
fn a_small_fleet_is_covered_within_a_minute_and_its_results_are_judged() {
    let fleet = Fleet { leaves: 3, hosts: 8, rails: 2, spines: 4 };
    let topology = Arc::new(fleet.topology());
    let minute = minute(fleet, &topology, Pace::Leaf(f64::from(Probes::default().traces_per_leaf)));
    assert_eq!(minute.refused, 0);
    let last = minute.coverage.last().unwrap();
    assert_eq!((last.between_switches, last.at_hosts), (last.all_between_switches, last.all_at_hosts), "{last:?}");
    assert!(minute.coverage[0].between_switches > 0);
    // 48 ports probe a few targets once a second each.
    assert!(minute.answered > 500, "{}", minute.answered);
}

#[test]
#[ignore = "prints a table: cargo xtask bench probes"]
fn a_large_fleet() {
    let (fleet, topology) = (LARGE, Arc::new(LARGE.topology()));
    println!(
        "{} hosts with {} ports, {} leaves, {} spines, 16 queue pairs a port",
        fleet.all(),
        fleet.rails,
        fleet.leaves * fleet.rails,
        fleet.spines
    );
    plans::print(fleet, &topology);
    for (pace, what) in [
        (Pace::Agent(50.0), "switches answer at once (50 datagrams/s a port)"),
        (Pace::Leaf(f64::from(Probes::default().traces_per_leaf)), "as planned (20 traces/s a leaf)"),
    ] {
        let minute = minute(fleet, &topology, pace);
        for (at, coverage) in TOLD.iter().zip(&minute.coverage) {
            let Coverage { between_switches, all_between_switches, at_hosts, all_at_hosts } = coverage;
            let share = |crossed: &usize, all: &usize| 100.0 * *crossed as f64 / *all as f64;
            let shares = [share(between_switches, all_between_switches), share(at_hosts, all_at_hosts)];
            line(
                &format!("links crossed after {at} s, {what}"),
                format!("{:.1} %, hosts {:.1} %", shares[0], shares[1]),
            );
        }
        let ms = |time: Duration| format!("{:.1} ms/s", time.as_secs_f64() * 1e3 / SECONDS as f64);
        line("collector: reports", format!("{:.0}/s", minute.taken.requests as f64 / SECONDS as f64));
        line("collector: bytes of reports", format!("{:.2} MB/s", minute.taken.bytes as f64 / 1e6 / SECONDS as f64));
        line("collector: decoding and checking them", ms(minute.taken.time));
        line("collector: telling the evaluation", ms(minute.told));
        line("collector: closing windows, detectors without samples", ms(minute.judged));
        line("collector: memory of the process", format!("{:.0} MB", rss_mb()));
        line("refused, and answered probes in the last window", format!("{} and {}", minute.refused, minute.answered));
        assert_eq!(minute.refused, 0);
    }
}
