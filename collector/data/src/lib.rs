//! Where the API finds samples: in the store of this process, or in a remote engine, and in other collectors beside it.
//! All are read by the same evaluator, so queries mean the same whoever keeps the data.

#![forbid(unsafe_code)]

mod engine;
mod join;
mod near;
mod peers;
mod protocol;
mod remote;

use std::sync::Arc;

use fabriclens_model::{Labels, Matcher, Read, ReadError};
use fabriclens_store::Store;

pub use engine::{MAX_POINTS, engine};
use fabriclens_config as config;
use fabriclens_core::endpoint::FileError;
use fabriclens_core::telemetry::Telemetry;
pub use near::Near;
pub use peers::Joined;
pub use remote::Remote;

/// Parameter of a request for what a collector has itself.
pub const LOCAL: &str = "local";

/// See the module.
pub enum Data {
    /// Here.
    Local(Arc<Store>),
    /// There.
    Remote(Box<Remote>),
    /// In one of these, and in other collectors.
    Joined(Box<Joined>),
}

impl Data {
    /// As the config says.
    ///
    /// # Errors
    /// [`FileError`] when a file that a remote engine needs cannot be read.
    pub fn new(store: Arc<Store>, config: &config::Config, telemetry: &Telemetry) -> Result<Self, FileError> {
        Ok(match &config.store {
            None => Self::Local(store),
            Some(remote) => {
                tracing::info!(url = remote.read.url, "samples are kept by a remote engine");
                Self::Remote(Box::new(Remote::new(&remote.read, telemetry)?))
            }
        })
    }

    /// These samples, joined with those of the peers that the config names.
    ///
    /// # Errors
    /// As of [`Data::new`].
    pub fn joined(own: Arc<Self>, peers: &[config::Endpoint], telemetry: &Telemetry) -> Result<Arc<Self>, FileError> {
        Ok(if peers.is_empty() { own } else { Arc::new(Self::Joined(Box::new(Joined::new(own, peers, telemetry)?))) })
    }

    /// What is missing in answers, because a remote engine or a peer does not answer.
    pub fn missing(&self) -> Vec<String> {
        match self {
            Self::Local(_) => Vec::new(),
            Self::Remote(remote) => remote.away().into_iter().collect(),
            Self::Joined(joined) => joined.missing(),
        }
    }

    /// Where samples are read.
    pub fn reader(&self) -> &dyn Read {
        match self {
            Self::Local(store) => &**store,
            Self::Remote(remote) => &**remote,
            Self::Joined(joined) => &**joined,
        }
    }

    /// Label sets of the series that match all matchers and have samples in the range (Unix ms), sorted.
    ///
    /// # Errors
    /// [`ReadError`].
    pub fn series(&self, matchers: &[Matcher], start_ms: i64, end_ms: i64) -> Result<Vec<Labels>, ReadError> {
        match self {
            Self::Local(store) => store.series(matchers, start_ms, end_ms),
            Self::Remote(remote) => remote.series(matchers, start_ms, end_ms),
            Self::Joined(joined) => {
                joined.all(|own| own.series(matchers, start_ms, end_ms), |peer| peer.series(matchers, start_ms, end_ms))
            }
        }
    }

    /// Names of their labels, sorted.
    ///
    /// # Errors
    /// [`ReadError`].
    pub fn label_names(&self, matchers: &[Matcher], start_ms: i64, end_ms: i64) -> Result<Vec<String>, ReadError> {
        match self {
            Self::Local(store) => store.label_names(matchers, start_ms, end_ms),
            Self::Remote(remote) => remote.names("labels", matchers, start_ms, end_ms),
            Self::Joined(joined) => joined.all(
                |own| own.label_names(matchers, start_ms, end_ms),
                |peer| peer.names("labels", matchers, start_ms, end_ms),
            ),
        }
    }

    /// Values of one of their labels, sorted.
    ///
    /// # Errors
    /// [`ReadError`].
    pub fn label_values(
        &self,
        name: &str,
        matchers: &[Matcher],
        start_ms: i64,
        end_ms: i64,
    ) -> Result<Vec<String>, ReadError> {
        match self {
            Self::Local(store) => store.label_values(name, matchers, start_ms, end_ms),
            Self::Remote(remote) => remote.names(&format!("label/{name}/values"), matchers, start_ms, end_ms),
            Self::Joined(joined) => joined.all(
                |own| own.label_values(name, matchers, start_ms, end_ms),
                |peer| peer.names(&format!("label/{name}/values"), matchers, start_ms, end_ms),
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fabriclens_model::{Hint, Rollup, Unlimited};
    use fabriclens_store::{Options, RowGroup};

    #[test]
    fn what_a_query_is_for_reaches_the_store() {
        let (hour, day) = (3_600_000, 86_400_000_i64);
        let dir = tempfile::tempdir().unwrap();
        let clock = Arc::new(move || 1000 * day);
        let options = Options { background: false, retention: None, exact_samples: 0, clock, ..Options::default() };
        let store = Store::open(dir.path(), options).unwrap();
        let times: Vec<i64> = (998 * day..999 * day).step_by(10_000).collect();
        let values = times.iter().map(|t| *t as f64).collect();
        store.append(&[RowGroup { series: [Labels::new([("__name__", "m")])].into(), times, values }]).unwrap();
        store.flush().unwrap();
        store.maintain().unwrap();
        let data = Data::Local(Arc::new(store));
        let hint = Hint { step_ms: hour, range_ms: hour, rollup: Some(Rollup::Mean) };
        let matchers = [Matcher::equal("__name__", "m")];
        let got = data.reader().select_for(&matchers, 998 * day, 999 * day, hint, &Unlimited).unwrap();
        assert_eq!(got.resolution_ms, Some(60_000));
    }
}
