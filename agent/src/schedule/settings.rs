//! Settings of the sampling engine, as the configuration gives them.

use crate::budget::Budget;
use crate::collectives::Collectives;
use crate::ib_fabric::IbFabric;
use crate::probing::Probing;
use crate::sandbox::Sandbox;
use fabriclens_agent_host::gpu_affinity::GpuAffinity;
use fabriclens_agent_host::rails::Rails;
use fabriclens_agent_probes::destinations::Destinations;
use fabriclens_agent_samplers::microburst::Microburst;
use fabriclens_agent_samplers::{Spec, by_name};
use fabriclens_agent_uplink::{ProbePlans, ReaderLease, SharedTables};
use fabriclens_agent_workload::Jobs;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Sampling settings.
#[derive(Debug, Clone)]
pub struct Settings {
    /// `host` label.
    pub host: String,
    /// Period of a full sample.
    pub full: Duration,
    /// Period of the congestion sample.
    pub fast: Duration,
    /// Period of slow facts.
    pub slow: Duration,
    /// Reads longer than this are reported as stalled.
    pub deadline: Duration,
    /// Samplers switched on or off by name; the others follow their default.
    pub samplers: BTreeMap<String, bool>,
    /// Devices and netdevs that are never read, as globs.
    pub exclude_devices: Vec<String>,
    /// Vendor counters to export under their own names besides the canonical metrics, as globs.
    pub passthrough: Vec<String>,
    /// Networks by which TCP peers are classified.
    pub destinations: Arc<Destinations>,
    /// Interfaces for microburst recording, and their recordings.
    pub microburst: Arc<Microburst>,
    /// Assignment of devices to rails.
    pub rails: Arc<Rails>,
    /// Distances of adapters to GPUs.
    pub gpu_affinity: Arc<GpuAffinity>,
    /// Directory for counter state that survives a restart; `None` keeps no state.
    pub state_dir: Option<PathBuf>,
    /// Capacity of the ring, in sections.
    pub ring_sections: usize,
    /// Number of ring readers, one per uplink. The ring stays empty without readers.
    pub ring_readers: usize,
    /// Cost above which the agent lowers its sampling rate.
    pub budget: Budget,
    /// Reader of the InfiniBand subnet; `None` is off.
    pub ib_fabric: Option<Arc<IbFabric>>,
    /// Lease of the InfiniBand subnet; `None`: it is read without one.
    pub reader_lease: Option<Arc<ReaderLease>>,
    /// Reader of collectives; `None` is off.
    pub collectives: Option<Arc<Collectives>>,
    /// Tracing and probing; `None` is off.
    pub probing: Option<Arc<Probing>>,
    /// Ports offered to the collector, and its plan for them; `None` without a collector, or if [`Settings::probing`] is off.
    pub probe_plans: Option<Arc<ProbePlans>>,
    /// Takes the forwarding tables of the InfiniBand subnet, for the collectors; `None`: they are not read.
    pub forwarding_tables: Option<Arc<SharedTables>>,
    /// Sandbox that the threads enter once they have opened their resources.
    pub sandbox: Sandbox,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            host: String::new(),
            full: Duration::from_secs(1),
            fast: Duration::from_millis(100),
            slow: Duration::from_secs(30),
            deadline: Duration::from_secs(2),
            samplers: BTreeMap::new(),
            exclude_devices: Vec::new(),
            passthrough: Vec::new(),
            destinations: Arc::default(),
            microburst: Arc::default(),
            rails: Arc::default(),
            gpu_affinity: Arc::default(),
            state_dir: None,
            ring_sections: 16_384,
            ring_readers: 1,
            budget: Budget::UNBOUNDED,
            ib_fabric: None,
            reader_lease: None,
            collectives: None,
            probing: None,
            probe_plans: None,
            forwarding_tables: None,
            sandbox: Sandbox::default(),
        }
    }
}

impl Settings {
    /// Whether the sampler is on.
    pub fn is_on(&self, spec: &Spec) -> bool {
        self.samplers.get(spec.name).copied().unwrap_or(spec.default)
    }

    /// Jobs of the host; closed if the `workload` sampler is off.
    pub fn jobs(&self) -> Arc<Jobs> {
        let jobs = Jobs::default();
        if !self.looks_for_jobs() {
            jobs.close();
        }
        Arc::new(jobs)
    }

    /// Whether the `workload` sampler is on.
    pub fn looks_for_jobs(&self) -> bool {
        by_name("workload").is_some_and(|spec| self.is_on(spec))
    }
}
