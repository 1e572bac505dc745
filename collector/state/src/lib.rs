//! The shared services of a running collector, as used by the live evaluation and the API.

#![forbid(unsafe_code)]

use std::sync::Arc;

use fabriclens_audit::Auditor;
use fabriclens_store::Store;

use fabriclens_config::Config;
use fabriclens_core::newest_signals::NewestSignals;
use fabriclens_core::pressure::Pressure;
use fabriclens_core::telemetry::Telemetry;
use fabriclens_data::Data;
use fabriclens_forward::Sink;
use fabriclens_incidents::IncidentStore;
use fabriclens_job_sources::Jobs;
use fabriclens_probing::Probing;
use fabriclens_topology::Topologies;

/// All services; clones share them.
#[derive(Clone)]
pub struct AppState {
    /// Metadata of metrics, and tables of other services.
    pub store: Arc<Store>,
    /// Reads this collector's samples.
    pub data: Arc<Data>,
    /// Reads samples merged with those of peers; for queries of people, not for the detectors.
    pub queried: Arc<Data>,
    /// Writes samples.
    pub sink: Arc<Sink>,
    /// Jobs and their hosts.
    pub jobs: Arc<Jobs>,
    /// Open and past incidents.
    pub incidents: Arc<IncidentStore>,
    /// Topology of the fabric.
    pub topologies: Arc<Topologies>,
    /// Settings that are not as expected.
    pub auditor: Arc<Auditor>,
    /// Plans and reports of agents that trace and probe.
    pub probing: Arc<Probing>,
    /// Signals of all ports now, by the live evaluation.
    pub newest_signals: Arc<NewestSignals>,
    /// Memory pressure.
    pub pressure: Arc<Pressure>,
    /// The collector's own metrics.
    pub telemetry: Telemetry,
    /// Configuration.
    pub config: Config,
}
