//! Injects one fault and checks the invariants that hold under every fault.

use super::faults::{Fault, Outcome};
use super::monitor::{self, Monitor};
use super::testbed::{GAP_SERIES, TIMEOUT, TestBed, now, sum_of};
use crate::random::Random;
use crate::sim::layout::host_name;
use anyhow::{Context, Result};
use serde_json::Value;
use std::time::{Duration, Instant};

/// Largest gap between samples, seconds. The interval is 1 s; a busy machine is late at times.
const GAP: f64 = 3.0;
/// Memory bounds in bytes: of an agent with its queue, of the collector, and of the collector per host.
const AGENT_RSS: f64 = 64e6;
const COLLECTOR_RSS: f64 = 512e6;
const HOST_RSS: f64 = 8e6;
/// CPU bound of an agent during a fault and the recovery, as a share of one core.
const AGENT_CPU: f64 = 0.03;

/// Prefix of the host names of `fabriclens-load`.
const LOAD: &str = "node";

/// Result of one fault.
pub struct Row {
    pub fault: &'static Fault,
    /// Begin and end of the fault, Unix seconds.
    pub from: f64,
    pub to: f64,
    hold: Duration,
    recovered: Duration,
    observed: String,
    /// Broken invariants.
    pub wrong: Vec<String>,
}

impl Row {
    /// Row for the terminal.
    pub fn line(&self) -> String {
        let wrong: String = self.wrong.iter().map(|one| format!("\n{:>20} {one}", "WRONG:")).collect();
        let (took, well) = (self.to - self.from, self.recovered.as_secs_f64());
        format!("{:<20} {took:>6.1} {well:>7.1} s  {}{wrong}", self.fault.name, self.observed)
    }

    /// Row of the Markdown table.
    pub fn markdown(&self) -> String {
        let (name, expected) = (self.fault.name, self.fault.expected);
        let wrong =
            if self.wrong.is_empty() { String::new() } else { format!(" **Wrong: {}**", self.wrong.join("; ")) };
        let (observed, well, hold) = (&self.observed, self.recovered.as_secs_f64(), self.hold.as_secs());
        format!(
            "| {name} | {expected} | {observed}{wrong} | {well:.1} s | `cargo xtask chaos --fault {name} --hold {hold}` |\n"
        )
    }
}

/// Injects a fault, waits for the recovery and checks the invariants.
///
/// # Errors
/// When the fleet does not recover.
pub fn one(
    bed: &mut TestBed,
    monitor: &Monitor,
    fault: &'static Fault,
    random: &mut Random,
    hold: Duration,
) -> Result<Row> {
    let (from, cpu) = (now(), monitor::agents_cpu());
    let begin = Instant::now();
    let (outcome, mut wrong) = match (fault.inject)(bed, random, hold) {
        Ok(outcome) => (outcome, Vec::new()),
        Err(error) => (Outcome::default(), vec![format!("{error:#}")]),
    };
    let to = now();
    for service in [&mut bed.collector].into_iter().chain(&mut bed.agents) {
        if !service.is_alive() {
            wrong.push(format!("{} has ended", service.name));
            service.start()?;
        }
    }
    let recovered = bed.wait_ready().and_then(|ready| Ok(ready + bed.wait_fresh()?)).context("it did not recover")?;
    if recovered > TIMEOUT {
        wrong.push(format!("it recovered only after {:.0} s", recovered.as_secs_f64()));
    }
    // Gives late incidents time to appear.
    std::thread::sleep(Duration::from_secs(2));

    if outcome.skipped.is_none() {
        wrong.extend(gaps(bed, from, to, &outcome)?);
    }
    wrong.extend(incidents(bed, from)?);
    wrong.extend(accounts(bed)?);
    let snapshots = monitor.since(from);
    let hosts = bed.agents.len() + bed.load_hosts;
    let bounds = [COLLECTOR_RSS + HOST_RSS * hosts as f64, AGENT_RSS];
    for (who, name) in ["the collector", "an agent"].into_iter().enumerate() {
        let rss = monitor::largest(&snapshots, |m| m.rss[who]);
        if rss > bounds[who] {
            wrong.push(format!("{name} used {:.0} MB, more than {:.0} MB", rss / 1e6, bounds[who] / 1e6));
        }
    }
    let (now, took) = (monitor::agents_cpu(), begin.elapsed().as_secs_f64());
    let taken = cpu.iter().filter_map(|(id, then)| Some(now.get(id)?.saturating_sub(*then) as f64 / 1e9 / took));
    let busiest = taken.fold(0.0, f64::max);
    if busiest > AGENT_CPU && took > 5.0 {
        wrong.push(format!("an agent used {:.1} % of a core, more than {:.1} %", 100.0 * busiest, 100.0 * AGENT_CPU));
    }
    let rss = [0, 1].map(|who| monitor::largest(&snapshots, |m| m.rss[who]) / 1e6);
    let cost = format!("at most {:.0} and {:.0} MB, agents {:.1} %", rss[0], rss[1], 100.0 * busiest);
    let observed = match outcome.skipped {
        Some(why) => format!("SKIPPED: {why}"),
        None => format!("{}; {cost}", outcome.observed),
    };
    Ok(Row { fault, from, to, hold, recovered, observed, wrong })
}

/// Hosts with gaps in their series, apart from times in which they could not sample.
fn gaps(bed: &TestBed, from: f64, to: f64, outcome: &Outcome) -> Result<Vec<String>> {
    let seconds = (now() - from + 5.0).ceil();
    let series = bed.ask(&format!("{GAP_SERIES}[{seconds}s]"))?;
    let mut wrong = Vec::new();
    for host in 0..bed.agents.len() {
        let name = host_name(host);
        let one = series.iter().find(|one| one["metric"]["host"] == name.as_str());
        let mut times: Vec<f64> =
            one.and_then(|one| one["values"].as_array()).into_iter().flatten().filter_map(|v| v[0].as_f64()).collect();
        times.extend((times.last().is_none_or(|last| *last < to)).then_some(to));
        let unsampled: Vec<_> = outcome.unsampled.iter().filter(|(who, ..)| *who == host).collect();
        // Unsampled time within a gap does not count.
        let excused = |a: f64, b: f64| -> f64 {
            unsampled.iter().map(|(_, from, to)| (b.min(*to) - a.max(*from)).max(0.0)).sum()
        };
        let gaps = times.windows(2).map(|w| (w[0], w[1] - w[0] - excused(w[0], w[1])));
        if let Some((at, gap)) = gaps.max_by(|a, b| a.1.total_cmp(&b.1)).filter(|(_, gap)| *gap > GAP) {
            wrong
                .push(format!("{name} has no samples for {gap:.1} s, {:.1} s after the begin of the fault", at - from));
        }
    }
    Ok(wrong)
}

/// Incidents since a time, Unix seconds. The fabric is healthy; hosts of `fabriclens-load` have random counters and are ignored.
fn incidents(bed: &TestBed, from: f64) -> Result<Vec<String>> {
    let answer = bed.api("incidents")?;
    let all = answer["incidents"].as_array().cloned().unwrap_or_default();
    let new = all.iter().filter(|one| one["detected_ns"].as_f64().is_some_and(|at| at / 1e9 >= from));
    let new = new.filter(|one| !["root", "explanation"].iter().any(|key| one[key].to_string().contains(LOAD)));
    let text = |one: &Value, key: &str| one[key].as_str().unwrap_or_default().to_owned();
    Ok(new.map(|one| format!("incident {}: {}", text(one, "kind"), text(one, "explanation"))).collect())
}

/// Agents whose counters do not add up: samples taken are acknowledged, rejected, dropped or waiting.
fn accounts(bed: &TestBed) -> Result<Vec<String>> {
    let mut wrong = Vec::new();
    for host in 0..bed.agents.len() {
        let page = bed.agent_metrics(host)?;
        let of = |name: &str| sum_of(&page, &format!("fabriclens_agent_uplink_{name}"));
        let (taken, off) = (of("taken_total"), of("unaccounted"));
        let parts = ["acked_total", "rejected_total", "dropped_total", "waiting"].map(of);
        let sum: f64 = parts.iter().sum();
        if off != 0.0 || sum != taken || taken == 0.0 {
            wrong.push(format!(
                "{}: {taken} points taken; acknowledged, rejected, dropped, waiting: {parts:?}",
                host_name(host)
            ));
        }
    }
    Ok(wrong)
}
