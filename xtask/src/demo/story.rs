//! The story: calm, an incast, a PFC storm, a bad link, calm; two minutes, then again. Calm is long enough to learn what
//! is usual, without which nobody can say who suffers.

use super::ask;
use crate::sim::fabric::{Fabric, Fault};
use anyhow::Result;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

struct Scene {
    at: u64,
    fault: Option<Fault>,
    title: &'static str,
    /// Asked this many seconds into the scene.
    ask_after: u64,
    questions: &'static [Question],
}

struct Question {
    says: &'static str,
    promql: &'static str,
    scale: f64,
    unit: &'static str,
}

const SCENES: &[Scene] = &[
    Scene {
        at: 0,
        fault: None,
        title: "three jobs run all-reduce: segment on gpu-00..04, encode on gpu-05..09, pretrain on gpu-10..15",
        ask_after: 9,
        questions: &[Question {
            says: "the busiest ports",
            promql: r#"topk(3, rate(fabric_port_io_bytes_total{direction="transmit",host=~"gpu-.*"}[5s]))"#,
            scale: 8e-9,
            unit: "Gb/s",
        }],
    },
    Scene {
        at: 40,
        fault: Some(Fault::Incast { job: 1, to: (7, 3) }),
        title: "incast: the second job sends to gpu-07 mlx5_3 from four hosts at once",
        ask_after: 12,
        questions: &[
            Question {
                says: "who sends CNPs is who is being overrun",
                promql: "topk(3, rate(fabric_cnp_packets_total{direction=\"transmit\"}[5s]))",
                scale: 1e-3,
                unit: "k/s",
            },
            Question {
                says: "its senders are told to pause",
                promql: r#"topk(4, rate(fabric_pfc_pause_seconds_total{direction="receive",priority="3"}[5s]))"#,
                scale: 100.0,
                unit: "%",
            },
        ],
    },
    Scene {
        at: 60,
        fault: Some(Fault::Storm { nic: (12, 2) }),
        title: "PFC storm: the NIC gpu-12 mlx5_2 cannot drain and pauses its switch without end",
        ask_after: 8,
        questions: &[
            Question {
                says: "who pauses others (the culprit)",
                promql: r#"topk(3, rate(fabric_pfc_pause_seconds_total{direction="transmit",priority="3"}[5s]))"#,
                scale: 100.0,
                unit: "%",
            },
            Question {
                says: "who is paused (the victims)",
                promql: r#"topk(4, rate(fabric_pfc_pause_seconds_total{direction="receive",priority="3"}[5s]))"#,
                scale: 100.0,
                unit: "%",
            },
            Question {
                says: "what each job still sends: pretrain has that NIC",
                promql: r#"sum by (job_name) (sum by (host) (rate(fabric_port_io_bytes_total{direction="transmit"}[5s])) * on (host) group_right () fabric_job_info)"#,
                scale: 8e-9,
                unit: "Gb/s",
            },
        ],
    },
    Scene {
        at: 78,
        fault: Some(Fault::BadLink { nic: (3, 5) }),
        title: "bad link: frames towards gpu-03 mlx5_5 arrive broken",
        ask_after: 10,
        questions: &[
            Question {
                says: "symbol errors",
                promql: "topk(3, rate(fabric_link_symbol_errors_total[5s]))",
                scale: 1.0,
                unit: "/s",
            },
            Question {
                says: "who must send again",
                promql: "topk(3, rate(fabric_rdma_sequence_naks_total{direction=\"receive\"}[5s]))",
                scale: 1.0,
                unit: "/s",
            },
        ],
    },
    Scene { at: 92, fault: None, title: "repaired: all three jobs at full speed again", ask_after: 18, questions: &[] },
];
const CYCLE: u64 = 120;

/// Runs scenes until `stop` or `limit`.
pub fn tell(url: &str, fabric: &Arc<Mutex<Fabric>>, stop: &AtomicBool, limit: Option<Duration>) -> Result<()> {
    let begin = Instant::now();
    for round in 0.. {
        for scene in SCENES {
            let at = |seconds: u64| Duration::from_secs(round * CYCLE + scene.at + seconds);
            if !wait_until(begin, at(0), stop, limit) {
                return Ok(());
            }
            println!("\n{:>4} s  {}", begin.elapsed().as_secs(), scene.title);
            fabric.lock().map_err(|_| anyhow::anyhow!("the simulator panicked"))?.fault = scene.fault;
            if !wait_until(begin, at(scene.ask_after), stop, limit) {
                return Ok(());
            }
            for q in scene.questions {
                println!("   {}:", q.says);
                ask::show(url, q.promql, q.scale, q.unit)?;
            }
            if scene.at > 0 {
                ask::verdicts(url, scene.fault.is_some())?;
            }
            if let Some(first) = scene.questions.first() {
                println!("   in a browser: {}", ask::link(url, first.promql));
            }
        }
        println!("\n        That was the story; it starts again. Ctrl-C ends everything.");
        if !wait_until(begin, Duration::from_secs((round + 1) * CYCLE), stop, limit) {
            return Ok(());
        }
    }
    Ok(())
}

/// False when it is time to stop.
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
