//! Probes of RDMA ports: network round trips apart from the delays of both hosts, with a TCP twin of each pair.
//!
//! Each port has a thread of its own ([`set_inventory`]). It sends 40 bytes on a UD queue pair to the planned targets, answers
//! the probes of other hosts with two ACKs, and hands results to the report of the [`Prober`]. One more thread sends and
//! answers TCP twins: the same addresses and the same DSCP, by the kernel's TCP, which tells a fault of RDMA from one of the
//! network. Without targets nothing is sent but answers.

#![forbid(unsafe_code)]

mod bucket;
mod flights;
mod histogram;
mod message;
mod port_prober;
mod port_source;
mod prober;
mod refusal;
mod responder;
mod schedule;
mod series;
#[cfg(test)]
mod simulated;
mod stats;
mod tcp;
mod threads;
mod throttle;

pub use port_source::source;
pub use prober::{Prober, Report, Settings};
pub use series::sections;
pub use threads::set_inventory;
