//! Traces the paths of RoCE v2 flows: which switches the datagrams of a UDP source port pass.
//!
//! A trace sends datagrams with the flow's own addresses, source port, destination port and traffic class, because switches
//! hash over these, and with TTL 1, 2, …: each switch at which a TTL ends answers with its address. The TTL stays **below the
//! distance of the target**, so that no datagram arrives there: its adapter would count it as broken RoCE. The distance is
//! found before, with another destination port, at which the target's kernel answers "port unreachable" ([`distance`]).
//!
//! A [`Tracer`] does this for all ports of a host as the collector plans, within a budget of datagrams for each port. It owns no
//! thread: [`Tracer::step`] does what is due and returns, and [`Tracer::wait`] waits for answers. Sockets are behind
//! [`transport::Transport`], so that tests need no network.
//!
//! ```
//! use fabriclens_agent_tracer::{Tracer, transport::Live};
//! use std::time::Instant;
//!
//! let mut tracer = Tracer::new(Live, 50, 7);
//! let found = tracer.step(Instant::now(), 0);
//! assert!(found.is_empty(), "without a plan nothing is sent");
//! ```

#![forbid(unsafe_code)]

mod budget;
pub mod distance;
mod exchange;
mod path;
mod port;
mod stats;
mod sweep;
mod target;
mod token;
mod tracer;
pub mod transport;

pub use stats::{Paths, Stats};
pub use target::{Found, LocalPort, TraceTarget};
pub use tracer::Tracer;
