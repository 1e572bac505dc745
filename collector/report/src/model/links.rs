//! Links of the fabric near the job.

use super::paths::{LinkFlows, Paths};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Links that the job's traffic may take, as the ports of switches counted them: whoever caused it, this job or others.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq)]
pub struct Links {
    /// Links by the topology: cables of the job's devices, those from their leaf switches to other switches, and those on the
    /// known paths of its flows.
    pub known: usize,
    /// Those of which a switch port was read.
    pub measured: usize,
    /// Links that damaged, dropped or held back traffic, the worst first.
    pub worst: Vec<WorstLink>,
    /// Paths of the job's flows; absent without queue pairs, or where neither forwarding tables nor traces are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paths: Option<Paths>,
}

/// A link that damaged, dropped or held back traffic. Counters of the switch ports at its ends; absent: not measured.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq)]
pub struct WorstLink {
    /// Both ends: `leaf-1 swp12 - spine-3 Ethernet80`.
    pub link: String,
    /// Fraction of time in which an end could not send, because the other paused it or gave no credits.
    pub held: Option<f64>,
    /// Mean load of the busier direction, fraction of the rate.
    pub load: Option<f64>,
    /// Frames or symbols that arrived damaged, whichever counts most.
    pub errors: Option<f64>,
    /// Packets dropped at its ports.
    pub drops: Option<f64>,
    /// Packets that its ports marked (ECN).
    pub marks: Option<f64>,
    /// Flows of the job over it, both directions; absent where no paths are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flows: Option<LinkFlows>,
}
