//! What must hold whatever happens, and a row that tells whether it did.

use super::faults::{Fault, Seen};
use super::stage::{PATIENCE, Stage, WITNESS, now, sum_of};
use super::watch::{self, Watch};
use super::{Random, host_name};
use anyhow::{Context, Result};
use serde_json::Value;
use std::time::{Duration, Instant};

/// Samples come each second; a machine with two busy cores is late at times.
const GAP: f64 = 3.0;
/// Most memory of an agent, its queue included; of the collector, and for each host of it.
const AGENT_RSS: f64 = 64e6;
const COLLECTOR_RSS: f64 = 512e6;
const HOST_RSS: f64 = 8e6;
/// Most of a core that an agent may take over a fault and what follows it.
const AGENT_CPU: f64 = 0.03;

/// How names of the load's hosts begin.
const LOAD: &str = "node";

/// What became of a fault.
pub struct Row {
    pub fault: &'static Fault,
    /// Seconds since 1970.
    pub from: f64,
    pub to: f64,
    hold: Duration,
    recovered: Duration,
    observed: String,
    /// What did not hold.
    pub wrong: Vec<String>,
}

impl Row {
    /// For the terminal.
    pub fn line(&self) -> String {
        let wrong: String = self.wrong.iter().map(|one| format!("\n{:>20} {one}", "WRONG:")).collect();
        let (took, well) = (self.to - self.from, self.recovered.as_secs_f64());
        format!("{:<20} {took:>6.1} {well:>7.1} s  {}{wrong}", self.fault.name, self.observed)
    }

    /// For documents.
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

/// Hurts the stage once, waits until it is well, and looks what held.
///
/// # Errors
/// When it does not become well.
pub fn one(
    stage: &mut Stage,
    watch: &Watch,
    fault: &'static Fault,
    random: &mut Random,
    hold: Duration,
) -> Result<Row> {
    let (from, cpu) = (now(), watch::agents_cpu());
    let begin = Instant::now();
    let (seen, mut wrong) = match (fault.does)(stage, random, hold) {
        Ok(seen) => (seen, Vec::new()),
        Err(error) => (Seen::default(), vec![format!("{error:#}")]),
    };
    let to = now();
    for unit in [&mut stage.collector].into_iter().chain(&mut stage.agents) {
        if !unit.is_alive() {
            wrong.push(format!("{} has ended", unit.name));
            unit.start()?;
        }
    }
    let recovered =
        stage.wait_ready().and_then(|ready| Ok(ready + stage.wait_fresh()?)).context("it did not recover")?;
    if recovered > PATIENCE {
        wrong.push(format!("it was well only after {:.0} s", recovered.as_secs_f64()));
    }
    // What was told late is told.
    std::thread::sleep(Duration::from_secs(2));

    if seen.skipped.is_none() {
        wrong.extend(gaps(stage, from, to, &seen)?);
    }
    wrong.extend(incidents(stage, from)?);
    wrong.extend(accounts(stage)?);
    let moments = watch.since(from);
    let hosts = stage.agents.len() + stage.load_hosts;
    let bounds = [COLLECTOR_RSS + HOST_RSS * hosts as f64, AGENT_RSS];
    for (who, name) in ["the collector", "an agent"].into_iter().enumerate() {
        let rss = watch::largest(&moments, |m| m.rss[who]);
        if rss > bounds[who] {
            wrong.push(format!("{name} took {:.0} MB, more than {:.0} MB", rss / 1e6, bounds[who] / 1e6));
        }
    }
    let (now, took) = (watch::agents_cpu(), begin.elapsed().as_secs_f64());
    let taken = cpu.iter().filter_map(|(id, then)| Some(now.get(id)?.saturating_sub(*then) as f64 / 1e9 / took));
    let busiest = taken.fold(0.0, f64::max);
    if busiest > AGENT_CPU && took > 5.0 {
        wrong.push(format!("an agent took {:.1} % of a core, more than {:.1} %", 100.0 * busiest, 100.0 * AGENT_CPU));
    }
    let rss = [0, 1].map(|who| watch::largest(&moments, |m| m.rss[who]) / 1e6);
    let cost = format!("at most {:.0} and {:.0} MB, agents {:.1} %", rss[0], rss[1], 100.0 * busiest);
    let observed = match seen.skipped {
        Some(why) => format!("SKIPPED: {why}"),
        None => format!("{}; {cost}", seen.observed),
    };
    Ok(Row { fault, from, to, hold, recovered, observed, wrong })
}

/// Hosts whose series have holes in times in which they could sample.
fn gaps(stage: &Stage, from: f64, to: f64, seen: &Seen) -> Result<Vec<String>> {
    let seconds = (now() - from + 5.0).ceil();
    let series = stage.ask(&format!("{WITNESS}[{seconds}s]"))?;
    let mut wrong = Vec::new();
    for host in 0..stage.agents.len() {
        let name = host_name(host);
        let one = series.iter().find(|one| one["metric"]["host"] == name.as_str());
        let mut times: Vec<f64> =
            one.and_then(|one| one["values"].as_array()).into_iter().flatten().filter_map(|v| v[0].as_f64()).collect();
        times.extend((times.last().is_none_or(|last| *last < to)).then_some(to));
        let silent: Vec<_> = seen.silent.iter().filter(|(who, ..)| *who == host).collect();
        // A hole may hold all that was silent, and no more than usual besides.
        let excused =
            |a: f64, b: f64| -> f64 { silent.iter().map(|(_, from, to)| (b.min(*to) - a.max(*from)).max(0.0)).sum() };
        let holes = times.windows(2).map(|w| (w[0], w[1] - w[0] - excused(w[0], w[1])));
        if let Some((at, hole)) = holes.max_by(|a, b| a.1.total_cmp(&b.1)).filter(|(_, hole)| *hole > GAP) {
            wrong.push(format!("{name} has {hole:.1} s without samples {:.1} s after the fault's begin", at - from));
        }
    }
    Ok(wrong)
}

/// Incidents of a fabric that is healthy. Hosts of the load have counters at random, and are not.
fn incidents(stage: &Stage, from: f64) -> Result<Vec<String>> {
    let told = stage.api("incidents")?;
    let all = told["incidents"].as_array().cloned().unwrap_or_default();
    let new = all.iter().filter(|one| one["detected_ns"].as_f64().is_some_and(|at| at / 1e9 >= from));
    let new = new.filter(|one| !["root", "explanation"].iter().any(|key| one[key].to_string().contains(LOAD)));
    let text = |one: &Value, key: &str| one[key].as_str().unwrap_or_default().to_owned();
    Ok(new.map(|one| format!("told of {}: {}", text(one, "kind"), text(one, "explanation"))).collect())
}

/// Agents whose sums are off, by their own account and by ours.
fn accounts(stage: &Stage) -> Result<Vec<String>> {
    let mut wrong = Vec::new();
    for host in 0..stage.agents.len() {
        let page = stage.agent_metrics(host)?;
        let of = |name: &str| sum_of(&page, &format!("fabriclens_agent_uplink_{name}"));
        let (taken, off) = (of("taken_total"), of("unaccounted"));
        let told = ["acked_total", "rejected_total", "dropped_total", "waiting"].map(of);
        let sum: f64 = told.iter().sum();
        if off != 0.0 || sum != taken || taken == 0.0 {
            wrong.push(format!(
                "{}: {taken} points taken; acknowledged, refused, dropped, waiting: {told:?}",
                host_name(host)
            ));
        }
    }
    Ok(wrong)
}
