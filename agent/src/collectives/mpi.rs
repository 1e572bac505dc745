//! Reads the counters that the preload library `deploy/mpi` writes in processes of jobs, adds them up by job, and tells how much of
//! its time each rank is in MPI.
//!
//! The name of a file follows from the process, so nothing is searched: a process of a job has its file, or has none.

use super::Job;
use super::mpi_series::{self, MpiJob, MpiProgress};
use super::series;
use super::services::{JobProcess, job_processes};
use super::settings::Collectives;
use super::straggler::{Rank, straggler};
use fabriclens_agent_collectives::inspector::Totals;
use fabriclens_agent_collectives::model::{Process, RankState};
use fabriclens_agent_collectives::mpi::{CounterFile, Counters, Follower, Group, Operation, Refused, Step};
use fabriclens_agent_collectives::progress::{Reason, Straggler};
use fabriclens_agent_host::batch::Batch;
use fabriclens_agent_workload::Jobs;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Most files of a host, each of which stays open.
const FILES: usize = 256;
/// Most kinds of MPI library and number of ranks that are told of a job.
const PROGRAMS: usize = 8;
/// Time that a rank is in an operation before the agent reports that it waits, nanoseconds.
const WAITS: u64 = 10_000_000_000;
/// How long the agent reports a dead rank, nanoseconds.
const DEAD: u64 = 3_600_000_000_000;
/// Most dead ranks that the agent remembers.
const DEAD_RANKS: usize = 64;

/// Process id on the host, and start in clock ticks since boot.
type Id = (u32, u64);

/// Reader of the counters of a host.
pub struct MpiReader {
    proc: PathBuf,
    directory: PathBuf,
    jobs: Arc<Jobs>,
    files: BTreeMap<Id, Followed>,
    totals: BTreeMap<Job, Totals>,
    /// Ranks whose processes ended without `MPI_Finalize`.
    dead: BTreeMap<Id, DeadRank>,
    /// Operations without series, of jobs that have ended.
    omitted: u64,
}

struct Followed {
    file: CounterFile,
    follower: Follower,
    job: Job,
}

/// A rank whose process ended without `MPI_Finalize`.
struct DeadRank {
    job: Job,
    rank: Straggler,
    /// Its program.
    world: u64,
    /// When the agent saw it, monotonic nanoseconds.
    since: u64,
}

/// A process at a look.
struct Look {
    pid: u32,
    counters: Counters,
    steps: Vec<Step>,
    share: Option<f64>,
    /// Neither the process nor its MPI has ended.
    is_running: bool,
}

impl MpiReader {
    /// Reads files of processes of jobs in the configured directory, as the processes see it.
    pub fn new(proc: PathBuf, config: &Collectives, jobs: Arc<Jobs>) -> Self {
        let directory = config.mpi_dir.clone();
        Self {
            proc,
            directory,
            jobs,
            files: BTreeMap::new(),
            totals: BTreeMap::new(),
            dead: BTreeMap::new(),
            omitted: 0,
        }
    }

    /// Reads what is new, and writes the series of all jobs. `now` is monotonic time, nanoseconds.
    pub fn look(&mut self, now: u64, out: &mut Batch) {
        let mut states: BTreeMap<&'static str, u64> = ["read", "limit"].map(|state| (state, 0)).into();
        let present = self.open(&mut states);
        let mut jobs: BTreeMap<Job, Vec<Look>> = BTreeMap::new();
        for (id, Followed { file, follower, job }) in &mut self.files {
            match file.read() {
                Ok(counters) => {
                    let implausible = follower.implausible;
                    let (steps, share) = follower.look(&counters, now);
                    let state = if follower.implausible > implausible { "implausible" } else { "read" };
                    *states.entry(state).or_default() += 1;
                    let is_running = present.contains(id) && !counters.ended;
                    if !present.contains(id) && !counters.ended && self.dead.len() < DEAD_RANKS {
                        self.dead.insert(*id, DeadRank::new(job, &counters, now));
                    }
                    jobs.entry(job.clone()).or_default().push(Look { pid: id.0, counters, steps, share, is_running });
                }
                Err(error) => refuse(&mut states, *id, &error),
            }
        }
        self.files.retain(|id, _| present.contains(id));
        self.forget_dead(&jobs, now);
        self.tell(&jobs, now, out);
        mpi_series::processes(out, &states);
    }

    /// Opens the files of processes that are new; returns the processes of jobs.
    fn open(&mut self, states: &mut BTreeMap<&'static str, u64>) -> HashSet<Id> {
        let mut present = HashSet::new();
        for process in job_processes(&self.proc, &self.jobs) {
            let Some(start) = start(&self.proc.join(process.pid.to_string()).join("stat")) else { continue };
            let id = (process.pid, start);
            present.insert(id);
            if self.files.contains_key(&id) {
                continue;
            }
            match self.file(&process, start) {
                Ok(Some(_)) if self.files.len() >= FILES => *states.entry("limit").or_default() += 1,
                Ok(Some(file)) => {
                    let followed = Followed { file, follower: Follower::default(), job: Some(process.job) };
                    self.files.insert(id, followed);
                }
                Ok(None) => {}
                Err(error) => refuse(states, id, &error),
            }
        }
        present
    }

    /// File of a process: in its own root, or in that of the host if that cannot be read.
    fn file(&self, process: &JobProcess, start: u64) -> Result<Option<CounterFile>, Refused> {
        let root = self.proc.join(process.pid.to_string()).join("root");
        let within = root.join(self.directory.strip_prefix("/").unwrap_or(&self.directory));
        let directory = if std::fs::read_link(&root).is_ok() { within } else { self.directory.clone() };
        CounterFile::open(&directory, process.inner, start, process.uid)
    }

    /// Forgets ranks that died long ago, or of a program that another one of the job has followed.
    fn forget_dead(&mut self, jobs: &BTreeMap<Job, Vec<Look>>, now: u64) {
        self.dead.retain(|_, dead| {
            let mut looks = jobs.get(&dead.job).into_iter().flatten().filter(|look| look.is_running);
            let follows = |look: &Look| look.counters.world != dead.world || look.counters.rank == dead.rank.rank;
            now.saturating_sub(dead.since) < DEAD && !looks.any(follows)
        });
    }

    fn tell(&mut self, jobs: &BTreeMap<Job, Vec<Look>>, now: u64, out: &mut Batch) {
        for (job, looks) in jobs {
            let totals = self.totals.entry(job.clone()).or_default();
            let is_comparable = comparable(looks);
            for look in looks {
                let rank: Arc<str> = look.counters.rank.to_string().into();
                for step in &look.steps {
                    // Of other operations, a rank with a short time is no late one.
                    let is_compared = is_comparable && look.is_running && step.all_wait && step.group == Group::World;
                    let member = if is_compared { Arc::clone(&rank) } else { Arc::from("") };
                    let key = (Arc::from(step.group.label()), Arc::clone(&step.operation), step.size);
                    let seconds = step.new.nanoseconds as f64 / 1e9;
                    totals.add_sum(key, &member, step.new.calls, seconds, step.new.bytes);
                }
            }
        }
        for dead in self.dead.values() {
            self.totals.entry(dead.job.clone()).or_default();
        }
        let (mut omitted, mut ended, none) = (0, 0, Vec::new());
        self.totals.retain(|job, totals| {
            let looks = jobs.get(job).unwrap_or(&none);
            let mut all = totals.end_window();
            *if all.is_empty() { &mut ended } else { &mut omitted } += totals.omitted;
            let running = looks.iter().filter(|look| look.is_running);
            let ranks: Vec<Rank> = running.map(|look| Rank { number: look.counters.rank, share: look.share }).collect();
            // The rank with the shortest operations is late only if it spent that time outside of MPI.
            let is_comparable = comparable(looks);
            let late = straggler(&ranks).map(|rank| rank.to_string()).filter(|_| is_comparable);
            for series in &mut all {
                series.late = series.late.take().filter(|member| Some(&*member.member) == late.as_deref());
            }
            let named = job.as_ref().map(|(key, cluster)| (key, &**cluster));
            series::executions(out, named, &all);
            let dead = self.dead.values().filter(|dead| dead.job == *job);
            let dead = dead.map(|dead| (dead.rank.rank, dead.rank.clone())).collect();
            let progress = if is_comparable { progress(looks, now) } else { Vec::new() };
            mpi_series::job(out, series::of_job(named), &MpiJob { programs: programs(looks), ranks, progress, dead });
            !all.is_empty()
        });
        self.omitted += ended;
        mpi_series::omitted(out, self.omitted + omitted);
    }
}

impl DeadRank {
    fn new(job: &Job, counters: &Counters, since: u64) -> Self {
        // Its host is the one that reports it.
        let process = Process { pid: Some(counters.pid), ..Process::default() };
        let rank = Straggler { rank: counters.rank, process, reason: Reason::State(RankState::Dead) };
        Self { job: job.clone(), rank, world: counters.world, since }
    }
}

/// Whether times of ranks may be compared: all belong to one program, each has another rank, and one thread of each calls MPI.
fn comparable(looks: &[Look]) -> bool {
    let running = || looks.iter().filter(|look| look.is_running).map(|look| &look.counters);
    let worlds: HashSet<(u64, u32)> = running().map(|counters| (counters.world, counters.size)).collect();
    let ranks: HashSet<u32> = running().map(|counters| counters.rank).collect();
    worlds.len() == 1 && ranks.len() == running().count() && running().all(|counters| !counters.several_threads)
}

/// How far each running rank is, and what it waits in.
fn progress(looks: &[Look], now: u64) -> Vec<MpiProgress> {
    let of = |Look { pid, counters, .. }: &Look| {
        let world = |operation: &Operation| {
            let [cells, _] = &operation.cells;
            cells.iter().map(|cell| cell.calls).fold(0, u64::saturating_add)
        };
        let completed = counters.operations.iter().map(world).fold(0, u64::saturating_add);
        let inside = counters.inside.as_ref().filter(|inside| inside.group == Some(Group::World));
        let spent = counters.entered.map_or(0, |entered| now.saturating_sub(entered));
        let waits = inside.filter(|inside| inside.all_wait && spent >= WAITS);
        MpiProgress {
            rank: counters.rank,
            pid: *pid,
            size: counters.size,
            entered: completed.saturating_add(inside.is_some().into()),
            waits: waits.map(|inside| (Arc::clone(&inside.operation), Duration::from_nanos(spent))),
        }
    };
    looks.iter().filter(|look| look.is_running).map(of).collect()
}

/// MPI libraries and numbers of ranks.
fn programs(looks: &[Look]) -> BTreeSet<(Arc<str>, u32)> {
    looks.iter().map(|look| (Arc::clone(&look.counters.library), look.counters.size)).take(PROGRAMS).collect()
}

fn refuse(states: &mut BTreeMap<&'static str, u64>, (pid, _): Id, why: &Refused) {
    *states.entry(why.label()).or_default() += 1;
    tracing::debug!(pid, %why, "file of MPI counters is not read");
}

/// Start of a process in clock ticks since boot: field 22, after the name, which may have blanks and parentheses.
fn start(stat: &std::path::Path) -> Option<u64> {
    let text = std::fs::read_to_string(stat).ok()?;
    text.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()
}
