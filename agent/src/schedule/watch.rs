//! Watches the host for devices that come, go and change, and starts and stops their threads.

use super::congestion::{self, Lane};
use super::core::Core;
use super::spawn;
use super::worker::{self, Control};
use crate::device::{Runner, Shared};
use crate::discover::{class_names, discover};
use crate::inventory::Inventory;
use crate::privileges;
use crate::sandbox::Role;
use crate::subject::Subject;
use crate::sysfile::shortages;
use fabriclens_kernel::Event;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How often the names under `class/` are compared: the net under the events.
const RELIST: Duration = Duration::from_secs(1);
/// Events come in bursts.
const SETTLE: Duration = Duration::from_millis(100);
/// Longest wait for an event; the thread ends this much later than the engine.
const PATIENCE: Duration = Duration::from_secs(5);
/// Wait before a lost source of events is opened again.
const REOPEN: Duration = Duration::from_secs(10);

struct Worker {
    control: Arc<Control>,
    lane: Arc<Lane>,
    shared: Vec<Arc<Shared>>,
    shape: String,
    /// Netdevs whose events concern it.
    netdevs: Vec<String>,
}

type Workers = BTreeMap<String, Worker>;

/// Body of the thread.
pub(super) fn run(core: &Arc<Core>) {
    privileges::without_probes();
    core.settings.sandbox.enter(Role::Plain);
    let workers = Arc::new(parking_lot::Mutex::new(Workers::new()));
    let dirty = Arc::new(AtomicBool::new(true));
    let events = spawn("events", {
        let (core, workers, dirty) = (Arc::clone(core), Arc::clone(&workers), Arc::clone(&dirty));
        move || listen(&core, &workers, &dirty)
    });
    if let Err(error) = events {
        tracing::warn!(%error, "no kernel events; devices are listed each second instead");
    }
    congestion::start(core);
    let mut names = Vec::new();
    let mut last = Instant::now();
    let (mut said_nothing, mut said_short) = (false, false);
    while !core.is_stopping() {
        congestion::look_after(core);
        let short = shortages();
        let listed = class_names(&core.roots);
        let due = listed != names || last.elapsed() >= core.settings.slow;
        if dirty.swap(false, Ordering::Relaxed) || due {
            let previous = Arc::clone(&core.inventory.lock());
            let found = Arc::new(discover(&core.roots, &core.settings.exclude_devices, Some(&previous)));
            // Devices that could not be looked for are not gone.
            if shortages() != short && !previous.is_empty() {
                if !said_short {
                    tracing::warn!("no more files can be opened to look for devices; those that are known go on");
                }
                said_short = true;
                dirty.store(true, Ordering::Relaxed);
                core.rediscover.wait(Instant::now() + RELIST);
                continue;
            }
            said_short = false;
            names = listed;
            last = Instant::now();
            if found.is_empty() && !said_nothing {
                tracing::info!("no RDMA device and no physical netdev on this host; waiting for one to appear");
            }
            said_nothing = found.is_empty();
            core.settings.rails.update(&found);
            *core.inventory.lock() = Arc::clone(&found);
            reconcile(core, &mut workers.lock(), &found);
        }
        if core.rediscover.wait(Instant::now() + RELIST) && !core.is_stopping() {
            std::thread::sleep(SETTLE);
            dirty.store(true, Ordering::Relaxed);
        }
    }
    for worker in workers.lock().values() {
        worker.control.stop();
    }
}

/// Threads for what is new, none for what is gone or was replaced.
fn reconcile(core: &Arc<Core>, workers: &mut Workers, found: &Inventory) {
    let mut wanted: BTreeMap<String, (Vec<Subject>, String, Vec<String>)> = BTreeMap::new();
    for device in &found.devices {
        let netdevs = device.ports.iter().filter_map(|p| p.netdev.as_ref()).map(|n| n.name.to_string()).collect();
        let subjects = Subject::of_device(&core.roots, &core.host, device);
        wanted.insert(device.name.to_string(), (subjects, device.shape(), netdevs));
    }
    for netdev in &found.netdevs {
        let subject = Subject::of_netdev(&core.roots, &core.host, netdev);
        wanted.insert(netdev.name.to_string(), (vec![subject], netdev.shape(), vec![netdev.name.to_string()]));
    }
    workers.retain(|name, worker| {
        let stays = wanted.get(name).is_some_and(|(_, shape, _)| *shape == worker.shape);
        if !stays {
            tracing::info!(device = %name, "gone or replaced");
            core.gone.fetch_add(1, Ordering::Relaxed);
            worker.control.stop();
            core.shared.lock().retain(|s| !worker.shared.iter().any(|w| Arc::ptr_eq(s, w)));
        }
        stays
    });
    for (name, (subjects, shape, netdevs)) in wanted {
        if workers.contains_key(&name) {
            continue;
        }
        let passthrough: Arc<[String]> = core.settings.passthrough.clone().into();
        let runner = |subject: Subject| {
            let mut subject = subject.with_jobs(&core.jobs).with_rails(&core.settings.rails);
            subject.passthrough = Arc::clone(&passthrough);
            let mut runner = Runner::new(subject, &core.settings, Arc::clone(&core.clock));
            core.recall(&mut runner);
            runner
        };
        let runners: Vec<Runner> = subjects.into_iter().map(runner).collect();
        let shared: Vec<_> = runners.iter().map(Runner::shared).collect();
        let (control, lane) = (Arc::new(Control::default()), Lane::new(&name, runners));
        let started = spawn(&name, {
            let (core, control, lane) = (Arc::clone(core), Arc::clone(&control), Arc::clone(&lane));
            move || worker::device(&core, &control, &lane)
        });
        match started {
            Ok(_) => {
                tracing::info!(device = %name, "sampling");
                core.shared.lock().extend(shared.iter().cloned());
                workers.insert(name, Worker { control, lane, shared, shape, netdevs });
            }
            Err(error) => tracing::error!(device = %name, %error, "not sampled"),
        }
    }
    core.congestion.tell(workers.values().map(|worker| Arc::clone(&worker.lane)));
}

/// Turns kernel events into an immediate look at the state of what they name.
fn listen(core: &Core, workers: &parking_lot::Mutex<Workers>, dirty: &AtomicBool) {
    while !core.is_stopping() {
        let mut events = match core.roots.calls().events() {
            Ok(events) => events,
            Err(error) => {
                tracing::debug!(%error, "no kernel events");
                let until = Instant::now() + REOPEN;
                while Instant::now() < until && !core.is_stopping() {
                    std::thread::sleep(Duration::from_millis(250));
                }
                continue;
            }
        };
        while !core.is_stopping() {
            match events.wait(PATIENCE) {
                Ok(None) => {}
                Ok(Some(event)) => route(core, workers, dirty, &event),
                Err(error) => {
                    tracing::warn!(%error, "lost the kernel's events; opening them again");
                    break;
                }
            }
        }
    }
}

fn route(core: &Core, workers: &parking_lot::Mutex<Workers>, dirty: &AtomicBool, event: &Event) {
    tracing::debug!(?event, "kernel event");
    let wake = |concerns: &dyn Fn(&str, &Worker) -> bool| {
        for (name, worker) in workers.lock().iter().filter(|(n, w)| concerns(n, w)) {
            tracing::debug!(device = %name, "looking at its state now");
            worker.control.wake.set();
        }
    };
    match event {
        Event::Carrier { netdev, .. } => wake(&|_, w| w.netdevs.contains(netdev)),
        Event::Async { device, port, kind } => {
            let whole = format!("{device}/");
            for shared in core.shared.lock().iter().filter(|s| s.target.starts_with(&whole)) {
                if port.is_none_or(|p| shared.target.strip_prefix(&whole) == Some(&p.to_string())) {
                    *shared.events.lock().entry(kind).or_default() += 1;
                }
            }
            wake(&|name, _| name == device);
        }
        Event::DeviceAdded(_) | Event::DeviceRemoved(_) | Event::NetdevChanged(_) => {
            dirty.store(true, Ordering::Relaxed);
            core.rediscover.set();
        }
    }
}
