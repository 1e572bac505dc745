//! Calls to the running kernel: sockets, ioctls and libibverbs. The agent creates one instance per device.

mod address;
mod dcb;
mod error;
mod ethtool;
mod ethtool_ioctl;
mod events;
mod flow_socket;
pub mod fuzzing;
mod link;
mod lldp;
mod module;
mod netdev_settings;
mod netlink;
mod nvml;
mod rdma;
mod resources;
mod sockets;
mod std_stats;
mod sys;
mod sys_udp;
mod uevent;
mod umad;
mod verbs;

pub use flow_socket::{FlowAddress, FlowSocket, IcmpError, IcmpKind, wait_for_errors};
pub use nvml::report_by as nvml_report_by;
pub use sys::PacketSocket;
pub use umad::Umad;
pub use verbs::UdPort;

use std::path::PathBuf;
use std::sync::Arc;

use crate::nvml::NvmlReport;
use crate::{
    CallError, CmId, Dcb, DriverInfo, EventSource, InterfaceAddress, KernelCalls, LinkState, LldpNeighbor,
    ModuleDiagnostics, NetdevSettings, Qp, QpCounter, RdmaLink, StatNames, TcpSocket, VerbsPort,
};

/// The running kernel, seen from the network and PID namespace of this process.
///
/// Creating it opens nothing: each kind of call opens its socket at first use and keeps it. Calls of one kind are
/// serialized, and a call waits for its driver, which may take a minute with faulty firmware. With one instance per
/// device thread, a hanging device delays no other.
#[derive(Debug)]
pub struct LiveKernel {
    proc: PathBuf,
    rdma: netlink::ReopeningChannel,
    route: netlink::ReopeningChannel,
    sockets: netlink::ReopeningChannel,
    ethtool: ethtool::Ethtool,
    ioctl: ethtool_ioctl::Ioctl,
    lldp: lldp::Lldp,
}

impl LiveKernel {
    /// `proc` is the procfs of this PID namespace, for process names.
    pub fn new(proc: impl Into<PathBuf>) -> Self {
        Self {
            proc: proc.into(),
            rdma: netlink::ReopeningChannel::new(libc::NETLINK_RDMA),
            route: netlink::ReopeningChannel::new(libc::NETLINK_ROUTE),
            sockets: netlink::ReopeningChannel::new(libc::NETLINK_SOCK_DIAG),
            ethtool: ethtool::Ethtool::default(),
            ioctl: ethtool_ioctl::Ioctl::default(),
            lldp: lldp::Lldp::default(),
        }
    }

    /// Reason why libibverbs cannot be used, for `doctor`; `None` if it can.
    pub fn verbs_unavailable() -> Option<String> {
        verbs::Monitor::unavailable()
    }
}

impl Default for LiveKernel {
    fn default() -> Self {
        Self::new("/proc")
    }
}

impl KernelCalls for LiveKernel {
    fn rdma_links(&self) -> Result<Vec<RdmaLink>, CallError> {
        rdma::links(&self.rdma)
    }

    fn rdma_counters(&self, link: &RdmaLink, out: &mut Vec<(Arc<str>, u64)>) -> Result<(), CallError> {
        rdma::counters(&self.rdma, link, out)
    }

    fn rdma_qps(&self, of: Option<&RdmaLink>) -> Result<Vec<Qp>, CallError> {
        resources::qps(&self.rdma, of, &self.proc)
    }

    fn rdma_cm_ids(&self, of: Option<&RdmaLink>) -> Result<Vec<CmId>, CallError> {
        resources::cm_ids(&self.rdma, of)
    }

    fn rdma_qp_counters(&self, of: Option<&RdmaLink>) -> Result<Vec<QpCounter>, CallError> {
        resources::qp_counters(&self.rdma, of)
    }

    fn driver(&self, netdev: &str) -> Result<DriverInfo, CallError> {
        self.ioctl.driver(netdev)
    }

    fn stat_names(&self, netdev: &str) -> Result<StatNames, CallError> {
        self.ioctl.stat_names(netdev)
    }

    fn stat_values(&self, netdev: &str, names: &StatNames, out: &mut Vec<u64>) -> Result<(), CallError> {
        self.ioctl.stat_values(netdev, names, out)
    }

    fn std_stats(&self, netdev: &str, out: &mut Vec<(Arc<str>, u64)>) -> Result<(), CallError> {
        std_stats::read(&self.ethtool, netdev, out)
    }

    fn link_state(&self, netdev: &str) -> Result<LinkState, CallError> {
        link::state(&self.ethtool, netdev)
    }

    fn max_rate_bits(&self, netdev: &str) -> Result<u64, CallError> {
        link::max_rate_bits(&self.ethtool, netdev)
    }

    fn netdev_settings(&self, netdev: &str) -> Result<NetdevSettings, CallError> {
        netdev_settings::read(&self.ethtool, netdev)
    }

    fn module(&self, netdev: &str) -> Result<ModuleDiagnostics, CallError> {
        module::read(&self.ethtool, netdev)
    }

    fn dcb(&self, netdev: &str) -> Result<Dcb, CallError> {
        dcb::get(&self.route, netdev)
    }

    fn verbs_port(&self, device: &str, port: u32) -> Result<VerbsPort, CallError> {
        verbs::port(device, port)
    }

    fn dma_buf(&self, device: &str) -> Result<bool, CallError> {
        verbs::dma_buf(device)
    }

    fn nvml(&self) -> Result<NvmlReport, CallError> {
        nvml::report()
    }

    fn addresses(&self) -> Result<Vec<InterfaceAddress>, CallError> {
        address::all(&self.route)
    }

    fn tcp_sockets(&self) -> Result<Vec<TcpSocket>, CallError> {
        sockets::tcp(&self.sockets)
    }

    fn lldp_neighbor(&self, netdev: &str) -> Result<LldpNeighbor, CallError> {
        self.lldp.lldp_neighbor(netdev)
    }

    fn events(&self) -> Result<Box<dyn EventSource>, CallError> {
        Ok(Box::new(events::LiveEvents::open()?))
    }
}
