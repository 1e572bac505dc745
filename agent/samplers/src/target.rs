//! Sampling target: a device, a port with its netdev, a separate netdev, the GPUs, or the host.
//!
//! `schedule` makes targets from the inventory; each is one resource on the wire.

use crate::kernel_log::position::LogPosition;
use crate::microburst::Microburst;
use crate::nvml_memory::NvmlMemory;
use fabriclens_agent_host::gpu::Gpu;
use fabriclens_agent_host::gpu_affinity::GpuAffinity;
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

/// Upper bound of the link speed while it is unknown: faster than any port.
const UNKNOWN_RATE_BYTES: f64 = 2e11;

/// What a sampler reads: identity, paths and shared state of one resource.
#[derive(Debug, Clone)]
pub struct SamplingTarget {
    /// Host to read from.
    pub roots: Arc<Roots>,
    /// Kernel calls for this device only, so that a hanging device delays no other.
    pub calls: Arc<dyn KernelCalls>,
    /// Identity on the wire.
    pub resource: Arc<Resource>,
    /// RDMA device, for devices and ports.
    pub device: Option<Arc<Device>>,
    /// Index into the device's ports, for ports.
    pub port: Option<usize>,
    /// Netdev behind the port, or of its own.
    pub netdev: Option<Arc<Netdev>>,
    /// Vendor counters to export raw, as globs.
    pub passthrough: Arc<[String]>,
    /// Networks by which peers are classified; for the host.
    pub destinations: Arc<Destinations>,
    /// Interfaces for microburst recording; for the host.
    pub microburst: Arc<Microburst>,
    /// Jobs of the host.
    pub jobs: Arc<Jobs>,
    /// Assignment of devices to rails.
    pub rails: Arc<Rails>,
    /// Position in the kernel log; for the host. `None`: the log of a recorded host is read from its beginning, a live one from
    /// its end.
    pub kernel_log: Option<Arc<LogPosition>>,
    /// GPUs, for the target of all GPUs; empty for the others.
    pub gpus: Arc<[Arc<Gpu>]>,
    /// Memory of reports, for the target whose GPUs are read by NVML.
    pub nvml: Option<Arc<Mutex<NvmlMemory>>>,
    /// Distances of adapters to GPUs.
    pub gpu_affinity: Arc<GpuAffinity>,
    rate: Arc<AtomicU64>,
    neighbor: Arc<Mutex<Option<LldpNeighbor>>>,
}

impl SamplingTarget {
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
            kernel_log: None,
            gpus: Arc::from([]),
            nvml: None,
            gpu_affinity: Arc::default(),
            rate: Arc::default(),
            neighbor: Arc::default(),
        }
    }

    /// Target of the host itself.
    pub fn host(roots: &Arc<Roots>, host: &Arc<str>, destinations: &Arc<Destinations>) -> Self {
        Self { destinations: Arc::clone(destinations), ..Self::new(roots, &roots.calls(), host, None, None) }
    }

    /// Sets the interfaces for microburst recording.
    #[must_use]
    pub fn with_microburst(self, microburst: &Arc<Microburst>) -> Self {
        Self { microburst: Arc::clone(microburst), ..self }
    }

    /// Sets the jobs of the host.
    #[must_use]
    pub fn with_jobs(self, jobs: &Arc<Jobs>) -> Self {
        Self { jobs: Arc::clone(jobs), ..self }
    }

    /// Sets the rails of the host.
    #[must_use]
    pub fn with_rails(self, rails: &Arc<Rails>) -> Self {
        Self { rails: Arc::clone(rails), ..self }
    }

    /// Sets the position in the kernel log.
    #[must_use]
    pub fn with_kernel_log(self, position: &Arc<LogPosition>) -> Self {
        Self { kernel_log: Some(Arc::clone(position)), ..self }
    }

    /// Sets the distances of adapters to GPUs.
    #[must_use]
    pub fn with_gpu_affinity(self, gpu_affinity: &Arc<GpuAffinity>) -> Self {
        Self { gpu_affinity: Arc::clone(gpu_affinity), ..self }
    }

    /// Targets of the GPUs of the host, each for a thread of its own: read from sysfs, and by NVML if there are any of
    /// NVIDIA. None on a host without GPUs.
    pub fn of_gpus(roots: &Arc<Roots>, host: &Arc<str>, gpus: &[Arc<Gpu>]) -> Vec<Self> {
        let target = |nvml| Self { gpus: gpus.into(), nvml, ..Self::new(roots, &roots.calls(), host, None, None) };
        let by_nvml = gpus.iter().any(|gpu| gpu.is_nvidia()).then(|| target(Some(Arc::default())));
        (!gpus.is_empty()).then(|| target(None)).into_iter().chain(by_nvml).collect()
    }

    /// Targets of a device and of its ports that carry something.
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
        let used = device.ports.iter().enumerate().filter(|(_, port)| !device.is_unused(port));
        std::iter::once(whole).chain(used.map(port)).collect()
    }

    /// Target of a netdev without an RDMA port.
    pub fn of_netdev(roots: &Arc<Roots>, host: &Arc<str>, netdev: &Arc<Netdev>) -> Self {
        Self { netdev: Some(Arc::clone(netdev)), ..Self::new(roots, &roots.calls(), host, Some(&netdev.name), None) }
    }

    /// True for the target of the host.
    pub fn is_host(&self) -> bool {
        self.device.is_none() && self.netdev.is_none() && self.gpus.is_empty()
    }

    /// Port, if the target is one.
    pub fn port(&self) -> Option<&Port> {
        self.device.as_ref()?.ports.get(self.port?)
    }

    /// True for links: ports and separate netdevs.
    pub fn is_link(&self) -> bool {
        self.port.is_some() || (self.device.is_none() && self.netdev.is_some())
    }

    /// Incarnation of the device: a recreated device starts its counters anew.
    pub fn identity(&self) -> String {
        match (&self.device, &self.netdev) {
            (Some(device), _) => device.shape(),
            (None, Some(netdev)) => netdev.shape(),
            (None, None) if !self.gpus.is_empty() => gpus_shape(&self.gpus),
            (None, None) => "host".into(),
        }
    }

    /// Name, the value of the label `target`: `device`, `device/port`, the netdev, `gpus`, `nvml`, or `host`.
    pub fn name(&self) -> String {
        match (&self.resource.device, self.resource.port) {
            (Some(device), Some(port)) => format!("{device}/{port}"),
            (Some(device), None) => device.to_string(),
            (None, _) if self.nvml.is_some() => "nvml".into(),
            (None, _) if !self.gpus.is_empty() => "gpus".into(),
            (None, _) => "host".into(),
        }
    }

    /// Link layer of the port, as the catalog names it.
    pub fn link_layer(&self) -> LinkLayer {
        match (self.port(), &self.device) {
            (Some(port), Some(device)) => match port.link_layer {
                inventory::LinkLayer::InfiniBand => LinkLayer::InfiniBand,
                inventory::LinkLayer::Ethernet => LinkLayer::Ethernet,
                // Some kernels report none for Omni-Path, and recordings may lack the file.
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

    /// Driver tables for a source, by the driver of the RDMA device or of the netdev.
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

    /// Catalog row of a vendor counter.
    pub fn bind(&self, source: CounterSource, name: &str) -> Option<BoundCounter> {
        bind(self.family(source), self.link_layer(), source, name)
    }

    /// Whether a vendor counter is worth reading.
    pub fn wants(&self, source: CounterSource, name: &str) -> bool {
        self.passes(name) || self.bind(source, name).is_some()
    }

    /// Whether the configuration passes a vendor counter through.
    pub fn passes(&self, name: &str) -> bool {
        self.passthrough
            .iter()
            .any(|glob| fabriclens_agent_host::discover::glob_match(glob.as_bytes(), name.as_bytes()))
    }

    /// Last known link speed, bytes per second, or an upper bound.
    pub fn rate_bytes(&self) -> f64 {
        self.known_rate_bytes().unwrap_or(UNKNOWN_RATE_BYTES)
    }

    /// Last known link speed, bytes per second.
    pub fn known_rate_bytes(&self) -> Option<f64> {
        match self.rate.load(Ordering::Relaxed) {
            0 => None,
            bits => Some(bits as f64 / 8.0),
        }
    }

    /// Records the link speed, bits per second; never lowered, as counters may contain growth at the higher speed.
    pub fn record_rate(&self, bits: u64) {
        self.rate.fetch_max(bits, Ordering::Relaxed);
    }

    /// Last known LLDP neighbor.
    pub fn neighbor(&self) -> Option<LldpNeighbor> {
        self.neighbor.lock().clone()
    }

    /// Records the LLDP neighbor, or that there is none.
    pub fn set_neighbor(&self, neighbor: Option<&LldpNeighbor>) {
        *self.neighbor.lock() = neighbor.cloned();
    }
}

/// Text of all attributes of the GPUs whose change requires a new sampling thread.
pub fn gpus_shape(gpus: &[Arc<Gpu>]) -> String {
    format!("{:?}", gpus.iter().map(|gpu| (&gpu.address, gpu.model())).collect::<Vec<_>>())
}
