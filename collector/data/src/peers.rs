//! Samples of this collector merged with those of its peers. Peers return only their own samples, so queries never go
//! in circles. An unreachable peer is skipped for a while, and answers carry a warning.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fabriclens_model::{Budget, Hint, Matcher, Read, ReadError, Selected, Series};
use parking_lot::Mutex;

use super::join::{join, join_histograms};
use super::{Data, Remote};
use fabriclens_config as config;
use fabriclens_core::endpoint::FileError;
use fabriclens_core::telemetry::Telemetry;

/// Time for which an unreachable peer is skipped; otherwise each query would wait for it.
const SKIP_TIME: Duration = Duration::from_secs(10);

/// This collector's samples merged with those of its peers.
pub struct MergedReader {
    own: Arc<Data>,
    peers: Vec<Peer>,
}

struct Peer {
    remote: Remote,
    /// Last failure and its time.
    failure: Mutex<Option<(String, Instant)>>,
}

impl MergedReader {
    /// Creates the clients of all peers.
    ///
    /// # Errors
    /// [`FileError`] if a token, password or authority cannot be read.
    pub fn new(own: Arc<Data>, peers: &[config::Endpoint], telemetry: &Telemetry) -> Result<Self, FileError> {
        let peer = |e: &config::Endpoint| Ok(Peer { remote: Remote::peer(e, telemetry)?, failure: Mutex::default() });
        Ok(Self { own, peers: peers.iter().map(peer).collect::<Result<_, _>>()? })
    }

    /// Warnings about peers, or the own remote engine, that were unreachable at the last request.
    pub(super) fn missing(&self) -> Vec<String> {
        let failures = self.peers.iter().filter_map(|p| p.failure.lock().as_ref().map(|(why, _)| why.clone()));
        let failures =
            failures.map(|why| format!("samples that only a peer has are missing, because it does not answer: {why}"));
        self.own.missing().into_iter().chain(failures).collect()
    }

    /// Queries all reachable peers in parallel.
    fn ask<T: Send>(&self, ask: impl Fn(&Remote) -> Result<T, ReadError> + Sync) -> Result<Vec<T>, ReadError> {
        std::thread::scope(|scope| {
            let reachable = self.peers.iter().filter(|p| p.skipped().is_none());
            let asked: Vec<_> = reachable.map(|p| scope.spawn(|| p.ask(&ask))).collect();
            let mut answers = Vec::new();
            for answer in asked {
                let answer =
                    answer.join().map_err(|_| ReadError::Storage("the query of a peer panicked".to_owned()))?;
                answers.extend(answer?);
            }
            Ok(answers)
        })
    }

    /// Sorted union of a list from this collector and its peers.
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
    /// Why the peer is skipped at present.
    fn skipped(&self) -> Option<String> {
        let failure = self.failure.lock();
        failure.as_ref().filter(|(_, since)| since.elapsed() < SKIP_TIME).map(|(why, _)| why.clone())
    }

    /// Queries the peer; `None` if it is unreachable.
    fn ask<P>(&self, ask: impl Fn(&Remote) -> Result<P, ReadError>) -> Result<Option<P>, ReadError> {
        match ask(&self.remote) {
            Ok(answer) => {
                if self.failure.lock().take().is_some() {
                    tracing::info!(peer = self.remote.url(), "peer answers again");
                }
                Ok(Some(answer))
            }
            Err(ReadError::Storage(why)) => {
                if self.failure.lock().replace((why.clone(), Instant::now())).is_none() {
                    tracing::warn!(why, "peer does not answer; answers lack samples that only it has");
                }
                Ok(None)
            }
            // The query is too large or has ended; the peer is not to blame.
            Err(e) => Err(e),
        }
    }
}

impl Read for MergedReader {
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
        // Where rollups replace samples, a peer would have to send too many.
        if selected.resolution_ms.is_none() {
            for of_peer in self.ask(|peer| peer.select_for(matchers, start_ms, end_ms, hint, budget))? {
                selected.series = join(selected.series, of_peer.series);
                selected.in_label_order = false;
                selected.histograms = join_histograms(selected.histograms, of_peer.histograms);
            }
        }
        Ok(selected)
    }
}
