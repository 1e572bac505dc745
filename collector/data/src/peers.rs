//! Samples of this collector, joined with those of its peers when somebody asks. Peers are asked for their own samples
//! only, so a question never goes in circles; one that does not answer is left alone for a while, and answers say so.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fabriclens_model::{Budget, Hint, Matcher, Read, ReadError, Selected, Series};
use parking_lot::Mutex;

use super::join::join;
use super::{Data, Remote};
use fabriclens_config as config;
use fabriclens_core::endpoint::FileError;
use fabriclens_core::telemetry::Telemetry;

/// How long a peer that did not answer is not asked: each question would wait for it.
const REST: Duration = Duration::from_secs(10);

/// See the module.
pub struct Joined {
    own: Arc<Data>,
    peers: Vec<Peer>,
}

struct Peer {
    remote: Remote,
    /// Why it did not answer, and when.
    away: Mutex<Option<(String, Instant)>>,
}

impl Joined {
    /// Nobody is asked yet.
    ///
    /// # Errors
    /// [`FileError`] when a token, password or authority cannot be read.
    pub fn new(own: Arc<Data>, peers: &[config::Endpoint], telemetry: &Telemetry) -> Result<Self, FileError> {
        let peer = |e: &config::Endpoint| Ok(Peer { remote: Remote::peer(e, telemetry)?, away: Mutex::default() });
        Ok(Self { own, peers: peers.iter().map(peer).collect::<Result<_, _>>()? })
    }

    /// What is missing, because a peer, or who keeps the own samples, did not answer when it was asked last.
    pub(super) fn missing(&self) -> Vec<String> {
        let away = self.peers.iter().filter_map(|p| p.away.lock().as_ref().map(|(why, _)| why.clone()));
        let away = away.map(|why| format!("what only a peer has is missing, because it does not answer: {why}"));
        self.own.missing().into_iter().chain(away).collect()
    }

    /// What each peer says that answers; all are asked at the same time.
    fn ask<T: Send>(&self, ask: impl Fn(&Remote) -> Result<T, ReadError> + Sync) -> Result<Vec<T>, ReadError> {
        std::thread::scope(|scope| {
            let there = self.peers.iter().filter(|p| p.resting().is_none());
            let asked: Vec<_> = there.map(|p| scope.spawn(|| p.ask(&ask))).collect();
            let mut told = Vec::new();
            for answer in asked {
                let answer = answer.join().map_err(|_| ReadError::Storage("asking a peer panicked".to_owned()))?;
                told.extend(answer?);
            }
            Ok(told)
        })
    }

    /// What any of them lists, sorted.
    pub(super) fn all<T: Ord + Send>(
        &self,
        own: impl FnOnce(&Data) -> Result<Vec<T>, ReadError>,
        peer: impl Fn(&Remote) -> Result<Vec<T>, ReadError> + Sync,
    ) -> Result<Vec<T>, ReadError> {
        let mut all: BTreeSet<T> = own(&self.own)?.into_iter().collect();
        all.extend(self.ask(peer)?.into_iter().flatten());
        Ok(all.into_iter().collect())
    }
}

impl Peer {
    /// Why it is left alone now.
    fn resting(&self) -> Option<String> {
        let away = self.away.lock();
        away.as_ref().filter(|(_, since)| since.elapsed() < REST).map(|(why, _)| why.clone())
    }

    /// `None` when it does not answer.
    fn ask<P>(&self, ask: impl Fn(&Remote) -> Result<P, ReadError>) -> Result<Option<P>, ReadError> {
        match ask(&self.remote) {
            Ok(told) => {
                if self.away.lock().take().is_some() {
                    tracing::info!(peer = self.remote.url(), "peer answers again");
                }
                Ok(Some(told))
            }
            // Not the peer's fault: the question is too large.
            Err(e @ (ReadError::Memory | ReadError::Limit(_))) => Err(e),
            Err(ReadError::Storage(why)) => {
                if self.away.lock().replace((why.clone(), Instant::now())).is_none() {
                    tracing::warn!(why, "peer does not answer; answers are without what only it has");
                }
                Ok(None)
            }
        }
    }
}

impl Read for Joined {
    fn select_within(
        &self,
        matchers: &[Matcher],
        start_ms: i64,
        end_ms: i64,
        budget: &dyn Budget,
    ) -> Result<Vec<Series>, ReadError> {
        let selected = self.select_for(matchers, start_ms, end_ms, Hint::default(), budget)?;
        Ok(selected.series.into_iter().map(Into::into).collect())
    }

    fn select_for(
        &self,
        matchers: &[Matcher],
        start_ms: i64,
        end_ms: i64,
        hint: Hint,
        budget: &dyn Budget,
    ) -> Result<Selected, ReadError> {
        let mut selected = self.own.reader().select_for(matchers, start_ms, end_ms, hint, budget)?;
        // Where rollups must stand for samples, those of a peer are too many to be sent.
        if selected.resolution_ms.is_none() {
            for series in self.ask(|peer| peer.select_within(matchers, start_ms, end_ms, budget))? {
                selected.series = join(selected.series, series);
            }
        }
        Ok(selected)
    }
}
