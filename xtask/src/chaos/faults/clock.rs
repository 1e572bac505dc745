//! Clocks that step, each of one process alone: the library of `faketime` stands before the kernel's.

use super::super::Random;
use super::super::stage::{PATIENCE, Stage, WITNESS, get, now, sum_of};
use super::super::unit::Unit;
use super::{Seen, wait_for};
use crate::sim::tree::host_name;
use anyhow::{Context, Result, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

const LIBRARY: &str = "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1";
const DAY: f64 = 86_400.0;
/// Longer than anything is kept that the fault looks at.
const AHEAD: f64 = 400.0 * DAY;
/// How often a collector looks for what is too old, and a little more.
const ROUND: Duration = Duration::from_secs(12);

/// A file that says how far the clock of a process is off.
struct Clock(PathBuf);

impl Clock {
    /// Of a program that is to be started anew; `None` where the library is missing.
    fn of(stage: &Path, unit: &mut Unit) -> Result<Option<Self>> {
        if !crate::setup::ensure(&crate::setup::FAKETIME)? || !Path::new(LIBRARY).exists() {
            return Ok(None);
        }
        let clock = Self(stage.join("clock"));
        clock.set(0.0)?;
        unit.env.extend([
            format!("LD_PRELOAD={LIBRARY}"),
            format!("FAKETIME_TIMESTAMP_FILE={}", clock.0.display()),
            "FAKETIME_CACHE_DURATION=1".to_owned(),
            "DONT_FAKE_MONOTONIC=1".to_owned(),
            "NO_FAKE_STAT=1".to_owned(),
        ]);
        Ok(Some(clock))
    }

    /// So many seconds ahead, or behind (negative).
    fn set(&self, seconds: f64) -> Result<()> {
        let draft = self.0.with_extension("new");
        fs::write(&draft, format!("{seconds:+.0}\n"))?;
        Ok(fs::rename(&draft, &self.0)?)
    }
}

/// Steps the clock of one agent to the future, back, and to the past.
pub fn agent_steps(stage: &mut Stage, random: &mut Random, hold: Duration) -> Result<Seen> {
    let (host, begin) = (random.below(stage.agents.len()), now());
    let usual = stage.agents[host].env.clone();
    let Some(clock) = Clock::of(&stage.dir, &mut stage.agents[host])? else {
        return Seen::skipped("no libfaketime here");
    };
    // Else the library cannot read what time it is.
    stage.agents[host].env.push("FABRICLENS_AGENT_SANDBOX=off".to_owned());
    stage.agents[host].end(PATIENCE)?;
    stage.agents[host].start()?;
    for offset in [0.0, 120.0, 0.0, -120.0, 0.0] {
        clock.set(offset)?;
        std::thread::sleep(hold / 2);
    }
    let noticed = wait_for(PATIENCE, || {
        let page = get(&format!("http://127.0.0.1:{}/metrics", stage.agent_ports[host]))?.1;
        let noticed = sum_of(&page, "fabriclens_agent_clock_steps_total");
        ensure!(noticed >= 4.0, "the agent noticed {noticed} of four steps of its clock");
        Ok(noticed)
    });
    stage.agents[host].env = usual;
    stage.agents[host].end(PATIENCE)?;
    stage.agents[host].start()?;
    let silent = vec![(host, begin - 125.0, now() + 125.0)];
    Seen::silent(format!("{}: two minutes forth and back, {} steps noticed", host_name(host), noticed?), silent)
}

/// Steps the clock of the collector more than a year ahead, back, and a day into the past.
pub fn collector_steps(stage: &mut Stage, _: &mut Random, hold: Duration) -> Result<Seen> {
    let usual = stage.collector.env.clone();
    let Some(clock) = Clock::of(&stage.dir, &mut stage.collector)? else {
        return Seen::skipped("no libfaketime here");
    };
    let seen = restart(stage).and_then(|()| step_collector(stage, &clock, hold));
    stage.collector.env = usual;
    restart(stage)?;
    seen
}

fn restart(stage: &mut Stage) -> Result<()> {
    stage.collector.end(PATIENCE)?;
    stage.collector.start()?;
    stage.wait_ready()?;
    stage.wait_fresh().map(drop)
}

fn step_collector(stage: &Stage, clock: &Clock, hold: Duration) -> Result<Seen> {
    // What is over is what age can remove.
    say(stage, "jobs", r#"{"id": "long-over", "hosts": ["elsewhere"]}"#)?;
    say(stage, "jobs/long-over/end", "")?;
    let until = format!("{:.0}", now() + 3600.0);
    say(stage, "silences", &format!(r#"{{"match": {{"node": "elsewhere"}}, "until": {until}}}"#))?;
    // All of that has arrived.
    let begin = now() - 5.0;
    let before = samples(stage, begin)?;
    let mut latest: f64 = 0.0;
    for (offset, hold) in [(AHEAD, hold.max(ROUND)), (0.0, hold / 2), (-DAY, hold), (0.0, hold / 2)] {
        clock.set(offset)?;
        wait_for(PATIENCE, || notices(stage, offset))?;
        let end = now() + hold.as_secs_f64();
        while now() < end {
            std::thread::sleep(Duration::from_millis(250));
            latest = latest.max(age(stage)?);
        }
        notices(stage, offset)?;
    }
    ensure!(latest < 10.0, "while its clock was off, samples were {latest:.1} s late");
    let after = samples(stage, begin)?;
    ensure!(after == before, "of {before} samples of before there are {after}");
    for (path, words) in [("jobs?limit=1000", "long-over"), ("silences", "elsewhere")] {
        let told = stage.api(path)?.to_string();
        ensure!(told.contains(words), "/api/v1/{path} no longer has {words}: {told}");
    }
    Seen::of(format!(
        "{:.0} days ahead, back, a day into the past, back: told each time; {before} samples, a job and a silence of before \
         are there, new samples at most {latest:.1} s late",
        AHEAD / DAY
    ))
}

/// Whether its clock is so far off, seconds, and it says so.
fn notices(stage: &Stage, offset: f64) -> Result<()> {
    let answer = stage.api("query?query=time()")?;
    let clock: f64 = answer["data"]["result"][1].as_str().context("ask for its time")?.parse()?;
    let off = clock - now();
    ensure!((off - offset).abs() < 10.0, "its clock is off by {off:.0} s, not by {offset:.0} s");
    let told = sum_of(&get(&format!("{}/metrics", stage.url))?.1, "fabriclens_clock_off_seconds");
    ensure!((told - offset).abs() < 10.0, "it tells of {told:.0} s, its clock is off by {off:.0} s");
    let (code, text) = get(&format!("{}/readyz", stage.url))?;
    ensure!(code == 200 && text.contains("clock: it went") == (offset != 0.0), "/readyz says {code}, {text}");
    Ok(())
}

/// Samples of the ten minutes before a time.
fn samples(stage: &Stage, at: f64) -> Result<f64> {
    let counted = stage.ask_at(&format!("sum(count_over_time({WITNESS}[10m]))"), at)?;
    Ok(counted.first().and_then(|one| one["value"][1].as_str()).context("no samples are found")?.parse()?)
}

/// Age of the newest sample of the host that is furthest behind, asked for by the right time, seconds.
fn age(stage: &Stage) -> Result<f64> {
    let (at, hosts) = (now(), stage.agents.len());
    let newest = stage.ask_at(&format!("min(timestamp({WITNESS})) and count({WITNESS}) == {hosts}"), at)?;
    let newest = newest.first().and_then(|one| one["value"][1].as_str()).context("not all hosts have samples")?;
    Ok(at - newest.parse::<f64>()?)
}

fn say(stage: &Stage, path: &str, body: &str) -> Result<()> {
    let request = ureq::post(format!("{}/api/v1/{path}", stage.url)).header("content-type", "application/json");
    request.send(body).map(drop).with_context(|| format!("POST /api/v1/{path}"))
}
