//! An InfiniBand subnet as its management datagrams (MADs) tell it: nodes, links, port counters and paths.
//!
//! The crate needs no library: a MAD is 256 bytes, and a [`transport::Mad`] carries it, over `/dev/infiniband/umad*` or
//! to a simulated subnet. Only the method Get can be built ([`packet::Get`]), so nothing in a subnet is changed.
//!
//! ```
//! use fabriclens_agent_mad::packet::{Destination, Get};
//! use fabriclens_agent_mad::{route::Route, smp};
//!
//! let route = Route::local().then(1).expect("one hop");
//! let mad = Get::subnet(Destination::Route(route), smp::NODE_INFO, 0).encode(7);
//! assert_eq!(mad[..4], [1, 0x81, 1, 1], "version, class, class version, method Get");
//! ```

#![forbid(unsafe_code)]

pub mod congestion;
pub mod counters;
pub mod discovery;
pub mod exchange;
pub mod fuzzing;
pub mod ibsim;
pub mod packet;
pub mod paths;
pub mod pma;
pub mod route;
pub mod smp;
pub mod subnet;
pub mod tables;
pub mod transport;
pub mod umad;
pub mod umad_ports;
