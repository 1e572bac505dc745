//! The lab: guests with a real kernel, the switch or routers between them, agents in them and a collector on the host.

pub mod agent;
pub mod collector;
pub mod config;
pub mod copied;
pub mod exec;
pub mod image;
pub mod mpi;
pub mod qmp;
pub mod routers;
pub mod slurm;
pub mod switch;
pub mod vm;
