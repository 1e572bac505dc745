//! Inventory of a host: RDMA devices, their ports, the netdevs behind them, their classes, and GPUs.
//!
//! Filled by `discover`, read by `schedule` and the samplers. Equality decides whether a device was replaced.

use crate::gpu::Gpu;
use fabriclens_kernel::RdmaLink;
use std::path::PathBuf;
use std::sync::Arc;

/// Result of one discovery.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Inventory {
    /// RDMA devices, by name.
    pub devices: Vec<Arc<Device>>,
    /// Physical netdevs without an RDMA port, and members of an RDMA bond, by name.
    pub netdevs: Vec<Arc<Netdev>>,
    /// GPUs and accelerators, by PCI address.
    pub gpus: Vec<Arc<Gpu>>,
    /// Names of all PCI functions: the GPUs are searched for again when they change.
    pub pci_functions: Arc<[String]>,
    /// The host has a single NUMA node.
    pub has_one_node: bool,
}

/// Class of a function; decides what may be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// Physical function, or a device of a driver without other classes.
    Physical,
    /// SR-IOV virtual function: has no view of the physical port.
    Virtual,
    /// Scalable function: has no view of the physical port.
    Subfunction,
    /// Switchdev representor: its directions are swapped, and its traffic must not be added to the uplink's.
    Representor,
    /// Physical function reserved by the fabric manager: reading its registers floods the kernel log.
    Restricted,
    /// Multi-plane SMI device: management only, no traffic.
    Management,
    /// Software device without hardware (rxe, siw).
    Software,
}

impl Class {
    /// Value of the label `function`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Physical => "pf",
            Self::Virtual => "vf",
            Self::Subfunction => "sf",
            Self::Representor => "representor",
            Self::Restricted => "restricted",
            Self::Management => "management",
            Self::Software => "software",
        }
    }

    /// Whether link and physical-port counters belong to this function.
    pub fn owns_port(self) -> bool {
        matches!(self, Self::Physical | Self::Software)
    }

    /// Whether any counter may be read.
    pub fn may_read(self) -> bool {
        !matches!(self, Self::Restricted | Self::Management)
    }
}

/// Link layer of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinkLayer {
    /// InfiniBand, or Omni-Path, which reports the same.
    InfiniBand,
    /// Ethernet: RoCE or iWARP.
    Ethernet,
    /// Not reported.
    Unknown,
}

/// RDMA transport of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// InfiniBand.
    InfiniBand,
    /// Omni-Path.
    OmniPath,
    /// RoCE with version 2 GIDs (routable, UDP), possibly also with version 1 GIDs.
    RoceV2,
    /// RoCE with version 1 GIDs only.
    RoceV1,
    /// iWARP (TCP).
    Iwarp,
    /// AWS SRD.
    Efa,
    /// RoCE of unknown version.
    Roce,
    /// No RDMA.
    Ethernet,
    /// Not reported.
    Unknown,
}

impl Transport {
    /// Value of the label `fabric`.
    pub fn fabric(self) -> &'static str {
        match self {
            Self::InfiniBand => "infiniband",
            Self::OmniPath => "omnipath",
            Self::Roce | Self::RoceV2 | Self::RoceV1 => "roce",
            Self::Iwarp => "iwarp",
            Self::Efa => "efa",
            Self::Ethernet => "ethernet",
            Self::Unknown => "",
        }
    }
}

/// An RDMA device.
#[derive(Debug, Clone, PartialEq)]
pub struct Device {
    /// `mlx5_0`, `mlx5_bond_0` …
    pub name: Arc<str>,
    /// Kernel's device index from netlink; with the GUID it identifies this incarnation.
    pub index: Option<u32>,
    /// Node GUID as sysfs prints it.
    pub node_guid: Option<String>,
    /// Kernel module of the RDMA driver family, for instance `mlx5_core`, `bnxt_re`, `rdma_rxe`.
    pub driver: Arc<str>,
    /// Firmware version.
    pub firmware: Option<String>,
    /// Model, for instance `MT4129`.
    pub model: Option<String>,
    /// Board id (PSID on NVIDIA).
    pub board: Option<String>,
    /// PCI address.
    pub pci: Option<String>,
    /// Real directory of the PCI function.
    pub pci_dir: Option<PathBuf>,
    /// NUMA node; `None` if the kernel says -1.
    pub numa: Option<u32>,
    /// Class of the function.
    pub class: Class,
    /// Reason for a restricted class; empty otherwise.
    pub class_reason: &'static str,
    /// Netdevs of the members, for a bond of several ports (RoCE LAG).
    pub lag: Vec<String>,
    /// `<sys>/class/infiniband/<name>`.
    pub dir: PathBuf,
    /// Ports, by number.
    pub ports: Vec<Port>,
}

impl Device {
    /// A physical function without ports of which nothing else is known.
    pub fn bare(name: &str, driver: &str) -> Self {
        Self {
            name: name.into(),
            index: None,
            node_guid: None,
            driver: driver.into(),
            firmware: None,
            model: None,
            board: None,
            pci: None,
            pci_dir: None,
            numa: None,
            class: Class::Physical,
            class_reason: "",
            lag: Vec::new(),
            dir: PathBuf::new(),
            ports: Vec::new(),
        }
    }
}

/// `IB_PORT_ACTIVE`, as the kernel numbers the states of a port.
const ACTIVE: u8 = 4;

/// A port of an RDMA device.
#[derive(Debug, Clone, PartialEq)]
pub struct Port {
    /// Port number, from 1.
    pub number: u32,
    /// Link layer.
    pub link_layer: LinkLayer,
    /// RDMA transport.
    pub transport: Transport,
    /// Netdev of the port; `None` for the port of a bond, whose members are separate netdevs.
    pub netdev: Option<Arc<Netdev>>,
    /// Link attributes from netlink; `None` on kernels without it and in recordings that lack it.
    pub link: Option<RdmaLink>,
    /// `<dir>/ports/<number>`.
    pub dir: PathBuf,
}

/// A network interface.
#[derive(Debug, Clone, PartialEq)]
pub struct Netdev {
    /// `ens0np0` …
    pub name: Arc<str>,
    /// Kernel module.
    pub driver: Arc<str>,
    /// Firmware version.
    pub firmware: Option<String>,
    /// PCI address.
    pub pci: Option<String>,
    /// Real directory of the PCI function.
    pub pci_dir: Option<PathBuf>,
    /// NUMA node.
    pub numa: Option<u32>,
    /// Class of the function.
    pub class: Class,
    /// Bond or bridge that it is a member of.
    pub master: Option<String>,
    /// RDMA bond device of which it is a member.
    pub rdma_bond: Option<Arc<str>>,
    /// IP over InfiniBand, without Ethernet.
    pub infiniband: bool,
    /// `<sys>/class/net/<name>`.
    pub dir: PathBuf,
}

impl Device {
    /// True for a port of a multi-plane adapter that is none of its planes: such an adapter shows twelve Ethernet ports, of which
    /// those without an interface carry nothing. A port whose interface is in another network namespace is active.
    pub fn is_unused(&self, port: &Port) -> bool {
        let inactive = port.link.as_ref().is_some_and(|link| link.state != ACTIVE);
        let dark = port.link_layer == LinkLayer::Ethernet && port.netdev.is_none() && inactive;
        dark && self.lag.is_empty() && self.ports.iter().any(|other| other.netdev.is_some())
    }

    /// Text of all attributes whose change requires a new sampling thread.
    pub fn shape(&self) -> String {
        let port = |p: &Port| {
            (p.number, p.link_layer, p.netdev.as_ref().map(|n| n.shape()), p.link.is_some(), self.is_unused(p))
        };
        let ports: Vec<_> = self.ports.iter().map(port).collect();
        format!("{:?}", (&self.name, self.index, &self.node_guid, &self.pci, self.class, &self.lag, ports))
    }

    /// True if `other` is the same incarnation of the same device.
    pub fn same_epoch(&self, other: &Self) -> bool {
        self.name == other.name
            && self.index == other.index
            && self.node_guid == other.node_guid
            && self.pci == other.pci
    }
}

impl Netdev {
    /// Text of all attributes whose change requires a new sampling thread.
    pub fn shape(&self) -> String {
        format!("{:?}", (&self.name, &self.driver, &self.pci, self.class, &self.rdma_bond))
    }
}

impl Inventory {
    /// True if the host has neither devices nor netdevs.
    pub fn is_empty(&self) -> bool {
        self.devices.is_empty() && self.netdevs.is_empty()
    }
}
