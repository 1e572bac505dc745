//! Series of jobs that use MPI.

use super::answer::RankProcess;
use super::series::{JobLabels, RANKS, fact, rank_processes, straggler};
use super::straggler::Rank;
use fabriclens_agent_collectives::mpi::Group;
use fabriclens_agent_collectives::progress::Straggler;
use fabriclens_agent_host::batch::Batch;
use fabriclens_catalog::metrics::collective::*;
use fabriclens_wire::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// Most dead ranks of a job that the agent reports for this host.
const DEAD: usize = 16;
/// Communicator of all ranks of a program.
const WORLD: &str = Group::World.label();

/// Programs and ranks of a job that use MPI.
pub struct MpiJob {
    /// MPI libraries, each with the number of ranks.
    pub programs: BTreeSet<(Arc<str>, u32)>,
    /// Ranks on this host.
    pub ranks: Vec<Rank>,
    /// How far they are; empty if they cannot be compared.
    pub progress: Vec<MpiProgress>,
    /// Ranks of this host that ended without `MPI_Finalize`, by their number.
    pub dead: BTreeMap<u32, Straggler>,
}

/// How far a rank is.
pub struct MpiProgress {
    /// Number in `MPI_COMM_WORLD`.
    pub rank: u32,
    /// Process id on the host.
    pub pid: u32,
    /// Number of ranks.
    pub size: u32,
    /// Operations on all ranks that it has entered.
    pub entered: u64,
    /// Operation in which it waits for a rank that has not entered, and for how long.
    pub waits: Option<(Arc<str>, Duration)>,
}

/// MPI library of a job, and what its ranks on this host do.
pub fn job(out: &mut Batch, job: JobLabels<'_>, of: &MpiJob) {
    for (library, size) in &of.programs {
        let labels = [("library", &**library), ("size", &*size.to_string())];
        fact(out, &COLLECTIVE_MPI_INFO, job, &labels, Value::Int(1));
    }
    // Of two programs of a job only the first has a rank's series.
    let shares: BTreeMap<u32, f64> =
        of.ranks.iter().rev().filter_map(|rank| Some((rank.number, rank.share?))).collect();
    for (rank, share) in shares.iter().take(RANKS) {
        fact(out, &COLLECTIVE_MPI_SHARE, job, &[("rank", &rank.to_string())], Value::Float(*share));
    }
    for one in of.progress.iter().take(RANKS) {
        let [rank, pid, size] = [one.rank, one.pid, one.size].map(|number| number.to_string());
        let labels = [("rank", &*rank), ("size", &*size)];
        let entered = [&labels[..], &[("pid", &*pid)]].concat();
        fact(out, &COLLECTIVE_MPI_ENTERED, job, &entered, Value::Int(one.entered));
        if let Some((operation, spent)) = &one.waits {
            let inside = [&labels[..], &[("operation", &**operation)]].concat();
            fact(out, &COLLECTIVE_MPI_INSIDE, job, &inside, Value::Float(spent.as_secs_f64()));
        }
    }
    let processes = of.progress.iter().map(|one| RankProcess { rank: one.rank, pid: one.pid, gpu: None });
    rank_processes(out, job, WORLD, processes);
    of.dead.values().take(DEAD).for_each(|one| straggler(out, job, WORLD, one));
}

/// The agent's own series of files of MPI counters: processes by state.
pub fn processes(out: &mut Batch, states: &BTreeMap<&'static str, u64>) {
    for (state, count) in states {
        out.fact(&COLLECTIVE_MPI_PROCESSES, &[("state", state)], Value::Int(*count));
    }
}

/// Operations of MPI without series, because there are too many.
pub fn omitted(out: &mut Batch, omitted: u64) {
    out.fact(&COLLECTIVE_MPI_OMITTED, &[], Value::Int(omitted));
}
