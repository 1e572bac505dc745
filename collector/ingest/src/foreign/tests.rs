//! Foreign series through the whole of ingest.

use super::super::tests::{Bench, bench, bench_with, bound, request, unbound};
use super::super::{Compression, Report};
use bytes::Bytes;
use fabriclens_config::Switches;
use fabriclens_core::prompb::{Label, Sample, TimeSeries, WriteRequest};
use fabriclens_core::protocol::Protocol;
use fabriclens_core::time::now_ms;
use fabriclens_model::{Matcher, Read as _};
use fabriclens_server::auth::Caller;
use prost::Message as _;
use serde_json::{Value, json};

fn text(key: &str, value: &str) -> Value {
    json!({"key": key, "value": {"stringValue": value}})
}

/// A gauge as Cumulus and countersyncd send their counters.
fn gauge(name: &str, unit: &str, attributes: &[(&str, &str)], value: f64) -> Value {
    let attributes: Vec<_> = attributes.iter().map(|(key, value)| text(key, value)).collect();
    let time = (now_ms() / 1000 * 1_000_000_000).to_string();
    let point = json!({"attributes": attributes, "timeUnixNano": time, "asDouble": value});
    json!({"name": name, "unit": unit, "gauge": {"dataPoints": [point]}})
}

fn resource(attribute: (&str, &str), metrics: &[Value]) -> Value {
    json!({"resource": {"attributes": [text(attribute.0, attribute.1)]}, "scopeMetrics": [{"metrics": metrics}]})
}

/// Series with this label, with their newest values.
fn stored(bench: &Bench, label: &str, value: &str) -> Vec<String> {
    let matcher = Matcher::equal(label, value);
    let mut found: Vec<String> = bench
        .store()
        .select(&[matcher], 0, i64::MAX)
        .unwrap()
        .iter()
        .map(|series| format!("{} {}", series.labels, series.values.last().unwrap()))
        .collect();
    found.sort();
    found
}

async fn send(bench: &Bench, caller: &Caller, resources: &[Value]) -> Report {
    bench.ingest().otlp(Protocol::OtlpGrpc, caller.clone(), Compression::None, request(resources)).await.unwrap()
}

#[tokio::test]
async fn cumulus_counters_become_counters_of_a_port() {
    let bench = bench();
    let port = ("interface", "swp5s1");
    let metrics = [
        gauge("nvswitch_interface_if_out_octets", "", &[port, ("site", "b")], 4928.0),
        gauge("nvswitch_interface_sp_rx_pause_duration", "", &[port, ("sp", "3")], 2e6),
        gauge("nvswitch_interface_if_in_octets", "", &[port], 1.0),
        gauge("nvswitch_interface_of_a_later_release", "", &[port], 1.0),
    ];
    let leaf = |name| resource(("net.host.name", name), &metrics);
    let report = send(&bench, &unbound(), &[leaf("leaf1"), leaf("leaf2")]).await;
    assert_eq!((report.accepted, report.rejected()), (4, 0), "{report:?}");
    assert_eq!(
        stored(&bench, "host", "leaf1"),
        [
            r#"fabric_pfc_pause_seconds_total{direction="receive", host="leaf1", port="swp5s1", priority="3"} 2"#,
            r#"fabric_port_io_bytes_total{direction="transmit", host="leaf1", port="swp5s1"} 4928"#,
        ]
    );
    assert_eq!(stored(&bench, "host", "leaf2").len(), 2);
    let switches = bench.ingest().switches();
    let listed: Vec<_> = switches.iter().map(|s| (&*s.switch, &*s.source, s.unknown.len())).collect();
    assert_eq!(listed, [("leaf1", "cumulus", 1), ("leaf2", "cumulus", 1)]);
    assert_eq!(switches[0].unknown[0].name, "nvswitch_interface_of_a_later_release");
    assert!(now_ms() - switches[0].last_ms.unwrap() < 60_000);
    let metadata = bench.store().metadata();
    assert_eq!(metadata["fabric_pfc_pause_seconds_total"].kind, "counter");
    assert!(!metadata.keys().any(|name| name.starts_with("nvswitch_")));
}

#[tokio::test]
async fn sonic_telemetry_needs_to_know_its_switch() {
    let addresses = [([10, 0, 0, 9].into(), "leaf9".to_owned())].into();
    let bench = bench_with(Switches { addresses, ..Switches::default() });
    let metrics = [gauge("sai_counter_type_1_stat_9", "1", &[("object_name", "Ethernet16")], 7.0)];
    let request = [resource(("service.name", "countersyncd"), &metrics)];
    let refused = send(&bench, &unbound(), &request).await;
    assert_eq!(refused.reasons().collect::<Vec<_>>(), [("switch", 1)]);
    assert!(refused.message().contains("switches.addresses"), "{}", refused.message());
    // The same columns from three senders are three switches.
    let configured = Caller::anonymous([10, 0, 0, 9].into());
    for caller in [bound("leaf1"), bound("leaf2"), configured] {
        assert_eq!(send(&bench, &caller, &request).await.rejected(), 0);
    }
    for leaf in ["leaf1", "leaf2", "leaf9"] {
        let want = format!(r#"fabric_port_io_bytes_total{{direction="transmit", host="{leaf}", port="Ethernet16"}} 7"#);
        assert_eq!(stored(&bench, "host", leaf), [want]);
    }
}

#[tokio::test]
async fn bound_senders_speak_for_themselves_only() {
    let bench = bench();
    let metrics = [
        gauge("nvswitch_interface_if_out_octets", "", &[("interface", "swp1")], 1.0),
        gauge("nvswitch_of_a_later_release", "", &[], 1.0),
    ];
    let foreign = resource(("net.host.name", "leaf2"), &metrics);
    let refused = send(&bench, &bound("leaf1"), std::slice::from_ref(&foreign)).await;
    assert_eq!(refused.reasons().next(), Some(("host", 1)));
    assert_eq!((stored(&bench, "host", "leaf2").len(), bench.ingest().switches().len()), (0, 0));
    assert_eq!(send(&bench, &bound("leaf2"), &[foreign]).await.rejected(), 0);
    assert_eq!(bench.ingest().switches().len(), 1);
}

/// Those who send DCGM's names use them: they stay, and hosts are no switches.
#[tokio::test]
async fn series_of_hosts_stay_under_their_names() {
    let bench = bench();
    let gpu = [("gpu", "3"), ("Hostname", "gpu-07"), ("UUID", "GPU-1")];
    let metrics = [
        gauge("DCGM_FI_DEV_NVLINK_REPLAY_ERROR_TOTAL", "", &gpu, 5.0),
        gauge("DCGM_FI_DEV_XID_ERROR", "", &gpu, 79.0),
        gauge("DCGM_FI_DEV_GPU_UTIL", "", &gpu, 90.0),
        gauge("DCGM_FI_DEV_PCIE_LINK_WIDTH", "", &[("gpu", "3")], 8.0),
    ];
    let report = send(&bench, &unbound(), &[resource(("service.name", "dcgm"), &metrics)]).await;
    assert_eq!((report.accepted, report.rejected()), (5, 0), "{report:?}");
    let canonical = stored(&bench, "host", "gpu-07");
    assert_eq!(canonical, [r#"fabric_nvlink_errors_total{gpu="3", host="gpu-07", link="all", reason="replay"} 5"#]);
    let own = stored(&bench, "UUID", "GPU-1");
    assert_eq!(own.len(), 3, "{own:?}");
    assert_eq!(stored(&bench, "gpu", "3").len(), 5, "one names no host");
    assert_eq!(bench.ingest().switches().len(), 0);
    // Series without `host` are refused of a bound sender, as before; it speaks for no other host.
    for (bound_to, accepted) in [("other", 0), ("gpu-07", 1)] {
        let report = send(&bench, &bound(bound_to), &[resource(("service.name", "dcgm"), &metrics[..1])]).await;
        assert_eq!((report.accepted, report.rejected()), (accepted, 1), "{bound_to}: {report:?}");
    }
}

#[tokio::test]
async fn switches_that_an_agent_reads_in_band_are_listed() {
    let bench = bench();
    let info = |node_type| [gauge("fabric.port.info", "", &[("port", "7"), ("node_type", node_type)], 1.0)];
    let (leaf, host) = (info("2: switch"), info("1: CA"));
    let resources = [resource(("host", "leaf1"), &leaf), resource(("host", "gpu-01"), &host)];
    send(&bench, &unbound(), &resources).await;
    // A sender that may not speak for a switch does not list it.
    send(&bench, &bound("gpu-01"), &[resource(("host", "leaf2"), &leaf)]).await;
    let switches = bench.ingest().switches();
    let listed: Vec<_> = switches.iter().map(|s| (&*s.switch, &*s.source)).collect();
    assert_eq!(listed, [("leaf1", "in_band")]);
    assert!(switches[0].last_ms.unwrap() > now_ms() - 60_000 && switches[0].unknown.is_empty());
    assert_eq!(stored(&bench, "host", "leaf1").len(), 1, "their series stay as they are");
}

#[tokio::test]
async fn names_are_those_of_the_topology() {
    let bench = bench();
    bench.ingest().name_switches_as(["Leaf1.example".to_owned()].into_iter());
    let metrics = [gauge("nvswitch_interface_if_out_octets", "", &[("interface", "swp1")], 1.0)];
    send(&bench, &unbound(), &[resource(("net.host.name", "leaf1"), &metrics)]).await;
    assert_eq!(stored(&bench, "host", "Leaf1.example").len(), 1);
}

#[tokio::test]
async fn raw_names_pass_by_the_list_only() {
    let bench = bench_with(Switches { raw: vec!["nvswitch_lldp_*".to_owned()], ..Switches::default() });
    let info = [("interface", "swp1"), ("system_name", "gpu-01")];
    let metrics = [
        gauge("nvswitch_lldp_neighbor_info", "", &info, 1.0),
        gauge("nvswitch_interface_flags", "", &[("interface", "swp1")], 1.0),
    ];
    send(&bench, &unbound(), &[resource(("net.host.name", "leaf1"), &metrics)]).await;
    let found = stored(&bench, "host", "leaf1");
    assert!(found.len() == 1 && found[0].starts_with("nvswitch_lldp_neighbor_info{"), "{found:?}");
}

/// Name, labels and value.
type Sent<'a> = (&'a str, &'a [(&'a str, &'a str)], f64);

fn write(series: &[Sent<'_>]) -> Bytes {
    let label = |(name, value): &(&str, &str)| Label { name: (*name).into(), value: (*value).into() };
    let one = |(name, labels, value): &Sent<'_>| TimeSeries {
        labels: std::iter::once(&("__name__", *name)).chain(labels.iter()).map(label).collect(),
        samples: vec![Sample { value: *value, timestamp: now_ms() / 1000 * 1000 }],
        histograms: vec![],
    };
    WriteRequest { timeseries: series.iter().map(one).collect(), metadata: vec![] }.encode_to_vec().into()
}

#[tokio::test]
async fn exporters_by_remote_write() {
    let bench = bench();
    let [one, two] = ["0x506b4b03005c2740", "0x7cfe9003009ce5b0"];
    let scraped = ("instance", "exporter:9315");
    let data = "infiniband_switch_port_transmit_data_bytes_total";
    let body = write(&[
        (data, &[("guid", one), scraped, ("port", "1")], 400.0),
        (data, &[("guid", two), scraped, ("port", "1")], 500.0),
        ("infiniband_switch_port_transmit_wait_total", &[("guid", one), scraped, ("port", "1")], 4_294_967_295.0),
        ("infiniband_switch_info", &[("guid", one), scraped, ("switch", "ib1")], 1.0),
        ("infiniband_hca_info", &[("guid", "0x1"), ("hca", "o1"), scraped], 1.0),
        (
            "infiniband_portrcvdata_total",
            &[("component", "switch"), ("local_name", "MF0;ib2:MQM9700/U1"), ("local_port", "3")],
            100.0,
        ),
        ("ifHCInOctets", &[("ifIndex", "3"), ("ifName", "Ethernet3"), ("instance", "leaf3")], 9.0),
        ("up", &[scraped], 1.0),
    ]);
    let sent = bench.ingest().remote_write(Protocol::RemoteWrite, unbound(), false, body).await.unwrap();
    assert_eq!(sent.rejected(), 0, "{sent:?}");
    let io = |direction, host, port, value| {
        vec![format!(r#"fabric_port_io_bytes_total{{direction="{direction}", host="{host}", port="{port}"}} {value}"#)]
    };
    assert_eq!(stored(&bench, "host", "ib1"), io("transmit", "ib1", "1", 400), "a saturated counter is a gap");
    assert_eq!(stored(&bench, "host", two), io("transmit", two, "1", 500), "its name is not known");
    assert_eq!(stored(&bench, "host", "ib2"), io("receive", "ib2", "3", 400), "words of four bytes");
    assert_eq!(stored(&bench, "host", "leaf3"), io("receive", "leaf3", "Ethernet3", 9));
    assert_eq!(stored(&bench, "instance", "exporter:9315"), [r#"up{instance="exporter:9315"} 1"#]);
}
