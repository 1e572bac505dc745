//! What an ingest collector knows of its judges, and a judge of its lease: metrics, and remarks for `/readyz`.

use std::sync::Arc;

use parking_lot::Mutex;
use prometheus::{IntCounterVec, IntGauge, Opts, Registry};

/// Metrics and remarks.
#[derive(Clone)]
pub struct JudgeTelemetry {
    /// Judges that answer as the active one; 1 unless there is trouble. Of ingest collectors only.
    pub active: IntGauge,
    /// Requests of agents that were passed on to the judge, by method and result.
    pub relayed: IntCounterVec,
    /// Epoch of the lease that this judge holds; 0 without a lease.
    pub epoch: IntGauge,
    remarks: Arc<Mutex<Vec<(String, String)>>>,
}

impl JudgeTelemetry {
    /// Declares the metrics.
    ///
    /// # Errors
    /// If a name is taken.
    pub fn new(registry: &Registry) -> Result<Self, prometheus::Error> {
        let gauge = |name: &str, help: &str| {
            let gauge = IntGauge::new(name, help)?;
            registry.register(Box::new(gauge.clone()))?;
            Ok::<_, prometheus::Error>(gauge)
        };
        let relayed = IntCounterVec::new(
            Opts::new(
                "fabriclens_judge_relayed_requests_total",
                "Requests of agents that this ingest collector passed on to the judge (result `answered`) or could not (`unanswered`).",
            ),
            &["method", "result"],
        )?;
        registry.register(Box::new(relayed.clone()))?;
        Ok(Self {
            active: gauge(
                "fabriclens_judge_active",
                "Judges that answer this ingest collector as the active one; 1 unless there is trouble. 0 in other roles.",
            )?,
            relayed,
            epoch: gauge(
                "fabriclens_judge_lease_epoch",
                "Epoch of the lease that this judge holds; 0 without a lease.",
            )?,
            remarks: Arc::default(),
        })
    }

    /// Replaces the remarks: what, and details for callers with a role.
    pub fn set_remarks(&self, remarks: Vec<(String, String)>) {
        *self.remarks.lock() = remarks;
    }

    /// Present remarks.
    pub fn remarks(&self) -> Vec<(String, String)> {
        self.remarks.lock().clone()
    }
}
