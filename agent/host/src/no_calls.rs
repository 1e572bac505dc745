//! Kernel calls of a host without any: only files exist. For tests.

use fabriclens_kernel::{
    CallError, CmId, Dcb, DriverInfo, EventSource, KernelCalls, LinkState, ModuleDiagnostics, NetdevSettings, Qp,
    QpCounter, RdmaLink, StatNames, VerbsPort,
};
use std::sync::Arc;

/// Implementation of [`KernelCalls`] that answers `Unsupported` to every call.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoCalls;

fn none<T>(what: &str) -> Result<T, CallError> {
    Err(CallError::Unsupported { what: what.into(), why: "this host answers no calls".into() })
}

impl KernelCalls for NoCalls {
    fn rdma_links(&self) -> Result<Vec<RdmaLink>, CallError> {
        none("rdma links")
    }
    fn rdma_counters(&self, _: &RdmaLink, _: &mut Vec<(Arc<str>, u64)>) -> Result<(), CallError> {
        none("rdma counters")
    }
    fn rdma_qps(&self, _: Option<&RdmaLink>) -> Result<Vec<Qp>, CallError> {
        none("queue pairs")
    }
    fn rdma_cm_ids(&self, _: Option<&RdmaLink>) -> Result<Vec<CmId>, CallError> {
        none("RDMA connections")
    }
    fn rdma_qp_counters(&self, _: Option<&RdmaLink>) -> Result<Vec<QpCounter>, CallError> {
        none("counters of queue pairs")
    }
    fn driver(&self, _: &str) -> Result<DriverInfo, CallError> {
        none("driver")
    }
    fn stat_names(&self, _: &str) -> Result<StatNames, CallError> {
        none("ethtool statistics")
    }
    fn stat_values(&self, _: &str, _: &StatNames, _: &mut Vec<u64>) -> Result<(), CallError> {
        none("ethtool statistics")
    }
    fn std_stats(&self, _: &str, _: &mut Vec<(Arc<str>, u64)>) -> Result<(), CallError> {
        none("standard statistics")
    }
    fn link_state(&self, _: &str) -> Result<LinkState, CallError> {
        none("link state")
    }
    fn max_rate_bits(&self, _: &str) -> Result<u64, CallError> {
        none("link modes")
    }
    fn netdev_settings(&self, _: &str) -> Result<NetdevSettings, CallError> {
        none("settings of a netdev")
    }
    fn module(&self, _: &str) -> Result<ModuleDiagnostics, CallError> {
        none("module")
    }
    fn dcb(&self, _: &str) -> Result<Dcb, CallError> {
        none("dcb")
    }
    fn verbs_port(&self, _: &str, _: u32) -> Result<VerbsPort, CallError> {
        none("verbs")
    }
    fn events(&self) -> Result<Box<dyn EventSource>, CallError> {
        none("events")
    }
}
