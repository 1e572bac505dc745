//! Reader leases: which host reads which InfiniBand subnet. Kept in memory only; a new collector learns from the agents
//! who reads.

mod table;

pub use table::{Decision, Refused};

use std::sync::Arc;
use std::time::Instant;

use fabriclens_base::Sender;
use fabriclens_reader_lease::AskRequest;
use parking_lot::Mutex;
use prometheus::{IntGaugeVec, Opts, Registry};
use table::LeaseTable;

/// The leases of all subnets and their metric. Clones share them.
#[derive(Clone)]
pub struct ReaderLeases {
    table: Arc<Mutex<LeaseTable>>,
    holders: IntGaugeVec,
}

impl ReaderLeases {
    /// Declares the metric.
    ///
    /// # Errors
    /// If the name is taken.
    pub(crate) fn new(registry: &Registry) -> Result<Self, prometheus::Error> {
        let holders = IntGaugeVec::new(
            Opts::new(
                "fabriclens_subnet_reader_candidates",
                "Agents that can read an InfiniBand subnet, the one that reads it included. `host` reads it; `subnet` is its lowest GUID of a switch.",
            ),
            &["subnet", "host"],
        )?;
        registry.register(Box::new(holders.clone()))?;
        Ok(Self { table: Arc::default(), holders })
    }

    /// Decides whether a candidate has the lease of its subnet from `now` on.
    ///
    /// # Errors
    /// [`Refused`] for a request that is not valid, and when there is no memory for more candidates.
    pub fn ask(&self, sender: Sender<'_>, request: &AskRequest, now: Instant) -> Result<Decision, Refused> {
        let decision = self.table.lock().ask(sender, request, now)?;
        if decision.moved {
            tracing::info!(
                host = request.host,
                others = decision.others,
                "host is now the reader of an InfiniBand subnet"
            );
        }
        Ok(decision)
    }

    /// Whether an agent has the lease of its subnet at `now`.
    pub fn is_held_by(&self, host: &str, agent: u64, now: Instant) -> bool {
        self.table.lock().is_held_by(host, agent, now)
    }

    /// Sets the metric to the leases at `now`.
    pub(crate) fn observe(&self, now: Instant) {
        let mut table = self.table.lock();
        self.holders.reset();
        for (subnet, host, candidates) in table.holders(now) {
            self.holders.with_label_values(&[&*subnet, host]).set(candidates);
        }
    }
}
