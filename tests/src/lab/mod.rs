//! The lab: guests with a real kernel, the switch between them, agents in them and a collector on the host.

pub mod agent;
pub mod collector;
pub mod exec;
pub mod image;
pub mod qmp;
pub mod slurm;
pub mod switch;
pub mod vm;
