//! Thread that takes the congestion samples of all devices: at ten samples per second, one thread per device would
//! spend more time waking up than reading.
//!
//! A device whose read hangs blocks this thread. `watch` notices within a second, starts a replacement, and leaves the
//! device to its own thread from then on; full samples of other devices are not affected.

use super::core::Core;
use super::lanes::Lane;
use super::spawn;
use crate::device::Tick;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Divisor of the congestion period: samples closer than this to a full sample are skipped.
pub(super) const TOO_CLOSE: u32 = 2;
/// A read longer than this hangs; usual reads take microseconds.
const HANGS: Duration = Duration::from_millis(500);

/// Starts the thread, unless full samples are as frequent as congestion samples.
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
        tracing::error!(%error, "cannot start the congestion thread; no congestion samples are taken");
    }
}

/// Replaces the thread if it hangs. Called each second.
pub(super) fn look_after(core: &Arc<Core>) {
    let hangs = |reading: &mut (Instant, Arc<Lane>)| reading.0.elapsed() > HANGS;
    let Some((_, lane)) = core.congestion.reading.lock().take_if(hangs) else { return };
    lane.alone.store(true, Ordering::Relaxed);
    tracing::warn!(device = %lane.name, "congestion sample hangs; the device is sampled by its own thread from now on");
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
            // Locked by the device's own thread during a full sample, or by a hanging thread.
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

/// Time until the next congestion sample; one that coincides with a full sample is skipped.
fn until_next(core: &Core) -> Duration {
    let (full, fast) = (core.full(), core.settings.fast);
    let next = core.clock.until_next(fast, core.phase);
    let close = fast / TOO_CLOSE;
    if next + close < core.clock.until_next(full, core.phase) { next } else { next + fast }
}
