//! Progress of communicators over several snapshots.
//!
//! Ranks answer at slightly different times, so differences within one snapshot are normal. A rank is **behind** if it has not
//! reached now what another rank had reached at the snapshot before, at two snapshots in a row or more, for at least a period:
//! the others have then waited for it for that long, however often the job is asked.

use crate::model::{Communicator, CommunicatorId, Process, RankState, Snapshot};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Part of a period for which a rank must be behind, or without an answer: snapshots are not exactly a period apart.
const CONFIRMED: f64 = 0.8;
/// Most ranks that are named for one communicator.
const NAMED: usize = 16;

/// Progress of one operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OperationProgress {
    /// Name.
    pub name: Arc<str>,
    /// Operations launched by the rank that is furthest. Never decreases.
    pub highest: u64,
    /// Operations launched by the rank with the fewest; a rank without an answer counts as it last answered. Never decreases.
    pub lowest: u64,
}

/// Reason for which a rank is named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reason {
    /// It has launched fewer operations than others, over several snapshots.
    Behind {
        /// The operation of which it lacks most.
        operation: Arc<str>,
        /// How many fewer than the furthest rank.
        by: u64,
    },
    /// It is in this state, which it cannot work in.
    State(RankState),
}

/// A rank that holds back others, or cannot work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Straggler {
    /// Number of the rank.
    pub rank: u32,
    /// Its process.
    pub process: Process,
    /// Why it is named.
    pub reason: Reason,
}

/// State of a communicator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommunicatorStatus {
    /// Its identity.
    pub id: CommunicatorId,
    /// Number of ranks that it was created with.
    pub size: u32,
    /// Ranks that the snapshot names, by state, in the order of [`RankState::ALL`].
    pub states: [u32; RankState::ALL.len()],
    /// Operations that any rank has launched.
    pub operations: Vec<OperationProgress>,
    /// Number of ranks that are behind.
    pub behind: u32,
    /// Ranks that hold back others, or cannot work; at most four, the furthest behind first.
    pub stragglers: Vec<Straggler>,
    /// Time since any rank was first seen to have launched another operation.
    pub idle: Duration,
}

/// Compares snapshots of one job.
#[derive(Debug)]
pub struct Progress {
    of: HashMap<CommunicatorId, Tracked>,
    /// Time for which a rank must be behind, or without an answer.
    confirmed: Duration,
}

#[derive(Debug)]
struct Tracked {
    names: Vec<Arc<str>>,
    /// Highest count by operation, and the same at the snapshot before.
    highest: Vec<u64>,
    former: Vec<u64>,
    lowest: Vec<u64>,
    ranks: HashMap<u32, Seen>,
    advanced: Instant,
}

#[derive(Debug, Default)]
struct Seen {
    counts: Box<[Option<u64>]>,
    /// Since when it is behind, or without an answer.
    behind: Option<Instant>,
    silent: Option<Instant>,
}

impl Progress {
    /// Nothing is known yet; the job is asked each `period`, or more often.
    pub fn new(period: Duration) -> Self {
        Self { of: HashMap::new(), confirmed: period.mul_f64(CONFIRMED) }
    }

    /// Takes a snapshot into account; returns the state of each of its communicators. Communicators that are not in it are
    /// forgotten.
    pub fn observe(&mut self, snapshot: &Snapshot, now: Instant) -> Vec<CommunicatorStatus> {
        let present: HashSet<CommunicatorId> = snapshot.communicators.iter().map(|c| c.id).collect();
        self.of.retain(|id, _| present.contains(id));
        let mut all = Vec::with_capacity(snapshot.communicators.len());
        for communicator in &snapshot.communicators {
            let tracked = self.of.entry(communicator.id).or_insert_with(|| Tracked::new(now));
            all.push(tracked.observe(communicator, now, self.confirmed));
        }
        all
    }
}

impl Tracked {
    fn new(now: Instant) -> Self {
        let (highest, former, lowest) = (Vec::new(), Vec::new(), Vec::new());
        Self { names: Vec::new(), highest, former, lowest, ranks: HashMap::new(), advanced: now }
    }

    fn observe(&mut self, communicator: &Communicator, now: Instant, confirmed: Duration) -> CommunicatorStatus {
        let is_confirmed =
            |since: Option<Instant>| since.is_some_and(|since| now.saturating_duration_since(since) >= confirmed);
        let positions: Vec<usize> = communicator.operations.iter().map(|name| self.position(name)).collect();
        self.former.clone_from(&self.highest);
        let mut states = [0; RankState::ALL.len()];
        let mut lowest: Vec<Option<u64>> = vec![None; self.names.len()];
        let mut advanced = false;
        let mut stragglers = Vec::new();
        for rank in &communicator.ranks {
            states[rank.state as usize] += 1;
            let mut counts: Box<[Option<u64>]> = vec![None; self.names.len()].into();
            for (&at, count) in positions.iter().zip(&rank.counts) {
                counts[at] = *count;
            }
            let mut unnamed = Seen::default();
            let seen = rank.number.map_or(&mut unnamed, |number| self.ranks.entry(number).or_default());
            for (at, had) in seen.counts.iter().enumerate() {
                // A rank without an answer counts as it last answered.
                counts[at] = counts[at].or(*had);
            }
            let mut lacks = None;
            for (at, count) in counts.iter().enumerate().filter_map(|(at, count)| Some((at, (*count)?))) {
                advanced |=
                    count > self.highest[at] || seen.counts.get(at).copied().flatten().is_some_and(|had| count > had);
                self.highest[at] = self.highest[at].max(count);
                lowest[at] = Some(lowest[at].map_or(count, |lowest: u64| lowest.min(count)));
                if count < self.former[at] {
                    let by = self.former[at] - count;
                    lacks = lacks.filter(|(_, most)| *most >= by).or(Some((at, by)));
                }
            }
            seen.counts = counts;
            seen.behind = lacks.and(seen.behind.or(Some(now)));
            let silent = matches!(rank.state, RankState::Unresponsive | RankState::WithoutCommunicator);
            seen.silent = if silent { seen.silent.or(Some(now)) } else { None };
            let Some(number) = rank.number else { continue };
            let stopped = matches!(rank.state, RankState::Dead | RankState::Failed | RankState::Aborted);
            if stopped || is_confirmed(seen.silent) {
                stragglers.push((u64::MAX, number, &rank.process, Err(rank.state)));
            } else if let Some((at, by)) = lacks.filter(|_| is_confirmed(seen.behind)) {
                stragglers.push((by, number, &rank.process, Ok(at)));
            }
        }
        let present: HashSet<u32> = communicator.ranks.iter().filter_map(|rank| rank.number).collect();
        self.ranks.retain(|number, _| present.contains(number));
        if advanced {
            self.advanced = now;
        }
        for (kept, lowest) in self.lowest.iter_mut().zip(lowest) {
            *kept = (*kept).max(lowest.unwrap_or(0));
        }
        let behind = stragglers.iter().filter(|(.., reason)| reason.is_ok()).count();
        CommunicatorStatus {
            id: communicator.id,
            size: communicator.size,
            states,
            operations: self.operations(),
            behind: u32::try_from(behind).unwrap_or(u32::MAX),
            stragglers: self.named(stragglers),
            idle: now.saturating_duration_since(self.advanced),
        }
    }

    /// Position of an operation; new ones are added.
    fn position(&mut self, name: &Arc<str>) -> usize {
        if let Some(at) = self.names.iter().position(|known| known == name) {
            return at;
        }
        self.names.push(Arc::clone(name));
        self.highest.push(0);
        self.lowest.push(0);
        self.names.len() - 1
    }

    fn operations(&self) -> Vec<OperationProgress> {
        let counts = self.highest.iter().zip(&self.lowest);
        let all = self.names.iter().zip(counts).filter(|(_, (highest, _))| **highest > 0);
        all.map(|(name, (&highest, &lowest))| OperationProgress { name: Arc::clone(name), highest, lowest }).collect()
    }

    /// The stragglers that are named: those that cannot work, then those that are furthest behind.
    fn named(&self, mut all: Vec<(u64, u32, &Process, Result<usize, RankState>)>) -> Vec<Straggler> {
        all.sort_by_key(|(by, number, ..)| (std::cmp::Reverse(*by), *number));
        all.truncate(NAMED);
        let count =
            |rank: u32, at: usize| self.ranks.get(&rank).and_then(|seen| seen.counts.get(at).copied().flatten());
        let reason = |rank: u32, reason: Result<usize, RankState>| match reason {
            Ok(at) => Reason::Behind {
                operation: Arc::clone(&self.names[at]),
                by: self.highest[at].saturating_sub(count(rank, at).unwrap_or(0)),
            },
            Err(state) => Reason::State(state),
        };
        let one = |(_, rank, process, why): (u64, u32, &Process, Result<usize, RankState>)| Straggler {
            rank,
            process: process.clone(),
            reason: reason(rank, why),
        };
        all.into_iter().map(one).collect()
    }
}
