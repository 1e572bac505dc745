//! What a host has: RDMA devices, their ports, the netdevs behind them, and how each may be read.
//!
//! Filled by `discover`, read by `schedule` and the samplers. Equality decides whether a device was replaced.

use fabriclens_kernel::RdmaLink;
use std::path::PathBuf;
use std::sync::Arc;

/// Everything found on one pass.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Inventory {
    /// RDMA devices, by name.
    pub devices: Vec<Arc<Device>>,
    /// Physical netdevs that no RDMA port stands on, and members of an RDMA bond, by name.
    pub netdevs: Vec<Arc<Netdev>>,
}

/// What kind of function a device is; decides what may be read at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// A physical function (or a driver that knows no other).
    Physical,
    /// SR-IOV virtual function: no physical-port view.
    Virtual,
    /// Scalable function: likewise.
    Subfunction,
    /// A switchdev representor: direction swapped, must not be added to the uplink.
    Representor,
    /// A physical function whose registers are closed to us (fabric manager's own): reading floods the kernel log.
    Restricted,
    /// Multi-plane SMI device: management only, no traffic.
    Management,
    /// No hardware below (rxe, siw).
    Software,
}

impl Class {
    /// As it appears in the `function` label.
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

/// What a port speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinkLayer {
    /// InfiniBand (and Omni-Path, which says the same).
    InfiniBand,
    /// Ethernet: RoCE or iWARP.
    Ethernet,
    /// Not told.
    Unknown,
}

/// How RDMA travels on a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// InfiniBand.
    InfiniBand,
    /// Omni-Path.
    OmniPath,
    /// RoCE with version 2 GIDs (routable, UDP); version 1 GIDs may be there too.
    RoceV2,
    /// RoCE with version 1 GIDs only.
    RoceV1,
    /// iWARP (TCP).
    Iwarp,
    /// AWS SRD.
    Efa,
    /// RoCE whose GID table tells no version.
    Roce,
    /// No RDMA.
    Ethernet,
    /// Not told.
    Unknown,
}

impl Transport {
    /// As it appears in the `fabric` label.
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
    /// Kernel's index, where netlink tells it: with the GUID, the identity of this incarnation.
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
    /// NUMA node; `None` where the kernel says -1.
    pub numa: Option<u32>,
    /// What kind of function.
    pub class: Class,
    /// Why it is restricted, in words; empty otherwise.
    pub class_reason: &'static str,
    /// A bond of several ports (RoCE LAG): its members' netdevs.
    pub lag: Vec<String>,
    /// `<sys>/class/infiniband/<name>`.
    pub dir: PathBuf,
    /// Ports, by number.
    pub ports: Vec<Port>,
}

/// A port of an RDMA device.
#[derive(Debug, Clone, PartialEq)]
pub struct Port {
    /// From 1.
    pub number: u32,
    /// What it speaks.
    pub link_layer: LinkLayer,
    /// How RDMA travels.
    pub transport: Transport,
    /// Netdev behind it; none for the port of a bond, whose members are netdevs of their own.
    pub netdev: Option<Arc<Netdev>>,
    /// As netlink tells it; `None` on kernels without it and in recordings that lack it.
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
    /// What kind of function.
    pub class: Class,
    /// Bond or bridge that it belongs to.
    pub master: Option<String>,
    /// RDMA bond device that it carries.
    pub rdma_bond: Option<Arc<str>>,
    /// IP over InfiniBand: no Ethernet below.
    pub infiniband: bool,
    /// `<sys>/class/net/<name>`.
    pub dir: PathBuf,
}

impl Device {
    /// Everything whose change makes it another device for its sampling thread.
    pub fn shape(&self) -> String {
        let port = |p: &Port| (p.number, p.link_layer, p.netdev.as_ref().map(|n| n.shape()), p.link.is_some());
        let ports: Vec<_> = self.ports.iter().map(port).collect();
        format!("{:?}", (&self.name, self.index, &self.node_guid, &self.pci, self.class, &self.lag, ports))
    }

    /// True when `other` is the same incarnation of the same device.
    pub fn same_epoch(&self, other: &Self) -> bool {
        self.name == other.name
            && self.index == other.index
            && self.node_guid == other.node_guid
            && self.pci == other.pci
    }
}

impl Netdev {
    /// Everything whose change makes it another netdev for its sampling thread.
    pub fn shape(&self) -> String {
        format!("{:?}", (&self.name, &self.driver, &self.pci, self.class, &self.rdma_bond))
    }
}

impl Inventory {
    /// True when there is nothing to read but the host itself.
    pub fn is_empty(&self) -> bool {
        self.devices.is_empty() && self.netdevs.is_empty()
    }
}
