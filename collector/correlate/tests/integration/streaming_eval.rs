//! The streaming evaluator gives the same values as PromQL over a store.

use fabriclens_correlate::{
    ALL, Fabric, Frame, IncidentTracker, Ports, Signal, SignalSpec, StreamingEval, Thresholds, Topology, query_frames,
};
use fabriclens_model::{Labels, Layout, Memory, Series, absent};
use fabriclens_promql::Engine;
use std::collections::{BTreeMap, HashSet};

/// A reproducible number in [0, 1).
fn noise(n: u64) -> f64 {
    let mut x = n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    x ^= x >> 31;
    x = x.wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (x >> 40) as f64 / (1 << 24) as f64
}

/// Label lists as agents send them: of each host's ports, in two sections.
fn lists() -> Vec<Vec<Labels>> {
    let mut lists = Vec::new();
    for host in ["a", "b"] {
        let one = |name: &str, extra: &[(&str, &str)]| {
            let own = [("__name__", name), ("host", host), ("device", "mlx5_0"), ("port", "1")];
            Labels::new(own.into_iter().chain(extra.iter().copied()))
        };
        let (tx, rx) = (("direction", "transmit"), ("direction", "receive"));
        let mut counters = vec![
            one("fabric_port_io_bytes_total", &[tx]),
            one("fabric_port_io_bytes_total", &[rx]),
            one("fabric_port_xmit_wait_bytes_total", &[]),
            one("fabric_link_symbol_errors_total", &[]),
            one("fabric_link_crc_errors_total", &[rx]),
            one("fabric_port_discards_total", &[("reason", "x")]),
        ];
        for priority in ["0", "3"] {
            counters.push(one("fabric_pfc_pause_seconds_total", &[tx, ("priority", priority)]));
            counters.push(one("fabric_pfc_frames_total", &[tx, ("priority", priority)]));
        }
        lists.push(counters);
        lists.push(vec![one("fabric_port_rate_bytes_per_second", &[]), one("fabric_port_up", &[]), one("other", &[])]);
    }
    lists
}

#[test]
fn streaming_equals_promql() {
    let lists: Vec<Layout> = lists().into_iter().map(Into::into).collect();
    let empty = || Fabric::new(Topology::default(), Ports::default(), Vec::new());
    let (mut watch, (mut standing, rest)) =
        (IncidentTracker::new(empty(), Thresholds::default()), StreamingEval::new(1000));
    let mut series: BTreeMap<Labels, Series> = BTreeMap::new();
    let mut totals: BTreeMap<Labels, f64> = BTreeMap::new();
    let ticks: Vec<i64> = (1..40).map(|tick| tick * 1000).collect();
    for time in &ticks {
        watch.push(Frame::new(time * 1_000_000));
        // Agents miss a tick now and then; the second section arrives before the first.
        if noise(*time as u64 * 31) < 0.1 {
            continue;
        }
        for (at, list) in lists.iter().enumerate() {
            let seed = *time as u64 * 31 + at as u64;
            let mut values = Vec::new();
            for (column, labels) in list.iter().enumerate() {
                let total = totals.entry(labels.clone()).or_insert(5e9);
                if labels.metric().ends_with("_total") {
                    *total += (noise(seed * 97 + column as u64) * 1e9).floor();
                }
                // An absent value is no sample.
                let here = labels.metric() != "fabric_port_discards_total" || noise(seed * 89) >= 0.2;
                values.push(if here { *total } else { absent() });
                if here {
                    let one = series
                        .entry(labels.clone())
                        .or_insert_with(|| Series { labels: labels.clone(), ..Series::default() });
                    one.times.push(*time);
                    one.values.push(*total);
                }
            }
            standing.take(list, &[*time], &values, &mut watch);
        }
    }
    let memory = Memory(series.into_values().collect());
    let asked = query_frames(&Engine::default(), &memory, watch.fabric(), ALL.iter(), &ticks, 1000).unwrap();
    let ports = watch.fabric().ports.list.len();
    assert_eq!(ports, 2);
    let mut other = IncidentTracker::new(watch.fabric().clone(), Thresholds::default());
    asked.into_iter().for_each(|frame| other.push(frame));
    // PromQL repeats the value before if one column is absent and the others are not.
    let compared = |row: &&SignalSpec| row.signal != Signal::Discards && !rest.iter().any(|r| r.signal == row.signal);
    let (mut same, mut of_priorities) = (0, 0);
    for time_ns in ticks.iter().map(|time| time * 1_000_000) {
        for row in ALL.iter().filter(compared) {
            for port in 0..ports {
                let said = watch.frame(time_ns).unwrap().get(row.signal, port);
                match (said, other.frame(time_ns).unwrap().get(row.signal, port)) {
                    (None, None) => {}
                    (Some(a), Some(b)) if (a - b).abs() <= 1e-5 * b.abs() => same += 1,
                    (a, b) => panic!("{:?} at {time_ns}: {a:?}, and in PromQL {b:?}", row.signal),
                }
                let parts = |of: &mut IncidentTracker| {
                    let frame = of.frame(time_ns).unwrap();
                    frame
                        .priority_values(row.signal, port)
                        .map(|(of, part)| (of, (part / 1e3).round()))
                        .collect::<Vec<_>>()
                };
                let told = parts(&mut watch);
                assert_eq!(told, parts(&mut other), "{:?} by priority at {time_ns}", row.signal);
                of_priorities += told.len();
            }
        }
    }
    assert!(same > 10 * ticks.len(), "{same} the same");
    assert!(of_priorities > 4 * ticks.len(), "{of_priorities} of priorities 0 and 3");
}

/// Exporters are scraped every fifteen seconds.
#[test]
fn samples_fifteen_seconds_apart_are_the_rate_of_each_second() {
    let labels =
        [("__name__", "fabric_port_io_bytes_total"), ("host", "leaf"), ("port", "1"), ("direction", "transmit")];
    let list: Layout = vec![Labels::new(labels)].into();
    let fabric = Fabric::new(Topology::default(), Ports::default(), Vec::new());
    let mut watch = IncidentTracker::new(fabric, Thresholds::default());
    let mut standing = StreamingEval::new(1000).0;
    for second in 1..=60_i64 {
        watch.push(Frame::new(second * 1_000_000_000));
        if second % 15 == 0 {
            standing.take(&list, &[second * 1000], &[second as f64 * 100.0], &mut watch);
        }
    }
    let rate = |second: i64| watch.frame(second * 1_000_000_000)?.get(Signal::Tx, 0);
    // Before the first rate nothing is known.
    let rates: Vec<Option<f64>> = (30..=60).map(rate).collect();
    assert_eq!(rates, [Some(100.0); 31]);
}

#[test]
fn silent_series_are_evicted() {
    let lists: Vec<Layout> = lists().into_iter().map(Into::into).collect();
    let new = || {
        let watch =
            IncidentTracker::new(Fabric::new(Topology::default(), Ports::default(), Vec::new()), Thresholds::default());
        (watch, StreamingEval::new(1000).0)
    };
    let (mut forgets, mut keeps) = (new(), new());
    let (ports, mut told, mut series) = (2, 0, Vec::new());
    for second in 1..60_i64 {
        let time = second * 1000;
        // The first host is silent in the middle.
        let here = &lists[if (20..40).contains(&second) { 2 } else { 0 }..];
        for (watch, standing) in [&mut forgets, &mut keeps] {
            watch.push(Frame::new(time * 1_000_000));
            for (at, list) in here.iter().enumerate() {
                let value = |column: usize| (second * 1_000_000) as f64 * (1 + column + 20 * at) as f64;
                let values: Vec<f64> = (0..list.len()).map(value).collect();
                standing.take(list, &[time], &values, watch);
            }
        }
        forgets.1.forget(time - 10_000, &HashSet::new());
        series.push(forgets.1.series());
        for row in ALL {
            for port in 0..ports {
                let [a, b] =
                    [&mut forgets, &mut keeps].map(|one| one.0.frame(time * 1_000_000).unwrap().get(row.signal, port));
                assert_eq!(
                    a.map(f64::to_bits),
                    b.map(f64::to_bits),
                    "{:?} of port {port} in second {second}",
                    row.signal
                );
                told += usize::from(a.is_some());
            }
        }
    }
    let all = keeps.1.series();
    assert!((series[0], series[18]) == (all, all), "{series:?}");
    assert!(series[35] == all / 2 && series[58] == all, "{series:?}");
    assert!(told > 500, "{told}");
}

#[test]
fn reset_is_a_gap() {
    let list: Layout = Layout::new([Labels::new([
        ("__name__", "fabric_port_io_bytes_total"),
        ("host", "a"),
        ("device", "mlx5_0"),
        ("port", "1"),
        ("direction", "transmit"),
    ])]);
    let mut watch =
        IncidentTracker::new(Fabric::new(Topology::default(), Ports::default(), Vec::new()), Thresholds::default());
    let (mut standing, _) = StreamingEval::new(1000);
    for time in [1000, 2000, 3000, 4000, 5000, 6000_i64] {
        watch.push(Frame::new(time * 1_000_000));
    }
    // Ten samples within the third second, and a reset in the fifth.
    let times = [900, 1900, 2100, 2500, 2900, 3900, 4900, 5900];
    let values = [0.0, 1000.0, 1500.0, 1700.0, 3000.0, 4000.0, 10.0, 510.0];
    standing.take(&list, &times, &values, &mut watch);
    let seen: Vec<Option<f64>> = (1..7).map(|s| watch.frame(s * 1_000_000_000).unwrap().get(Signal::Tx, 0)).collect();
    assert_eq!(seen, [None, Some(1000.0), Some(2000.0), Some(1000.0), None, Some(500.0)]);
    standing.take(&list, &[3000], &[9e9], &mut watch);
    assert_eq!(
        watch.frame(3_000_000_000).unwrap().get(Signal::Tx, 0),
        Some(2000.0),
        "what comes twice or late is left"
    );
}

#[test]
fn switch_port_is_read_once_cabled() {
    use fabriclens_correlate::Signal;
    use fabriclens_correlate::topology::{Link, LinkEnd, Node, Role};
    let fabric = |cabled: bool| {
        let node = |name: &str, role| Node { name: name.into(), role };
        let ends = [("1", 0), ("7", 1)].map(|(port, node)| LinkEnd { node, port: port.to_owned() });
        let links = cabled.then(|| Link::new(ends, None)).into_iter().collect();
        Topology::new(vec![node("a", Role::Host), node("leaf", Role::Leaf)], links)
    };
    let list: Layout = Layout::new([Labels::new([
        ("__name__", "fabric_port_io_bytes_total"),
        ("host", "leaf"),
        ("port", "7"),
        ("direction", "transmit"),
    ])]);
    let mut watch =
        IncidentTracker::new(Fabric::new(fabric(false), Ports::default(), Vec::new()), Thresholds::default());
    let (mut standing, _) = StreamingEval::new(1000);
    for (second, total) in [(1, 0.0), (2, 100.0), (3, 300.0), (4, 600.0)] {
        if second == 3 {
            watch.rewire(&fabric(true));
            standing.rewired();
        }
        watch.push(Frame::new(second * 1_000_000_000));
        standing.take(&list, &[second * 1000], &[total], &mut watch);
    }
    let port = watch.fabric().switch_ports().next().unwrap();
    assert_eq!(watch.frame(4_000_000_000).unwrap().get(Signal::Tx, port), Some(300.0));
}

#[test]
fn only_slow_signals_are_queried() {
    let (_, rest) = StreamingEval::new(1000);
    let quick: Vec<String> = rest.iter().filter(|row| !row.slow).map(|row| format!("{:?}", row.signal)).collect();
    assert_eq!(quick, [""; 0], "these cannot be answered as samples arrive");
}

#[test]
fn reset_does_not_end_an_incident() {
    use fabriclens_correlate::IncidentKind;
    let list: Layout = ["fabric_port_io_bytes_total", "fabric_pfc_pause_seconds_total"]
        .into_iter()
        .flat_map(|name| ["transmit", "receive"].map(|direction| (name, direction)))
        .map(|(name, direction)| {
            let own = [("__name__", name), ("host", "a"), ("device", "mlx5_0"), ("port", "1"), ("priority", "3")];
            Labels::new(own.into_iter().chain([("direction", direction)]))
        })
        .collect();
    let mut watch =
        IncidentTracker::new(Fabric::new(Topology::default(), Ports::default(), Vec::new()), Thresholds::default());
    let (mut standing, _) = StreamingEval::new(1000);
    let (mut moved, mut paused, mut told) = (9e15, 4e6, Vec::new());
    for second in 1..=130 {
        (moved, paused) = (moved + 1e9, paused + if second > 80 { 0.5 } else { 0.0 });
        // The driver is reloaded twice.
        if second == 95 || second == 110 {
            (moved, paused) = (1e6, 0.1);
        }
        watch.push(Frame::new(second * 1_000_000_000));
        standing.take(&list, &[second * 1000], &[moved, moved, paused, 0.0], &mut watch);
        told.extend(watch.evaluate());
    }
    assert!(told.is_empty(), "{told:?}");
    let open = watch.open();
    assert_eq!(
        open.iter().map(|i| (i.kind, i.start_ns / 1_000_000_000)).collect::<Vec<_>>(),
        [(IncidentKind::SlowReceiver, 81)]
    );
    assert!((open[0].evidence[0].value - 0.5).abs() < 0.05, "what a reset hides is no pause: {:?}", open[0].evidence);
}

#[test]
fn only_the_listed_metrics_are_read_from_arriving_samples() {
    let (standing, asked) = StreamingEval::new(1000);
    let listed = standing.metrics();
    assert!(listed.is_sorted() && listed.len() > 30, "{listed:?}");
    // A signal is either read from arriving samples, whose metrics are all listed, or asked of the store.
    for row in ALL.iter().filter(|row| !asked.iter().any(|other| other.signal == row.signal)) {
        for metric in row.expression.metrics() {
            assert!(listed.binary_search(&metric).is_ok(), "{:?} reads {metric}", row.signal);
        }
    }
    // Series of all other metrics change nothing.
    let run = |keeps: &dyn Fn(&str) -> bool| {
        let fabric = Fabric::new(Topology::default(), Ports::default(), Vec::new());
        let (mut watch, mut standing) =
            (IncidentTracker::new(fabric, Thresholds::default()), StreamingEval::new(1000).0);
        let kept = |list: Vec<Labels>| -> Vec<Labels> { list.into_iter().filter(|l| keeps(l.metric())).collect() };
        let lists: Vec<Layout> = lists().into_iter().map(|list| kept(list).into()).collect();
        for second in 1..30_i64 {
            watch.push(Frame::new(second * 1_000_000_000));
            for (at, list) in lists.iter().enumerate() {
                let of = |labels: &Labels| (second * (1 + at as i64)) as f64 * labels.metric().len() as f64;
                let values: Vec<f64> = list.iter().map(of).collect();
                standing.take(list, &[second * 1000], &values, &mut watch);
            }
        }
        let mut told = Vec::new();
        for (second, row) in (1..30_i64).flat_map(|second| ALL.iter().map(move |row| (second, row))) {
            let mut value = |port| watch.frame(second * 1_000_000_000).and_then(|frame| frame.get(row.signal, port));
            told.extend([0, 1].map(|port| value(port).map(f64::to_bits)));
        }
        (standing.series(), told)
    };
    let all = run(&|_| true);
    assert_eq!(run(&|metric| listed.binary_search(&metric).is_ok()), all);
    assert!(all.1.iter().flatten().count() > 100);
    assert_eq!(run(&|metric| listed.binary_search(&metric).is_err()).0, 0);
}
