//! Paths of gNMI, as `fabriclens-gnmi` names them.

use fabriclens_foreign::sources::{gnmi_openconfig, gnmi_sonic};
use fabriclens_foreign::{Meaning, Source, Value, meaning};

fn told(source: &Source, name: &str, attributes: &[(&str, &str)], value: &str) -> String {
    match meaning(source, name, attributes) {
        Meaning::Series(series) => {
            let labels: Vec<String> = series.labels.iter().map(|(name, value)| format!("{name}={value}")).collect();
            let port = series.port.unwrap_or_default();
            let value = series.conversion.of(Value::Text(value));
            format!("{} {port} {} {value:?}", series.metric.prometheus_name(), labels.join(","))
        }
        Meaning::LeftOut(_) => "left out".to_owned(),
        Meaning::Unknown => "unknown".to_owned(),
    }
}

#[test]
fn tables_of_sonic() {
    for (name, object, value, expected) in [
        (
            "COUNTERS/SAI_PORT_STAT_IF_IN_OCTETS",
            "Ethernet68",
            "7",
            "fabric_port_io_bytes_total Ethernet68 direction=receive Some(7.0)",
        ),
        (
            "COUNTERS/SAI_PORT_STAT_PFC_3_RX_PKTS",
            "Ethernet68/1",
            "7",
            "fabric_pfc_frames_total Ethernet68/1 direction=receive,priority=3 Some(7.0)",
        ),
        (
            "COUNTERS/SAI_QUEUE_STAT_PACKETS",
            "Ethernet68:3",
            "7",
            "fabric_port_queue_packets_total Ethernet68 direction=transmit,queue=3 Some(7.0)",
        ),
        (
            "COUNTERS/PFC_WD_QUEUE_STATS_DEADLOCK_DETECTED",
            "Ethernet68:3",
            "1",
            "fabric_pfc_watchdog_events_total Ethernet68 event=storm,queue=3 Some(1.0)",
        ),
        (
            "PERIODIC_WATERMARKS/SAI_QUEUE_STAT_SHARED_WATERMARK_BYTES",
            "Ethernet68:3",
            "192",
            "fabric_port_queue_watermark_bytes Ethernet68 queue=3 Some(192.0)",
        ),
        ("COUNTERS/PFC_WD_STATUS", "Ethernet68:3", "operational", "left out"),
        ("COUNTERS/SAI_QUEUE_STAT_PACKETS_last", "Ethernet68:3", "0", "left out"),
        ("PORT_TABLE/oper_status", "Ethernet0", "up", "fabric_port_up Ethernet0  Some(1.0)"),
        ("PORT_TABLE/speed", "Ethernet0", "100000", "fabric_port_rate_bytes_per_second Ethernet0  Some(12500000000.0)"),
        ("COUNTERS/SAI_PORT_STAT_NEW", "Ethernet0", "1", "unknown"),
    ] {
        assert_eq!(told(&gnmi_sonic::SOURCE, name, &[("object_name", object)], value), expected, "{name}");
    }
}

#[test]
fn paths_of_models() {
    let swp = ("interface.name", "swp1s0");
    let qos = ("interface.interface-id", "swp1s0");
    for (name, attributes, value, expected) in [
        ("interfaces/interface/state/oper-status", vec![swp], "DOWN", "fabric_port_up swp1s0  Some(0.0)"),
        (
            "interfaces/interface/state/counters/out-octets",
            vec![swp],
            "7",
            "fabric_port_io_bytes_total swp1s0 direction=transmit Some(7.0)",
        ),
        (
            "qos/interfaces/interface/state/switch-priority/counters/in-pause-pkts",
            vec![qos, ("switch-priority.priority", "3")],
            "7",
            "fabric_pfc_frames_total swp1s0 direction=receive,priority=3 Some(7.0)",
        ),
        (
            "qos/interfaces/interface/output/queues/queue/state/ecn-marked-pkts",
            vec![qos, ("queue.name", "3")],
            "7",
            "fabric_port_queue_ecn_marks_total swp1s0 queue=3 Some(7.0)",
        ),
        (
            "interfaces/interface/phy/ber/state/effective-ber",
            vec![swp],
            "1.5e-254",
            "fabric_link_ber_ratio swp1s0 kind=effective Some(1.5e-254)",
        ),
    ] {
        assert_eq!(told(&gnmi_openconfig::SOURCE, name, &attributes, value), expected, "{name}");
    }
}
