//! gNMI of Cumulus Linux (leaves of OpenConfig, at most every five seconds) and of SONiC (tables of its database).

use super::form::{Counter, Form, Message, Point, RX, Reading, TX, counter};
use fabriclens_config::GnmiKind;
use fabriclens_gnmi::parse;
use fabriclens_gnmi::proto::{Notification, Path, Response, SubscribeResponse, TypedValue, Update, Value};
use prost::Message as _;

/// Names of leaves below `/interfaces/interface[name=…]/state/counters`, or whole paths where `{}` is the priority and `#`
/// the port.
pub static CUMULUS: Form = Form {
    name: "gnmi, Cumulus",
    period_ms: 5000,
    delay_ms: 0,
    counters: &[
        interface(&[TX], "fabric_port_io_bytes_total", "/interfaces/interface[name=#]/state/counters/out-octets"),
        interface(&[RX], "fabric_port_io_bytes_total", "/interfaces/interface[name=#]/state/counters/in-octets"),
        interface(&[TX], "fabric_port_packets_total", "/interfaces/interface[name=#]/state/counters/out-pkts"),
        interface(&[RX], "fabric_port_packets_total", "/interfaces/interface[name=#]/state/counters/in-pkts"),
        interface(
            &[("reason", "buffer")],
            "fabric_port_discards_total",
            "/interfaces/interface[name=#]/state/counters/in-discards",
        ),
        interface(&[RX], "fabric_link_crc_errors_total", "/interfaces/interface[name=#]/state/counters/in-fcs-errors"),
        counter(
            "fabric_pfc_frames_total",
            &[RX],
            "/qos/interfaces/interface[interface-id=#]/state/switch-priority[priority={}]/counters/in-pause-pkts",
        )
        .with(PFC),
        counter(
            "fabric_pfc_frames_total",
            &[TX],
            "/qos/interfaces/interface[interface-id=#]/state/switch-priority[priority={}]/counters/out-pause-pkts",
        )
        .with(PFC),
        counter(
            "fabric_ecn_marks_total",
            &[],
            "/qos/interfaces/interface[interface-id=#]/output/queues/queue[name=3]/state/ecn-marked-pkts",
        )
        .with(QUEUES),
    ],
    messages: |reading| by_stream(reading, GnmiKind::Cumulus),
};

/// Statistics of SAI in `COUNTERS_DB`, each second.
pub static SONIC: Form = Form {
    name: "gnmi, SONiC",
    period_ms: 1000,
    delay_ms: 0,
    counters: &[
        counter("fabric_port_io_bytes_total", &[TX], "SAI_PORT_STAT_IF_OUT_OCTETS"),
        counter("fabric_port_io_bytes_total", &[RX], "SAI_PORT_STAT_IF_IN_OCTETS"),
        counter("fabric_port_packets_total", &[TX], "SAI_PORT_STAT_ETHER_STATS_TX_NO_ERRORS"),
        counter("fabric_port_packets_total", &[RX], "SAI_PORT_STAT_ETHER_STATS_RX_NO_ERRORS"),
        counter("fabric_port_discards_total", &[("reason", "buffer")], "SAI_PORT_STAT_IF_IN_DISCARDS"),
        counter("fabric_link_crc_errors_total", &[RX], "SAI_PORT_STAT_DOT3_STATS_FCS_ERRORS"),
        counter("fabric_ecn_marks_total", &[], "SAI_PORT_STAT_ECN_MARKED_PACKETS"),
        counter("fabric_pfc_frames_total", &[RX], "SAI_PORT_STAT_PFC_{}_RX_PKTS"),
        counter("fabric_pfc_frames_total", &[TX], "SAI_PORT_STAT_PFC_{}_TX_PKTS"),
        counter("fabric_pfc_pause_seconds_total", &[RX], "SAI_PORT_STAT_PFC_{}_RX_PAUSE_DURATION_US").times(1e6),
        counter("fabric_pfc_pause_seconds_total", &[TX], "SAI_PORT_STAT_PFC_{}_TX_PAUSE_DURATION_US").times(1e6),
    ],
    messages: sonic,
};

const STREAM: &str = "stream";
const INTERFACES: &[(&str, &str)] = &[(STREAM, "interfaces")];
const PFC: &[(&str, &str)] = &[(STREAM, "pfc")];
const QUEUES: &[(&str, &str)] = &[(STREAM, "queues")];

const fn interface(
    labels: &'static [(&'static str, &'static str)],
    metric: &'static str,
    name: &'static str,
) -> Counter {
    counter(metric, labels, name).with(INTERFACES)
}

fn update(path: Path, value: Value) -> Update {
    Update { path: Some(path), val: Some(TypedValue { value: Some(value) }), duplicates: 0 }
}

fn response(reading: &Reading, prefix: Option<Path>, update: Vec<Update>) -> Vec<u8> {
    let timestamp = reading.time_ms * 1_000_000;
    let sent = Notification { timestamp, prefix, update, ..Notification::default() };
    SubscribeResponse { response: Some(Response::Update(sent)) }.encode_to_vec()
}

/// One message per stream, with one update per leaf.
fn by_stream(reading: &Reading, kind: GnmiKind) -> Vec<Message> {
    let stream = |name: &'static str| {
        let own = reading.points.iter().filter(|point| point.attributes.contains(&(STREAM, name)));
        let leaf =
            |point: &Point| update(parse(&point.name.replace('#', &point.port)), Value::Uint(point.value as u64));
        let updates: Vec<Update> = own.map(leaf).collect();
        let empty = updates.is_empty();
        (!empty).then(|| Message::Gnmi(reading.switch.clone(), kind, name, response(reading, None, updates)))
    };
    ["interfaces", "pfc", "queues"].into_iter().filter_map(stream).collect()
}

/// One message with one update, whose JSON holds all ports; numbers are text.
fn sonic(reading: &Reading) -> Vec<Message> {
    let mut ports = serde_json::Map::new();
    for point in &reading.points {
        let port = ports.entry(point.port.clone()).or_insert_with(|| serde_json::json!({}));
        port[&point.name] = (point.value as u64).to_string().into();
    }
    let prefix = Path { target: "COUNTERS_DB".to_owned(), ..Path::default() };
    let value = Value::JsonIetf(serde_json::Value::Object(ports).to_string().into_bytes());
    let message = response(reading, Some(prefix), vec![update(parse("COUNTERS/Ethernet*"), value)]);
    vec![Message::Gnmi(reading.switch.clone(), GnmiKind::Sonic, "ports", message)]
}
