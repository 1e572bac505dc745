//! Calls to the Linux kernel other than file reads: RDMA netlink, ethtool, DCB, verbs, NVML, link events.
//!
//! [`KernelCalls`] has two implementations: [`live`] (sockets and ioctls; with eBPF the only `unsafe` code of the
//! workspace) and [`recorded`] (text that `ethtool -S`, `rdma -j` and `dcb -j` print, in a directory). Samplers use
//! only the trait, so that a recorded host runs the same code as a real one. No call changes the state of the host.

pub mod datagrams;
mod intern;
pub mod live;
pub mod lldp;
pub mod nvml;
pub mod recorded;
mod table;

pub use lldp::LldpNeighbor;

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// Reason why a call gave no data. `Display` names the call and the remedy, if there is one.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// Kernel, driver or recording does not support the call; not an error of the host.
    #[error("{what}: not offered ({why})")]
    Unsupported {
        /// Name of the call.
        what: String,
        /// Reason.
        why: String,
    },
    /// A privilege is missing.
    #[error("{what}: not permitted; {remedy}")]
    Denied {
        /// Name of the call.
        what: String,
        /// Remedy.
        remedy: &'static str,
    },
    /// The device is gone or was replaced: discover again.
    #[error("{what}: device is gone")]
    Gone {
        /// Name of the call.
        what: String,
    },
    /// The list of statistics has changed since its names were read: read the names again.
    #[error("{what}: list of statistics changed from {had} to {has} entries")]
    ListChanged {
        /// Name of the call.
        what: String,
        /// Entries when the names were read.
        had: usize,
        /// Entries now.
        has: usize,
    },
    /// Any other failure.
    #[error("{what}")]
    Failed {
        /// Name of the call.
        what: String,
        /// Error of the kernel.
        #[source]
        source: std::io::Error,
    },
}

/// Port of an RDMA device, from RDMA netlink `PORT_GET` and `GET`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RdmaLink {
    /// Kernel's device index; cyclic, so key on index and node GUID.
    pub index: u32,
    /// Device name, for instance `mlx5_0`.
    pub device: String,
    /// Port number from 1.
    pub port: u32,
    /// Logical state: 1 DOWN, 2 INIT, 3 ARMED, 4 ACTIVE, 5 ACTIVE_DEFER.
    pub state: u8,
    /// Physical state: 1 Sleep, 2 Polling, 3 Disabled, 4 Training, 5 LinkUp, 6 Recovery, 7 PhyTest.
    pub physical_state: u8,
    /// Netdev behind the port (RoCE, iWARP).
    pub netdev: Option<String>,
    /// Node GUID in host order, if reported.
    pub node_guid: Option<u64>,
    /// Firmware version, if reported.
    pub firmware: Option<String>,
    /// Base LID; `None` on Ethernet.
    pub lid: Option<u32>,
    /// True for management-only (SMI) devices, which carry no traffic.
    pub smi_only: bool,
}

/// Queue pair, from RDMA netlink `RES_QP_GET`. On mlx5 each one costs a firmware command: query rarely.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Qp {
    /// Device name.
    pub device: String,
    /// Port, if bound to one.
    pub port: Option<u32>,
    /// Local QP number.
    pub lqpn: u32,
    /// Remote QP number (RC and UC).
    pub rqpn: Option<u32>,
    /// `RC`, `UD`, `DRIVER` …
    pub kind: String,
    /// `RTS`, `INIT` …
    pub state: String,
    /// Creator, in this PID namespace.
    pub pid: Option<u32>,
    /// Command name of the creator or kernel user.
    pub comm: Option<String>,
}

/// Identifier of the RDMA connection manager (`cm_id`): the kernel's only source for the remote address of a queue
/// pair. Programs that exchange addresses themselves (NCCL, most MPIs) have none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CmId {
    /// Device name.
    pub device: String,
    /// Port, if bound to one.
    pub port: Option<u32>,
    /// Queue pair, if it has one.
    pub lqpn: Option<u32>,
    /// `CONNECT`, `LISTEN` …
    pub state: String,
    /// Creator, in this PID namespace.
    pub pid: Option<u32>,
    /// Local address and port of the connection manager.
    pub source: Option<SocketAddr>,
    /// Remote address and port.
    pub destination: Option<SocketAddr>,
}

/// A hardware counter bound to queue pairs (`rdma statistic qp set|bind`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QpCounter {
    /// Device name.
    pub device: String,
    /// Port.
    pub port: Option<u32>,
    /// Kernel's number of the counter on this device; reused after the counter is gone.
    pub id: u32,
    /// Bound queue pairs.
    pub qps: Vec<u32>,
    /// Process whose queue pairs are bound, if bound by process.
    pub pid: Option<u32>,
    /// Names as in `hw_counters`, and values.
    pub values: Vec<(Arc<str>, u64)>,
}

/// An established TCP socket, from socket diagnosis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TcpSocket {
    /// Kernel's number of the socket; never reused.
    pub cookie: u64,
    /// Local address.
    pub local: SocketAddr,
    /// Remote address.
    pub remote: SocketAddr,
    /// Version 2 cgroup in which the socket was created, as the inode of its directory. Reported since Linux 5.7; the
    /// root if processes are in cgroups of version 1.
    pub cgroup: Option<u64>,
    /// Bytes acknowledged by the remote end, and bytes received; without headers.
    pub transferred: Option<[u64; 2]>,
    /// Smoothed round-trip time.
    pub rtt: Option<Duration>,
}

/// `ethtool -i`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DriverInfo {
    /// Kernel module, for instance `mlx5_core`.
    pub driver: String,
    /// Driver version.
    pub version: String,
    /// Firmware version.
    pub firmware: String,
    /// PCI address, or another bus address.
    pub bus: String,
}

/// `LINKSTATE_GET` of ethtool netlink.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(default)]
pub struct LinkState {
    /// Link detected.
    pub up: Option<bool>,
    /// Reason for being down: the kernel's name in lower snake case (`no_cable`, `autoneg`, `bad_signal_integrity` …).
    pub reason: Option<String>,
    /// Detail of `reason`, in the same form.
    pub detail: Option<String>,
}

/// Settings of a netdev by ethtool netlink; what the driver does not report is absent.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(default)]
pub struct NetdevSettings {
    /// Forward error correction in use: `off`, `rs`, `baser`, `llrs`, or `mode_N` by the bit of its link mode.
    pub fec: Option<String>,
    /// Entries of each receive ring.
    pub receive_ring: Option<u32>,
    /// Entries of each send ring.
    pub transmit_ring: Option<u32>,
    /// Obeys 802.3x pause.
    pub receive_pause: Option<bool>,
    /// Sends 802.3x pause.
    pub transmit_pause: Option<bool>,
}

/// Diagnostics of an optical or copper module; values that the module does not support are absent.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(default)]
pub struct ModuleDiagnostics {
    /// Degrees Celsius.
    pub temperature: Option<f64>,
    /// Volts.
    pub supply: Option<f64>,
    /// One entry per lane, from lane 0.
    pub lanes: Vec<ModuleLane>,
}

/// One lane of a [`ModuleDiagnostics`].
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(default)]
pub struct ModuleLane {
    /// Received optical power, watts.
    pub rx_power: Option<f64>,
    /// Transmitted optical power, watts.
    pub tx_power: Option<f64>,
    /// Laser bias current, amperes.
    pub tx_bias: Option<f64>,
}

/// IEEE DCB configuration and PFC counts of a netdev.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dcb {
    /// Priorities that can have PFC.
    pub pfc_capable: Option<u8>,
    /// Bitmap of priorities with PFC on.
    pub pfc_enabled: Option<u8>,
    /// The port can bypass MACsec for PFC frames.
    pub macsec_bypass: Option<bool>,
    /// Delay allowance, bit times.
    pub pfc_delay: Option<u16>,
    /// PFC frames sent per priority. Frozen on mlx5 (see `live`).
    pub requests: Option<[u64; 8]>,
    /// PFC frames received per priority.
    pub indications: Option<[u64; 8]>,
    /// Priority to traffic class.
    pub prio_tc: Option<[u8; 8]>,
    /// Transmit bandwidth share per traffic class, percent.
    pub tc_bandwidth: Option<[u8; 8]>,
    /// Scheduling algorithm per traffic class: 0 strict, 1 CBS, 2 ETS, 255 vendor.
    pub tc_algorithm: Option<[u8; 8]>,
    /// APP table: (selector, protocol, priority); selector 5 = DSCP.
    pub apps: Vec<(u8, u16, u8)>,
    /// Priority to receive buffer (mlx5).
    pub prio_buffer: Option<[u8; 8]>,
    /// Size of each receive buffer, bytes; all zeros if the driver does not report them.
    pub buffer_size: Option<[u32; 8]>,
}

/// Attributes of an RDMA port that only verbs (`ibv_query_port`) report.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VerbsPort {
    /// Active speed of the port (all lanes), bits per second as the kernel's sysfs `rate` counts, up to XDR.
    pub rate_bits: Option<u64>,
    /// Lanes: 1, 2, 4, 8, 12.
    pub width: Option<u32>,
    /// Signalling name: `SDR` … `XDR`.
    pub speed: Option<&'static str>,
    /// Active MTU, bytes.
    pub mtu: Option<u32>,
    /// Largest MTU that the port supports, bytes.
    pub mtu_max: Option<u32>,
    /// Base LID.
    pub lid: Option<u32>,
    /// LID of the subnet manager.
    pub sm_lid: Option<u32>,
}

/// Kernel event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// RDMA device added or renamed.
    DeviceAdded(String),
    /// RDMA device removed.
    DeviceRemoved(String),
    /// A netdev's carrier changed.
    Carrier {
        /// Netdev name.
        netdev: String,
        /// True if the carrier is up.
        up: bool,
    },
    /// A netdev appeared or vanished.
    NetdevChanged(String),
    /// Somebody changed the DCB configuration of a netdev by netlink.
    DcbChanged(String),
    /// An asynchronous verbs event of a device or port.
    Async {
        /// RDMA device.
        device: String,
        /// Port; `None` for events of the device.
        port: Option<u32>,
        /// `port_active`, `port_err`, `lid_change`, `sm_change`, `device_fatal` …
        kind: &'static str,
    },
}

/// An IP address of an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InterfaceAddress {
    /// Index of the interface.
    pub interface: u32,
    /// The address.
    pub address: std::net::IpAddr,
    /// Prefix length of its network, bits.
    pub prefix: u8,
}

/// Waits for [`Event`]s.
pub trait EventSource: Send {
    /// Next event, or `None` once `timeout` has passed.
    ///
    /// # Errors
    /// [`CallError`] if the source is lost permanently; the caller opens a new one and discovers again.
    fn wait(&mut self, timeout: Duration) -> Result<Option<Event>, CallError>;
}

/// Statistics names of a netdev, in the order of their values.
pub type StatNames = Arc<[Arc<str>]>;

/// Kernel calls. Each may block as long as the driver does: call from a device's own thread.
///
/// # Errors
/// Every method returns [`CallError`]; `Unsupported` means absent.
#[allow(missing_docs, clippy::missing_errors_doc, reason = "documented on the trait")]
pub trait KernelCalls: Send + Sync + fmt::Debug {
    /// All RDMA ports.
    fn rdma_links(&self) -> Result<Vec<RdmaLink>, CallError>;
    /// Default and enabled optional counters of a port by one `STAT_GET`, appended to `out` as (name, value).
    fn rdma_counters(&self, link: &RdmaLink, out: &mut Vec<(Arc<str>, u64)>) -> Result<(), CallError>;
    /// Queue pairs of a port, or all. Expensive: the kernel queries the device for each.
    fn rdma_qps(&self, of: Option<&RdmaLink>) -> Result<Vec<Qp>, CallError>;
    /// Identifiers of the connection manager of a port, or all. Queries no device.
    fn rdma_cm_ids(&self, of: Option<&RdmaLink>) -> Result<Vec<CmId>, CallError>;
    /// Counters bound to queue pairs of a port, or all; may be empty. Queries the device for each.
    fn rdma_qp_counters(&self, of: Option<&RdmaLink>) -> Result<Vec<QpCounter>, CallError>;
    /// Driver of a netdev.
    fn driver(&self, netdev: &str) -> Result<DriverInfo, CallError>;
    /// Names of `ethtool -S`.
    fn stat_names(&self, netdev: &str) -> Result<StatNames, CallError>;
    /// Values of `ethtool -S`, one per name. `ListChanged` if the driver's list is no longer `names`. Replaces `out`.
    fn stat_values(&self, netdev: &str, names: &StatNames, out: &mut Vec<u64>) -> Result<(), CallError>;
    /// Standard statistics as `group/attribute` (`pause/tx_pause_frames`, `fec/corrected_blocks`,
    /// `eth-mac/FramesTransmittedOK`, `rmon/hist_rx[64-127]` …), only those the driver reports. Replaces `out`.
    fn std_stats(&self, netdev: &str, out: &mut Vec<(Arc<str>, u64)>) -> Result<(), CallError>;
    /// Link state with the reason for being down.
    fn link_state(&self, netdev: &str) -> Result<LinkState, CallError>;
    /// Fastest supported link mode, bits per second.
    fn max_rate_bits(&self, netdev: &str) -> Result<u64, CallError>;
    /// Forward error correction, ring sizes, 802.3x pause. Takes the RTNL lock and firmware commands: call rarely.
    fn netdev_settings(&self, netdev: &str) -> Result<NetdevSettings, CallError>;
    /// Module diagnostics. Reads over slow I2C: call at most every 30 s. Needs CAP_NET_ADMIN.
    fn module(&self, netdev: &str) -> Result<ModuleDiagnostics, CallError>;
    /// DCB state.
    fn dcb(&self, netdev: &str) -> Result<Dcb, CallError>;
    /// Port attributes by verbs; `Unsupported` without rdma-core.
    fn verbs_port(&self, device: &str, port: u32) -> Result<VerbsPort, CallError>;
    /// Whether the driver of an RDMA device registers memory of other devices, such as GPUs, by dma-buf; `Unsupported`
    /// without rdma-core. Opens the device for the call.
    fn dma_buf(&self, device: &str) -> Result<bool, CallError> {
        let (what, why) = (format!("memory registration by dma-buf of {device}"), "this host answers no calls".into());
        Err(CallError::Unsupported { what, why })
    }
    /// GPUs by NVIDIA's management library; `Unsupported` without the library or its driver. Opens all GPUs for the call,
    /// and never returns if one of them hangs.
    fn nvml(&self) -> Result<nvml::NvmlReport, CallError> {
        Err(CallError::Unsupported { what: "GPUs by NVML".into(), why: "this host answers no calls".into() })
    }
    /// IP addresses of all interfaces of this network namespace.
    fn addresses(&self) -> Result<Vec<InterfaceAddress>, CallError> {
        let (what, why) = ("addresses of the interfaces".into(), "this host has no running kernel".into());
        Err(CallError::Unsupported { what, why })
    }
    /// Established TCP sockets of this network namespace, IPv4 and IPv6, without connections of the host to itself.
    fn tcp_sockets(&self) -> Result<Vec<TcpSocket>, CallError> {
        let (what, why) = ("TCP sockets".into(), "this host has no running kernel".into());
        Err(CallError::Unsupported { what, why })
    }
    /// LLDP neighbor of a netdev; `Unsupported` until a frame was received. The first call starts listening, which
    /// needs CAP_NET_RAW.
    fn lldp_neighbor(&self, netdev: &str) -> Result<LldpNeighbor, CallError> {
        let (what, why) = (format!("LLDP neighbor of {netdev}"), "this host has no running kernel".into());
        Err(CallError::Unsupported { what, why })
    }
    /// Opens a source of events.
    fn events(&self) -> Result<Box<dyn EventSource>, CallError>;
}
