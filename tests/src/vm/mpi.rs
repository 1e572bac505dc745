//! A program of MPI on two hosts whose messages go by soft-RoCE: the collector has the same counts of operations as the program, and tells
//! a rank that computes for long from a slow link.

use super::watched::Pair;
use super::{Lab, Scenario};
use crate::lab::agent;
use crate::lab::collector::Series;
use crate::lab::mpi::{MPICH, Mpi, OPEN_MPI, Program};
use crate::lab::slurm;
use anyhow::{Context, Result, bail, ensure};
use std::collections::BTreeMap;
use std::time::Duration;

pub const SCENARIO: Scenario = Scenario {
    name: "mpi",
    shows: "MPICH on two hosts over soft-RoCE: calls and bytes as the program counts them; a rank that sleeps, one that is stopped, and a slow link",
    limit: Duration::from_secs(900),
    often: false,
    alone: true,
    run: |lab| run(lab, &MPICH),
};

pub const OPEN: Scenario = Scenario {
    name: "open-mpi",
    shows: "Open MPI on two hosts over soft-RoCE: the same",
    run: |lab| run(lab, &OPEN_MPI),
    ..SCENARIO
};

const JOB: u32 = 4711;
const CONFIG: &str = "[collectives]\nenabled = true\nperiod = \"10s\"\n[sampling]\nslow = \"2s\"\n";
/// Time in which a program's ranks connect: each polls, and two share a processor.
const START: Duration = Duration::from_secs(120);
/// Time in which a series appears: three periods until a rank is late.
const PATIENCE: Duration = Duration::from_secs(90);
/// The rank that sleeps in the mode `late`.
const SLEEPER: u32 = 2;
/// Time in which a rank is named that no longer works: it must be behind for a minute, at two looks.
const STOPPED: Duration = Duration::from_secs(300);

fn run(lab: &Lab, mpi: &'static Mpi) -> Result<()> {
    if !mpi.is_here() {
        let (name, remedy) = (mpi.name, mpi.remedy);
        lab.say(&format!("SKIPPED: no {name} on this host, so no program of it is tested. Run: {remedy}"));
        return Ok(());
    }
    let pair = Pair::start_as(lab, slurm::SCOPE, CONFIG)?;
    mpi.install(lab.folder(), &[&pair.one, &pair.two])?;
    let job = Job { lab, pair, mpi };
    counted(&job)?;
    sleeper(&job)?;
    slow_link(&job)
}

/// The job whose programs run in the guests, with one MPI.
struct Job<'a> {
    lab: &'a Lab,
    pair: Pair,
    mpi: &'static Mpi,
}

impl Job<'_> {
    fn start(&self, mode: &'static str) -> Result<Program<'_>> {
        let started = Program::start(self.mpi, [&self.pair.one, &self.pair.two], JOB, mode, START);
        started.with_context(|| format!("mode {mode}"))
    }
}

/// The collector has the calls and bytes of each operation on a host that the ranks there have written down.
fn counted(job: &Job<'_>) -> Result<()> {
    let Job { lab, pair, .. } = job;
    let before = agent::sent(&pair.one)?;
    let program = job.start("count")?;
    let packets = agent::sent(&pair.one)? - before;
    ensure!(packets > 1000, "{packets} RoCE packets for all operations: messages go another way");
    let pairs = format!("count(fabric_queue_pair_info{{host=\"vm1\",job=\"{JOB}\",type=\"RC\"}})");
    let known = lab.wait("queue pairs of the ranks", PATIENCE, || pair.collector.value(&pairs))?;
    lab.say(&format!("vm1: {packets} RoCE packets; {known} connected queue pairs of its ranks"));
    for (guest, host) in [(0, "vm1"), (1, "vm2")] {
        let rows = written(&program.expected(guest)?)?;
        for (labels, (calls, bytes)) in &rows {
            for (metric, known) in
                [("fabric_collective_executions_total", calls), ("fabric_collective_message_bytes_total", bytes)]
            {
                let series = format!("{metric}{{host=\"{host}\",job=\"{JOB}\",{labels}}}");
                lab.wait(&format!("{series} is {known}"), PATIENCE, || {
                    let told = pair.collector.value(&series)?.unwrap_or(0.0);
                    ensure!(told == *known, "it is {told}");
                    Ok(Some(()))
                })?;
            }
        }
        let (calls, bytes) = rows.values().fold((0.0, 0.0), |sum, row| (sum.0 + row.0, sum.1 + row.1));
        lab.say(&format!(
            "{host}: {} kinds of operations, {calls} calls and {bytes} bytes as the ranks know",
            rows.len()
        ));
    }
    program.stop()
}

/// Calls and bytes by labels of an operation, added up over the ranks that have written these lines.
fn written(lines: &str) -> Result<BTreeMap<String, (f64, f64)>> {
    let mut rows: BTreeMap<String, (f64, f64)> = BTreeMap::new();
    for line in lines.lines() {
        let [operation, group, calls, bytes, class] = line.split(' ').collect::<Vec<_>>()[..] else {
            bail!("the program writes {line:?}")
        };
        let communicator = if group == "world" { "MPI_COMM_WORLD" } else { "other" };
        let size = match class {
            "0" => "0",
            "32768" => "32KiB",
            "1048576" => "1MiB",
            _ => bail!("no class of {line:?}"),
        };
        let labels = format!("operation=\"{operation}\",communicator=\"{communicator}\",size=\"{size}\"");
        let row = rows.entry(labels).or_default();
        *row = (row.0 + calls.parse::<f64>()?, row.1 + bytes.parse::<f64>()?);
    }
    Ok(rows)
}

/// The rank that sleeps is named: the other rank of its host waits for it.
fn sleeper(job: &Job<'_>) -> Result<()> {
    let Job { lab, pair, .. } = job;
    let program = job.start("late")?;
    let late = format!("fabric_collective_late_info{{job=\"{JOB}\"}}");
    lab.wait("the rank that sleeps is named", PATIENCE, || Ok(pair.collector.value(&late)?.map(|_| ())))?;
    let named = labels(pair, &late, "member")?;
    lab.say(&format!("rank {SLEEPER} sleeps; late: {named:?}; in MPI: {}", shares(pair)?));
    ensure!(named == [SLEEPER.to_string()], "late: {named:?}");
    stopped(lab, pair, &program)?;
    program.stop()
}

/// A rank that is stopped holds back all others: the collector names it, and does not blame the network.
fn stopped(lab: &Lab, pair: &Pair, program: &Program) -> Result<()> {
    // A rank that is stopped inside an operation may be waiting for the network: the collector would name nobody.
    let inside = format!("fabric_collective_mpi_inside_seconds{{job=\"{JOB}\",rank=\"{SLEEPER}\"}}");
    let others = format!("count(fabric_collective_mpi_inside_seconds{{job=\"{JOB}\"}})");
    lab.wait("a stop between two operations", PATIENCE, || {
        program.signal(SLEEPER, "STOP")?;
        std::thread::sleep(Duration::from_secs(25));
        if pair.collector.value(&others)?.is_some() && pair.collector.value(&inside)?.is_none() {
            return Ok(Some(()));
        }
        program.signal(SLEEPER, "CONT")?;
        Ok(None)
    })?;
    let named = lab.wait("the rank that is stopped is named", STOPPED, || {
        let observations = pair.collector.get("/api/v1/incidents?severity=info")?;
        let mut all = observations["incidents"].as_array().into_iter().flatten();
        Ok(all.find(|one| one["kind"] == "application_straggler").cloned())
    })?;
    lab.say(&format!("rank {SLEEPER} is stopped: {}", named["explanation"]));
    let paged = pair.collector.incidents()?;
    ensure!(paged.is_empty(), "the network is blamed: {paged:#?}");
    ensure!(named["root"]["node"] == "vm2", "not at vm2: {named:#}");
    program.signal(SLEEPER, "CONT")
}

/// With a slow link all ranks wait alike, and none is named.
fn slow_link(job: &Job<'_>) -> Result<()> {
    let Job { lab, pair, .. } = job;
    pair.two.sh("tc qdisc replace dev fab0 root netem delay 40ms")?;
    let program = job.start("even")?;
    let low = format!("min(fabric_collective_mpi_share_ratio{{job=\"{JOB}\"}})");
    lab.wait("all ranks are in MPI most of the time", PATIENCE, || {
        let least = pair.collector.value(&low)?.unwrap_or(0.0);
        ensure!(least > 0.6, "the least is {least}");
        Ok(Some(()))
    })?;
    // Long enough for a rank to be named.
    std::thread::sleep(PATIENCE / 2);
    let named = labels(pair, &format!("max_over_time(fabric_collective_late_info{{job=\"{JOB}\"}}[30s])"), "member")?;
    lab.say(&format!("packets of vm2 take 40 ms; late: {named:?}; in MPI: {}", shares(pair)?));
    ensure!(named.is_empty(), "late: {named:?}");
    pair.two.sh("tc qdisc del dev fab0 root")?;
    program.stop()
}

fn labels(pair: &Pair, promql: &str, label: &str) -> Result<Vec<String>> {
    let found = pair.collector.query(promql)?;
    Ok(found.iter().map(|series| series.labels.get(label).cloned().unwrap_or_default()).collect())
}

/// Share of time in MPI of each rank, for the log.
fn shares(pair: &Pair) -> Result<String> {
    let found = pair
        .collector
        .query(&format!("sort_by_label(fabric_collective_mpi_share_ratio{{job=\"{JOB}\"}}, \"rank\")"))?;
    let share = |series: &Series| {
        let rank = series.labels.get("rank").cloned().unwrap_or_default();
        series.points.last().map(|point| format!("rank {rank} {:.0} %", 100.0 * point.1))
    };
    Ok(found.iter().filter_map(share).collect::<Vec<_>>().join(", "))
}
