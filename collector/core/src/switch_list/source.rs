//! What the list says of a switch.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

/// A switch as one source reports it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SwitchSource {
    /// Name of the switch, as `host` in series.
    pub switch: String,
    /// Source: `cumulus`, `sonic_hft`, `gnmi`, `in_band`, …
    pub source: Cow<'static, str>,
    /// Time of the newest sample, Unix milliseconds; `None` if none has arrived.
    pub last_ms: Option<i64>,
    /// Whether nothing arrives: no sample for [`SILENT_MS`](super::SILENT_MS), or no gNMI stream that works.
    pub silent: bool,
    /// gNMI streams, ordered by name; empty for switches that push.
    pub streams: Vec<StreamState>,
    /// Names that were not understood, ordered.
    pub unknown: Vec<UnknownName>,
    /// Whether further unknown names were not kept.
    pub more_unknown: bool,
}

/// A gNMI stream.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StreamState {
    /// Name of the stream: `ports`, `queues`, …
    pub stream: Cow<'static, str>,
    /// Why it does not work: `refused`, `connection`, …; `None` if it works.
    pub failed: Option<Cow<'static, str>>,
}

/// A foreign name without a row.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct UnknownName {
    /// The name as it arrived.
    pub name: String,
    /// Time of its newest sample, Unix milliseconds.
    pub last_ms: i64,
}
