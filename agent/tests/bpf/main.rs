//! BPF probes on the running kernel, with real traffic. A program of its own: its tests take turns, because they move the
//! whole process between control groups and count the programs of the whole host.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../support/kernel.rs"]
mod kernel;
#[path = "../support/namespace.rs"]
mod namespace;
#[path = "../support/net.rs"]
mod net;

mod exit;
mod microburst;
mod peers;
mod probes;
mod traffic;

use parking_lot::{Mutex, MutexGuard};

/// Held by every test while it runs.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock()
}
