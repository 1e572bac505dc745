//! A flow-level simulator of a RoCE fabric, whose hosts the real agent reads in `demo`, `chaos` and `bench`.
//!
//! `layout` has the hosts and links, `switch` the ports of switches, `nic` and `link` the counters; `fabric` moves the
//! bytes (with `dcqcn` for an incast), `inspector` writes what NCCL's Inspector would say of its jobs, `tree` writes the counters to files as the kernel shows them; `scenario` records
//! runs with ground truth.

mod dcqcn;
pub mod fabric;
pub mod inspector;
pub mod layout;
pub mod link;
pub mod nic;
pub mod scenario;
pub mod switch;
pub mod tree;

use anyhow::Result;
use fabric::Fabric;
use layout::RAILS;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tree::HostTree;

/// Simulates and updates the host trees until `stop`. More hosts than the fabric has repeat the first ones.
///
/// # Errors
/// When a file cannot be written.
pub fn run(fabric: &Mutex<Fabric>, trees: &mut [HostTree], tick: Duration, stop: &AtomicBool) -> Result<()> {
    let mut last = Instant::now();
    while !stop.load(Ordering::SeqCst) {
        std::thread::sleep((last + tick).saturating_duration_since(Instant::now()));
        let dt = last.elapsed();
        last += dt;
        let nics: Vec<_> = {
            let mut f = fabric.lock().map_err(|_| anyhow::anyhow!("the thread that injects faults panicked"))?;
            f.step(dt.as_secs_f64());
            f.nics.iter().cycle().take(trees.len() * RAILS).cloned().collect()
        };
        trees.iter_mut().try_for_each(|t| t.write(&nics))?;
    }
    Ok(())
}
