//! Read access to samples: in the store of this process or in a remote engine, optionally merged with those of other
//! collectors. All are read by the same evaluator, so queries mean the same everywhere.
//!
//! ```
//! use fabriclens_data::Data;
//! use fabriclens_model::{Matcher, Unlimited};
//! use fabriclens_store::{Options, Store};
//! use std::sync::Arc;
//!
//! let dir = tempfile::tempdir()?;
//! let data = Data::Local(Arc::new(Store::open(dir.path(), Options::default())?));
//! let hosts = data.label_values("host", &[Matcher::equal("__name__", "up")], 0, 1000, &Unlimited)?;
//! assert!(hosts.is_empty());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]

mod engine;
mod join;
mod near;
mod peers;
mod protocol;
mod remote;

use std::sync::Arc;

use fabriclens_model::{Budget, Labels, Matcher, Read, ReadError};
use fabriclens_store::Store;

pub use engine::{MAX_POINTS, engine};
use fabriclens_config as config;
use fabriclens_core::endpoint::FileError;
use fabriclens_core::telemetry::Telemetry;
pub use near::HostReader;
pub use peers::MergedReader;
pub use remote::Remote;

/// API parameter that restricts an answer to this collector's own samples.
pub const LOCAL: &str = "local";

/// Parameter of `/api/v1/export`: lines of native histograms as well.
pub const HISTOGRAMS: &str = "histograms";

/// A source of samples.
pub enum Data {
    /// The store of this process.
    Local(Arc<Store>),
    /// A remote engine.
    Remote(Box<Remote>),
    /// One of these, merged with other collectors.
    Merged(Box<MergedReader>),
}

impl Data {
    /// Opens the configured source.
    ///
    /// # Errors
    /// [`FileError`] if a file of the remote engine cannot be read.
    pub fn new(store: Arc<Store>, config: &config::Config, telemetry: &Telemetry) -> Result<Self, FileError> {
        Ok(match &config.store {
            None => Self::Local(store),
            Some(remote) => {
                tracing::info!(url = remote.read.url, "samples are stored by a remote engine");
                Self::Remote(Box::new(Remote::new(&remote.read, telemetry)?))
            }
        })
    }

    /// Merges `own` with the configured peers, if there are any.
    ///
    /// # Errors
    /// [`FileError`] if a file of a peer cannot be read.
    pub fn merged(own: Arc<Self>, peers: &[config::Endpoint], telemetry: &Telemetry) -> Result<Arc<Self>, FileError> {
        Ok(if peers.is_empty() {
            own
        } else {
            Arc::new(Self::Merged(Box::new(MergedReader::new(own, peers, telemetry)?)))
        })
    }

    /// Warnings for answers about samples of an unreachable remote engine or peer.
    pub fn missing(&self) -> Vec<String> {
        match self {
            Self::Local(_) => Vec::new(),
            Self::Remote(remote) => remote.failure().into_iter().collect(),
            Self::Merged(merged) => merged.missing(),
        }
    }

    /// Reader for samples.
    pub fn reader(&self) -> &dyn Read {
        match self {
            Self::Local(store) => &**store,
            Self::Remote(remote) => &**remote,
            Self::Merged(merged) => &**merged,
        }
    }

    /// Returns the sorted label sets of series that match all matchers and have samples in the range (Unix ms).
    ///
    /// # Errors
    /// [`ReadError`].
    pub fn series(
        &self,
        matchers: &[Matcher],
        start_ms: i64,
        end_ms: i64,
        budget: &dyn Budget,
    ) -> Result<Vec<Labels>, ReadError> {
        match self {
            Self::Local(store) => store.series(matchers, start_ms, end_ms, budget),
            Self::Remote(remote) => remote.series(matchers, start_ms, end_ms, budget),
            Self::Merged(merged) => merged.all(
                |own| own.series(matchers, start_ms, end_ms, budget),
                |peer| peer.series(matchers, start_ms, end_ms, budget),
            ),
        }
    }

    /// Returns the sorted label names of these series.
    ///
    /// # Errors
    /// [`ReadError`].
    pub fn label_names(
        &self,
        matchers: &[Matcher],
        start_ms: i64,
        end_ms: i64,
        budget: &dyn Budget,
    ) -> Result<Vec<String>, ReadError> {
        match self {
            Self::Local(store) => store.label_names(matchers, start_ms, end_ms, budget),
            Self::Remote(remote) => remote.names("labels", matchers, start_ms, end_ms, budget),
            Self::Merged(merged) => merged.all(
                |own| own.label_names(matchers, start_ms, end_ms, budget),
                |peer| peer.names("labels", matchers, start_ms, end_ms, budget),
            ),
        }
    }

    /// Returns the sorted values of one label of these series.
    ///
    /// # Errors
    /// [`ReadError`].
    pub fn label_values(
        &self,
        name: &str,
        matchers: &[Matcher],
        start_ms: i64,
        end_ms: i64,
        budget: &dyn Budget,
    ) -> Result<Vec<String>, ReadError> {
        let path = || format!("label/{name}/values");
        match self {
            Self::Local(store) => store.label_values(name, matchers, start_ms, end_ms, budget),
            Self::Remote(remote) => remote.names(&path(), matchers, start_ms, end_ms, budget),
            Self::Merged(merged) => merged.all(
                |own| own.label_values(name, matchers, start_ms, end_ms, budget),
                |peer| peer.names(&path(), matchers, start_ms, end_ms, budget),
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
    fn query_hints_reach_the_store() {
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
