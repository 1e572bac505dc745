//! Probes of RDMA ports: network round trips apart from the delays of both hosts, with a TCP twin of each pair.

#![forbid(unsafe_code)]

mod bucket;
mod flights;
mod histogram;
mod message;
mod port_prober;
mod refusal;
mod responder;
mod schedule;
#[cfg(test)]
mod simulated;
mod stats;
mod throttle;
