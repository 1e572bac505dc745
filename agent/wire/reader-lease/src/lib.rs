//! The reader lease of an InfiniBand subnet: messages and times of the gRPC method by which an agent asks the collector
//! whether it may read the switches of its subnet.
//!
//! Each candidate asks every [`ASK_EVERY`]. A granted lease lasts [`LEASE`] from the request. The subnet needs no name:
//! two candidates are in one subnet if both see one of the same switches.
//!
//! ```
//! use fabriclens_reader_lease::{AskRequest, lowest};
//!
//! let switches = lowest([0x0c, 0x0a, 0x0b]);
//! let request = AskRequest { host: "mgmt-01".to_owned(), agent: 1, switches, reading: false };
//! assert_eq!(request.switches, [0x0a, 0x0b, 0x0c]);
//! ```

#![forbid(unsafe_code)]

use std::time::Duration;

/// Path of the gRPC method.
pub const ASK: &str = "/fabriclens.v1.SubnetReaders/Ask";
/// Time that a lease lasts after the request that it answers.
pub const LEASE: Duration = Duration::from_secs(6);
/// Interval at which a candidate asks.
pub const ASK_EVERY: Duration = Duration::from_secs(2);
/// Most switches in a request: more than can fail or be overlooked at once.
pub const SWITCHES: usize = 16;

/// A candidate asks for the lease of its subnet, or renews it.
#[derive(Clone, PartialEq, prost::Message)]
pub struct AskRequest {
    /// Host name of the agent, as in its samples.
    #[prost(string, tag = "1")]
    pub host: String,
    /// Number of the agent process; tells two agents under one host name apart.
    #[prost(fixed64, tag = "2")]
    pub agent: u64,
    /// GUIDs of switches that the candidate sees, see [`lowest`].
    #[prost(fixed64, repeated, tag = "3")]
    pub switches: Vec<u64>,
    /// Whether the candidate reads the subnet at this time.
    #[prost(bool, tag = "4")]
    pub reading: bool,
}

/// Answer of the collector.
#[derive(Clone, PartialEq, prost::Message)]
pub struct AskReply {
    /// Whether the candidate has the lease.
    #[prost(bool, tag = "1")]
    pub granted: bool,
    /// Host that has the lease; empty if there is none yet.
    #[prost(string, tag = "2")]
    pub holder: String,
    /// Time that the lease lasts after the request, milliseconds.
    #[prost(uint32, tag = "3")]
    pub lasts_ms: u32,
    /// Number of other candidates in the subnet.
    #[prost(uint32, tag = "4")]
    pub others: u32,
}

/// The lowest [`SWITCHES`] of some GUIDs, in order and without 0: the same choice on all hosts of a subnet.
pub fn lowest(guids: impl IntoIterator<Item = u64>) -> Vec<u64> {
    let mut all: Vec<u64> = guids.into_iter().filter(|guid| *guid != 0).collect();
    all.sort_unstable();
    all.dedup();
    all.truncate(SWITCHES);
    all
}
