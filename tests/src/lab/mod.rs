//! The lab: guests with a real kernel, the switch between them, and the programs that run in and beside them.

pub mod agent;
pub mod collector;
pub mod exec;
pub mod image;
pub mod qmp;
pub mod slurm;
pub mod switch;
pub mod vm;
