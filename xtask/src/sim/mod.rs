//! A small flow-level RoCE fabric and the host trees that show it: what `demo` and `bench` let the real agent read.
//!
//! `fabric` moves bytes and counts what mlx5 NICs would count (`dcqcn`: how senders react to congestion); `tree` keeps that
//! in files as the kernel would.

mod dcqcn;
pub mod fabric;
pub mod tree;

/// Simulated hosts.
pub const HOSTS: usize = 16;
/// NICs a host, one a rail.
pub const RAILS: usize = 8;
