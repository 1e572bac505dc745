//! Prints what every call of [`fabriclens_kernel::Calls`] answers on this host, for a look at a new kernel or driver.
//!
//! `cargo run -p fabriclens-kernel --example calls [SECONDS]`: SECONDS to wait for events, none by default.

use fabriclens_kernel::{Calls, live::Live};
use std::fmt::Debug;
use std::time::{Duration, Instant};

fn show<T: Debug, E: Debug + std::fmt::Display>(what: &str, call: impl FnOnce() -> Result<T, E>) -> Option<T> {
    let start = Instant::now();
    let done = call();
    let took = start.elapsed().as_micros();
    match done {
        Ok(value) => {
            println!("{what} ({took} us): {value:?}");
            Some(value)
        }
        Err(error) => {
            println!("{what} ({took} us): FAILED {error}");
            None
        }
    }
}

fn main() {
    let live = Live::default();
    println!("verbs: {:?}", Live::verbs_unavailable());
    let links = show("rdma_links", || live.rdma_links()).unwrap_or_default();
    for link in &links {
        let mut counters = Vec::new();
        show(&format!("rdma_counters {}", link.device), || live.rdma_counters(link, &mut counters));
        println!("  {counters:?}");
        show(&format!("verbs_port {}", link.device), || live.verbs_port(&link.device, link.port));
    }
    show("rdma_qps", || live.rdma_qps());
    for netdev in links.iter().filter_map(|link| link.netdev.as_deref()) {
        show(&format!("driver {netdev}"), || live.driver(netdev));
        if let Some(names) = show(&format!("stat_names {netdev}"), || live.stat_names(netdev)) {
            let mut values = Vec::new();
            show(&format!("stat_values {netdev}"), || live.stat_values(netdev, &names, &mut values));
            println!("  {values:?}");
        }
        let mut std = Vec::new();
        show(&format!("std_stats {netdev}"), || live.std_stats(netdev, &mut std));
        println!("  {std:?}");
        show(&format!("link_state {netdev}"), || live.link_state(netdev));
        show(&format!("max_rate_bits {netdev}"), || live.max_rate_bits(netdev));
        show(&format!("module {netdev}"), || live.module(netdev));
        show(&format!("dcb {netdev}"), || live.dcb(netdev));
    }
    let seconds = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(0);
    let end = Instant::now() + Duration::from_secs(seconds);
    match live.events() {
        Ok(mut events) => {
            while let Some(left) = end.checked_duration_since(Instant::now()) {
                show("event", || events.wait(left));
            }
        }
        Err(error) => println!("events: FAILED {error}"),
    }
}
