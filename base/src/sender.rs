//! Who sends to the collector, and what each sender may keep there. A caller whose credential names no host can invent hosts,
//! so bounds by host do not hold it.

use std::collections::HashMap;
use std::sync::Arc;

/// A sender, as far as bounds tell one from another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Sender<'a> {
    /// The collector itself, or a caller that speaks for its own host only.
    Bound,
    /// A caller that may speak for any host, by a name that tells it from others.
    Unbound(&'a str),
}

/// The part of a limit that senders bound to no host may fill together: three quarters.
pub fn open_to_unbound(limit: usize) -> usize {
    limit - limit / 4
}

/// Whether a sender bound to no host may have `own` of a limit of which all have `claimed` then, where one sender may speak for
/// the whole fleet: eight times what it leaves free. One gateway has 8/9 of the limit, two have 8/17 each.
pub fn is_large_share(limit: usize, own: usize, claimed: usize) -> bool {
    own <= 8_usize.saturating_mul(limit.saturating_sub(claimed))
}

/// The part of a limit that one sender bound to no host may fill: a quarter.
fn of_one(limit: usize) -> usize {
    limit / 4
}

impl<'a> Sender<'a> {
    /// The sender with this name, or a bound one.
    pub fn of(unbound: Option<&'a str>) -> Self {
        unbound.map_or(Self::Bound, Self::Unbound)
    }

    /// Whether the limit of a table admits `new` more of a sender. Senders bound to no host may have what
    /// [`open_to_unbound`] says, and one of them a quarter of the limit. `kept` is what each sender has.
    pub fn may_keep<'b>(self, limit: usize, kept: impl Iterator<Item = (Sender<'b>, usize)>, new: usize) -> bool {
        let [mut all, mut unbound, mut own] = [0_usize; 3];
        for (sender, amount) in kept {
            all = all.saturating_add(amount);
            unbound += if sender == Sender::Bound { 0 } else { amount };
            own += if sender == self { amount } else { 0 };
        }
        new <= self.room(limit, [all, unbound, own])
    }

    /// What the limit of a table admits of a sender, of which all have `all`, senders bound to no host `unbound`, and this
    /// sender `own`.
    fn room(self, limit: usize, [all, unbound, own]: [usize; 3]) -> usize {
        let left = limit.saturating_sub(all);
        match self {
            Self::Bound => left,
            Self::Unbound(_) => {
                let open = open_to_unbound(limit).saturating_sub(unbound);
                left.min(open).min(of_one(limit).saturating_sub(own))
            }
        }
    }
}

/// What each sender keeps in a table with one limit, so that the room of a sender is known without a look at all others.
#[derive(Clone, Debug, Default)]
pub struct SenderUsage {
    by_name: HashMap<Arc<str>, usize>,
    /// What senders have that are bound to no host.
    unbound: usize,
    /// What all have.
    all: usize,
}

impl SenderUsage {
    /// How much more a sender may keep; the rule is that of [`Sender::may_keep`].
    pub fn room(&self, sender: Sender<'_>, limit: usize) -> usize {
        sender.room(limit, [self.all, self.unbound, self.of(sender)])
    }

    /// Whether a sender bound to no host has all that one of them may have.
    pub fn is_share_full(&self, sender: Sender<'_>, limit: usize) -> bool {
        sender != Sender::Bound && self.of(sender) >= of_one(limit)
    }

    /// What a sender keeps; of a bound one, what all bound ones keep.
    fn of(&self, sender: Sender<'_>) -> usize {
        match sender {
            Sender::Bound => self.all - self.unbound,
            Sender::Unbound(name) => self.by_name.get(name).copied().unwrap_or(0),
        }
    }

    /// Counts what a sender keeps now besides, more than nothing. Returns the sender's name, shared by all that it keeps; `None`
    /// if it is bound.
    pub fn add(&mut self, sender: Sender<'_>, amount: usize) -> Option<Arc<str>> {
        self.all += amount;
        let Sender::Unbound(name) = sender else { return None };
        self.unbound += amount;
        if let Some((name, own)) = self.by_name.get_key_value(name).map(|(name, own)| (name.clone(), *own)) {
            self.by_name.insert(name.clone(), own + amount);
            return Some(name);
        }
        let name: Arc<str> = name.into();
        self.by_name.insert(name.clone(), amount);
        Some(name)
    }

    /// Subtracts an amount that [`Self::add`] counted for the sender.
    pub fn remove(&mut self, sender: Sender<'_>, amount: usize) {
        self.all = self.all.saturating_sub(amount);
        let Sender::Unbound(name) = sender else { return };
        self.unbound = self.unbound.saturating_sub(amount);
        if let Some(own) = self.by_name.get_mut(name) {
            *own = own.saturating_sub(amount);
            if *own == 0 {
                self.by_name.remove(name);
            }
        }
    }

    /// What all senders have.
    pub fn all(&self) -> usize {
        self.all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn senders_leave_room_to_others() {
        let mut kept: Vec<(Sender<'_>, usize)> = Vec::new();
        let mut fill = |sender| {
            let before = kept.len();
            while Sender::may_keep(sender, 100, kept.iter().copied(), 1) {
                kept.push((sender, 1));
            }
            kept.len() - before
        };
        let filled = ["a", "a", "b", "c", "d"].map(Sender::Unbound).map(&mut fill);
        assert_eq!(filled, [25, 0, 25, 25, 0], "one has a quarter, all have three");
        assert_eq!(fill(Sender::Bound), 25);
        assert!(!Sender::Bound.may_keep(100, kept.into_iter(), 1));
    }

    #[test]
    fn usage_follows_the_same_rule() {
        let (mut usage, mut kept): (SenderUsage, Vec<(Sender<'_>, usize)>) = Default::default();
        for (name, amount) in [("a", 20), ("b", 25), ("a", 5), ("", 10), ("c", 24), ("d", 9), ("", 2)] {
            let sender = Sender::of((!name.is_empty()).then_some(name));
            let room = usage.room(sender, 100);
            assert!(Sender::may_keep(sender, 100, kept.iter().copied(), room));
            assert!(!Sender::may_keep(sender, 100, kept.iter().copied(), room + 1));
            let amount = amount.min(room);
            assert_eq!(usage.add(sender, amount).as_deref(), (!name.is_empty()).then_some(name));
            kept.push((sender, amount));
        }
        assert!(usage.is_share_full(Sender::Unbound("a"), 100) && !usage.is_share_full(Sender::Unbound("c"), 100));
        assert_eq!((usage.all(), usage.room(Sender::Unbound("d"), 100), usage.room(Sender::Bound, 100)), (87, 0, 13));
        kept.iter().for_each(|(sender, amount)| usage.remove(*sender, *amount));
        assert_eq!((usage.all(), usage.unbound, usage.by_name.len()), (0, 0, 0));
        assert_eq!(usage.room(Sender::Unbound("a"), 100), 25);
    }
}
