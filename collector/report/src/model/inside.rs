//! The section about the insides of hosts: GPUs, the adapters near to them, NVLink.

use super::Finding;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// GPUs of the job's hosts and their ways to the network.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(default)]
pub struct Inside {
    /// GPUs that agents reported; 0 if there are none, or no agent reads them.
    pub gpus: usize,
    /// GPUs, adapters and NVLinks that are not as they should be, worst first.
    pub findings: Vec<Finding>,
}
