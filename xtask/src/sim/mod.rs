//! A small flow-level RoCE fabric and the host trees that show it: what `demo`, `chaos` and `bench` let the real agent read.
//!
//! `fabric` moves bytes and counts what mlx5 NICs would count (`dcqcn`: how senders react to congestion); `tree` keeps that
//! in files as the kernel would.

mod dcqcn;
pub mod fabric;
pub mod tree;

use anyhow::Result;
use fabric::Fabric;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tree::HostTree;

/// Simulated hosts.
pub const HOSTS: usize = 16;
/// NICs a host, one a rail.
pub const RAILS: usize = 8;

/// Keeps the files of hosts moving until `stop`. Hosts that the fabric has no place for move as those at its begin do.
pub fn run(fabric: &Mutex<Fabric>, trees: &mut [HostTree], tick: Duration, stop: &AtomicBool) -> Result<()> {
    let mut last = Instant::now();
    while !stop.load(Ordering::SeqCst) {
        std::thread::sleep((last + tick).saturating_duration_since(Instant::now()));
        let dt = last.elapsed();
        last += dt;
        let nics: Vec<_> = {
            let mut f = fabric.lock().map_err(|_| anyhow::anyhow!("who tells the fabric what to do panicked"))?;
            f.step(dt.as_secs_f64());
            f.nics.iter().cycle().take(trees.len() * RAILS).cloned().collect()
        };
        trees.iter_mut().try_for_each(|t| t.write(&nics))?;
    }
    Ok(())
}
