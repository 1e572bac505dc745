//! The problems of an uplink as sentences, for `/healthz` and the log.

use crate::{Counters, State};

impl Counters {
    /// One sentence per present problem: a collector that does not answer, samples lost in the last ten minutes, a spool
    /// that cannot be written or read, accounts that do not add up. Empty when all is well.
    pub fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        let of = self.name().map(|name| format!(" {name}")).unwrap_or_default();
        if let State::Down { since, error, refused } = self.state() {
            let secs = since.elapsed().as_secs();
            let what = if refused { "refused this agent" } else { "been away" };
            problems.push(format!("the collector{of} has {what} for {secs} s: {error}"));
        }
        if let Some(error) = self.reload_failure() {
            problems.push(format!("certificates or token{of} changed and are not in force: {error}"));
        }
        if let Some((reason, points)) = self.losing() {
            problems.push(format!("samples{of} were lost in the last ten minutes: {points} points by now, {reason}"));
        }
        let (accounts, disk) = (self.accounts(), self.disk());
        if let Some(error) = &disk.failure {
            problems.push(format!("the spool{of} takes nothing: {error}"));
        }
        if let Some(error) = &disk.stuck {
            problems.push(format!("the spool{of} gives nothing of what waits there: {error}"));
        }
        if disk.held.aside > 0 {
            let parts = disk.held.aside;
            problems.push(format!(
                "parts of the spool{of} are set aside: {parts}; a later release wrote them, or the disk does not give them, see the log"
            ));
        }
        if accounts.unaccounted > 0 {
            let points = accounts.unaccounted;
            problems
                .push(format!("the accounts of samples{of} are off by {points}: an error of the agent, see its log"));
        }
        problems
    }
}
