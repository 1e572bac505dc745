//! Where sources do not agree, and how that is told.

use super::types::Provenance;
use serde::{Deserialize, Serialize};
use std::fmt::{Display, Formatter};

/// Two sources do not agree on where a port's cable leads.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
pub struct Contradiction {
    /// Whose port.
    pub node: String,
    /// The port.
    pub port: String,
    /// What the topology has.
    pub believed: Claim,
    /// What it has not.
    pub rejected: Claim,
}

/// Where a cable leads, by one source.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// Who says it.
    pub source: String,
    /// How the source knows.
    pub known: Provenance,
    /// The node at the other end.
    pub node: String,
    /// Its port; `""` if the source does not say.
    pub port: String,
}

impl Display for Claim {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        let Self { source, node, port, .. } = self;
        match &**port {
            "" => write!(f, "{node} ({source})"),
            port => write!(f, "{node} port {port} ({source})"),
        }
    }
}

impl Display for Contradiction {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        let Self { node, port, believed, rejected } = self;
        write!(
            f,
            "{node} port {port} is wired to {believed}, not to {rejected}; check the cable, or correct the latter"
        )
    }
}
