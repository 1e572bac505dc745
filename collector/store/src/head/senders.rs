//! How many series each sender may add. A sender whose credential names no host can invent hosts, so the bound of one
//! host does not hold it: [`is_large_share`] does. What a sender had in the previous generation stays reserved for it:
//! a generation may start without series, and other senders could take all room before this one sends again.

use crate::options::SeriesLimits;
use fabriclens_base::{Sender, is_large_share, open_to_unbound};
use foldhash::HashMap;
use std::ops::AddAssign;

/// Key of a sender's account. All bound senders share one, since the bounds of hosts hold them.
fn key<'a>(sender: Sender<'a>) -> &'a str {
    match sender {
        Sender::Bound => "",
        Sender::Unbound(name) => name,
    }
}

/// Series and their estimated memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amount {
    /// Number of series.
    pub series: usize,
    /// Their memory without rows.
    pub bytes: usize,
}

impl Amount {
    /// One series.
    pub fn one(bytes: usize) -> Self {
        Self { series: 1, bytes }
    }

    fn beyond(self, other: Self) -> Self {
        Self { series: self.series.saturating_sub(other.series), bytes: self.bytes.saturating_sub(other.bytes) }
    }
}

impl AddAssign for Amount {
    fn add_assign(&mut self, other: Self) {
        self.series += other.series;
        self.bytes += other.bytes;
    }
}

/// The limit that a sender has reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exceeded {
    /// `ingest.series`.
    Series,
    /// Memory for series.
    Bytes,
}

/// What a sender has in this generation, and what it had in the previous one.
#[derive(Clone, Copy, Default)]
struct Account {
    used: Amount,
    reserved: Amount,
}

/// Accounts of all senders.
#[derive(Clone, Default)]
pub struct Senders {
    accounts: HashMap<Box<str>, Account>,
    /// What is reserved and not used, of all together.
    idle: Amount,
}

impl Senders {
    /// Counts a new series of a sender.
    pub fn count(&mut self, sender: Sender<'_>, one: Amount) {
        if !self.accounts.contains_key(key(sender)) {
            self.accounts.insert(key(sender).into(), Account::default());
        }
        let Some(account) = self.accounts.get_mut(key(sender)) else { return };
        self.idle = self.idle.beyond(account.reserved.beyond(account.used));
        account.used += one;
        self.idle += account.reserved.beyond(account.used);
    }

    /// Whether a sender may add `new` to the series of all, which are `all` before; they include those of this request
    /// that are not counted yet, `pending`.
    pub fn check(
        &self,
        limits: &SeriesLimits,
        sender: Sender<'_>,
        all: Amount,
        pending: Amount,
        new: Amount,
    ) -> Result<(), Exceeded> {
        let Sender::Unbound(name) = sender else { return Ok(()) };
        let account = self.accounts.get(name).copied().unwrap_or_default();
        let idle = self.idle.beyond(account.reserved.beyond(account.used));
        let mut own = account.used;
        own += pending;
        own += new;
        let mut claimed = idle;
        claimed += all;
        claimed += new;
        let may = |limit, own, reserved, claimed| own <= reserved || is_large_share(open(limits, limit), own, claimed);
        if !may(limits.all, own.series, account.reserved.series, claimed.series) {
            return Err(Exceeded::Series);
        }
        if !may(limits.memory, own.bytes, account.reserved.bytes, claimed.bytes) {
            return Err(Exceeded::Bytes);
        }
        Ok(())
    }

    /// For a next generation with the same series, or without any: what each sender has now is reserved for it.
    pub fn successor(&self, keeps_series: bool) -> Self {
        let mut next = Self::default();
        for (name, account) in self.accounts.iter().filter(|(_, account)| account.used != Amount::default()) {
            let used = if keeps_series { account.used } else { Amount::default() };
            next.idle += account.used.beyond(used);
            next.accounts.insert(name.clone(), Account { used, reserved: account.used });
        }
        next
    }
}

/// The part of a limit that senders may fill that are bound to no host.
pub fn open(limits: &SeriesLimits, limit: usize) -> usize {
    if limits.keep_for_bound { open_to_unbound(limit) } else { limit }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: usize = 900;

    fn limits(keep_for_bound: bool) -> SeriesLimits {
        SeriesLimits { all: LIMIT, keep_for_bound, ..SeriesLimits::default() }
    }

    /// Adds series until the sender is refused; returns how many.
    fn fill(senders: &mut Senders, all: &mut usize, sender: Sender<'_>, limits: &SeriesLimits) -> usize {
        let before = *all;
        while *all < limits.all {
            let taken = Amount { series: *all, bytes: 0 };
            if senders.check(limits, sender, taken, Amount::default(), Amount::one(0)).is_err() {
                break;
            }
            senders.count(sender, Amount::one(0));
            *all += 1;
        }
        *all - before
    }

    #[test]
    fn a_sender_leaves_room_to_others() {
        let (mut senders, mut all) = (Senders::default(), 0);
        assert_eq!(fill(&mut senders, &mut all, Sender::Unbound("a"), &limits(false)), 800);
        assert_eq!(fill(&mut senders, &mut all, Sender::Unbound("b"), &limits(false)), 88);
        assert_eq!(fill(&mut senders, &mut all, Sender::Bound, &limits(false)), 12, "all that is left");
    }

    #[test]
    fn a_quarter_is_kept_for_senders_that_are_bound_to_hosts() {
        let (mut senders, mut all) = (Senders::default(), 0);
        let many = (0..100).map(|n| fill(&mut senders, &mut all, Sender::Unbound(&n.to_string()), &limits(true)));
        assert_eq!(many.sum::<usize>(), LIMIT - LIMIT / 4 - 1);
        assert_eq!(fill(&mut senders, &mut all, Sender::Bound, &limits(true)), LIMIT / 4 + 1);
    }

    #[test]
    fn who_was_there_first_keeps_its_place() {
        let (mut senders, mut all) = (Senders::default(), 0);
        let send = |senders: &mut Senders, sender, n| (0..n).for_each(|_| senders.count(sender, Amount::one(0)));
        send(&mut senders, Sender::Unbound("agent"), 300);
        send(&mut senders, Sender::Bound, 300);
        send(&mut senders, Sender::Unbound("gone"), 100);
        let mut senders = senders.successor(true).successor(false);
        let late = fill(&mut senders, &mut all, Sender::Unbound("late"), &limits(false));
        assert_eq!(late, 177, "8/9 of the 200 that nobody had");
        assert_eq!(fill(&mut senders, &mut all, Sender::Unbound("agent"), &limits(false)), 300);
        assert_eq!(fill(&mut senders, &mut all, Sender::Unbound("agent"), &limits(false)), 0, "no more than it had");
        let next = senders.successor(true);
        assert!(!next.accounts.contains_key("gone"), "a generation later its place is free");
        assert_eq!(next.idle, Amount::default());
    }
}
