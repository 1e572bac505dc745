//! Queries without a result in the demo, with the reason. Every other query must have one there.

use super::coverage::{self, QueryId};
use super::panel::Dashboard;
use anyhow::{Result, ensure};

/// Queries that are empty for one reason.
struct Empty {
    why: &'static str,
    /// Empty on every machine and in every run.
    always: bool,
    queries: &'static [QueryId],
}

const EMPTY: &[Empty] = &[
    Empty {
        why: "the fabric is RoCE, so no port waits for credits",
        always: true,
        queries: &[
            ("overview", "Wait for credits (InfiniBand)", "{{host}} {{device}}"),
            ("congestion", "Credit wait, share of line rate", "{{host}} {{device}}"),
            ("congestion", "Credit wait, by leaf", "{{switch}}"),
            ("host", "Credit wait (InfiniBand)", "{{device}}"),
            ("job", "Worst port: waits for credits", "waits"),
            ("job", "Share of rate lost to credits (InfiniBand)", "mean"),
            ("job", "Share of rate lost to credits (InfiniBand)", "worst port"),
        ],
    },
    Empty {
        why: "the simulated NICs have no such counter or part: optics, PCIe, DCQCN configuration",
        always: true,
        queries: &[
            ("congestion", "Notifications ignored, or congestion control off", "ignored"),
            ("congestion", "Notifications ignored, or congestion control off", "off for priorities"),
            ("links", "Uncorrectable", "{{host}} {{device}}"),
            ("links", "Light received, weakest lane", "{{host}} {{device}}"),
            ("links", "Temperature of modules", "{{host}} {{device}}"),
            ("links", "PCIe below capability", "of capability"),
            ("links", "Stalled memory requests", "{{host}} {{device}} {{direction}}"),
            ("links", "PCIe errors", "{{host}} {{device}} {{severity}}"),
            ("host", "Peak of 100 ms, of line rate", "{{device}}"),
            ("host", "Stalled memory requests", "{{device}} {{direction}}"),
            ("host", "Temperature of modules", "{{device}}"),
            ("host", "PFC and congestion control, by priority", "congestion control"),
        ],
    },
    Empty {
        why: "the simulated hosts have no GPU",
        always: true,
        queries: &[
            ("host", "GPUs and their nearest adapters", "distance"),
            ("host", "Ways between GPU memory and adapter", "is there"),
            ("host", "PCIe lanes of GPUs, share of capability", "GPU {{gpu}}"),
            ("host", "NVLink, sent and received", "GPU {{gpu}} {{direction}}"),
            ("host", "NVLink errors", "GPU {{gpu}} {{reason}}"),
            ("host", "NVLink errors", "GPU {{gpu}} links down"),
        ],
    },
    Empty {
        why: "the kernel log of this machine, if it may be read, names no fault",
        always: false,
        queries: &[("host", "Faults in the kernel log", "messages")],
    },
    Empty {
        why: "the demo has no such fault: no port goes down or trains down, and no packet is dropped",
        always: true,
        queries: &[
            ("congestion", "Packets dropped", "{{host}} {{device}} {{reason}}"),
            ("links", "Ports that were down", "{{host}} {{device}}"),
            ("links", "Flaps", "in 10 minutes"),
            ("links", "Flaps", "in 24 hours"),
            ("links", "Below previous rate", "of its rate"),
        ],
    },
    Empty {
        why: "it compares with minutes or a day ago, and the demo has just started",
        always: false,
        queries: &[
            ("links", "Bit error rate after correction", "over 12 minutes"),
            ("links", "Bit error rate after correction", "over 125 minutes"),
            ("links", "Corrected, compared with a day ago", "times"),
        ],
    },
    Empty {
        why: "measured by kernel probes of this host, which simulated hosts do not have and a container may not have",
        always: false,
        queries: &[
            ("host", "RDMA and kernel path", "TCP"),
            ("job", "TCP", "{{direction}}"),
            ("job", "TCP round trip, median", "round trip"),
            ("tcp", "RDMA and TCP, sent", "TCP"),
            ("tcp", "Share of TCP, by host", "{{host}}"),
            ("tcp", "TCP: retransmitted segments", "{{kind}}"),
            ("tcp", "TCP zero windows", "{{direction}}"),
            ("tcp", "Round trip", "median"),
            ("tcp", "Round trip", "99 %"),
            ("tcp", "Round trip by host, median", "{{host}}"),
            ("tcp", "Connections that failed, last half hour", "failed"),
        ],
    },
    Empty {
        why: "no sample is lost or rejected, unless this machine is slow",
        always: false,
        queries: &[
            ("own", "Silent agents and wrong clocks", "since"),
            ("own", "Lost samples", "{{host}} {{reason}}"),
            ("own", "Lost samples", "{{host}} rejected"),
            ("own", "Spooled on agents", "{{host}}"),
            ("own", "Unaccounted points and failing spools", "accounts"),
            ("own", "Unaccounted points and failing spools", "spool"),
            ("own", "Implausible counters", "ports"),
            ("own", "Clock steps", "{{host}}"),
            ("own", "Failing samplers", "is"),
            ("own", "Samples rejected, by reason", "{{reason}}"),
            ("own", "Requests refused, by reason", "{{rank}} {{reason}}"),
            ("own", "Senders", "refused"),
        ],
    },
    Empty {
        why: "the demo's switches drop no packet, no link between them goes down, and they have no PFC watchdog",
        always: true,
        queries: &[
            ("switch", "Packets dropped, by reason", "{{host}} {{port}} {{direction}} {{reason}}"),
            ("switch", "Packets dropped, by queue", "{{host}} {{port}} queue {{queue}}"),
            ("switch", "Packets dropped, by queue", "{{host}} {{port}} class {{traffic_class}}"),
            ("switch", "Links that went down", "times"),
            ("buffers", "Packets dropped by priority groups", "{{host}} {{port}} group {{priority_group}}"),
            ("buffers", "Storms", "{{host}} {{port}} queue {{queue}} counted"),
            ("buffers", "Storms", "{{host}} {{port}} queue {{queue}} reported"),
            ("buffers", "Packets dropped by watchdogs", "{{host}} {{port}} queue {{queue}} {{direction}}"),
        ],
    },
    Empty {
        why: "only while a fault lasts: an incast, a storm, a bad cable between switches",
        always: false,
        queries: &[
            ("switch", "Paused by the other end, by priority", "{{host}} {{port}} priority {{priority}}"),
            ("switch", "Pauses the other end, by priority", "{{host}} {{port}} priority {{priority}}"),
            ("switch", "Pause frames, by priority", "{{host}} {{port}} priority {{priority}} received"),
            ("switch", "Pause frames, by priority", "{{host}} {{port}} priority {{priority}} sent"),
            ("switch", "Marked packets, by queue", "{{host}} {{port}} queue {{queue}}{{traffic_class}}"),
            ("switch", "Marked packets, by queue", "{{host}} {{port}} all queues"),
            ("switch", "Link errors", "{{host}} {{port}}"),
            ("buffers", "Queue occupancy", "{{host}} {{port}} queue {{queue}}{{traffic_class}}"),
        ],
    },
    Empty {
        why: "the demo's switches do not tell this",
        always: true,
        queries: &[
            ("switch", "Bit error ratio after correction", "{{host}} {{port}}"),
            ("buffers", "Queue watermarks", "{{host}} {{port}} queue {{queue}}{{traffic_class}}"),
            ("buffers", "Buffer pools", "{{host}} {{pool}} now"),
            ("buffers", "Buffer pools", "{{host}} {{pool}} watermark"),
            ("buffers", "Shared buffer, by priority group", "{{host}} {{port}} group {{priority_group}} now"),
            ("buffers", "Shared buffer, by priority group", "{{host}} {{port}} group {{priority_group}} watermark"),
            ("buffers", "Headroom", "{{host}} {{port}} {{priority_group}} now"),
            ("buffers", "Headroom", "{{host}} {{port}} {{priority_group}} watermark"),
        ],
    },
    Empty {
        why: "the demo has no forwarding and no notifications",
        always: true,
        queries: &[
            ("own", "Forwarded to remote engines", "{{queue}}"),
            ("own", "Forward queue", "{{queue}}"),
            ("own", "Messages about incidents", "{{receiver}} {{outcome}}"),
        ],
    },
];

/// Runs every query on the demo's collector at the end of its story.
///
/// # Errors
/// When a query is wrongly without a result.
pub fn check(url: &str, all: &[Dashboard]) -> Result<()> {
    let empty = coverage::run(url, all, false)?;
    let wrong = judge(all, &empty);
    ensure!(wrong.is_empty(), "results differ from xtask/src/dashboards/demo.rs:\n{}", wrong.join("\n"));
    let count = coverage::queries(all).count();
    println!("{} of {count} queries have a result in the demo; the others:", count - empty.len());
    for row in EMPTY {
        let none = row.queries.iter().filter(|q| empty.contains(q)).count();
        println!("  {none:>3}  {}", row.why);
    }
    Ok(())
}

fn judge(all: &[Dashboard], empty: &[QueryId]) -> Vec<String> {
    let mut wrong = Vec::new();
    for (place, _, query) in coverage::queries(all) {
        let row = EMPTY.iter().find(|row| row.queries.contains(&place));
        match (row, empty.contains(&place)) {
            (None, true) => wrong.push(format!("{place:?} has no result\n    {}", query.expr)),
            (Some(row), false) if row.always => wrong.push(format!("{place:?} has a result, although {}", row.why)),
            _ => {}
        }
    }
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dashboards::all;

    #[test]
    fn every_row_is_a_query_and_unique() {
        let all = all();
        let rows: Vec<&QueryId> = EMPTY.iter().flat_map(|row| row.queries).collect();
        for row in &rows {
            assert!(coverage::queries(&all).any(|(place, ..)| place == **row), "no panel has {row:?}");
            assert_eq!(rows.iter().filter(|r| r == &row).count(), 1, "{row:?}");
        }
        // Each query has its own identity.
        let mut names: Vec<QueryId> = coverage::queries(&all).map(|(place, ..)| place).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }

    #[test]
    fn missing_and_unexpected_results_are_reported() {
        let all = all();
        let expected: Vec<QueryId> = EMPTY.iter().flat_map(|row| row.queries).copied().collect();
        assert!(judge(&all, &expected).is_empty());
        let more = [&expected[..], &[("overview", "Traffic", "sent")]].concat();
        assert_eq!(judge(&all, &more).len(), 1);
        assert_eq!(judge(&all, &expected[1..]).len(), 1);
    }
}
