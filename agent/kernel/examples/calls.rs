//! Makes every kernel call for every RDMA port and netdev and prints the result and duration of each, then prints
//! events for `SECONDS` (default 0).
//!
//! `calls [SECONDS [RECORDING]]`: inspects a host or a recording, or compares these calls with the tools on a real
//! kernel.

use std::error::Error;
use std::fmt::Debug;
use std::time::{Duration, Instant};

use fabriclens_kernel::live::LiveKernel;
use fabriclens_kernel::recorded::RecordedKernel;
use fabriclens_kernel::{CallError, KernelCalls};

/// Prints the result of `call` and its duration; returns the value if it succeeded.
fn show<T: Debug>(what: &str, call: impl FnOnce() -> Result<T, CallError>) -> Option<T> {
    let start = Instant::now();
    let answer = call();
    let took = start.elapsed().as_micros();
    match answer {
        Ok(answer) => {
            println!("{what} ({took} us): {answer:?}");
            Some(answer)
        }
        Err(error) => {
            let source = error.source().map(ToString::to_string).unwrap_or_default();
            println!("{what} ({took} us): {error} {source}");
            None
        }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let seconds = std::env::args().nth(1).map_or(Ok(0), |s| s.parse())?;
    let calls: Box<dyn KernelCalls> = match std::env::args().nth(2) {
        Some(root) => Box::new(RecordedKernel::new(root)),
        None => Box::new(LiveKernel::default()),
    };
    let mut events = calls.events()?;
    for link in show("RDMA ports", || calls.rdma_links()).unwrap_or_default() {
        println!("{} port {}", link.device, link.port);
        show("  counters", || {
            let mut out = Vec::new();
            calls.rdma_counters(&link, &mut out).map(|()| out)
        });
        show("  verbs", || calls.verbs_port(&link.device, link.port));
    }
    show("queue pairs", || calls.rdma_qps(None));
    show("connections", || calls.rdma_cm_ids(None));
    show("counters of queue pairs", || calls.rdma_qp_counters(None));
    for entry in std::fs::read_dir("/sys/class/net")?.flatten() {
        let netdev = entry.file_name().to_string_lossy().into_owned();
        println!("{netdev}");
        show("  driver", || calls.driver(&netdev));
        if let Some(names) = show("  names", || calls.stat_names(&netdev)) {
            show("  statistics", || {
                let mut out = Vec::new();
                calls.stat_values(&netdev, &names, &mut out).map(|()| out)
            });
        }
        show("  standard", || {
            let mut out = Vec::new();
            calls.std_stats(&netdev, &mut out).map(|()| out)
        });
        show("  link", || calls.link_state(&netdev));
        show("  fastest", || calls.max_rate_bits(&netdev));
        show("  settings", || calls.netdev_settings(&netdev));
        show("  module", || calls.module(&netdev));
        show("  DCB", || calls.dcb(&netdev));
    }
    let end = Instant::now() + Duration::from_secs(seconds);
    while Instant::now() < end {
        if let Some(event) = events.wait(Duration::from_millis(200))? {
            println!("event {event:?}");
        }
    }
    Ok(())
}
