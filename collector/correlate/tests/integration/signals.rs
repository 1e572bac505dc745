//! Signals find the series that agents send.

use fabriclens_correlate::{ALL, Fabric, Frame, Link, LinkEnd, Node, Ports, Role, Signal, Topology, query_frames};
use fabriclens_model::{Labels, Memory, Series};
use fabriclens_promql::Engine;
use std::path::Path;

/// Seconds between samples, and the last of them: just over a day.
const STEP: i64 = 10;
const LAST: i64 = 90_000;

#[test]
fn the_catalog_has_every_metric() {
    let page = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/metrics.md")).unwrap();
    let known = |metric: &str| page.lines().any(|l| l.strip_prefix("### ").is_some_and(|l| l == format!("`{metric}`")));
    for row in &ALL {
        for metric in row.expression.metrics() {
            assert!(known(metric), "{:?} asks for {metric}", row.signal);
        }
    }
}

/// Labels, and the value at a second.
type Told = (&'static [(&'static str, &'static str)], fn(i64) -> f64);

/// The last frame of one host with one port that has these series.
fn last(series: &[Told]) -> Frame {
    let times: Vec<i64> = (0..=LAST / STEP).map(|i| i * STEP * 1000).collect();
    let one = |(labels, value): &Told| Series {
        labels: Labels::new([("host", "h0")].into_iter().chain(labels.iter().copied())),
        times: times.clone(),
        values: times.iter().map(|t| value(t / 1000)).collect(),
    };
    let mut memory = Memory(series.iter().map(one).collect());
    memory.0.sort_by(|a, b| a.labels.cmp(&b.labels));
    let node = |name: &str, role| Node { name: name.into(), role };
    let end = |node, port: &str| LinkEnd { node, port: port.into() };
    let link = Link::new([end(0, "mlx5_0/1"), end(1, "1")], None);
    let topology = Topology::new(vec![node("h0", Role::Host), node("leaf", Role::Leaf)], vec![link]);
    let ports = Ports::new(&topology);
    let fabric = Fabric::new(topology, ports, Vec::new());
    let all = query_frames(&Engine::default(), &memory, &fabric, ALL.iter(), &[LAST * 1000], STEP * 1000).unwrap();
    all.into_iter().next().unwrap()
}

macro_rules! port {
    ($name:literal $(, $key:literal = $value:literal)*) => {
        &[("__name__", $name), ("device", "mlx5_0"), ("port", "1") $(, ($key, $value))*]
    };
}

#[test]
fn growth_over_minutes_and_days() {
    let frame = last(&[
        // Once at noon, twice just now.
        (port!("fabric_link_downs_total"), |t| {
            if t >= 89_700 {
                7.0
            } else if t >= 43_200 {
                5.0
            } else {
                4.0
            }
        }),
        (port!("fabric_link_symbol_errors_total"), |t| (t / 1000) as f64),
        // The same bad frames in another counter.
        (port!("fabric_link_crc_errors_total", "direction" = "receive"), |t| (t / 1000) as f64),
        (port!("fabric_fec_corrected_bits_total"), |t| if t > 80_000 { t as f64 * 50.0 } else { t as f64 }),
    ]);
    let get = |signal| frame.get(signal, 0);
    assert_eq!((get(Signal::LinkDowns), get(Signal::LinkDownsDay)), (Some(2.0), Some(3.0)));
    assert_eq!((get(Signal::WireErrorsShort), get(Signal::WireErrorsLong)), (Some(1.0), Some(8.0)));
    assert_eq!((get(Signal::FecMended), get(Signal::FecMendedBefore)), (Some(50.0), Some(1.0)));
    let netdev = last(&[(port!("fabric_link_carrier_changes_total"), |t| if t >= 89_700 { 6.0 } else { 0.0 })]);
    assert_eq!(netdev.get(Signal::LinkDowns, 0), Some(3.0), "it counts down and up");
    let falls = last(&[(port!("fabric_link_carrier_changes_total"), |t| t as f64)]);
    assert_eq!(falls.get(Signal::Falls, 0), Some(0.5), "a second, as soon as there are two samples");
}

#[test]
fn device_and_lane_series_reach_ports() {
    let frame = last(&[
        (port!("fabric_port_up"), |_| 1.0),
        (&[("__name__", "fabric_pcie_rate_bytes_per_second"), ("device", "mlx5_0")], |_| 8e9),
        (&[("__name__", "fabric_pcie_rate_max_bytes_per_second"), ("device", "mlx5_0")], |_| 16e9),
        (&[("__name__", "fabric_gpudirect_available"), ("device", "mlx5_0"), ("method", "peer_memory")], |_| 0.0),
        (&[("__name__", "fabric_gpudirect_available"), ("device", "mlx5_0"), ("method", "dma_buf")], |_| 1.0),
        (port!("fabric_module_receive_power_watts", "lane" = "0"), |_| 1e-3),
        (port!("fabric_module_receive_power_watts", "lane" = "1"), |t| if t > 80_000 { 2e-4 } else { 9e-4 }),
        (port!("fabric_pcie_stall_seconds_total", "direction" = "receive"), |t| t as f64 * 0.4),
        (port!("fabric_pcie_stall_seconds_total", "direction" = "transmit"), |_| 0.0),
    ]);
    let get = |signal| frame.get(signal, 0).map(|v| (v * 1e9).round() / 1e9);
    assert_eq!((get(Signal::PcieRate), get(Signal::PcieRateMax)), (Some(8e9), Some(16e9)));
    assert_eq!(get(Signal::GpuDirect), Some(1.0), "one way is enough");
    assert_eq!((get(Signal::RxPower), get(Signal::RxPowerBefore)), (Some(2e-4), Some(9e-4)));
    assert!((get(Signal::PcieStall).unwrap() - 0.4).abs() < 1e-6);
}

#[test]
fn marks_of_queues_stand_for_those_of_their_port() {
    let queues: [Told; 2] = [
        (port!("fabric_port_queue_ecn_marks_total", "queue" = "3"), |t| 9.0 * t as f64),
        (port!("fabric_port_queue_ecn_marks_total", "queue" = "0"), |t| t as f64),
    ];
    assert_eq!(last(&queues).get(Signal::Marks, 0), Some(9.0));
    // Not counted twice where the port is counted too.
    let all = [queues[0], queues[1], (port!("fabric_ecn_marks_total"), |t| 10.0 * t as f64)];
    assert_eq!(last(&all).get(Signal::Marks, 0), Some(10.0));
}

#[test]
fn storms_of_watchdogs_are_counted_once() {
    let frame = last(&[
        (port!("fabric_pfc_watchdog_notices_total", "queue" = "3"), |t| t as f64),
        (port!("fabric_pfc_watchdog_events_total", "event" = "storm", "queue" = "3"), |t| t as f64),
        (port!("fabric_pfc_watchdog_events_total", "event" = "restore", "queue" = "3"), |t| t as f64),
        (port!("fabric_port_priority_group_discards_total", "priority_group" = "3"), |t| t as f64),
    ]);
    assert_eq!((frame.get(Signal::WatchdogStorms, 0), frame.get(Signal::HeadroomDrops, 0)), (Some(1.0), Some(1.0)));
}

#[test]
fn storm_events_are_classified() {
    let frame = last(&[
        (port!("fabric_pause_storm_events_total", "direction" = "transmit", "reason" = "error"), |t| t as f64),
        (port!("fabric_pause_storm_events_total", "direction" = "transmit", "reason" = "warning"), |_| 3.0),
        // A storm of the other end, or the end of a storm, does not count.
        (port!("fabric_pause_storm_events_total", "direction" = "receive", "reason" = "continuous"), |t| t as f64),
        (port!("fabric_port_xmit_wait_bytes_total"), |t| t as f64 * 1e9),
        (port!("fabric_port_rate_bytes_per_second"), |_| 1e10),
    ]);
    assert_eq!((frame.get(Signal::StormErrors, 0), frame.get(Signal::StormWarnings, 0)), (Some(1.0), Some(0.0)));
    assert!((frame.get(Signal::XmitWait, 0).unwrap() - 0.1).abs() < 1e-6);
}

#[test]
fn promql_is_pinned() {
    let all: String = ALL.iter().map(|row| format!("{:?}\n    {}\n", row.signal, row.promql("$w"))).collect();
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/signals.promql");
    fabriclens_testing::golden(golden, &all);
}
