//! The congestion samples of all devices, by one thread: at ten a second a thread of each device would cost more for
//! waking up than for reading.
//!
//! A device that hangs in it takes the thread with it. `watch` notices within a second, starts another one, and leaves
//! the device to its own thread for good; full samples of the others are never concerned.

use super::core::Core;
use super::spawn;
use crate::device::{Runner, Tick};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A sample closer to the full one than this part of its period is left out.
pub(super) const TOO_CLOSE: u32 = 2;
/// A round that takes longer than this hangs; usual are some microseconds a device.
const HANGS: Duration = Duration::from_millis(500);

/// The sources of one device, for its own thread and for the one of congestion samples.
#[derive(Debug)]
pub(super) struct Lane {
    name: String,
    pub runners: Mutex<Vec<Runner>>,
    /// Its own thread takes the congestion samples.
    pub alone: AtomicBool,
}

impl Lane {
    pub fn new(name: &str, runners: Vec<Runner>) -> Arc<Self> {
        Arc::new(Self { name: name.into(), runners: Mutex::new(runners), alone: AtomicBool::new(false) })
    }
}

/// What the thread and its watch share.
#[derive(Debug, Default)]
pub(super) struct Congestion {
    lanes: Mutex<Arc<[Arc<Lane>]>>,
    /// Since when which device is read.
    reading: Mutex<Option<(Instant, Arc<Lane>)>>,
    /// Number of the thread that shall go on; those before it end.
    thread: AtomicU64,
}

impl Congestion {
    /// Which devices there are.
    pub fn tell(&self, lanes: impl Iterator<Item = Arc<Lane>>) {
        *self.lanes.lock() = lanes.collect();
    }
}

/// Starts the thread where there are congestion samples at all.
pub(super) fn start(core: &Arc<Core>) {
    if core.settings.fast + core.settings.fast / TOO_CLOSE >= core.settings.full {
        return;
    }
    let number = core.congestion.thread.fetch_add(1, Ordering::Relaxed) + 1;
    let body = {
        let core = Arc::clone(core);
        move || run(&core, number)
    };
    if let Err(error) = spawn("congestion", body) {
        tracing::error!(%error, "no congestion samples");
    }
}

/// Replaces the thread when it hangs. Called each second.
pub(super) fn look_after(core: &Arc<Core>) {
    let hangs = |reading: &mut (Instant, Arc<Lane>)| reading.0.elapsed() > HANGS;
    let Some((_, lane)) = core.congestion.reading.lock().take_if(hangs) else { return };
    lane.alone.store(true, Ordering::Relaxed);
    tracing::warn!(device = %lane.name, "a congestion sample hangs; its device is left to its own thread, the others go on");
    start(core);
}

fn run(core: &Core, number: u64) {
    let shared = &core.congestion;
    let ended = || core.is_stopping() || shared.thread.load(Ordering::Relaxed) != number;
    loop {
        std::thread::sleep(until_next(core));
        let lanes = Arc::clone(&shared.lanes.lock());
        let wanted = core.throttle.fast();
        for lane in lanes.iter().filter(|_| wanted).filter(|lane| !lane.alone.load(Ordering::Relaxed)) {
            // Held by the device's own thread in a full sample, or by a thread that hangs.
            let Some(mut runners) = lane.runners.try_lock() else { continue };
            *shared.reading.lock() = Some((Instant::now(), Arc::clone(lane)));
            let mut present = true;
            for runner in runners.iter_mut() {
                present &= runner.run(Tick::Fast, &mut |_| {});
            }
            if ended() {
                return;
            }
            *shared.reading.lock() = None;
            if !present {
                core.rediscover.set();
            }
        }
        if ended() {
            return;
        }
    }
}

/// Time to the next congestion sample; those that would fall together with a full one are left to it.
fn until_next(core: &Core) -> Duration {
    let (full, fast) = (core.full(), core.settings.fast);
    let next = core.clock.until_next(fast, core.phase);
    let close = fast / TOO_CLOSE;
    if next + close < core.clock.until_next(full, core.phase) { next } else { next + fast }
}
