//! Connections of one transport that agents saw, as host pairs.

use crate::model::Pair;
use std::collections::BTreeSet;

/// Host pairs of a job that communicate over one transport.
#[derive(Debug, Default)]
pub(super) struct ObservedPairs {
    /// Description of the connections, completed by "join N of the job's M hosts".
    pub text: String,
    /// Host pairs, each once.
    pub pairs: Vec<Pair>,
    /// Number of connections whose other end is not a known host of the job.
    pub unmatched: usize,
    /// Hosts for which agents list only some of the pairs.
    pub cut: BTreeSet<String>,
    /// Outlying pairs, as text.
    pub slow: Vec<String>,
}
