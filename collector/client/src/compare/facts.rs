//! Facts of two runs that are listed and not compared as numbers.

use std::collections::BTreeMap;

use serde::Serialize;

use super::report::Report;
use super::words::{percent, seconds};
use fabriclens_core::time::format_time;

/// A rail is slow from this share of the mean of all rails downwards.
const SLOW_RAIL: f64 = 0.95;
const NOT_MEASURED: &str = "not measured";

/// A fact of both runs, as text.
#[derive(Debug, Serialize)]
pub(super) struct Fact {
    pub(super) key: &'static str,
    pub(super) name: &'static str,
    pub(super) a: String,
    pub(super) b: String,
}

type Read = fn(&Report) -> String;

/// Facts above the numbers.
const FIRST: &[(&str, &str, Read)] = &[
    ("job_name", "name", |r| r.job.name.clone()),
    ("hosts", "hosts", hosts),
    ("start", "start", |r| format_time(r.range.start_ns / 1_000_000)),
    ("run_time", "run time", run_time),
];

/// Facts below the numbers.
const LAST: &[(&str, &str, Read)] = &[
    ("slowest_rail", "slowest rail", slowest_rail),
    ("stands_out", "stands out", stands_out),
    ("most_paused_host", "host paused most", most_paused),
    ("incidents_as_victim", "incidents as victim", |r| incidents(r, "victim")),
    ("incidents_as_culprit", "incidents as culprit", |r| incidents(r, "culprit")),
    ("ranks_waited_for", "ranks waited for", waited_for),
    ("cause", "likely cause", |r| r.summary.cause.kind.replace('_', " ")),
];

/// Identity and size of both runs.
pub(super) fn first(a: &Report, b: &Report) -> Vec<Fact> {
    facts(FIRST, a, b)
}

/// Hosts, rails, incidents and causes.
pub(super) fn last(a: &Report, b: &Report) -> Vec<Fact> {
    facts(LAST, a, b)
}

fn facts(all: &[(&'static str, &'static str, Read)], a: &Report, b: &Report) -> Vec<Fact> {
    let facts = all.iter().map(|(key, name, read)| Fact { key, name, a: read(a), b: read(b) });
    facts.filter(|fact| !fact.a.is_empty() || !fact.b.is_empty()).collect()
}

fn hosts(report: &Report) -> String {
    match (report.job.hosts, report.quality.measured) {
        (hosts, measured) if measured < hosts => format!("{hosts}, {measured} measured"),
        (hosts, _) => hosts.to_string(),
    }
}

fn run_time(report: &Report) -> String {
    let time = seconds(report.seconds());
    if report.has_ended() { time } else { format!("{time}, runs") }
}

fn slowest_rail(report: &Report) -> String {
    let rails = report.traffic.rails.iter().filter_map(|rail| Some((rail.of_mean?, &rail.rail)));
    match rails.min_by(|a, b| a.0.total_cmp(&b.0)) {
        Some((of_mean, rail)) if of_mean < SLOW_RAIL => format!("{rail}, {} of the mean", percent(of_mean)),
        Some(_) => "none, all carry as much".to_owned(),
        None if report.traffic.rails.len() == 1 => "only one".to_owned(),
        None => NOT_MEASURED.to_owned(),
    }
}

fn stands_out(report: &Report) -> String {
    match &report.traffic.straggler {
        Some(straggler) => match &straggler.device {
            Some(device) => format!("{} {device}", straggler.host),
            None => straggler.host.clone(),
        },
        None if report.quality.measured == 0 => NOT_MEASURED.to_owned(),
        None => "none".to_owned(),
    }
}

fn most_paused(report: &Report) -> String {
    let hosts = report.traffic.hosts.iter().filter_map(|host| Some((host.paused.largest()?, &host.host)));
    match hosts.max_by(|a, b| a.0.total_cmp(&b.0)) {
        Some((share, host)) if share > 0.0 => format!("{host}, {}", percent(share)),
        Some(_) => "none".to_owned(),
        None => NOT_MEASURED.to_owned(),
    }
}

/// Empty if no agent read collectives.
fn waited_for(report: &Report) -> String {
    report.collectives.conclusion.as_ref().map_or(String::new(), |conclusion| conclusion.waits_for.replace('_', " "))
}

fn incidents(report: &Report, role: &str) -> String {
    let mut kinds: BTreeMap<&str, usize> = BTreeMap::new();
    report.incidents.iter().filter(|one| one.role == role).for_each(|one| *kinds.entry(&one.kind).or_default() += 1);
    if kinds.is_empty() {
        return "none".to_owned();
    }
    let text = |(kind, count): (&str, usize)| if count == 1 { kind.to_owned() } else { format!("{count} {kind}") };
    kinds.into_iter().map(text).collect::<Vec<_>>().join(", ")
}
