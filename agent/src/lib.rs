//! The Fabriclens agent.
pub mod budget;
pub mod capture;
pub mod cli;
pub mod config;
pub mod device;
pub mod doctor;
pub mod exposition;
pub mod health;
pub mod http;
pub mod ib_fabric;
pub mod probing;
pub mod run;
pub mod sandbox;
pub mod schedule;
pub mod state;
mod status;
pub mod uplinks;
