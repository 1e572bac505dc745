//! What a running collector is made of, for those who work on all of it.

use std::sync::Arc;

use fabriclens_store::Store;

use crate::config::Config;
use crate::data::Data;
use crate::forward::Sink;
use crate::incidents::Book;
use crate::jobs::Jobs;
use crate::pressure::Pressure;
use crate::telemetry::Telemetry;
use crate::topology::Topologies;

/// See the module; cloning shares them.
#[derive(Clone)]
pub struct Parts {
    /// Metadata, and numbers about itself.
    pub store: Arc<Store>,
    /// Where samples are read.
    pub data: Arc<Data>,
    /// The same, joined with those of other collectors: for people who ask, not for what is judged as it happens.
    pub queried: Arc<Data>,
    /// Where they are written.
    pub sink: Arc<Sink>,
    /// Who runs where.
    pub jobs: Arc<Jobs>,
    /// What is wrong and was.
    pub book: Arc<Book>,
    /// Who is wired to whom.
    pub topologies: Arc<Topologies>,
    /// How much memory there is.
    pub pressure: Arc<Pressure>,
    /// Its own metrics.
    pub telemetry: Telemetry,
    /// As it was told.
    pub config: Config,
}
