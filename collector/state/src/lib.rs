//! What a running collector is made of, for those who work on all of it.

#![forbid(unsafe_code)]

use std::sync::Arc;

use fabriclens_store::Store;

use fabriclens_config::Config;
use fabriclens_core::pressure::Pressure;
use fabriclens_core::telemetry::Telemetry;
use fabriclens_data::Data;
use fabriclens_forward::Sink;
use fabriclens_incidents::Book;
use fabriclens_job_sources::Jobs;
use fabriclens_topology::Topologies;

/// See the module; cloning shares them.
#[derive(Clone)]
pub struct AppState {
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
