//! Kernel calls of a recorded host that a test can block, break and feed with events.

use fabriclens_kernel::nvml::NvmlReport;
use fabriclens_kernel::recorded::RecordedKernel;
use fabriclens_kernel::{
    CallError, CmId, Dcb, DriverInfo, Event, EventSource, KernelCalls, LinkState, ModuleDiagnostics, NetdevSettings,
    Qp, QpCounter, RdmaLink, StatNames, VerbsPort,
};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Kernel calls of a recorded host, with faults.
#[derive(Debug)]
pub struct Fake {
    recorded: RecordedKernel,
    /// Netdev whose `ethtool -S` hangs.
    pub blocked: Mutex<String>,
    /// Netdev whose `ethtool -S` panics.
    pub panics: Mutex<String>,
    /// RDMA device whose counters hang in a congestion sample.
    pub blocked_congestion: Mutex<String>,
    /// Whether the list of RDMA ports hangs.
    pub blocked_links: AtomicBool,
    /// Whether NVML hangs.
    pub blocked_nvml: AtomicBool,
    /// Number of requests for that list.
    pub links_asked: AtomicU64,
    /// Whether a call is blocked now.
    pub hanging: AtomicBool,
    send: SyncSender<Event>,
    receive: Mutex<Option<Receiver<Event>>>,
}

impl Fake {
    /// For the recorded host at `root`.
    pub fn new(root: &Path) -> Arc<Self> {
        let (send, receive) = sync_channel(64);
        Arc::new(Self {
            recorded: RecordedKernel::new(root),
            blocked: Mutex::default(),
            panics: Mutex::default(),
            blocked_congestion: Mutex::default(),
            blocked_links: AtomicBool::new(false),
            blocked_nvml: AtomicBool::new(false),
            links_asked: AtomicU64::new(0),
            hanging: AtomicBool::new(false),
            send,
            receive: Mutex::new(Some(receive)),
        })
    }

    /// Sends a kernel event.
    pub fn tell(&self, event: Event) {
        self.send.send(event).unwrap();
    }

    fn misbehave(&self, netdev: &str) {
        assert!(*self.panics.lock().unwrap() != netdev, "broken on purpose");
        while *self.blocked.lock().unwrap() == netdev {
            self.hanging.store(true, Ordering::Relaxed);
            std::thread::sleep(Duration::from_millis(10));
        }
        self.hanging.store(false, Ordering::Relaxed);
    }
}

/// Device whose event panics.
pub const PANICS: &str = "panics";

struct Told(Receiver<Event>);

impl EventSource for Told {
    fn wait(&mut self, timeout: Duration) -> Result<Option<Event>, CallError> {
        let event = self.0.recv_timeout(timeout).ok();
        assert!(!matches!(&event, Some(Event::DeviceAdded(device)) if device == PANICS), "broken on purpose");
        Ok(event)
    }
}

impl KernelCalls for Fake {
    fn rdma_links(&self) -> Result<Vec<RdmaLink>, CallError> {
        self.links_asked.fetch_add(1, Ordering::Relaxed);
        while self.blocked_links.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(10));
        }
        self.recorded.rdma_links()
    }
    fn rdma_counters(&self, link: &RdmaLink, out: &mut Vec<(Arc<str>, u64)>) -> Result<(), CallError> {
        while std::thread::current().name() == Some("congestion")
            && *self.blocked_congestion.lock().unwrap() == link.device
        {
            self.hanging.store(true, Ordering::Relaxed);
            std::thread::sleep(Duration::from_millis(10));
        }
        self.recorded.rdma_counters(link, out)
    }
    fn rdma_qps(&self, of: Option<&RdmaLink>) -> Result<Vec<Qp>, CallError> {
        self.recorded.rdma_qps(of)
    }
    fn rdma_cm_ids(&self, of: Option<&RdmaLink>) -> Result<Vec<CmId>, CallError> {
        self.recorded.rdma_cm_ids(of)
    }
    fn rdma_qp_counters(&self, of: Option<&RdmaLink>) -> Result<Vec<QpCounter>, CallError> {
        self.recorded.rdma_qp_counters(of)
    }
    fn driver(&self, netdev: &str) -> Result<DriverInfo, CallError> {
        self.recorded.driver(netdev)
    }
    fn stat_names(&self, netdev: &str) -> Result<StatNames, CallError> {
        self.recorded.stat_names(netdev)
    }
    fn stat_values(&self, netdev: &str, names: &StatNames, out: &mut Vec<u64>) -> Result<(), CallError> {
        self.misbehave(netdev);
        self.recorded.stat_values(netdev, names, out)
    }
    fn std_stats(&self, netdev: &str, out: &mut Vec<(Arc<str>, u64)>) -> Result<(), CallError> {
        self.recorded.std_stats(netdev, out)
    }
    fn link_state(&self, netdev: &str) -> Result<LinkState, CallError> {
        self.recorded.link_state(netdev)
    }
    fn max_rate_bits(&self, netdev: &str) -> Result<u64, CallError> {
        self.recorded.max_rate_bits(netdev)
    }
    fn netdev_settings(&self, netdev: &str) -> Result<NetdevSettings, CallError> {
        self.recorded.netdev_settings(netdev)
    }
    fn module(&self, netdev: &str) -> Result<ModuleDiagnostics, CallError> {
        self.recorded.module(netdev)
    }
    fn dcb(&self, netdev: &str) -> Result<Dcb, CallError> {
        self.recorded.dcb(netdev)
    }
    fn verbs_port(&self, device: &str, port: u32) -> Result<VerbsPort, CallError> {
        self.recorded.verbs_port(device, port)
    }
    fn nvml(&self) -> Result<NvmlReport, CallError> {
        while self.blocked_nvml.load(Ordering::Relaxed) {
            self.hanging.store(true, Ordering::Relaxed);
            std::thread::sleep(Duration::from_millis(10));
        }
        self.recorded.nvml()
    }
    fn dma_buf(&self, device: &str) -> Result<bool, CallError> {
        self.recorded.dma_buf(device)
    }
    fn events(&self) -> Result<Box<dyn EventSource>, CallError> {
        let none = || CallError::Unsupported { what: "events".into(), why: "taken".into() };
        Ok(Box::new(Told(self.receive.lock().unwrap().take().ok_or_else(none)?)))
    }
}
