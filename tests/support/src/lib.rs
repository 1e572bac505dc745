//! Helpers that the tests of several crates share: golden files, waiting for a condition, and recordings that are kept
//! outside the repository.
//!
//! A test that needs more than the repository and a Linux kernel is ignored with the reason `needs: NAME`;
//! `xtask/src/needs` lists the names, and `cargo xtask test` runs such tests where the need is met.

mod golden;
pub mod ibsim;
pub mod mpi;
mod ports;
pub mod ras;
mod recordings;
pub mod routers;
mod wait;

pub use golden::{blesses, golden};
pub use ports::free_port;
pub use recordings::{infiniband_simulations, prometheus_scripts, recordings, reference, scenarios, simulations};
pub use wait::eventually;
#[cfg(feature = "tokio")]
pub use wait::eventually_async;
