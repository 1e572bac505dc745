//! Contradictions between sources of topology.

use super::types::Provenance;
use serde::{Deserialize, Serialize};
use std::fmt::{Display, Formatter};

/// Two sources disagree on where a port's cable leads.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
pub struct Contradiction {
    /// Node of the port.
    pub node: String,
    /// Port name.
    pub port: String,
    /// The claim that the topology follows.
    pub believed: Claim,
    /// The claim that it does not follow.
    pub rejected: Claim,
}

/// Where a cable leads, according to one source.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// Name of the source.
    pub source: String,
    /// How the source knows.
    pub known: Provenance,
    /// Node at the other end.
    pub node: String,
    /// Its port; `""` if the source does not name it.
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
            "{node} port {port} is cabled to {believed}, not to {rejected}; check the cable, or correct the second \
             source"
        )
    }
}
