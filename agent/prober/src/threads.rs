//! Threads: one for each port, so that a driver that blocks harms only its own port, and one for all TCP twins.

use crate::port_prober::{PortProber, Surroundings, Time as _};
use crate::prober::{PortEntry, PortState, Prober};
use crate::stats::PortStats;
use crate::tcp;
use fabriclens_agent_host::inventory::Inventory;
use fabriclens_kernel::datagrams::{DatagramPort, PortLost, PortSource};
use fabriclens_kernel::live::UdPort;
use fabriclens_probe_plan::{PORTS, ProbeResult, Target};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Pause after a port could not be opened, or was lost.
const RETRY: Duration = Duration::from_secs(5);
/// Interval at which sums are published.
const PUBLISH: Duration = Duration::from_millis(500);
/// Interval at which a pause checks whether it shall end.
const CHECK: Duration = Duration::from_millis(50);
/// Most threads of ports, those of removed ports that still wait for their driver included.
const THREADS: usize = 2 * PORTS;
const STACK: usize = 256 << 10;

/// Sets the ports of the host: starts a thread for each new one, and ends those of ports that are gone or changed.
pub fn set_inventory(prober: &Arc<Prober>, inventory: &Inventory) {
    let mut found: BTreeMap<String, Result<PortSource, String>> = BTreeMap::new();
    for device in &inventory.devices {
        for port in &device.ports {
            let Some(source) = crate::port_source::source(device, port) else { continue };
            let name = format!("{}/{}", device.name, port.number);
            if found.len() < PORTS {
                found.insert(name, source.map_err(|error| error.to_string()));
            }
        }
    }
    let mut started = Vec::new();
    let mut ports = prober.ports.lock();
    let mut is_changed = false;
    ports.retain(|name, entry| {
        let stays = found.contains_key(name);
        if !stays {
            entry.wanted.store(false, Ordering::Relaxed);
            is_changed = true;
        }
        stays
    });
    for (name, source) in found {
        let before = ports.get(&name);
        if before.is_some_and(|entry| entry.source == source) {
            continue;
        }
        is_changed = true;
        let (stats, tcp_stats) = before.map_or_else(Default::default, |entry| {
            entry.wanted.store(false, Ordering::Relaxed);
            (entry.stats.clone(), entry.tcp_stats.clone())
        });
        let wanted = Arc::new(AtomicBool::new(true));
        let state = match &source {
            _ if !prober.settings.rdma => PortState::Off,
            Ok(source) => {
                started.push((source.clone(), Arc::clone(&wanted), stats.clone()));
                PortState::Opening
            }
            Err(why) => PortState::Failed(why.clone()),
        };
        ports.insert(name, PortEntry { source, state, tcp: Ok(()), stats, tcp_stats, wanted });
    }
    drop(ports);
    if is_changed {
        prober.changed();
    }
    for (source, wanted, stats) in started {
        start(prober, source, wanted, stats);
    }
    if prober.settings.tcp && !prober.has_tcp_thread.swap(true, Ordering::Relaxed) {
        let shared = Arc::clone(prober);
        let thread = std::thread::Builder::new().name("probe-tcp".into()).stack_size(STACK);
        if let Err(error) = thread.spawn(move || tcp::run(&shared)) {
            prober.has_tcp_thread.store(false, Ordering::Relaxed);
            tracing::warn!(%error, "thread of TCP twins cannot be started");
        }
    }
}

fn start(prober: &Arc<Prober>, source: PortSource, wanted: Arc<AtomicBool>, stats: PortStats) {
    let name = source.name();
    let fail = |why: String| prober.update(&name, &wanted, |entry| entry.state = PortState::Failed(why));
    if prober.threads.load(Ordering::Relaxed) >= THREADS {
        fail(format!("{name}: threads of removed ports still wait for their drivers; restart the agent"));
        return;
    }
    prober.threads.fetch_add(1, Ordering::Relaxed);
    let (shared, flag) = (Arc::clone(prober), Arc::clone(&wanted));
    let work = move || {
        serve(&shared, &source, &flag, stats);
        shared.threads.fetch_sub(1, Ordering::Relaxed);
    };
    let thread = std::thread::Builder::new().name(format!("probe-{name}")).stack_size(STACK).spawn(work);
    if let Err(error) = thread {
        prober.threads.fetch_sub(1, Ordering::Relaxed);
        fail(format!("{name}: its thread cannot be started: {error}"));
    }
}

/// Opens a port and probes from it until it is no longer wanted; opens it again when it is lost.
fn serve(prober: &Prober, source: &PortSource, wanted: &Arc<AtomicBool>, mut stats: PortStats) {
    let name = source.name();
    let ends = || prober.is_stopping() || !wanted.load(Ordering::Relaxed);
    while !ends() {
        let why = match UdPort::open(source) {
            Ok(mut port) => match probe(prober, &name, &mut port, wanted, &mut stats) {
                Ok(()) => return,
                Err(lost) => lost.to_string(),
            },
            Err(error) => error.to_string(),
        };
        // The port is closed by now.
        prober.update(&name, wanted, |entry| {
            let state = PortState::Failed(why);
            if entry.state != state {
                tracing::warn!(port = name, why = ?state, "port is not probed; trying again");
                entry.state = state;
            }
        });
        let until = prober.now() + RETRY;
        while !ends() && prober.now() < until {
            std::thread::sleep(CHECK);
        }
    }
}

fn probe(
    prober: &Prober,
    name: &str,
    port: &mut dyn DatagramPort,
    wanted: &Arc<AtomicBool>,
    stats: &mut PortStats,
) -> Result<(), PortLost> {
    let facts = port.facts();
    let fixed = facts.queue_pairs.iter().filter_map(|pair| pair.source_port).map(u32::from);
    let state = PortState::Open {
        queue_pair: facts.queue_pairs.first().map_or(0, |pair| pair.number),
        source_ports: fixed.collect(),
        hardware_time: facts.hardware_time,
    };
    tracing::info!(port = name, hardware_time = facts.hardware_time, "port sends and answers probes");
    prober.update(name, wanted, |entry| entry.state = state);
    let per_second = prober.settings.per_second;
    let mut engine = PortProber::new(port, prober.run, per_second, stats.clone(), prober.now());
    let (mut version, mut published) = (0, prober.now());
    let mut found = |target: &Target, result: ProbeResult| (prober.report)(target, result);
    let mut around = Surroundings { time: prober, budget: &|now| prober.take(now), found: &mut found };
    while !prober.is_stopping() && wanted.load(Ordering::Relaxed) {
        if version != prober.version() {
            version = prober.version();
            let targets = prober.targets();
            engine.set_targets(targets.iter().filter(|target| target.from == name).cloned(), prober.now());
        }
        let done = engine.step(port, &mut around);
        let now = prober.now();
        if done.is_err() || now.saturating_sub(published) >= PUBLISH {
            published = now;
            stats.clone_from(&engine.stats);
            prober.update(name, wanted, |entry| entry.stats.clone_from(&engine.stats));
        }
        done?;
    }
    Ok(())
}
