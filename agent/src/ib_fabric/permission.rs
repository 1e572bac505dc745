//! Whether this host may read its subnet: as the collector decides, or always where no lease is asked for.

use fabriclens_agent_mad::subnet::Subnet;
use fabriclens_agent_uplink::{Outlook, ReaderLease};
use std::time::{Duration, Instant};

/// Permission to read the counters of the subnet. `None`: always given.
#[derive(Clone, Copy, Debug)]
pub struct Permission<'a>(pub Option<&'a ReaderLease>);

impl Permission<'_> {
    /// Claims the subnet that a sweep found, known by its switches; without switches by its adapters.
    pub fn claim(self, subnet: &Subnet) {
        let Some(lease) = self.0 else { return };
        if subnet.switches().next().is_some() {
            lease.claim(subnet.switches().map(|(guid, _)| guid));
        } else {
            lease.claim(subnet.nodes.keys().copied());
        }
    }

    /// Ends the claim, so that another host takes over.
    pub fn end(self) {
        if let Some(lease) = self.0 {
            lease.claim([]);
        }
    }

    /// Whether this host may read.
    pub fn may_read(self) -> bool {
        self.outlook().is_none_or(|outlook| outlook.may_read())
    }

    /// Whether this host reads and may not any more.
    pub fn is_lost(self) -> bool {
        self.0.is_some_and(|lease| lease.is_lost(Instant::now()))
    }

    /// Sets whether this host reads.
    pub fn set_reading(self, reading: bool) {
        if let Some(lease) = self.0 {
            lease.set_reading(reading);
        }
    }

    /// Whether a collector has granted the lease to this host.
    pub fn has_lease(self) -> bool {
        self.outlook() == Some(Outlook::Held)
    }

    /// End of a pause that lasts until `until` at the longest: sooner where the permission can be lost meanwhile.
    pub fn next_check(self, until: Instant, check: Duration) -> Instant {
        if self.0.is_some() { until.min(Instant::now() + check) } else { until }
    }

    /// Why this host does not read because no collector answers; `None` otherwise.
    pub fn problem(self) -> Option<String> {
        match self.outlook()? {
            Outlook::Silent(why) => Some(format!("it is not known whether another host reads it: {why}")),
            _ => None,
        }
    }

    /// Logs an outlook that differs from the last one.
    pub fn log_change(self, last: &mut Option<Outlook>) {
        let now = self.outlook();
        let is_same = match (&now, &*last) {
            // Errors differ in their words.
            (Some(Outlook::Alone(_)), Some(Outlook::Alone(_))) => true,
            (now, last) => now == last,
        };
        if is_same {
            return;
        }
        match &now {
            Some(Outlook::Held) => tracing::info!("this host has the lease of its InfiniBand subnet and reads it"),
            Some(Outlook::Standby(holder)) if !holder.is_empty() => {
                tracing::info!(holder, "another host reads the InfiniBand subnet; this one stands by");
            }
            Some(Outlook::Alone(why)) => {
                tracing::warn!(why, "lease of the InfiniBand subnet cannot be renewed; this host reads on for now");
            }
            Some(Outlook::Unsupported) => tracing::warn!(
                "the receiver grants no leases, so this host reads its InfiniBand subnet without one; set ib_fabric.enabled on no other host of the subnet"
            ),
            Some(Outlook::Standby(_) | Outlook::Silent(_)) | None => {}
        }
        *last = now;
    }

    fn outlook(self) -> Option<Outlook> {
        self.0.map(|lease| lease.outlook(Instant::now()))
    }
}
