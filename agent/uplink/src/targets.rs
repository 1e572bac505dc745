//! Collectors of one uplink: selects the active one, and fails over.
//!
//! After [`PATIENCE`] failures in a row the next collector becomes active; an earlier one of the list becomes active again
//! when it has answered [`PROBES`] times in a row.

use crate::channel::{Channel, ConnectError, SharedConnection};
use crate::config::Collector;
use crate::frame::plain;
use crate::response::ResponseClass;
use crate::troubled_jobs::TroubledJobs;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Failures in a row before failover.
const PATIENCE: usize = 2;
/// Probes in a row that an earlier collector must answer before it becomes active again.
const PROBES: u32 = 3;

/// Collectors of one uplink.
#[derive(Debug)]
pub(crate) struct Targets {
    list: Vec<Channel>,
    /// Index of the active collector, shared by all senders.
    at: Arc<AtomicUsize>,
    failures: usize,
    /// Failovers since a collector answered.
    failed: usize,
}

impl Targets {
    pub(crate) fn new(config: &Collector) -> Result<Self, ConnectError> {
        let urls = std::iter::once(&config.url).chain(&config.others);
        let list = urls.map(|url| Channel::new(&Collector { url: url.clone(), ..config.clone() }));
        Ok(Self { list: list.collect::<Result<_, _>>()?, at: Arc::default(), failures: 0, failed: 0 })
    }

    /// Notes in `jobs` which jobs the collectors say are in trouble, also for tasks that share the connections from now on.
    pub(crate) fn note_troubled_jobs(&mut self, jobs: &Arc<TroubledJobs>) {
        self.list.iter_mut().for_each(|channel| channel.note_troubled_jobs(Arc::clone(jobs)));
    }

    /// Same collectors over the same connections, for another task.
    pub(crate) fn share(&self) -> Self {
        let list = self.channels();
        Self { list, at: Arc::clone(&self.at), failures: 0, failed: 0 }
    }

    /// All collectors over the same connections, for another task.
    pub(crate) fn channels(&self) -> Vec<Channel> {
        self.list.iter().map(Channel::share).collect()
    }

    /// Active collector.
    pub(crate) fn current(&mut self) -> &mut Channel {
        let at = self.at.load(Ordering::Relaxed) % self.list.len();
        &mut self.list[at]
    }

    pub(crate) fn answered(&mut self) {
        (self.failures, self.failed) = (0, 0);
    }

    /// Records a failure of the active collector. True if another one shall be tried at once.
    pub(crate) fn missed(&mut self) -> bool {
        self.failures += 1;
        if self.list.len() == 1 || self.failures < PATIENCE {
            return false;
        }
        let away = self.at.load(Ordering::Relaxed) % self.list.len();
        let next = (away + 1) % self.list.len();
        self.at.store(next, Ordering::Relaxed);
        self.failures = 0;
        self.failed += 1;
        if self.failed.is_multiple_of(self.list.len()) {
            return false;
        }
        // Logged only in the first round: if no collector answers, the uplink logs that.
        if self.failed < self.list.len() {
            let (from, to) = (self.list[away].url(), self.list[next].url());
            tracing::warn!(from, to, "collector does not answer; failing over to the next one");
        }
        true
    }

    /// Probes the collectors before the active one and activates the first that is steady. Never ends.
    pub(crate) async fn prefer_earlier(mut self, steady: Duration, timeout: Duration) {
        if self.list.len() == 1 {
            std::future::pending::<()>().await;
        }
        let mut answers = vec![0; self.list.len()];
        loop {
            tokio::time::sleep(crate::backoff::jitter(steady / PROBES)).await;
            let active = self.at.load(Ordering::Relaxed);
            answers[active.min(self.list.len())..].fill(0);
            for (n, collector) in self.list.iter_mut().enumerate().take(active) {
                let class = collector.send(plain(&[]), timeout).await;
                answers[n] = if matches!(class, ResponseClass::Accepted { .. }) { answers[n] + 1 } else { 0 };
                if answers[n] >= PROBES {
                    tracing::info!(collector = collector.url(), "earlier collector is steady again; returning to it");
                    self.at.store(n, Ordering::Relaxed);
                    break;
                }
            }
        }
    }

    /// Names of the collectors and which one is active, for the counters.
    pub(crate) fn active(&self) -> Active {
        let names = self.list.iter().map(|c| authority(c.url()).into()).collect();
        Active { names, links: self.list.iter().map(Channel::shared).collect(), at: Arc::clone(&self.at) }
    }
}

/// Host and port of a URL; the value of the label `collector`.
pub fn authority(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    rest.split('/').next().unwrap_or(rest)
}

/// Names of the collectors and which one is active.
#[derive(Clone, Debug)]
pub(crate) struct Active {
    names: Vec<Arc<str>>,
    links: Vec<Arc<SharedConnection>>,
    at: Arc<AtomicUsize>,
}

impl Active {
    /// Reason why changed certificates or token are not in use; the same for all collectors.
    pub(crate) fn reload_failure(&self) -> Option<String> {
        self.links.iter().find_map(|link| link.failure())
    }

    /// Host and port of each collector, and whether it is active; empty if there is only one.
    pub(crate) fn rows(&self) -> impl Iterator<Item = (&str, bool)> {
        let at = self.at.load(Ordering::Relaxed);
        let names = if self.names.len() > 1 { &self.names[..] } else { &[] };
        names.iter().enumerate().map(move |(i, name)| (&**name, i == at))
    }
}
