//! The Fabriclens agent.
pub mod clock;
pub mod config;
pub mod inventory;
pub mod no_calls;
pub mod ring;
pub mod roots;
pub mod schedule;
pub mod sysfile;
pub mod uplink;
pub mod exposition;
pub mod http;
