//! Where the API finds samples: in the store of this process, or in a remote engine. Both are read by the same
//! evaluator, so queries mean the same whoever keeps the data.

mod protocol;
mod remote;

use std::sync::Arc;

use fabriclens_model::{Budget, Hint, Labels, Matcher, Read, ReadError, Selected, Series};
use fabriclens_store::Store;

use crate::config;
use crate::endpoint::FileError;
pub use remote::Remote;

/// See the module.
pub enum Data {
    /// Here.
    Local(Arc<Store>),
    /// There.
    Remote(Box<Remote>),
}

impl Data {
    /// As the config says.
    ///
    /// # Errors
    /// [`FileError`] when a file that a remote engine needs cannot be read.
    pub fn new(store: Arc<Store>, config: &config::Config) -> Result<Self, FileError> {
        Ok(match &config.store {
            None => Self::Local(store),
            Some(remote) => {
                tracing::info!(url = remote.read.url, "samples are kept by a remote engine");
                Self::Remote(Box::new(Remote::new(&remote.read)?))
            }
        })
    }

    /// Label sets of the series that match all matchers and have samples in the range (Unix ms), sorted.
    ///
    /// # Errors
    /// [`ReadError`].
    pub fn series(&self, matchers: &[Matcher], start_ms: i64, end_ms: i64) -> Result<Vec<Labels>, ReadError> {
        match self {
            Self::Local(store) => store.series(matchers, start_ms, end_ms),
            Self::Remote(remote) => remote.series(matchers, start_ms, end_ms),
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
        }
    }
}

impl Read for Data {
    fn select_within(
        &self,
        matchers: &[Matcher],
        start_ms: i64,
        end_ms: i64,
        budget: &dyn Budget,
    ) -> Result<Vec<Series>, ReadError> {
        match self {
            Self::Local(store) => store.select_within(matchers, start_ms, end_ms, budget),
            Self::Remote(remote) => remote.select_within(matchers, start_ms, end_ms, budget),
        }
    }

    fn select_for(
        &self,
        matchers: &[Matcher],
        start_ms: i64,
        end_ms: i64,
        hint: Hint,
        budget: &dyn Budget,
    ) -> Result<Selected, ReadError> {
        match self {
            Self::Local(store) => store.select_for(matchers, start_ms, end_ms, hint, budget),
            Self::Remote(remote) => remote.select_for(matchers, start_ms, end_ms, hint, budget),
        }
    }
}
