//! The way to the collector: drains the ring, encodes, sends by OTLP/gRPC, tries again, counts everything.
//!
//! `main` runs it on the async runtime. Its memory is the ring plus one batch, whoever is away and for how long: what
//! cannot be delivered goes to the spool, and where there is none the ring overwrites its oldest sections. Points are
//! accounted for: taken from the ring and found in the spool = acknowledged + rejected + dropped by reason + in the
//! spool + in flight.

mod backfill;
mod channel;
mod codec;
pub mod config;
mod counters;
mod frame;
pub mod fuzzing;
mod live;
mod problems;
mod response;
pub mod ring;
pub mod spool;
mod spool_task;
mod targets;

pub use channel::ConnectError;
pub use counters::{Accounts, Counters, Disk, State};
pub use targets::authority;

use crate::config::{Collector, Spool as SpoolConfig};
use crate::ring::Reader;
use backfill::Backfill;
use fabriclens_agent_host::clock::Clock;
use fabriclens_wire::encode::Encoder;
use fabriclens_wire::{Resource, Section};
use live::Live;
use spool_task::Keeper;
use std::hash::{BuildHasher as _, RandomState};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use targets::Targets;
use tokio::sync::watch;

/// First pause before trying again; doubles up to [`LONGEST`].
const FIRST: Duration = Duration::from_millis(100);
/// Longest pause of our own making: short, so that a collector that is back is found soon.
const LONGEST: Duration = Duration::from_secs(5);
/// Longest pause that a collector may ask for.
const ASKED: Duration = Duration::from_secs(300);

/// Sends sections to one collector, or to the first of several that answers.
#[derive(Debug)]
pub struct Uplink {
    live: Live,
    backfill: Option<Backfill>,
}

/// Makes sections of other parts of the agent at each flush.
struct Extra(Box<MakeSections>);

type MakeSections = dyn Fn(&Arc<Resource>, u64) -> Vec<Section> + Send + Sync;

impl std::fmt::Debug for Extra {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Extra")
    }
}

impl Uplink {
    /// Prepares the way; no connection is made yet, and none is needed for a start. `name` tells its metrics from those
    /// of another uplink of this agent, where there is one.
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
            keeper: None,
            extra: None,
            encoder: Encoder::default(),
            body: Vec::new(),
            pause: FIRST,
            not_before: Instant::now(),
            keeps_from: Instant::now(),
        };
        Ok(Self { live, backfill: None })
    }

    /// Keeps in the spool in `dir` what cannot be delivered, and delivers what is in it. One that cannot be opened is tried
    /// again and again.
    #[must_use]
    pub fn with_spool(mut self, dir: &Path, config: &SpoolConfig) -> Self {
        let live = &mut self.live;
        let keeper = Keeper::new(dir, config.limits, &live.counters, &live.clock);
        self.backfill = Some(Backfill {
            keeper: keeper.clone(),
            counters: Arc::clone(&live.counters),
            targets: live.targets.share(),
            timeout: live.config.timeout,
            spool: config.clone(),
            plain: false,
        });
        live.keeper = Some((keeper, config.after));
        self
    }

    /// Adds sections to each request: counts of parts that have no thread of their own.
    #[must_use]
    pub fn with_extra(mut self, make: impl Fn(&Arc<Resource>, u64) -> Vec<Section> + Send + Sync + 'static) -> Self {
        self.live.extra = Some(Extra(Box::new(make)));
        self
    }

    /// What it counts; shared with `/metrics` and `/healthz`.
    pub fn counters(&self) -> Arc<Counters> {
        Arc::clone(&self.live.counters)
    }

    /// Sends until `stop` turns true, then what is queued, for at most the configured drain time; what is left then is
    /// kept in the spool, where there is one.
    pub async fn run(self, stop: watch::Receiver<bool>) {
        let Self { mut live, backfill } = self;
        let prefer = live.targets.share().prefer_first(live.config.steady, live.config.timeout);
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
        if let Some((keeper, _)) = &live.keeper {
            keeper.seal().await;
        }
    }
}

/// Half to one and a half of a pause, so that thousands of agents do not come back in step.
fn jitter(pause: Duration) -> Duration {
    pause / 2 + spread(pause)
}

/// None to all of a time.
fn spread(time: Duration) -> Duration {
    let random = RandomState::new().hash_one(0) >> 32;
    time.mul_f64(random as f64 / f64::from(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_spread_around_their_length() {
        let pauses: Vec<Duration> = (0..200).map(|_| jitter(FIRST)).collect();
        assert!(pauses.iter().all(|p| (FIRST / 2..=FIRST * 3 / 2).contains(p)));
        assert!(pauses.iter().any(|p| *p < FIRST) && pauses.iter().any(|p| *p > FIRST));
    }
}
