//! Watches for devices that appear, vanish or change, and starts and stops their threads.

use super::congestion;
use super::core::{Control, Core};
use super::guarded;
use super::lanes::Lane;
use super::worker;
use crate::device::{Runner, TargetState};
use crate::sandbox::Role;
use fabriclens_agent_host::capabilities;
use fabriclens_agent_host::discover::{adapter_functions, class_names, discover};
use fabriclens_agent_host::inventory::Inventory;
use fabriclens_agent_host::sysfile::shortages;
use fabriclens_agent_samplers::target::SamplingTarget;
use fabriclens_base::error_chain::with_causes;
use fabriclens_kernel::Event;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Interval at which the names under `class/` are compared, in case events are lost.
const RELIST: Duration = Duration::from_secs(1);
/// Delay after an event, as events come in bursts.
const SETTLE: Duration = Duration::from_millis(100);
/// Longest wait for an event; the thread may end this much later than the engine.
const PATIENCE: Duration = Duration::from_secs(5);
/// Delay before a lost event source is opened again; the second value applies if there is none.
const REOPEN: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(10)];
/// Threads of removed devices that a driver may block: of one device name, and of all.
const BLOCKED: [usize; 2] = [4, 64];
/// Component of the problem "out of file descriptors".
const SHORT: &str = "open files";

struct Worker {
    thread: JoinHandle<()>,
    control: Arc<Control>,
    lane: Arc<Lane>,
    shared: Vec<Arc<TargetState>>,
    shape: String,
    /// Netdevs whose events concern the device.
    netdevs: Vec<String>,
}

type Workers = BTreeMap<String, Worker>;

/// Threads of removed devices that have not ended, with the device's name.
#[derive(Default)]
struct Stopped(Vec<(String, JoinHandle<()>)>);

impl Stopped {
    /// Whether they leave room for another thread of a device.
    fn have_room(&mut self, device: &str) -> bool {
        self.0.retain(|(_, thread)| !thread.is_finished());
        let own = self.0.iter().filter(|(name, _)| name == device).count();
        own == 0 || (own < BLOCKED[0] && self.0.len() < BLOCKED[1])
    }
}

/// Body of the thread.
pub(super) fn run(core: &Arc<Core>) {
    // Threads of devices, which start from here, may no longer open all of them.
    core.roots.pci_configs().open_all(adapter_functions(core.roots.sys()));
    capabilities::without_probes();
    core.settings.sandbox.enter(Role::Plain);
    let workers = Arc::new(parking_lot::Mutex::new(Workers::new()));
    let dirty = Arc::new(AtomicBool::new(true));
    let events = guarded(core, "events", "the kernel's events", {
        let (workers, dirty) = (Arc::clone(&workers), Arc::clone(&dirty));
        move |core| listen(core, &workers, &dirty)
    });
    if let Err(error) = events {
        tracing::warn!(%error, "kernel events unavailable; devices are listed each second");
    }
    congestion::start(core);
    let mut stopped = Stopped::default();
    let mut names = Vec::new();
    let mut last = Instant::now();
    let mut said_nothing = false;
    while !core.is_stopping() {
        core.thread_health.watching(Some(Instant::now()));
        congestion::look_after(core);
        let short = shortages();
        let listed = class_names(&core.roots);
        let due = listed != names || last.elapsed() >= core.settings.slow;
        if dirty.swap(false, Ordering::Relaxed) || due {
            let previous = Arc::clone(&core.inventory.lock());
            let found = Arc::new(discover(&core.roots, &core.settings.exclude_devices, Some(&previous)));
            // A failed discovery does not mean that devices are gone.
            if shortages() != short && !previous.is_empty() {
                let why = "out of file descriptors to discover devices; known devices are sampled as usual";
                if core.thread_health.set(SHORT, why.to_owned()) {
                    tracing::warn!("{why}");
                }
                dirty.store(true, Ordering::Relaxed);
                core.rediscover.wait(Instant::now() + RELIST);
                continue;
            }
            core.thread_health.clear(SHORT);
            names = listed;
            last = Instant::now();
            if found.is_empty() && !said_nothing {
                tracing::info!("no RDMA device and no physical netdev on this host; waiting for one to appear");
            }
            said_nothing = found.is_empty();
            core.settings.rails.update(&found);
            core.settings.gpu_affinity.update(&found, &core.settings.rails);
            *core.inventory.lock() = Arc::clone(&found);
            reconcile(core, &mut workers.lock(), &mut stopped, &found);
        }
        if core.rediscover.wait(Instant::now() + RELIST) && !core.is_stopping() {
            std::thread::sleep(SETTLE);
            dirty.store(true, Ordering::Relaxed);
        }
    }
    core.thread_health.watching(None);
    for worker in workers.lock().values() {
        worker.control.stop();
    }
}

/// Component name of a device's thread.
fn thread_of(device: &str) -> String {
    format!("the device {device}")
}

/// Starts threads for new devices; stops those of removed and replaced ones.
fn reconcile(core: &Arc<Core>, workers: &mut Workers, stopped: &mut Stopped, found: &Inventory) {
    let mut wanted: BTreeMap<String, (Vec<SamplingTarget>, String, Vec<String>)> = BTreeMap::new();
    for device in &found.devices {
        let netdevs = device.ports.iter().filter_map(|p| p.netdev.as_ref()).map(|n| n.name.to_string()).collect();
        let targets = SamplingTarget::of_device(&core.roots, &core.host, device);
        wanted.insert(device.name.to_string(), (targets, device.shape(), netdevs));
    }
    for netdev in &found.netdevs {
        let target = SamplingTarget::of_netdev(&core.roots, &core.host, netdev);
        wanted.insert(netdev.name.to_string(), (vec![target], netdev.shape(), vec![netdev.name.to_string()]));
    }
    for target in SamplingTarget::of_gpus(&core.roots, &core.host, &found.gpus) {
        wanted.insert(target.name(), (vec![target.clone()], target.identity(), Vec::new()));
    }
    let ended = |(name, worker): (&String, &Worker)| {
        let there = wanted.get(name).is_some_and(|(_, shape, _)| *shape == worker.shape);
        // A failed thread is restarted, once per discovery.
        let failed = core.thread_health.clear(&thread_of(name));
        if !there {
            tracing::info!(device = %name, "device is gone or replaced");
            core.gone.fetch_add(1, Ordering::Relaxed);
        }
        (!there || failed).then(|| name.clone())
    };
    let ended: Vec<String> = workers.iter().filter_map(ended).collect();
    for (name, worker) in ended.into_iter().filter_map(|name| workers.remove_entry(&name)) {
        worker.control.stop();
        core.shared.lock().retain(|s| !worker.shared.iter().any(|w| Arc::ptr_eq(s, w)));
        stopped.0.push((name, worker.thread));
    }
    for (name, (targets, shape, netdevs)) in wanted {
        if workers.contains_key(&name) {
            continue;
        }
        let what = thread_of(&name);
        if !stopped.have_room(&name) {
            let why = "not sampled: its driver blocks the threads of earlier times it was there; restart the host";
            if core.thread_health.set(&what, why.to_owned()) {
                tracing::error!(device = %name, "driver blocks too many threads; device is not sampled");
            }
            continue;
        }
        let passthrough: Arc<[String]> = core.settings.passthrough.clone().into();
        let runner = |target: SamplingTarget| {
            let mut target = target.with_jobs(&core.jobs).with_rails(&core.settings.rails);
            target = target.with_gpu_affinity(&core.settings.gpu_affinity);
            target.passthrough = Arc::clone(&passthrough);
            let mut runner = Runner::new(target, &core.settings, Arc::clone(&core.clock));
            core.recall(&mut runner);
            runner
        };
        let runners: Vec<Runner> = targets.into_iter().map(runner).collect();
        let shared: Vec<_> = runners.iter().map(Runner::shared).collect();
        let (control, lane) = (Arc::new(Control::default()), Lane::new(&name, runners));
        let started = guarded(core, &name, &what, {
            let (control, lane) = (Arc::clone(&control), Arc::clone(&lane));
            move |core| worker::device(core, &control, &lane)
        });
        match started {
            Ok(thread) => {
                tracing::info!(device = %name, "sampling device");
                core.thread_health.clear(&what);
                core.shared.lock().extend(shared.iter().cloned());
                workers.insert(name, Worker { thread, control, lane, shared, shape, netdevs });
            }
            Err(error) => {
                if core.thread_health.set(&what, format!("not sampled: {}", with_causes(&error))) {
                    tracing::error!(device = %name, error = with_causes(&error), "cannot start the device's thread; retrying");
                }
            }
        }
    }
    core.congestion.tell(workers.values().map(|worker| Arc::clone(&worker.lane)));
}

/// Turns kernel events into an immediate read of the state of the affected device.
fn listen(core: &Core, workers: &parking_lot::Mutex<Workers>, dirty: &AtomicBool) {
    let pause = |time| {
        let until = Instant::now() + time;
        while Instant::now() < until && !core.is_stopping() {
            std::thread::sleep(Duration::from_millis(250));
        }
    };
    let mut logged_at = None;
    while !core.is_stopping() {
        let mut events = match core.roots.calls().events() {
            Ok(events) => events,
            Err(error) => {
                tracing::debug!(%error, "kernel events unavailable");
                pause(REOPEN[1]);
                continue;
            }
        };
        while !core.is_stopping() {
            match events.wait(PATIENCE) {
                Ok(None) => {}
                Ok(Some(event)) => route(core, workers, dirty, &event),
                Err(error) => {
                    // An event storm loses events again and again; it must not fill a core or the log.
                    if logged_at.is_none_or(|at: Instant| at.elapsed() >= core.settings.slow) {
                        tracing::warn!(%error, "kernel events lost; discovering devices again");
                        logged_at = Some(Instant::now());
                    }
                    dirty.store(true, Ordering::Relaxed);
                    core.rediscover.set();
                    pause(REOPEN[0]);
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
            tracing::debug!(device = %name, "reading state after an event");
            worker.control.wake.set();
        }
    };
    match event {
        Event::Carrier { netdev, .. } => wake(&|_, w| w.netdevs.contains(netdev)),
        Event::DcbChanged(netdev) => {
            let workers = workers.lock();
            let concerned = workers.values().filter(|worker| worker.netdevs.contains(netdev));
            concerned.for_each(|worker| worker.control.settings_changed.store(true, Ordering::Relaxed));
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::Settings;
    use fabriclens_agent_host::roots::Roots;

    #[test]
    fn failed_device_thread_is_restarted() {
        let host = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/fixtures/hosts/rxe");
        let settings = Settings { host: "h".into(), ..Settings::default() };
        let core = Arc::new(Core::new(Arc::new(Roots::new(Some(host.into()))), settings));
        let found = discover(&core.roots, &[], None);
        let (mut workers, mut stopped) = (Workers::new(), Stopped::default());
        reconcile(&core, &mut workers, &mut stopped, &found);
        let lanes = |workers: &Workers| workers.values().map(|w| Arc::clone(&w.lane)).collect::<Vec<_>>();
        let (before, sources) = (lanes(&workers), core.shared.lock().len());
        let failed = workers.keys().next().expect("it has a device").clone();
        core.thread_health.set(&thread_of(&failed), "as a panic leaves it".into());
        reconcile(&core, &mut workers, &mut stopped, &found);
        let same: Vec<bool> = lanes(&workers).iter().zip(&before).map(|(a, b)| Arc::ptr_eq(a, b)).collect();
        assert!(!same[0] && same[1..].iter().all(|same| *same), "{same:?}");
        assert_eq!(core.shared.lock().len(), sources);
        assert!(core.thread_health.list(Instant::now()).is_empty());
        assert_eq!(core.gone.load(Ordering::Relaxed), 0, "the device was there all the while");
        core.stop();
        workers.values().for_each(|worker| worker.control.stop());
    }

    #[test]
    fn threads_that_a_driver_blocks_are_bounded() {
        let host = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/fixtures/hosts/rxe");
        let settings = Settings { host: "h".into(), ..Settings::default() };
        let core = Arc::new(Core::new(Arc::new(Roots::new(Some(host.into()))), settings));
        let (found, none) = (discover(&core.roots, &[], None), Inventory::default());
        let (mut workers, mut stopped) = (Workers::new(), Stopped::default());
        let (unblock, blocked) = std::sync::mpsc::sync_channel::<()>(1);
        let blocked = Arc::new(parking_lot::Mutex::new(blocked));
        let mut plugged = 0;
        for _ in 0..20 {
            reconcile(&core, &mut workers, &mut stopped, &found);
            plugged += workers.len();
            // As a read that does not return: the thread of the device does not end.
            for worker in workers.values_mut() {
                let blocked = Arc::clone(&blocked);
                let ends = std::thread::spawn(move || _ = blocked.lock().recv());
                drop(std::mem::replace(&mut worker.thread, ends));
            }
            reconcile(&core, &mut workers, &mut stopped, &none);
        }
        let devices = found.devices.len() + found.netdevs.len();
        assert_eq!((plugged, stopped.0.len()), (BLOCKED[0] * devices, BLOCKED[0] * devices));
        reconcile(&core, &mut workers, &mut stopped, &found);
        let problems = core.thread_health.list(Instant::now());
        assert!(problems.len() == devices && problems[0].contains("its driver blocks"), "{problems:?}");
        drop(unblock);
        while stopped.0.iter().any(|(_, thread)| !thread.is_finished()) {
            std::thread::sleep(Duration::from_millis(5));
        }
        reconcile(&core, &mut workers, &mut stopped, &found);
        assert_eq!((workers.len(), core.thread_health.list(Instant::now()).len()), (devices, 0), "sampled again");
        core.stop();
        workers.values().for_each(|worker| worker.control.stop());
    }

    #[test]
    fn a_stopping_agent_reports_no_stuck_search() {
        let host = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/fixtures/hosts/rxe");
        let settings = Settings { host: "h".into(), ..Settings::default() };
        let core = Arc::new(Core::new(Arc::new(Roots::new(Some(host.into()))), settings));
        core.stop();
        run(&core);
        let much_later = Instant::now() + Duration::from_secs(3600);
        assert_eq!(core.thread_health.list(much_later), Vec::<String>::new());
    }
}
