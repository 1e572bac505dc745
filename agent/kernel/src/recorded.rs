//! Recorded hosts: [`KernelCalls`] answered from the files that `capture` or a simulator wrote.
//!
//! Every call reads its file again, because the tree may be rewritten while the agent runs. Writers should replace
//! files by renaming; a half-written file reads as `Failed`, for that call only. [`path`] lists the files.

mod dcb;
mod ethtool;
mod file;
pub mod fuzzing;
mod lldp;
pub mod path;
mod rdma;
mod sockets;
mod statistic;
pub mod write;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::intern;
use crate::nvml::NvmlReport;
use crate::{
    CallError, CmId, Dcb, DriverInfo, Event, EventSource, KernelCalls, LinkState, LldpNeighbor, ModuleDiagnostics,
    NetdevSettings, Qp, QpCounter, RdmaLink, StatNames, TcpSocket, VerbsPort,
};

/// A recorded host. Cheap to create; any number may read one tree.
#[derive(Debug)]
pub struct RecordedKernel {
    root: PathBuf,
}

impl RecordedKernel {
    /// Host recorded below `root`. Reads nothing yet; missing files read as absent.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    fn text(&self, path: &Path) -> Result<String, CallError> {
        file::text(&self.root, path)
    }

    fn json<T>(&self, path: &Path, parse: impl FnOnce(&str) -> Result<T, serde_json::Error>) -> Result<T, CallError> {
        parse(&self.text(path)?).map_err(|error| file::bad_json(&self.root, path, &error))
    }

    fn absent(&self, path: &Path, why: &str) -> CallError {
        CallError::Unsupported { what: self.root.join(path).display().to_string(), why: why.into() }
    }

    fn link_value(&self, netdev: &str) -> Result<serde_json::Value, CallError> {
        self.json(&path::link(netdev), |text| serde_json::from_str(text))
    }
}

impl KernelCalls for RecordedKernel {
    fn rdma_links(&self) -> Result<Vec<RdmaLink>, CallError> {
        let links = self.json(&path::rdma_link(), rdma::rows)?;
        let devices = match self.json(&path::rdma_dev(), rdma::rows) {
            Err(CallError::Unsupported { .. }) => Vec::new(),
            devices => devices?,
        };
        Ok(rdma::links(&links, &devices))
    }

    fn rdma_counters(&self, link: &RdmaLink, out: &mut Vec<(Arc<str>, u64)>) -> Result<(), CallError> {
        let path = path::rdma_statistic();
        let before = out.len();
        let found = self.json(&path, |text| statistic::of_port(text, &link.device, link.port, out));
        match found {
            Ok(true) => Ok(()),
            Ok(false) => Err(self.absent(&path, &format!("no counters of {} port {}", link.device, link.port))),
            Err(error) => {
                out.truncate(before);
                Err(error)
            }
        }
    }

    fn rdma_qps(&self, of: Option<&RdmaLink>) -> Result<Vec<Qp>, CallError> {
        Ok(rdma::of_port(rdma::qps(&self.json(&path::res_qp(), rdma::rows)?), of, |qp| (&qp.device, qp.port)))
    }

    fn rdma_cm_ids(&self, of: Option<&RdmaLink>) -> Result<Vec<CmId>, CallError> {
        Ok(rdma::of_port(rdma::cm_ids(&self.json(&path::res_cm_id(), rdma::rows)?), of, |id| (&id.device, id.port)))
    }

    fn rdma_qp_counters(&self, of: Option<&RdmaLink>) -> Result<Vec<QpCounter>, CallError> {
        let counters = rdma::qp_counters(&self.json(&path::qp_statistic(), rdma::rows)?);
        Ok(rdma::of_port(counters, of, |counter| (&counter.device, counter.port)))
    }

    fn driver(&self, netdev: &str) -> Result<DriverInfo, CallError> {
        let path = path::ethtool_i(netdev);
        let info = ethtool::driver(&self.text(&path)?);
        if info.driver.is_empty() {
            return Err(file::malformed(&self.root, &path, 1, "no line `driver: NAME`"));
        }
        Ok(info)
    }

    fn stat_names(&self, netdev: &str) -> Result<StatNames, CallError> {
        let path = path::ethtool_s(netdev);
        let mut names = Vec::new();
        ethtool::statistics(&self.text(&path)?, |name, _| names.push(intern::shared(name)))
            .map_err(|bad| file::malformed(&self.root, &path, bad.line, bad.why))?;
        // A driver without statistics is `Unsupported` live, too.
        if names.is_empty() {
            return Err(self.absent(&path, "no statistics in it"));
        }
        Ok(names.into())
    }

    fn stat_values(&self, netdev: &str, names: &StatNames, out: &mut Vec<u64>) -> Result<(), CallError> {
        let path = path::ethtool_s(netdev);
        let text = self.text(&path)?;
        let (mut values, mut same) = (Vec::with_capacity(names.len()), true);
        ethtool::statistics(&text, |name, value| {
            same &= names.get(values.len()).is_some_and(|known| **known == *name);
            values.push(value);
        })
        .map_err(|bad| file::malformed(&self.root, &path, bad.line, bad.why))?;
        // Compares names as well, as live calls do.
        if !same || values.len() != names.len() {
            let what = self.root.join(path).display().to_string();
            return Err(CallError::ListChanged { what, had: names.len(), has: values.len() });
        }
        *out = values;
        Ok(())
    }

    fn std_stats(&self, netdev: &str, out: &mut Vec<(Arc<str>, u64)>) -> Result<(), CallError> {
        let members: std::collections::BTreeMap<String, u64> =
            self.json(&path::std_stats(netdev), |text| serde_json::from_str(text))?;
        out.clear();
        out.extend(members.iter().map(|(name, value)| (intern::shared(name), *value)));
        Ok(())
    }

    fn link_state(&self, netdev: &str) -> Result<LinkState, CallError> {
        self.json(&path::link(netdev), |text| serde_json::from_str(text))
    }

    fn max_rate_bits(&self, netdev: &str) -> Result<u64, CallError> {
        let rate = self.link_value(netdev)?.get("max_rate_bits").and_then(serde_json::Value::as_u64);
        rate.ok_or_else(|| self.absent(&path::link(netdev), "no `max_rate_bits` in it"))
    }

    fn netdev_settings(&self, netdev: &str) -> Result<NetdevSettings, CallError> {
        self.json(&path::netdev_settings(netdev), |text| serde_json::from_str(text))
    }

    fn module(&self, netdev: &str) -> Result<ModuleDiagnostics, CallError> {
        self.json(&path::module(netdev), |text| serde_json::from_str(text))
    }

    fn dcb(&self, netdev: &str) -> Result<Dcb, CallError> {
        self.json(&path::dcb(netdev), dcb::parse)
    }

    fn verbs_port(&self, device: &str, port: u32) -> Result<VerbsPort, CallError> {
        let path = path::verbs();
        let rows = self.json(&path, rdma::rows)?;
        rdma::verbs(&rows, device, port).ok_or_else(|| self.absent(&path, &format!("no {device} port {port} in it")))
    }

    fn dma_buf(&self, device: &str) -> Result<bool, CallError> {
        let path = path::dma_buf();
        let devices: std::collections::BTreeMap<String, bool> = self.json(&path, |text| serde_json::from_str(text))?;
        devices.get(device).copied().ok_or_else(|| self.absent(&path, &format!("no {device} in it")))
    }

    fn nvml(&self) -> Result<NvmlReport, CallError> {
        self.json(&path::nvml(), |text| serde_json::from_str(text))
    }

    fn tcp_sockets(&self) -> Result<Vec<TcpSocket>, CallError> {
        Ok(sockets::tcp(&self.json(&path::tcp_sockets(), rdma::rows)?, &self.root))
    }

    fn lldp_neighbor(&self, netdev: &str) -> Result<LldpNeighbor, CallError> {
        let path = path::lldp(netdev);
        self.json(&path, lldp::neighbor)?.ok_or_else(|| self.absent(&path, "no neighbor in it"))
    }

    fn events(&self) -> Result<Box<dyn EventSource>, CallError> {
        Ok(Box::new(NoEvents))
    }
}

/// Event source of a recorded host: gives no events.
struct NoEvents;

impl EventSource for NoEvents {
    fn wait(&mut self, timeout: Duration) -> Result<Option<Event>, CallError> {
        std::thread::sleep(timeout);
        Ok(None)
    }
}
