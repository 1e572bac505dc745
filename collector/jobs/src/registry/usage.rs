//! Accounts of the registry: the memory that each sender's reports take, and what must go to make room.

use crate::sender::{Limits, SenderClass};
use std::collections::HashMap;

/// What a run takes: senders with bytes, and whether it has ended.
pub(super) struct Charges {
    pub(super) of: Vec<(String, usize)>,
    pub(super) ended: bool,
}

/// Estimated bytes by sender, by class, and in total.
#[derive(Debug)]
pub(super) struct Usage {
    limits: Limits,
    taken: HashMap<Bound, Taken>,
}

/// Bytes of runs.
#[derive(Clone, Copy, Debug, Default)]
struct Taken {
    all: usize,
    /// Part of `all`: runs that have ended, which may be removed.
    ended: usize,
}

/// A bound that a new run would exceed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Bound {
    Sender(String),
    Class(SenderClass),
    All,
}

impl Bound {
    /// All bounds that count what a sender reports.
    fn of(sender: String) -> [Self; 3] {
        let class = SenderClass::of(&sender);
        [Self::Sender(sender), Self::Class(class), Self::All]
    }

    /// Whether removing bytes of this sender helps.
    pub(super) fn covers(&self, sender: &str) -> bool {
        match self {
            Self::Sender(own) => own == sender,
            Self::Class(class) => *class == SenderClass::of(sender),
            Self::All => true,
        }
    }

    /// Name in messages.
    pub(super) fn text(&self) -> String {
        match self {
            Self::Sender(sender) => format!("sender {sender}"),
            Self::Class(class) => class.text().to_owned(),
            Self::All => "all jobs".to_owned(),
        }
    }
}

impl Usage {
    pub(super) fn new(limits: Limits) -> Self {
        Self { limits, taken: HashMap::new() }
    }

    /// Bytes of a bound.
    pub(super) fn limit(&self, bound: &Bound) -> usize {
        match bound {
            Bound::Sender(sender) => self.limits.of_one(SenderClass::of(sender)),
            Bound::Class(class) => self.limits.of_class(*class),
            Bound::All => self.limits.all(),
        }
    }

    /// Bytes in use that a bound counts.
    fn used(&self, bound: &Bound) -> usize {
        self.taken.get(bound).map_or(0, |taken| taken.all)
    }

    /// Bytes of ended runs that a bound counts.
    pub(super) fn ended(&self, bound: &Bound) -> usize {
        self.taken.get(bound).map_or(0, |taken| taken.ended)
    }

    /// Bounds that a run would exceed in the place of the one before, each with the bytes to remove.
    pub(super) fn exceeded(&self, before: Option<Charges>, run: Charges) -> Vec<(Bound, usize)> {
        let mut wanted: HashMap<Bound, (usize, usize)> = HashMap::new();
        let both = [(before, true), (Some(run), false)];
        for (run, is_before) in both.into_iter().filter_map(|(run, is)| Some((run?, is))) {
            for (sender, bytes) in run.of {
                for bound in Bound::of(sender) {
                    let (old, new) = wanted.entry(bound).or_default();
                    *(if is_before { old } else { new }) += bytes;
                }
            }
        }
        let over = |(bound, (old, new)): (Bound, (usize, usize))| {
            let after = self.used(&bound).saturating_sub(old) + new;
            (new > old && after > self.limit(&bound)).then(|| {
                let excess = after - self.limit(&bound);
                (bound, excess)
            })
        };
        wanted.into_iter().filter_map(over).collect()
    }

    pub(super) fn add(&mut self, run: Charges) {
        for (sender, bytes) in run.of {
            for bound in Bound::of(sender) {
                let taken = self.taken.entry(bound).or_default();
                taken.all += bytes;
                taken.ended += if run.ended { bytes } else { 0 };
            }
        }
    }

    pub(super) fn remove(&mut self, run: Charges) {
        for (sender, bytes) in run.of {
            for bound in Bound::of(sender) {
                let Some(taken) = self.taken.get_mut(&bound) else { continue };
                taken.all = taken.all.saturating_sub(bytes);
                taken.ended = taken.ended.saturating_sub(if run.ended { bytes } else { 0 });
                if taken.all == 0 {
                    self.taken.remove(&bound);
                }
            }
        }
    }
}
