//! Test harness and tests that need more than one crate:
//!
//! - `lab`: guests under QEMU, the switch between them, the fake HCA module, running agents and collectors;
//! - `vm`: scenarios on real kernels, run by `cargo xtask vm` (too slow and too demanding for `cargo test`).
//!
//! `cargo test` of this crate tests only the parts of the lab that need no guest.

pub mod lab;
pub mod vm;
