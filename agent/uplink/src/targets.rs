//! The collectors of one uplink: one of them is asked, the first that is steady.
//!
//! Several are for fail-over. One that does not answer twice in a row gives way to the next; the first one comes back
//! into use when it has answered [`PROBES`] times in a row.

use crate::channel::{Channel, ConnectError, Shared};
use crate::config::Collector;
use crate::frame::plain;
use crate::response::Verdict;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Failures in a row after which the next one is asked.
const PATIENCE: usize = 2;
/// Empty requests in a row that the first one must take before it is used again.
const PROBES: u32 = 3;

/// See the module.
#[derive(Debug)]
pub(crate) struct Targets {
    list: Vec<Channel>,
    /// Which of them is asked; shared by all that send.
    at: Arc<AtomicUsize>,
    failures: usize,
    /// Those that failed since one answered.
    failed: usize,
}

impl Targets {
    pub(crate) fn new(config: &Collector) -> Result<Self, ConnectError> {
        let urls = std::iter::once(&config.url).chain(&config.others);
        let list = urls.map(|url| Channel::new(&Collector { url: url.clone(), ..config.clone() }));
        Ok(Self { list: list.collect::<Result<_, _>>()?, at: Arc::default(), failures: 0, failed: 0 })
    }

    /// The same collectors over the same connections, for another task.
    pub(crate) fn share(&self) -> Self {
        let list = self.list.iter().map(Channel::share).collect();
        Self { list, at: Arc::clone(&self.at), failures: 0, failed: 0 }
    }

    /// The one that is asked.
    pub(crate) fn current(&mut self) -> &mut Channel {
        let at = self.at.load(Ordering::Relaxed) % self.list.len();
        &mut self.list[at]
    }

    pub(crate) fn answered(&mut self) {
        (self.failures, self.failed) = (0, 0);
    }

    /// The present one did not answer. True when another shall be asked at once.
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
        // Once around: where none answers, that is told elsewhere.
        if self.failed < self.list.len() {
            let (from, to) = (self.list[away].url(), self.list[next].url());
            tracing::warn!(from, to, "a collector does not answer; the next one is asked");
        }
        true
    }

    /// Brings the first one back into use when it is steady again. Never ends.
    pub(crate) async fn prefer_first(mut self, steady: Duration, timeout: Duration) {
        if self.list.len() == 1 {
            std::future::pending::<()>().await;
        }
        let mut answers = 0;
        loop {
            tokio::time::sleep(crate::jitter(steady / PROBES)).await;
            if self.at.load(Ordering::Relaxed) == 0 {
                answers = 0;
                continue;
            }
            let verdict = self.list[0].send(plain(&[]), timeout).await;
            answers = if matches!(verdict, Verdict::Taken { .. }) { answers + 1 } else { 0 };
            if answers == PROBES {
                tracing::info!(collector = self.list[0].url(), "the first collector is steady again and is asked");
                self.at.store(0, Ordering::Relaxed);
            }
        }
    }

    /// Each with whether it is the one that is asked; for the accounts.
    pub(crate) fn active(&self) -> Active {
        let names = self.list.iter().map(|c| authority(c.url()).into()).collect();
        Active { names, links: self.list.iter().map(Channel::shared).collect(), at: Arc::clone(&self.at) }
    }
}

/// Host and port of a URL, by which metrics name a collector.
pub fn authority(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    rest.split('/').next().unwrap_or(rest)
}

/// Which of several collectors is asked.
#[derive(Clone, Debug)]
pub(crate) struct Active {
    names: Vec<Arc<str>>,
    links: Vec<Arc<Shared>>,
    at: Arc<AtomicUsize>,
}

impl Active {
    /// Why certificates or token that changed are not in force; they are the same for all.
    pub(crate) fn reload_failure(&self) -> Option<String> {
        self.links.iter().find_map(|link| link.failure())
    }

    /// Host and port of each, and whether it is asked; nothing where there is no choice.
    pub(crate) fn rows(&self) -> impl Iterator<Item = (&str, bool)> {
        let at = self.at.load(Ordering::Relaxed);
        let names = if self.names.len() > 1 { &self.names[..] } else { &[] };
        names.iter().enumerate().map(move |(i, name)| (&**name, i == at))
    }
}
