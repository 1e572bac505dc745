//! The script of the demo: calm, an incast, a PFC storm, a bad link, a bad cable between switches, repaired; two minutes,
//! then again. The first calm is
//! long enough for the collector to learn the baselines.

use super::ask;
use crate::sim::fabric::{Fabric, Fault};
use anyhow::Result;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// A part of the story.
struct Scene {
    /// Seconds since the start of a cycle.
    at: u64,
    fault: Option<Fault>,
    title: &'static str,
    /// Seconds into the scene after which the queries run.
    query_after: u64,
    queries: &'static [Query],
}

/// A query whose answer is printed.
struct Query {
    title: &'static str,
    promql: &'static str,
    scale: f64,
    unit: &'static str,
}

const SCENES: &[Scene] = &[
    Scene {
        at: 0,
        fault: None,
        title: "three jobs run all-reduce: segment on gpu-00..04, encode on gpu-05..09, pretrain on gpu-10..15",
        query_after: 9,
        queries: &[Query {
            title: "the busiest ports",
            promql: r#"topk(3, rate(fabric_port_io_bytes_total{direction="transmit",host=~"gpu-.*"}[5s]))"#,
            scale: 8e-9,
            unit: "Gb/s",
        }],
    },
    Scene {
        at: 40,
        fault: Some(Fault::Incast { job: 1, to: (7, 3) }),
        title: "incast: four hosts of the second job send to gpu-07 mlx5_3 at once",
        query_after: 12,
        queries: &[
            Query {
                title: "CNP senders (receivers of the incast)",
                promql: "topk(3, rate(fabric_cnp_packets_total{direction=\"transmit\"}[5s]))",
                scale: 1e-3,
                unit: "k/s",
            },
            Query {
                title: "paused senders",
                promql: r#"topk(4, rate(fabric_pfc_pause_seconds_total{direction="receive",priority="3"}[5s]))"#,
                scale: 100.0,
                unit: "%",
            },
        ],
    },
    Scene {
        at: 57,
        fault: Some(Fault::Storm { nic: (12, 2) }),
        title: "PFC storm: the NIC gpu-12 mlx5_2 pauses its switch without end",
        query_after: 8,
        queries: &[
            Query {
                title: "ports that send pause (the culprit)",
                promql: r#"topk(3, rate(fabric_pfc_pause_seconds_total{direction="transmit",priority="3"}[5s]))"#,
                scale: 100.0,
                unit: "%",
            },
            Query {
                title: "ports that are paused (the victims)",
                promql: r#"topk(4, rate(fabric_pfc_pause_seconds_total{direction="receive",priority="3"}[5s]))"#,
                scale: 100.0,
                unit: "%",
            },
            Query {
                title: "throughput of each job (pretrain has the NIC)",
                promql: r#"sum by (job_name) (sum by (host) (rate(fabric_port_io_bytes_total{direction="transmit"}[5s])) * on (host) group_right () fabric_job_info)"#,
                scale: 8e-9,
                unit: "Gb/s",
            },
        ],
    },
    Scene {
        at: 73,
        fault: Some(Fault::BadLink { nic: (3, 5) }),
        title: "bad link: frames to gpu-03 mlx5_5 arrive corrupted",
        query_after: 10,
        queries: &[
            Query {
                title: "symbol errors",
                promql: "topk(3, rate(fabric_link_symbol_errors_total[5s]))",
                scale: 1.0,
                unit: "/s",
            },
            Query {
                title: "ports that must retransmit",
                promql: "topk(3, rate(fabric_rdma_sequence_naks_total{direction=\"receive\"}[5s]))",
                scale: 1.0,
                unit: "/s",
            },
        ],
    },
    Scene {
        at: 86,
        fault: Some(Fault::BadTrunk { below: (8, 2), spine: 3 }),
        title: "bad cable between switches: frames from spine-3 to leaf-1-2 arrive corrupted, which only switches count",
        query_after: 10,
        queries: &[
            Query {
                title: "CRC errors (of a switch port)",
                promql: r#"topk(3, rate(fabric_link_crc_errors_total{host=~"leaf-.*|spine-.*"}[5s]))"#,
                scale: 1.0,
                unit: "/s",
            },
            Query {
                title: "ports that must retransmit (any link of their path may be the cause)",
                promql: "topk(3, rate(fabric_rdma_sequence_naks_total{direction=\"receive\"}[5s]))",
                scale: 1.0,
                unit: "/s",
            },
        ],
    },
    Scene { at: 99, fault: None, title: "repaired: all three jobs at full speed again", query_after: 16, queries: &[] },
];
const CYCLE: u64 = 120;

/// Runs the scenes until `stop` or for `limit`.
///
/// # Errors
/// When the collector does not answer.
pub fn run(url: &str, fabric: &Arc<Mutex<Fabric>>, stop: &AtomicBool, limit: Option<Duration>) -> Result<()> {
    let begin = Instant::now();
    for round in 0.. {
        for scene in SCENES {
            let at = |seconds: u64| Duration::from_secs(round * CYCLE + scene.at + seconds);
            if !wait_until(begin, at(0), stop, limit) {
                return Ok(());
            }
            println!("\n{:>4} s  {}", begin.elapsed().as_secs(), scene.title);
            fabric.lock().map_err(|_| anyhow::anyhow!("the simulator panicked"))?.fault = scene.fault;
            if !wait_until(begin, at(scene.query_after), stop, limit) {
                return Ok(());
            }
            for q in scene.queries {
                println!("   {}:", q.title);
                ask::show(url, q.promql, q.scale, q.unit)?;
            }
            if scene.at > 0 {
                ask::verdicts(url, scene.fault.is_some())?;
            }
            if let Some(first) = scene.queries.first() {
                println!("   in a browser: {}", ask::link(url, first.promql));
            }
        }
        println!("\n        The story starts again. Ctrl-C stops the demo.");
        if !wait_until(begin, Duration::from_secs((round + 1) * CYCLE), stop, limit) {
            return Ok(());
        }
    }
    Ok(())
}

/// Waits until `at`; false if the demo stops before.
fn wait_until(begin: Instant, at: Duration, stop: &AtomicBool, limit: Option<Duration>) -> bool {
    loop {
        if stop.load(Ordering::SeqCst) || limit.is_some_and(|l| begin.elapsed() >= l) {
            return false;
        }
        if begin.elapsed() >= at {
            return true;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}
