//! Faults of the clock: steps that one process sees, by the library of `faketime`.

use super::{Fault, Outcome, wait_for};
use crate::chaos::service::Service;
use crate::chaos::testbed::{GAP_SERIES, TIMEOUT, TestBed, get, now, sum_of};
use crate::random::Random;
use crate::sim::layout::host_name;
use anyhow::{Context, Result, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub const FAULTS: &[Fault] = &[
    Fault {
        name: "clock-steps",
        often: true,
        expected: "the agent counts each step of its clock; no incident",
        inject: agent_steps,
    },
    Fault {
        name: "collector-clock",
        often: true,
        expected: "retention removes nothing, no request is refused, queries are answered; each step is reported",
        inject: collector_steps,
    },
];

const LIBRARY: &str = "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1";
const DAY: f64 = 86_400.0;
/// Longer than the retention of everything that is checked.
const AHEAD: f64 = 400.0 * DAY;
/// A little more than the interval of the collector's retention.
const ROUND: Duration = Duration::from_secs(12);

/// File with the clock offset of one process.
struct Clock(PathBuf);

impl Clock {
    /// Prepares a service, which must be restarted; `None` without the library.
    fn of(bed: &Path, service: &mut Service) -> Result<Option<Self>> {
        if !crate::setup::ensure(&crate::setup::FAKETIME)? || !Path::new(LIBRARY).exists() {
            return Ok(None);
        }
        let clock = Self(bed.join("clock"));
        clock.set(0.0)?;
        service.env.extend([
            format!("LD_PRELOAD={LIBRARY}"),
            format!("FAKETIME_TIMESTAMP_FILE={}", clock.0.display()),
            "FAKETIME_CACHE_DURATION=1".to_owned(),
            "DONT_FAKE_MONOTONIC=1".to_owned(),
            "NO_FAKE_STAT=1".to_owned(),
        ]);
        Ok(Some(clock))
    }

    /// Sets the offset in seconds.
    fn set(&self, seconds: f64) -> Result<()> {
        let draft = self.0.with_extension("new");
        fs::write(&draft, format!("{seconds:+.0}\n"))?;
        Ok(fs::rename(&draft, &self.0)?)
    }
}

/// Steps the clock of one agent by two minutes forward, back, backward and back.
pub fn agent_steps(bed: &mut TestBed, random: &mut Random, hold: Duration) -> Result<Outcome> {
    let (host, begin) = (random.below(bed.agents.len()), now());
    let env = bed.agents[host].env.clone();
    let Some(clock) = Clock::of(&bed.dir, &mut bed.agents[host])? else {
        return Outcome::skipped("no libfaketime here");
    };
    // The sandbox would hide the file from the library.
    bed.agents[host].env.push("FABRICLENS_AGENT_SANDBOX=off".to_owned());
    bed.agents[host].end(TIMEOUT)?;
    bed.agents[host].start()?;
    let counted = |least: usize| {
        wait_for(TIMEOUT, || {
            let page = get(&format!("http://127.0.0.1:{}/metrics", bed.agent_ports[host]))?.1;
            let counted = sum_of(&page, "fabriclens_agent_clock_steps_total");
            ensure!(counted >= least as f64, "the agent counted {counted} of {least} clock steps");
            Ok(counted)
        })
    };
    // The next step waits for the agent to count the last: it looks at its clock once a sample, the library at the file
    // once a second.
    let steps = [0.0, 120.0, 0.0, -120.0, 0.0].into_iter().enumerate().map(|(step, offset)| {
        clock.set(offset)?;
        std::thread::sleep(hold / 2);
        counted(step)
    });
    let noticed: Result<Vec<f64>> = steps.collect();
    bed.agents[host].env = env;
    bed.agents[host].end(TIMEOUT)?;
    bed.agents[host].start()?;
    let unsampled = vec![(host, begin - 125.0, now() + 125.0)];
    Outcome::unsampled(
        format!("{}: two minutes forward and back, {} steps counted", host_name(host), noticed?[4]),
        unsampled,
    )
}

/// Steps the clock of the collector more than a year ahead, back, and a day into the past.
pub fn collector_steps(bed: &mut TestBed, _: &mut Random, hold: Duration) -> Result<Outcome> {
    let env = bed.collector.env.clone();
    let Some(clock) = Clock::of(&bed.dir, &mut bed.collector)? else {
        return Outcome::skipped("no libfaketime here");
    };
    let seen = bed.restart_collector().and_then(|()| step_collector(bed, &clock, hold));
    bed.collector.env = env;
    bed.restart_collector()?;
    seen
}

fn step_collector(bed: &TestBed, clock: &Clock, hold: Duration) -> Result<Outcome> {
    // Retention applies to ended jobs and silences.
    post(bed, "jobs", r#"{"id": "long-over", "hosts": ["elsewhere"]}"#)?;
    post(bed, "jobs/long-over/end", "")?;
    let until = format!("{:.0}", now() + 3600.0);
    post(bed, "silences", &format!(r#"{{"match": {{"node": "elsewhere"}}, "until": {until}}}"#))?;
    // Samples before this moment are stored.
    let begin = now() - 5.0;
    let before = samples(bed, begin)?;
    let mut latest: f64 = 0.0;
    for (offset, hold) in [(AHEAD, hold.max(ROUND)), (0.0, hold / 2), (-DAY, hold), (0.0, hold / 2)] {
        clock.set(offset)?;
        wait_for(TIMEOUT, || notices(bed, offset))?;
        let end = now() + hold.as_secs_f64();
        while now() < end {
            std::thread::sleep(Duration::from_millis(250));
            latest = latest.max(age(bed)?);
        }
        notices(bed, offset)?;
    }
    ensure!(latest < 10.0, "while its clock was off, samples were {latest:.1} s late");
    let after = samples(bed, begin)?;
    ensure!(after == before, "{before} samples before the steps, {after} after");
    for (path, words) in [("jobs?limit=1000", "long-over"), ("silences", "elsewhere")] {
        let answer = bed.api(path)?.to_string();
        ensure!(answer.contains(words), "/api/v1/{path} no longer has {words}: {answer}");
    }
    Outcome::of(format!(
        "{:.0} days ahead, back, a day into the past, back: each step reported; {before} samples, a job and a silence kept; \
         new samples at most {latest:.1} s late",
        AHEAD / DAY
    ))
}

/// Fails unless the collector's clock is off by `offset` seconds and the collector reports it.
fn notices(bed: &TestBed, offset: f64) -> Result<()> {
    let answer = bed.api("query?query=time()")?;
    let clock: f64 = answer["data"]["result"][1].as_str().context("ask for its time")?.parse()?;
    let off = clock - now();
    ensure!((off - offset).abs() < 10.0, "its clock is off by {off:.0} s, not by {offset:.0} s");
    let reported = sum_of(&get(&format!("{}/metrics", bed.url))?.1, "fabriclens_clock_off_seconds");
    ensure!((reported - offset).abs() < 10.0, "it reports {reported:.0} s, its clock is off by {off:.0} s");
    let (code, text) = get(&format!("{}/readyz", bed.url))?;
    ensure!(code == 200 && text.contains("clock: stepped") == (offset != 0.0), "/readyz says {code}, {text}");
    Ok(())
}

/// Number of samples in the ten minutes before a time.
fn samples(bed: &TestBed, at: f64) -> Result<f64> {
    let counted = bed.ask_at(&format!("sum(count_over_time({GAP_SERIES}[10m]))"), at)?;
    Ok(counted.first().and_then(|one| one["value"][1].as_str()).context("no samples are found")?.parse()?)
}

/// Age in seconds of the newest sample of the host furthest behind, by the true time.
fn age(bed: &TestBed) -> Result<f64> {
    let (at, hosts) = (now(), bed.agents.len());
    let newest = bed.ask_at(&format!("min(timestamp({GAP_SERIES})) and count({GAP_SERIES}) == {hosts}"), at)?;
    let newest = newest.first().and_then(|one| one["value"][1].as_str()).context("not all hosts have samples")?;
    Ok(at - newest.parse::<f64>()?)
}

fn post(bed: &TestBed, path: &str, body: &str) -> Result<()> {
    let request = ureq::post(format!("{}/api/v1/{path}", bed.url)).header("content-type", "application/json");
    request.send(body).map(drop).with_context(|| format!("POST /api/v1/{path}"))
}
