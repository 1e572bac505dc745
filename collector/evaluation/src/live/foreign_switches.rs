//! Recordings replayed live, with the ports of switches as Cumulus Linux sends them: the verdicts are those of the same
//! counters under canonical names.

use super::tests::state_of;
use super::*;
use fabriclens_config::{Config, Switches};
use fabriclens_core::protocol::Protocol;
use fabriclens_correlate::recording::{PortSample, ReadAs, Recording};
use fabriclens_correlate::{Thresholds, backtest};
use fabriclens_ingest::{Compression, Ingest};
use fabriclens_model::{Labels, Matcher, Read as _, Series, is_absent};
use fabriclens_server::auth::Caller;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue, any_value};
use opentelemetry_proto::tonic::metrics::v1::{
    Gauge, Metric, NumberDataPoint, ResourceMetrics, ScopeMetrics, metric, number_data_point,
};
use opentelemetry_proto::tonic::resource::v1::Resource;
use prost::Message as _;
use std::cell::RefCell;
use std::path::Path;
use std::rc::Rc;

/// How the counters of switches arrive.
#[derive(Clone, Copy, PartialEq)]
enum Switch {
    Canonical,
    Cumulus,
}

/// Cumulus' name of a canonical series and the factor to its unit; `None` for what Cumulus does not send.
fn cumulus(labels: &Labels) -> Option<(&'static str, f64)> {
    let sent = labels.get("direction") == "transmit";
    let by = |transmit, receive, factor| Some((if sent { transmit } else { receive }, factor));
    match labels.metric() {
        "fabric_port_io_bytes_total" => {
            by("nvswitch_interface_if_out_octets", "nvswitch_interface_ether_stats_octets", 1.0)
        }
        "fabric_port_packets_total" => by("nvswitch_interface_if_out_pkts", "nvswitch_interface_ether_stats_pkts", 1.0),
        "fabric_pfc_frames_total" => by("nvswitch_interface_sp_tx_pause", "nvswitch_interface_sp_rx_pause", 1.0),
        "fabric_pfc_pause_seconds_total" => {
            by("nvswitch_interface_sp_tx_pause_duration", "nvswitch_interface_sp_rx_pause_duration", 1e6)
        }
        "fabric_ecn_marks_total" => Some(("nvswitch_interface_performance_marked_packets", 1.0)),
        "fabric_link_crc_errors_total" => Some(("nvswitch_interface_dot3_stats_fcs_errors", 1.0)),
        "fabric_port_discards_total" if labels.get("reason") == "buffer" => {
            Some(("nvswitch_interface_if_in_discards", 1.0))
        }
        "fabric_port_queue_bytes" => Some(("nvswitch_interface_tc_tx_queue", 1.0)),
        "fabric_port_rate_bytes_per_second" => Some(("nvswitch_interface_oper_aggregate_speed", 8.0)),
        _ => None,
    }
}

fn attribute(key: &str, text: &str) -> KeyValue {
    let value = Some(AnyValue { value: Some(any_value::Value::StringValue(text.to_owned())) });
    KeyValue { key: key.to_owned(), value, ..KeyValue::default() }
}

/// One gauge per counter, as Cumulus sends them.
fn request(sample: &PortSample, time_ms: i64) -> Vec<u8> {
    let labels = |at: usize| sample.series[at].clone();
    let metrics = (0..sample.series.len()).filter_map(|at| {
        let (own, value) = (labels(at), sample.values[at]);
        let (name, factor) = cumulus(&own).filter(|_| !is_absent(value))?;
        let priority = Some(own.get("priority")).filter(|priority| !priority.is_empty());
        let class = name.contains("_tc_").then(|| attribute("tc", "3"));
        let attributes = [attribute("interface", own.get("port"))].into_iter();
        let point = NumberDataPoint {
            attributes: attributes.chain(priority.map(|p| attribute("switch-priority", p))).chain(class).collect(),
            time_unix_nano: time_ms as u64 * 1_000_000,
            value: Some(number_data_point::Value::AsDouble(value * factor)),
            ..NumberDataPoint::default()
        };
        let data = Some(metric::Data::Gauge(Gauge { data_points: vec![point] }));
        Some(Metric { name: name.to_owned(), data, ..Metric::default() })
    });
    let switch = attribute("net.host.name", sample.series[0].get("host"));
    let resource = Some(Resource { attributes: vec![switch], ..Resource::default() });
    let scope_metrics = vec![ScopeMetrics { metrics: metrics.collect(), ..ScopeMetrics::default() }];
    let all = ResourceMetrics { resource, scope_metrics, ..ResourceMetrics::default() };
    ExportMetricsServiceRequest { resource_metrics: vec![all] }.encode_to_vec()
}

/// The roots that a back-test finds, and when it has found the last one, Unix ms.
fn found(recording: Recording) -> (BTreeSet<String>, i64) {
    let found = backtest(recording, Thresholds::default()).unwrap();
    let last = found.iter().map(|incident| incident.detected_ns / 1_000_000).max().unwrap_or(0);
    (found.iter().map(|incident| format!("{:?} {:?}", incident.kind, incident.root)).collect(), last)
}

/// The samples of a recording, in order of time, up to some seconds after a back-test of all ports has found everything; and
/// what it found.
fn samples(dir: &Path, stretch: i64) -> (Vec<PortSample>, BTreeSet<String>) {
    let all = Rc::new(RefCell::new(Vec::new()));
    let copy = all.clone();
    let recording = Recording::open(dir, ReadAs { stretch, hosts_only: false }).unwrap();
    let recording = recording.map_samples(move |sample| {
        copy.borrow_mut().push(sample.clone());
        Some(sample)
    });
    let (found, last) = found(recording);
    let mut samples = all.take();
    samples.retain(|sample| sample.time_ms <= last + 10_000);
    (samples, found)
}

/// Kinds and locations of all incidents that were ever open, and the stored series of one switch that Cumulus sends.
fn replay(dir: &Path, samples: &[PortSample], form: Switch) -> (BTreeSet<String>, Vec<Series>) {
    let data = tempfile::tempdir().unwrap();
    let topology = vec![dir.join("topology.json")];
    let state = state_of(Config { data: data.path().join("data"), topology, ..Config::default() });
    state.sink.sample_feed().open();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
    let (sink, telemetry) = (state.sink.clone(), state.telemetry.clone());
    let (limits, pressure) = (state.config.ingest, state.pressure.clone());
    let ingest = Ingest::new(state.store.clone(), sink, telemetry, limits, Switches::default(), pressure);
    let ingest = Arc::new(ingest);
    let began = now_ms() / 1000 * 1000 - 3_600_000;
    let mut live = LiveEvaluation::new(state.clone(), Arc::new(LateSamples::open(&state, began)), Vec::new());
    let known = state.topologies.current();
    let switch = |name: &str| known.node(name).is_none_or(|node| known.nodes[node].role != Role::Host);
    let (mut found, mut at) = (BTreeSet::new(), 0);
    while let Some(time_ms) = samples.get(at).map(|sample| sample.time_ms) {
        let mut groups = Vec::new();
        for sample in samples[at..].iter().take_while(|sample| sample.time_ms == time_ms) {
            at += 1;
            if form == Switch::Cumulus && switch(sample.series[0].get("host")) {
                let caller = Caller::anonymous([10, 0, 0, 1].into());
                let body = request(sample, began + time_ms).into();
                let sent = ingest.otlp(Protocol::OtlpGrpc, caller, Compression::None, body);
                assert_eq!(runtime.block_on(sent).unwrap().rejected(), 0);
                continue;
            }
            let (series, values) = (sample.series.clone(), sample.values.clone());
            groups.push(RowGroup { series, times: vec![began + time_ms], values });
        }
        state.sink.append(groups).unwrap();
        live.next = Instant::now();
        live.round(began + time_ms + 100);
        let open = state.incidents.open_incidents();
        found.extend(open.iter().map(|incident| format!("{:?} {:?}", incident.kind, incident.root)));
    }
    let one = samples.iter().map(|sample| sample.series[0].get("host")).find(|host| switch(host)).unwrap();
    let mut series = state.store.select(&[Matcher::equal("host", one)], 0, i64::MAX).unwrap();
    series.retain(|series| cumulus(&series.labels).is_some() && series.labels.metric() != "fabric_port_discards_total");
    // The recording does not name the traffic class of its queue.
    series.retain(|series| series.labels.metric() != "fabric_port_queue_bytes");
    series.sort_by(|a, b| a.labels.cmp(&b.labels));
    (found, series)
}

#[test]
#[ignore = "needs: simulations"]
fn a_simulated_slow_link_is_found_by_cumulus_counters() {
    let dir = fabriclens_testing::simulations().join("degraded_uplink-1");
    let (samples, recorded) = samples(&dir, 1000);
    let [(canonical, wanted), (cumulus, stored)] =
        [Switch::Canonical, Switch::Cumulus].map(|form| replay(&dir, &samples, form));
    assert_eq!(cumulus, canonical);
    assert!(!cumulus.is_empty() && cumulus.is_subset(&recorded), "{cumulus:?} {recorded:?}");
    assert!(!stored.is_empty() && stored.len() == wanted.len(), "{} series, not {}", stored.len(), wanted.len());
    for (stored, wanted) in stored.iter().zip(&wanted) {
        assert_eq!((&stored.labels, stored.values.len()), (&wanted.labels, wanted.values.len()));
        // Microseconds and back.
        let near = |(a, b): (&f64, &f64)| (a - b).abs() <= 1e-9 * b.abs();
        assert!(stored.values.iter().zip(&wanted.values).all(near), "{}", stored.labels);
    }
    let (blind, _) = found(Recording::open(&dir, ReadAs { stretch: 1000, hosts_only: true }).unwrap());
    assert!(blind.is_disjoint(&cumulus), "hosts do not see a link between switches: {blind:?}");
}
