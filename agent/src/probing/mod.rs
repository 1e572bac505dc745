//! `[probes]`: traces paths and probes pairs of ports, as the collector plans.

mod settings;

pub use settings::Probing;
