//! What a sampler reads: a device, a port with the netdev behind it, a netdev of its own, or the host.
//!
//! Made by `schedule` from the inventory; each subject is one resource on the wire.

use crate::microburst::Microburst;
use fabriclens_agent_host::inventory::{self, Device, Netdev, Port};
use fabriclens_agent_host::rails::Rails;
use fabriclens_agent_host::roots::Roots;
use fabriclens_agent_probes::destinations::Destinations;
use fabriclens_agent_workload::Jobs;
use fabriclens_catalog::{BoundCounter, CounterSource, DriverFamily, LinkLayer, bind};
use fabriclens_kernel::{KernelCalls, LldpNeighbor};
use fabriclens_wire::Resource;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Speed that bounds counters while the real one is not known: faster than any port.
const UNKNOWN_RATE_BYTES: f64 = 2e11;

/// See the module.
#[derive(Debug, Clone)]
pub struct Subject {
    /// Where to read.
    pub roots: Arc<Roots>,
    /// Kernel calls of this device alone: one that hangs holds up no other.
    pub calls: Arc<dyn KernelCalls>,
    /// Identity on the wire.
    pub resource: Arc<Resource>,
    /// RDMA device, for devices and ports.
    pub device: Option<Arc<Device>>,
    /// Index into the device's ports, for ports.
    pub port: Option<usize>,
    /// Netdev behind the port, or of its own.
    pub netdev: Option<Arc<Netdev>>,
    /// Raw vendor counters wanted beside the canonical ones, as globs.
    pub passthrough: Arc<[String]>,
    /// How far away other hosts are; for the host.
    pub destinations: Arc<Destinations>,
    /// Interfaces to look at closely; for the host.
    pub microburst: Arc<Microburst>,
    /// Jobs that the host is known to run.
    pub jobs: Arc<Jobs>,
    /// Which device is on which rail.
    pub rails: Arc<Rails>,
    rate: Arc<AtomicU64>,
    neighbour: Arc<Mutex<Option<LldpNeighbor>>>,
}

impl Subject {
    fn new(
        roots: &Arc<Roots>,
        calls: &Arc<dyn KernelCalls>,
        host: &Arc<str>,
        device: Option<&str>,
        port: Option<u32>,
    ) -> Self {
        let resource = Resource { host: Arc::clone(host), device: device.map(Arc::from), port };
        Self {
            roots: Arc::clone(roots),
            calls: Arc::clone(calls),
            resource: Arc::new(resource),
            device: None,
            port: None,
            netdev: None,
            passthrough: Arc::from([]),
            destinations: Arc::default(),
            microburst: Arc::default(),
            jobs: Arc::default(),
            rails: Arc::default(),
            rate: Arc::default(),
            neighbour: Arc::default(),
        }
    }

    /// The host itself.
    pub fn host(roots: &Arc<Roots>, host: &Arc<str>, destinations: &Arc<Destinations>) -> Self {
        Self { destinations: Arc::clone(destinations), ..Self::new(roots, &roots.calls(), host, None, None) }
    }

    /// The same with interfaces to look at closely.
    #[must_use]
    pub fn with_microburst(self, microburst: &Arc<Microburst>) -> Self {
        Self { microburst: Arc::clone(microburst), ..self }
    }

    /// The same with the jobs of the host.
    #[must_use]
    pub fn with_jobs(self, jobs: &Arc<Jobs>) -> Self {
        Self { jobs: Arc::clone(jobs), ..self }
    }

    /// The same with the rails of the host.
    #[must_use]
    pub fn with_rails(self, rails: &Arc<Rails>) -> Self {
        Self { rails: Arc::clone(rails), ..self }
    }

    /// A device and its ports.
    pub fn of_device(roots: &Arc<Roots>, host: &Arc<str>, device: &Arc<Device>) -> Vec<Self> {
        let calls = roots.calls();
        let whole =
            Self { device: Some(Arc::clone(device)), ..Self::new(roots, &calls, host, Some(&device.name), None) };
        let port = |(index, port): (usize, &Port)| Self {
            device: Some(Arc::clone(device)),
            port: Some(index),
            netdev: port.netdev.clone(),
            ..Self::new(roots, &calls, host, Some(&device.name), Some(port.number))
        };
        std::iter::once(whole).chain(device.ports.iter().enumerate().map(port)).collect()
    }

    /// A netdev that no RDMA port stands on.
    pub fn of_netdev(roots: &Arc<Roots>, host: &Arc<str>, netdev: &Arc<Netdev>) -> Self {
        Self { netdev: Some(Arc::clone(netdev)), ..Self::new(roots, &roots.calls(), host, Some(&netdev.name), None) }
    }

    /// True for the host itself.
    pub fn is_host(&self) -> bool {
        self.device.is_none() && self.netdev.is_none()
    }

    /// The port, for subjects that are one.
    pub fn port(&self) -> Option<&Port> {
        self.device.as_ref()?.ports.get(self.port?)
    }

    /// True for subjects that stand for a link: ports and netdevs of their own.
    pub fn is_link(&self) -> bool {
        self.port.is_some() || (self.device.is_none() && self.netdev.is_some())
    }

    /// Incarnation of what is read: a device that was created anew counts anew.
    pub fn identity(&self) -> String {
        match (&self.device, &self.netdev) {
            (Some(device), _) => device.shape(),
            (None, Some(netdev)) => netdev.shape(),
            (None, None) => "host".into(),
        }
    }

    /// `device`, `device/port`, the netdev, or `host`.
    pub fn target(&self) -> String {
        match (&self.resource.device, self.resource.port) {
            (Some(device), Some(port)) => format!("{device}/{port}"),
            (Some(device), None) => device.to_string(),
            (None, _) => "host".into(),
        }
    }

    /// What the port speaks, in the catalog's words.
    pub fn link_layer(&self) -> LinkLayer {
        match (self.port(), &self.device) {
            (Some(port), Some(device)) => match port.link_layer {
                inventory::LinkLayer::InfiniBand => LinkLayer::InfiniBand,
                inventory::LinkLayer::Ethernet => LinkLayer::Ethernet,
                // Omni-Path says nothing on some kernels, and recordings may lack the file.
                inventory::LinkLayer::Unknown if matches!(&*device.driver, "hfi1" | "qib") => LinkLayer::InfiniBand,
                inventory::LinkLayer::Unknown => LinkLayer::Unspecified,
            },
            (None, Some(device)) => {
                let ib = device.ports.iter().any(|p| p.link_layer == inventory::LinkLayer::InfiniBand);
                if ib { LinkLayer::InfiniBand } else { LinkLayer::Ethernet }
            }
            _ => match &self.netdev {
                Some(netdev) if netdev.infiniband => LinkLayer::InfiniBand,
                _ => LinkLayer::Ethernet,
            },
        }
    }

    /// The vendor's tables for a source: the RDMA half's or the netdev half's driver decides.
    pub fn family(&self, source: CounterSource) -> Option<&'static DriverFamily> {
        let of_netdev = || self.netdev.as_ref().and_then(|n| DriverFamily::for_driver(&n.driver));
        let of_device = || {
            let device = self.device.as_ref()?;
            DriverFamily::for_driver(&device.driver).or_else(|| DriverFamily::for_device(&device.name))
        };
        match source {
            CounterSource::Ethtool
            | CounterSource::EthtoolStd
            | CounterSource::Dcb
            | CounterSource::NetStatistics
            | CounterSource::Module => of_netdev()
                .or_else(|| of_device().filter(|_| self.netdev.as_ref().is_some_and(|n| n.driver.is_empty()))),
            _ => of_device().or_else(of_netdev),
        }
    }

    /// The canonical row of a vendor's name, or `None`.
    pub fn bind(&self, source: CounterSource, name: &str) -> Option<BoundCounter> {
        bind(self.family(source), self.link_layer(), source, name)
    }

    /// Whether a name is worth reading.
    pub fn wants(&self, source: CounterSource, name: &str) -> bool {
        self.passes(name) || self.bind(source, name).is_some()
    }

    /// Whether a raw name is passed through by the user's wish.
    pub fn passes(&self, name: &str) -> bool {
        self.passthrough
            .iter()
            .any(|glob| fabriclens_agent_host::discover::glob_match(glob.as_bytes(), name.as_bytes()))
    }

    /// Speed of the link as last told, bytes per second, or a bound that no port exceeds.
    pub fn rate_bytes(&self) -> f64 {
        self.known_rate_bytes().unwrap_or(UNKNOWN_RATE_BYTES)
    }

    /// Speed of the link as last told, bytes per second.
    pub fn known_rate_bytes(&self) -> Option<f64> {
        match self.rate.load(Ordering::Relaxed) {
            0 => None,
            bits => Some(bits as f64 / 8.0),
        }
    }

    /// Tells the speed, bits per second; never lowered, because counters may still hold faster times.
    pub fn tell_rate(&self, bits: u64) {
        self.rate.fetch_max(bits, Ordering::Relaxed);
    }

    /// Who is at the other end of the cable, as last told.
    pub fn neighbour(&self) -> Option<LldpNeighbor> {
        self.neighbour.lock().clone()
    }

    /// Tells who is at the other end of the cable, or that nobody is heard.
    pub fn tell_neighbour(&self, neighbour: Option<&LldpNeighbor>) {
        *self.neighbour.lock() = neighbour.cloned();
    }
}
