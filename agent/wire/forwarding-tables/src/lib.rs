//! Forwarding tables of an InfiniBand subnet: messages and bounds of the gRPC method by which the reader of the subnet tells
//! the collector how its switches forward.
//!
//! The reader begins a *telling* with all switches and adapter ports, in as many requests as it takes; later requests of the
//! telling hold only what has changed. A collector that does not know the telling asks for a new one.
//!
//! ```
//! use fabriclens_forwarding_tables::{AdapterPort, SwitchTables, TellRequest};
//!
//! let leaf = SwitchTables { guid: 0x10, name: "leaf1".into(), ports: 40, table: vec![255, 1, 2].into(), ..Default::default() };
//! let port = AdapterPort { guid: 0x20, port: 1, lid: 1, host: "node1".into(), name: "mlx5_0/1".into(), ..Default::default() };
//! let request = TellRequest { switches: vec![leaf], adapters: vec![port], ..Default::default() };
//! assert_eq!(request.check(), Ok(()));
//! ```

#![forbid(unsafe_code)]

mod bounds;
mod messages;

pub use bounds::Invalid;
pub use messages::{AdapterPort, Adaptive, Cable, Lanes, PortId, SwitchTables, TellReply, TellRequest};

use std::time::Duration;

/// Path of the gRPC method.
pub const TELL: &str = "/fabriclens.v1.ForwardingTables/Tell";
/// Longest interval between two requests of a telling, also if nothing has changed.
pub const TELL_EVERY: Duration = Duration::from_secs(30);
/// Time without a request after which the collector no longer uses what it was told.
pub const LASTS: Duration = Duration::from_secs(300);
/// Size up to which a request is filled, bytes.
pub const REQUEST: usize = 256 * 1024;
/// Largest request, bytes: [`REQUEST`], and one switch beyond it.
pub const LARGEST_REQUEST: usize = 512 * 1024;
/// Most switches of a subnet.
pub const SWITCHES: usize = 8192;
/// Most adapter ports of a subnet: there are no more unicast LIDs.
pub const ADAPTERS: usize = LIDS - 1;
/// Number of unicast LIDs, with 0.
pub const LIDS: usize = 0xc000;
/// Entry of a forwarding table for a LID without a route.
pub const NO_ROUTE: u8 = 255;
