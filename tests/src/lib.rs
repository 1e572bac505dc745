//! Harness and behaviour tests that need more than one crate. Index:
//!
//! - `lab`: guests under QEMU, the switch between them, the fake HCA module, running agents and collectors;
//! - `vm`: scenarios on real kernels, run by `cargo xtask vm` (too slow and too demanding for `cargo test`).
//!
//! `cargo test` of this crate runs what needs no guest: the lab's own parts.

pub mod lab;
pub mod vm;
