//! Status in text form, of NCCL before 2.28. It names only communicators with something to tell, and of those only ranks that
//! differ from most; the others are counted.
//!
//! The sections are a table of groups of communicators, `Errors` and `Warnings`; paragraphs of both begin with the place of a
//! communicator in the table, its hash and the kind of problem: `#0-0 (cf264af53edbe986) INCOMPLETE`.

use super::input::{Input, refusal};
use super::json::{hexadecimal, is_operation};
use super::{Limits, RasError};
use crate::model::{Communicator, CommunicatorId, Process, Rank, RankState, Snapshot};
use std::collections::HashMap;
use std::io::Read;
use std::sync::Arc;

/// Most groups of the table, and processes of the lists of dead and missing ones.
const ROWS: usize = 10_000;

/// Parses a status.
pub fn snapshot<R: Read>(input: &mut Input<R>, limits: &Limits) -> Result<Snapshot, RasError> {
    let mut text = Text::new(limits);
    while let Some(line) = input.line()? {
        if let Some(refused) = refusal(&line).filter(|_| !text.table) {
            return Err(refused);
        }
        text.line(&line);
    }
    text.finish()
}

/// What the lines that follow describe.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Within {
    Elsewhere,
    /// Rows of the table of groups.
    Groups,
    /// Processes that the library considers dead, or that did not answer.
    Processes(RankState),
    /// A communicator (by position), its ranks without an answer.
    Missing(usize),
    /// A communicator whose ranks have errors.
    Failed(usize),
    /// A communicator whose ranks differ.
    Different(usize),
}

/// What the ranks listed next have in common.
#[derive(Clone, Copy)]
enum Common {
    Nothing,
    /// Launched so many of the operation at this position.
    Count(usize, u64),
    /// Are in this state.
    State(RankState),
}

struct Text<'a> {
    limits: &'a Limits,
    found: Snapshot,
    /// Size and state by group.
    groups: HashMap<u32, (u32, RankState)>,
    /// By host and process id; a process may have several GPUs.
    processes: HashMap<(Arc<str>, Option<u32>), RankState>,
    within: Within,
    /// Communicator whose differing ranks were described last: an empty line stands between two of its operations.
    different: Option<usize>,
    common: Common,
    /// Ranks that share [`Text::common`] and have not been named.
    counted: u64,
    ranks: usize,
    /// Communicators of the table, whether it was seen, and whether the last section was.
    total: u64,
    table: bool,
    ended: bool,
}

impl<'a> Text<'a> {
    fn new(limits: &'a Limits) -> Self {
        Self {
            limits,
            found: Snapshot::default(),
            groups: HashMap::new(),
            processes: HashMap::new(),
            within: Within::Elsewhere,
            different: None,
            common: Common::Nothing,
            counted: 0,
            ranks: 0,
            total: 0,
            table: false,
            ended: false,
        }
    }

    fn line(&mut self, line: &str) {
        let words: Vec<&str> = line.split_whitespace().collect();
        match *words {
            [] if self.within != Within::Groups => {
                self.flush();
                self.within = Within::Elsewhere;
            }
            ["NCCL", "version", version, ..] => self.found.version = version.into(),
            ["Group", "Comms", ..] => (self.within, self.table) = (Within::Groups, true),
            ["No", "communicator", "data", ..] => self.table = true,
            ["Errors"] => (self.within, self.different) = (Within::Elsewhere, None),
            ["Warnings"] => (self.within, self.different, self.ended) = (Within::Elsewhere, None, true),
            ["INCOMPLETE"] => self.within = Within::Processes(RankState::Unresponsive),
            ["DEAD"] => self.within = Within::Processes(RankState::Dead),
            ["Encountered", count, "communication", ..] => self.found.timeouts = count.parse().unwrap_or(0),
            [place, hash, kind] if place.starts_with('#') => self.paragraph(place, hash, kind),
            ["Communicator", "ranks", "have", "different", ..] => {
                self.within = self.different.map_or(self.within, Within::Different);
                self.detail(line, &words);
            }
            _ => self.detail(line, &words),
        }
    }

    /// Begin of a paragraph about one communicator.
    fn paragraph(&mut self, place: &str, hash: &str, kind: &str) {
        self.flush();
        (self.within, self.different) = (Within::Elsewhere, None);
        let group = place.trim_start_matches('#').split('-').next().and_then(|group| group.parse().ok());
        let Some(hash) = hexadecimal(hash.trim_matches(['(', ')'])) else { return };
        let id = CommunicatorId { hash, secondary: 0 };
        let known = self.found.communicators.iter().position(|known| known.id == id);
        let at = match known {
            Some(at) => at,
            None if self.found.communicators.len() >= self.limits.communicators => {
                self.found.communicators_omitted += 1;
                return;
            }
            None => {
                let size = group.and_then(|group: u32| self.groups.get(&group)).map_or(0, |(size, _)| *size);
                self.found.communicators.push(Communicator { id, size, operations: Vec::new(), ranks: Vec::new() });
                self.found.communicators.len() - 1
            }
        };
        self.within = match kind {
            "INCOMPLETE" => Within::Missing(at),
            "ERROR" => Within::Failed(at),
            "MISMATCH" => Within::Different(at),
            _ => Within::Elsewhere,
        };
        self.different = (kind == "MISMATCH").then_some(at);
    }

    fn detail(&mut self, line: &str, words: &[&str]) {
        match (self.within, words) {
            (Within::Groups, [group, comms, _, _, size, _, state, ..]) => {
                let row = (group.parse(), comms.parse::<u64>(), size.parse());
                if let (Ok(group), Ok(comms), Ok(size)) = row
                    && self.groups.len() < ROWS
                {
                    self.groups.insert(group, (size, state_named(state).unwrap_or(RankState::Running)));
                    self.total = self.total.saturating_add(comms);
                }
            }
            (Within::Processes(state), ["Process", ..]) => {
                if let Some(process) = process(line).filter(|_| self.processes.len() < ROWS) {
                    self.processes.insert((process.host, process.pid), state);
                }
            }
            // Up to NCCL 2.26: `The missing rank: 21`, `The missing ranks: 1,2`.
            (Within::Missing(at), ["The", "missing", "rank:" | "ranks:", numbers @ ..]) => {
                for number in numbers.iter().flat_map(|numbers| numbers.split(',')).filter_map(|n| n.parse().ok()) {
                    self.rank(at, Some(number), Process::default(), RankState::Unresponsive);
                }
            }
            (Within::Missing(at), ["Rank", number, ..]) => {
                let process = process(line).unwrap_or_default();
                self.rank(at, number.parse().ok(), process, RankState::Unresponsive);
            }
            (Within::Failed(at), ["Rank", number, ..]) => {
                self.rank(at, number.parse().ok(), process(line).unwrap_or_default(), RankState::Failed);
            }
            (Within::Different(at), _) => self.difference(at, line, words),
            _ => {}
        }
    }

    /// A line of a paragraph `MISMATCH`.
    fn difference(&mut self, at: usize, line: &str, words: &[&str]) {
        match words {
            // NCCL 2.26 and later name the operation; before, counts are of all operations together.
            ["Communicator", "ranks", "have", "different", rest @ ..] => {
                self.flush();
                let name = match rest {
                    ["status"] => return,
                    [name, "operation", "counts"] if *name != "collective" && is_operation(name) => *name,
                    _ => "all",
                };
                let operations = &mut self.found.communicators[at].operations;
                if !operations.iter().any(|known| **known == *name) {
                    operations.push(Arc::from(name));
                }
            }
            [count, "ranks", "have", "launched", .., operation] => self.begin(at, count, operation.parse().ok()),
            [count, "ranks", "have", "not", "launched", ..] => self.begin(at, count, Some(0)),
            [count, "ranks", "have", "status", state] => {
                self.flush();
                self.counted = count.parse().unwrap_or(0);
                self.common = state_named(state).map_or(Common::Nothing, Common::State);
            }
            ["Rank", number, rest @ ..] => {
                let own = match rest {
                    ["has", "launched", "up", "to", "operation", count, ..] => count.parse().ok(),
                    ["has", "not", "launched", ..] => Some(0),
                    ["has", "status", state, ..] => {
                        let state = state_named(state).unwrap_or(RankState::Running);
                        self.rank(at, number.parse().ok(), process(line).unwrap_or_default(), state);
                        return;
                    }
                    _ => None,
                };
                self.named(at, number.parse().ok(), process(line).unwrap_or_default(), own);
            }
            _ => {}
        }
    }

    /// So many ranks have launched so many operations; the lines that follow may name them.
    fn begin(&mut self, at: usize, count: &str, launched: Option<u64>) {
        self.flush();
        self.counted = count.parse().unwrap_or(0);
        let operation = self.found.communicators[at].operations.len().checked_sub(1);
        self.common = launched.zip(operation).map_or(Common::Nothing, |(count, at)| Common::Count(at, count));
    }

    /// A rank with its own count, or with what the ranks named now have in common.
    fn named(&mut self, at: usize, number: Option<u32>, process: Process, own: Option<u64>) {
        let operation = self.found.communicators[at].operations.len().checked_sub(1);
        let (count, state) = match (own, self.common) {
            (Some(own), _) => (operation.map(|at| (at, own)), RankState::Running),
            (None, Common::Count(operation, count)) => (Some((operation, count)), RankState::Running),
            (None, Common::State(state)) => (None, state),
            (None, Common::Nothing) => return,
        };
        if own.is_none() {
            self.counted = self.counted.saturating_sub(1);
        }
        if let Some(rank) = self.rank(at, number, process, state)
            && let Some((operation, count)) = count
        {
            set(rank, operation, count);
        }
    }

    /// Adds ranks that were only counted.
    fn flush(&mut self) {
        let (Within::Different(at), counted) = (self.within, std::mem::take(&mut self.counted)) else {
            self.common = Common::Nothing;
            return;
        };
        if let Common::Count(operation, count) = self.common {
            // Ranks of equal count need no entry each: two stand for any number.
            let number = usize::try_from(counted).unwrap_or(usize::MAX).min(2);
            for _ in 0..number {
                if let Some(rank) = self.rank(at, None, Process::default(), RankState::Running) {
                    set(rank, operation, count);
                }
            }
        }
        self.common = Common::Nothing;
    }

    /// The rank of this number, added if it is new; `None` beyond the limit.
    fn rank(&mut self, at: usize, number: Option<u32>, process: Process, state: RankState) -> Option<&mut Rank> {
        let ranks = &mut self.found.communicators[at].ranks;
        let known = ranks.iter().position(|rank| number.is_some() && rank.number == number);
        if let Some(known) = known {
            if state != RankState::Running {
                ranks[known].state = state;
            }
            return ranks.get_mut(known);
        }
        if self.ranks >= self.limits.ranks {
            self.found.ranks_omitted += 1;
            return None;
        }
        self.ranks += 1;
        ranks.push(Rank { number, process, state, counts: Box::default() });
        ranks.last_mut()
    }

    fn finish(mut self) -> Result<Snapshot, RasError> {
        self.flush();
        if !self.table {
            return Err(RasError::Malformed("it has no table of communicators"));
        }
        // All versions write the section, also if it is empty; only `No communicator data collected!` ends before it.
        if !self.ended && self.total > 0 {
            return Err(RasError::Cut);
        }
        let only_dead = !self.processes.is_empty() && self.processes.values().all(|state| *state == RankState::Dead);
        for rank in self.found.communicators.iter_mut().flat_map(|communicator| &mut communicator.ranks) {
            let dead = match self.processes.get(&(Arc::clone(&rank.process.host), rank.process.pid)) {
                Some(state) => *state == RankState::Dead,
                None => only_dead,
            };
            if rank.state == RankState::Unresponsive && dead {
                rank.state = RankState::Dead;
            }
        }
        self.found.unnamed = self.total.saturating_sub(self.found.communicators.len() as u64);
        Ok(self.found)
    }
}

fn set(rank: &mut Rank, operation: usize, count: u64) {
    let mut counts = std::mem::take(&mut rank.counts).into_vec();
    if counts.len() <= operation {
        counts.resize(operation + 1, None);
    }
    counts[operation] = Some(count);
    rank.counts = counts.into();
}

fn state_named(name: &str) -> Option<RankState> {
    match name {
        "INIT" => Some(RankState::Initializing),
        "RUNNING" => Some(RankState::Running),
        "FINALIZE" => Some(RankState::Finalizing),
        "ABORT" => Some(RankState::Aborted),
        // `UNKNOWN` before NCCL 2.26.
        "NOCOMM" | "UNKNOWN" => Some(RankState::WithoutCommunicator),
        _ => None,
    }
}

/// Process of `Rank 2 -- GPU 2 managed by process 483074 on node 172.16.64.210`, and of
/// `Process 3487984 on node 172.16.64.213 managing GPU 5`. A GPU with another NVML index is `0 (NVML 4)`.
fn process(line: &str) -> Option<Process> {
    let after = |word: &str| line.split_once(word).and_then(|(_, rest)| rest.split_whitespace().next());
    let number = |word: &str| {
        after(word).map(|text| text.trim_end_matches(|c: char| !c.is_ascii_digit())).and_then(|text| text.parse().ok())
    };
    // `Remote process error` may stand before it.
    let pid = number("by process ").or_else(|| number("Process "));
    let host = after("on node ")?;
    Some(Process { host: host.into(), pid, gpu: number("(NVML ").or_else(|| number("GPU ")) })
}
