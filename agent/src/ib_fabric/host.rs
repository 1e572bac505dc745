//! What the reader's thread needs of the engine.

use fabriclens_agent_host::clock::Clock;
use fabriclens_agent_mad::transport::Mad;
use fabriclens_agent_uplink::{ReaderLease, SharedTables};
use fabriclens_wire::Section;
use std::sync::Arc;
use std::time::Instant;

/// Opens the port; returns it with its name, or a sentence with the remedy.
pub type Open<'a> = dyn Fn() -> Result<(Box<dyn Mad>, String), String> + 'a;

/// What the thread needs of the engine.
pub struct Host<'a> {
    /// Opens the port.
    pub open: &'a Open<'a>,
    /// Lease of the subnet; `None`: this host reads without one.
    pub lease: Option<&'a ReaderLease>,
    /// Takes the forwarding tables for the collectors; `None`: they are not read.
    pub tables: Option<&'a SharedTables>,
    /// Clock of the time stamps.
    pub clock: &'a Clock,
    /// `host` label of the agent's own metrics.
    pub name: &'a Arc<str>,
    /// Takes sections.
    pub push: &'a (dyn Fn(Section) + Sync),
    /// Waits until an instant; true if the engine stops.
    pub wait: &'a (dyn Fn(Instant) -> bool + Sync),
    /// Whether the engine stops.
    pub stopping: &'a (dyn Fn() -> bool + Sync),
    /// Reports a problem, or that there is none.
    pub problem: &'a dyn Fn(Option<String>),
}
