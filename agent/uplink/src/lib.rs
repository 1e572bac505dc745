//! Uplink of the agent: drains the ring, encodes sections, sends them by OTLP/gRPC, retries, and counts every point.
//!
//! `main` runs it on the async runtime. Memory is bounded by the ring plus one batch: what cannot be delivered goes to
//! the spool; without a spool the ring overwrites its oldest sections. Balance of points: taken from the ring + found
//! in the spool = acknowledged + rejected + dropped by reason + in the spool + in flight.
//!
//! ```
//! use fabriclens_agent_uplink::ring::{Item, Ring};
//! use std::sync::Arc;
//!
//! #[derive(Clone, Debug, PartialEq)]
//! struct Sample(u64);
//!
//! impl Item for Sample {
//!     fn is_urgent(&self) -> bool {
//!         false
//!     }
//!     fn points(&self) -> u64 {
//!         1
//!     }
//! }
//!
//! let ring = Arc::new(Ring::new(2, 1));
//! let reader = ring.reader(0);
//! let dropped: usize = (1..=3).map(|n| ring.push(Sample(n))).sum();
//! assert_eq!((dropped, reader.take(8)), (1, vec![Sample(2), Sample(3)]));
//! ```

mod backfill;
mod backoff;
mod channel;
mod codec;
pub mod config;
mod counters;
mod forwarding;
mod frame;
pub mod fuzzing;
mod lease;
mod live;
mod probe_plan;
mod problems;
mod random_number;
mod response;
pub mod ring;
pub mod spool;
mod spool_task;
mod spread;
mod targets;
mod troubled_jobs;

pub use channel::ConnectError;
pub use counters::{Counters, PointBalance, SpoolStatus, State};
pub use forwarding::{ForwardingTask, SharedTables};
pub use lease::{LeaseTask, Outlook, ReaderLease};
pub use probe_plan::{Finding, Part, Plan, PlanState, PlanStats, PlanTask, ProbePlans, ReportTask};
pub use targets::authority;
pub use troubled_jobs::TroubledJobs;

use crate::config::{Collector, Spool as SpoolConfig};
use crate::ring::Reader;
use backfill::Backfill;
use backoff::FIRST;
use fabriclens_agent_host::clock::Clock;
use fabriclens_wire::encode::Encoder;
use fabriclens_wire::{Resource, Section};
use live::{Extra, Live};
use spool_task::SpoolTask;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;
use targets::Targets;
use tokio::sync::watch;

/// Uplink to one collector, or to the first of several that answers.
#[derive(Debug)]
pub struct Uplink {
    live: Live,
    backfill: Option<Backfill>,
}

impl Uplink {
    /// Creates an uplink without connecting. `name` is a label of its metrics if the agent has several uplinks.
    ///
    /// # Errors
    /// [`ConnectError`] for a URL or PEM file that cannot be used.
    pub fn new(config: Collector, host: &str, ring: Reader<Section>, name: Option<&str>) -> Result<Self, ConnectError> {
        let targets = Targets::new(&config)?;
        let (ring, clock) = (Arc::new(ring), Arc::new(Clock::new()));
        let live = Live {
            counters: Arc::new(Counters::new(Arc::clone(&ring), clock.now(), name, targets.active())),
            resource: Arc::new(Resource { host: host.into(), device: None, port: None }),
            config,
            ring,
            clock,
            targets,
            spool_task: None,
            extra: None,
            encoder: Encoder::default(),
            body: Vec::new(),
            per_section: live::SECTION,
            pause: FIRST,
            not_before: Instant::now(),
            keeps_from: Instant::now(),
        };
        Ok(Self { live, backfill: None })
    }

    /// Spools undeliverable requests in `dir`, and delivers them later. A spool that cannot be opened is retried.
    #[must_use]
    pub fn with_spool(mut self, dir: &Path, config: &SpoolConfig) -> Self {
        let live = &mut self.live;
        let spool_task = SpoolTask::new(dir, config.limits, &live.counters, &live.clock);
        self.backfill = Some(Backfill {
            spool_task: spool_task.clone(),
            counters: Arc::clone(&live.counters),
            targets: live.targets.share(),
            timeout: live.config.timeout,
            spool: config.clone(),
            plain: false,
        });
        live.spool_task = Some((spool_task, config.after));
        self
    }

    /// Adds a callback whose sections are sent with each request: counters of parts without a thread.
    #[must_use]
    pub fn with_extra(mut self, make: impl Fn(&Arc<Resource>, u64) -> Vec<Section> + Send + Sync + 'static) -> Self {
        self.live.extra = Some(Extra(Box::new(make)));
        self
    }

    /// Notes which jobs the collectors say are in trouble. To be called before [`Self::with_spool`].
    #[must_use]
    pub fn with_troubled_jobs(mut self, jobs: &Arc<TroubledJobs>) -> Self {
        self.live.targets.note_troubled_jobs(jobs);
        self
    }

    /// Counters, shared with `/metrics` and `/healthz`.
    pub fn counters(&self) -> Arc<Counters> {
        Arc::clone(&self.live.counters)
    }

    /// Sends until `stop` turns true, then sends queued samples for at most the configured drain time, and spools the
    /// rest.
    pub async fn run(self, stop: watch::Receiver<bool>) {
        let Self { mut live, backfill } = self;
        let prefer = live.targets.share().prefer_earlier(live.config.steady, live.config.timeout);
        let backfill = async {
            match backfill {
                Some(backfill) => backfill.run().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = live.run(stop) => {}
            () = backfill => {}
            () = prefer => {}
        }
        if let Some((spool_task, _)) = &live.spool_task {
            spool_task.seal().await;
        }
    }
}
