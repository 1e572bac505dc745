//! Problems of an uplink as sentences, for `/healthz` and the log.

use crate::{Counters, State};

impl Counters {
    /// One sentence per current problem: the collector does not answer, samples were lost in the last ten minutes, the
    /// spool cannot be written or read, points are unaccounted for. Empty if there is none.
    pub fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        let of = self.name().map(|name| format!(" {name}")).unwrap_or_default();
        if let State::Down { since, error, refused } = self.state() {
            let secs = since.elapsed().as_secs();
            let what = if refused { "refused this agent" } else { "been away" };
            problems.push(format!("the collector{of} has {what} for {secs} s: {error}"));
        }
        if let Some(error) = self.reload_failure() {
            problems.push(format!("changed certificates or token{of} are not in use: {error}"));
        }
        if let Some((reason, points)) = self.losing() {
            problems.push(format!(
                "samples{of} were lost in the last ten minutes: {points} points since the start, reason {reason}"
            ));
        }
        let (accounts, disk) = (self.accounts(), self.disk());
        if let Some(error) = &disk.failure {
            problems.push(format!("the spool{of} cannot be written: {error}"));
        }
        if let Some(error) = &disk.stuck {
            problems.push(format!("the spool{of} cannot be read: {error}"));
        }
        if disk.held.aside > 0 {
            let parts = disk.held.aside;
            problems.push(format!(
                "unreadable parts of the spool{of} are set aside: {parts}; a later release wrote them, or the disk cannot read them; see the log"
            ));
        }
        if accounts.unaccounted > 0 {
            let points = accounts.unaccounted;
            problems.push(format!("point counts{of} are off by {points}: a bug of the agent; see its log"));
        }
        problems
    }
}
