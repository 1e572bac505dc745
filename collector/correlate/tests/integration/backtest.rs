//! Detectors on counters of real adapters: two cabled ports under load, sampled every ten seconds, while one packet is
//! corrupted on purpose. The recording is not part of the repository; `FABRICLENS_FIXTURES` names its directory.

use fabriclens_correlate::recording::Recording;
use fabriclens_correlate::{Fabric, Link, LinkEnd, Node, Ports, Role, Thresholds, Topology, backtest};
use fabriclens_model::{Labels, Series};
use std::collections::BTreeMap;

/// Counters and their series: metric, direction, factor to the metric's unit. The adapter's unit of time is
/// undocumented; one word is the common one.
const COUNTERS: [(&str, &str, Option<&str>, f64); 7] = [
    ("port_xmit_data", "fabric_port_io_bytes_total", Some("transmit"), 4.0),
    ("port_rcv_data", "fabric_port_io_bytes_total", Some("receive"), 4.0),
    ("port_xmit_packets", "fabric_port_packets_total", Some("transmit"), 1.0),
    ("port_rcv_packets", "fabric_port_packets_total", Some("receive"), 1.0),
    ("port_xmit_wait", "fabric_port_xmit_wait_bytes_total", None, 4.0),
    ("rq_num_oos", "fabric_rdma_out_of_sequence_total", None, 1.0),
    ("sq_num_oos", "fabric_rdma_sequence_naks_total", Some("receive"), 1.0),
];

fn notes() -> String {
    let path = fabriclens_testing::recordings().join("tools/chester-fault-injection/device_statistics_notes.txt");
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// A section of the notes as a recording: `port_xmit_wait  mlx4_0  1  5040994(+4995058)` under `Statistics after 90
/// seconds`.
fn recording(part: &str, rate: f64) -> Recording {
    let mut series: BTreeMap<(&str, String), Series> = BTreeMap::new();
    let mut ms = 0;
    for line in part.lines() {
        if let Some(time) = line.strip_prefix("Statistics after ") {
            ms = time.split(' ').next().unwrap().parse::<i64>().unwrap() * 1000;
            continue;
        }
        let cells: Vec<&str> = line.split_whitespace().collect();
        let row = COUNTERS.iter().find(|c| cells.len() > 2 && cells[0] == c.0 && cells[1] == "mlx4_0");
        let Some((name, metric, direction, factor)) = row else { continue };
        // Counters of the device have no port; the first port stands for both.
        let (port, cell) = if cells.len() == 4 { (cells[2], cells[3]) } else { ("1", cells[2]) };
        let (value, delta) = cell.split_once("(+").unwrap_or((cell, "0)"));
        let value: f64 = value.parse().unwrap();
        let delta: f64 = delta.trim_end_matches(')').parse().unwrap();
        let one = series.entry((name, port.to_owned())).or_insert_with(|| Series {
            labels: Labels::new(
                [("__name__", *metric), ("host", "host"), ("device", "mlx4_0"), ("port", port)]
                    .into_iter()
                    .chain(direction.map(|d| ("direction", d))),
            ),
            ..Series::default()
        });
        if one.times.is_empty() {
            one.times.push(ms - 10_000);
            one.values.push((value - delta) * factor);
        }
        one.times.push(ms);
        one.values.push(value * factor);
    }
    let mut series: Vec<Series> = series.into_values().collect();
    let mut ticks_ms: Vec<i64> = series.iter().flat_map(|s| s.times.clone()).collect();
    ticks_ms.sort_unstable();
    ticks_ms.dedup();
    series.extend(["1", "2"].map(|port| Series {
        labels: Labels::new([
            ("__name__", "fabric_port_rate_bytes_per_second"),
            ("host", "host"),
            ("device", "mlx4_0"),
            ("port", port),
        ]),
        times: ticks_ms.clone(),
        values: vec![rate; ticks_ms.len()],
    }));
    series.sort_by(|a, b| a.labels.cmp(&b.labels));
    let end = |port: &str| LinkEnd { node: 0, port: format!("mlx4_0/{port}") };
    let host = Node { name: "host".into(), role: Role::Host };
    let topology = Topology::new(vec![host], vec![Link::new([end("1"), end("2")], Some(rate))]);
    let ports = Ports::new(&topology);
    assert!(series.len() > 8 && ticks_ms.len() >= 3, "{ticks_ms:?}");
    Recording::of_series(Fabric::new(topology, ports, Vec::new()), series, 10_000)
}

fn parts(notes: &str) -> Vec<&str> {
    notes.split("\n== ").collect()
}

#[test]
#[ignore = "needs: recordings"]
fn one_corrupted_packet_is_no_incident() {
    let notes = notes();
    let parts = parts(&notes);
    for (part, rate) in [(parts[0], 4e9), (parts[1], 1.25e9)] {
        let found = backtest(recording(part, rate), Thresholds::default()).unwrap();
        assert!(found.is_empty(), "{found:?}");
    }
}

#[test]
#[ignore = "needs: recordings"]
fn xmit_wait_shows_at_a_lower_threshold() {
    let notes = notes();
    let mut close = Thresholds::default();
    for name in ["credits_hot.held", "wait.credits"] {
        close.set(name, 2e-4).unwrap();
    }
    let found = backtest(recording(parts(&notes)[0], 4e9), close).unwrap();
    // The packet was corrupted between 80 and 90 seconds; senders waited for its retransmission.
    assert_eq!(found.iter().map(|i| i.detected_ns / 1_000_000_000).collect::<Vec<_>>(), [90], "{found:?}");
    assert_eq!(found[0].evidence[0].metric, "fabric_port_xmit_wait_bytes_total");
}
