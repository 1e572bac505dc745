//! Switches that the collector reads by gNMI: their series, events and neighbors.

use fabriclens_config::{GnmiKind, GnmiTarget};
use fabriclens_gnmi_target::{Rules, Switch};
use serde_json::json;

use crate::common::{Collector, until};

fn target(switch: &Switch, name: &str, kind: GnmiKind) -> GnmiTarget {
    let address = switch.address.to_string();
    GnmiTarget { name: name.into(), address, kind, interval: kind.least_interval(), login: None, tls: None }
}

#[tokio::test]
async fn counters_events_and_neighbors_of_switches_are_stored() {
    let sonic = Switch::start(None, Rules::sonic(), None).unwrap();
    let ports = json!({ "Ethernet0": { "SAI_PORT_STAT_PFC_3_RX_PKTS": "7", "SAI_PORT_STAT_IF_IN_OCTETS": "N/A" } });
    sonic.values.set("COUNTERS_DB/COUNTERS/Ethernet*", ports);
    let lldp = json!({ "Ethernet0": { "lldp_rem_port_id": "ens1f0np0", "lldp_rem_sys_name": "gpu-01" } });
    sonic.values.set("APPL_DB/LLDP_ENTRY_TABLE", lldp);
    let cumulus = Switch::start(None, Rules::cumulus(), None).unwrap();
    let marks = "/qos/interfaces/interface[interface-id=swp1s0]/output/queues/queue[name=3]/state/ecn-marked-pkts";
    cumulus.values.set(marks, json!(12));
    let targets = vec![target(&sonic, "leaf1", GnmiKind::Sonic), target(&cumulus, "leaf2", GnmiKind::Cumulus)];
    let collector = Collector::with(|config| config.gnmi = targets).await;
    let is = async |query: &str, value: f64| {
        until(query, async || collector.value(query).await == Some(value)).await;
    };
    is(r#"fabric_pfc_frames_total{host="leaf1",port="Ethernet0",priority="3",direction="receive"}"#, 7.0).await;
    is(r#"fabric_port_queue_ecn_marks_total{host="leaf2",port="swp1s0",queue="3"}"#, 12.0).await;
    is(r#"fabric_port_neighbor_info{host="leaf1",port="Ethernet0",neighbor="gpu-01",neighbor_port="ens1f0np0"}"#, 1.0)
        .await;
    assert_eq!(collector.value("fabric_port_io_bytes_total").await, None, "a counter without a number is a gap");
    let storm = json!({ "sonic-events-swss:pfc-storm": { "ifname": "Ethernet0", "queue_index": "3" } });
    let counted = async || {
        sonic.values.event(&storm);
        collector.value(r#"fabric_pfc_watchdog_notices_total{host="leaf1",queue="3"}"#).await.is_some_and(|n| n > 0.0)
    };
    until("a storm", counted).await;
    let (_, metrics) = collector.get("/metrics").await;
    assert!(metrics.contains("fabriclens_gnmi_streams{switch=\"leaf1\"}"), "{metrics}");
    assert!(metrics.contains(r#"fabriclens_gnmi_failures_total{reason="refused",stream="queues",switch="leaf1"}"#));
    let listed = collector.json("/api/v1/switches").await.1["data"]["switches"].take();
    assert_eq!((&listed[0]["switch"], &listed[0]["source"]), (&json!("leaf1"), &json!("gnmi")), "{listed}");
    assert_eq!(listed[0]["silent"], json!(false));
    let queues = json!({"stream": "queues", "failed": "refused"});
    assert!(listed[0]["streams"].as_array().unwrap().contains(&queues), "{listed}");
    collector.running.stop().await;
}
