//! Formats the files of a recording, for `capture` and simulators. [`super::RecordedKernel`] reads them.
//!
//! Pure functions; [`super::path`] has the file names. Own formats are described on their function.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use crate::nvml::NvmlReport;
use crate::{
    CmId, Dcb, DriverInfo, LinkState, LldpNeighbor, ModuleDiagnostics, NetdevSettings, Qp, QpCounter, RdmaLink,
    TcpSocket, VerbsPort, table,
};

/// As `ethtool -i` prints.
pub fn ethtool_i(info: &DriverInfo) -> String {
    let DriverInfo { driver, version, firmware, bus } = info;
    format!(
        "driver: {driver}\nversion: {version}\nfirmware-version: {firmware}\nexpansion-rom-version: \nbus-info: {bus}\n"
    )
}

/// As `ethtool -S` prints.
pub fn ethtool_s<'a>(statistics: impl IntoIterator<Item = (&'a str, u64)>) -> String {
    let mut text = String::from("NIC statistics:\n");
    for (name, value) in statistics {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "     {name}: {value}");
    }
    text
}

/// Own format: one object, `"group/attribute": value`, as [`crate::KernelCalls::std_stats`] names them.
pub fn std_stats(statistics: &[(Arc<str>, u64)]) -> String {
    let members: Map<_, _> = statistics.iter().map(|(name, value)| (name.to_string(), json!(value))).collect();
    lines(&Value::Object(members))
}

/// Own format: `{"up":…,"reason":…,"detail":…,"max_rate_bits":…}`; unknown members are null.
pub fn link(state: &LinkState, max_rate_bits: Option<u64>) -> String {
    let LinkState { up, reason, detail } = state;
    lines(&json!({"up": up, "reason": reason, "detail": detail, "max_rate_bits": max_rate_bits}))
}

/// Own format: `{"fec":…,"receive_ring":…,"transmit_ring":…,"receive_pause":…,"transmit_pause":…}`; absent is null.
pub fn netdev_settings(settings: &NetdevSettings) -> String {
    lines(&json!(settings))
}

/// Own format: `{"temperature":°C,"supply":V,"lanes":[{"rx_power":W,"tx_power":W,"tx_bias":A}]}`; absent is null.
pub fn module(module: &ModuleDiagnostics) -> String {
    let lanes: Vec<_> = module
        .lanes
        .iter()
        .map(|l| json!({"rx_power": l.rx_power, "tx_power": l.tx_power, "tx_bias": l.tx_bias}))
        .collect();
    lines(&json!({"temperature": module.temperature, "supply": module.supply, "lanes": lanes}))
}

/// As `lldpctl -f json0` prints, with the members that are read back.
pub fn lldp(neighbor: &LldpNeighbor) -> String {
    let value = |text: &str| json!([{"value": text}]);
    let id = json!([{"type": "ifname", "value": neighbor.port}]);
    let mut chassis = json!({"name": value(&neighbor.switch)});
    if let Some(address) = neighbor.address {
        chassis["mgmt-ip"] = value(&address.to_string());
    }
    let interface = json!({"via": "LLDP", "chassis": [chassis], "port": [{"id": id}]});
    lines(&json!({"lldp": [{"interface": [interface]}]}))
}

/// As `rdma -j link show -d` prints.
pub fn rdma_link(links: &[RdmaLink]) -> String {
    rows(links.iter().map(|link| {
        object([
            ("ifindex", json!(link.index)),
            ("ifname", json!(link.device)),
            ("port", json!(link.port)),
            ("lid", json!(link.lid)),
            ("state", json!(table::name(table::PORT_STATE, link.state))),
            ("physical_state", json!(table::name(table::PHYSICAL_STATE, link.physical_state))),
            ("netdev", json!(link.netdev)),
        ])
    }))
}

/// As `rdma -j dev show` prints: firmware, GUID and type of the links' devices.
pub fn rdma_dev(links: &[RdmaLink]) -> String {
    let mut seen = std::collections::BTreeSet::new();
    rows(links.iter().filter(|link| seen.insert(&link.device)).map(|link| {
        object([
            ("ifindex", json!(link.index)),
            ("ifname", json!(link.device)),
            ("fw", json!(link.firmware)),
            ("node_guid", json!(link.node_guid.map(guid))),
            ("type", json!(link.smi_only.then_some("smi"))),
        ])
    }))
}

/// As `rdma -j statistic show` prints: each port with its counters.
pub fn rdma_statistic<'a, C>(ports: impl IntoIterator<Item = (&'a RdmaLink, C)>) -> String
where
    C: IntoIterator<Item = (&'a str, u64)>,
{
    // Formatted by hand, because a map would sort `ifname` and `port`, and the reader is fast only if they come first.
    let mut text = String::from("[");
    for (link, counters) in ports {
        if text.len() > 1 {
            text.push(',');
        }
        let _ = write!(text, "{{\"ifname\":{},\"port\":{}", json!(link.device), link.port);
        for (name, value) in counters {
            let _ = write!(text, ",{}:{value}", json!(name));
        }
        text.push('}');
    }
    text.push_str("]\n");
    text
}

/// As `rdma -j resource show qp` prints.
pub fn res_qp(qps: &[Qp]) -> String {
    rows(qps.iter().map(|qp| {
        object([
            ("ifname", json!(qp.device)),
            ("port", json!(qp.port)),
            ("lqpn", json!(qp.lqpn)),
            ("rqpn", json!(qp.rqpn)),
            ("type", json!(qp.kind)),
            ("state", json!(qp.state)),
            ("pid", json!(qp.pid)),
            ("comm", json!(qp.comm)),
        ])
    }))
}

/// As `rdma -j resource show cm_id` prints.
pub fn res_cm_id(ids: &[CmId]) -> String {
    rows(ids.iter().map(|id| {
        let (address, port) =
            (|end: Option<SocketAddr>| end.map(|e| e.ip()), |end: Option<SocketAddr>| end.map(|e| e.port()));
        object([
            ("ifname", json!(id.device)),
            ("port", json!(id.port)),
            ("lqpn", json!(id.lqpn)),
            ("state", json!(id.state)),
            ("pid", json!(id.pid)),
            ("src-addr", json!(address(id.source))),
            ("src-port", json!(port(id.source))),
            ("dst-addr", json!(address(id.destination))),
            ("dst-port", json!(port(id.destination))),
        ])
    }))
}

/// Own format: `[{"local":…,"remote":…,"cgroup":…,"acked":bytes,"received":bytes,"rtt_us":…}]`; a cgroup is its
/// directory in the recording, because an inode has no meaning elsewhere. Absent is null.
pub fn tcp_sockets<'a>(sockets: impl IntoIterator<Item = (&'a TcpSocket, &'a str)>) -> String {
    rows(sockets.into_iter().map(|(socket, group)| {
        object([
            ("local", json!(socket.local)),
            ("remote", json!(socket.remote)),
            ("cgroup", json!(group)),
            ("acked", json!(socket.transferred.map(|[acked, _]| acked))),
            ("received", json!(socket.transferred.map(|[_, received]| received))),
            ("rtt_us", json!(socket.rtt.map(|rtt| rtt.as_micros() as u64))),
        ])
    }))
}

/// As `rdma -j statistic qp show` prints.
pub fn qp_statistic(counters: &[QpCounter]) -> String {
    rows(counters.iter().map(|counter| {
        let mut row = object([
            ("ifname", json!(counter.device)),
            ("port", json!(counter.port)),
            ("cntn", json!(counter.id)),
            ("pid", json!(counter.pid)),
            ("lqpn", json!(counter.qps)),
        ]);
        for (name, value) in &counter.values {
            row[&**name] = json!(value);
        }
        row
    }))
}

/// Own format: an array of objects with `ifname`, `port` and the members of [`VerbsPort`] in its units.
pub fn verbs(ports: &[(&RdmaLink, VerbsPort)]) -> String {
    rows(ports.iter().map(|(link, port)| {
        object([
            ("ifname", json!(link.device)),
            ("port", json!(link.port)),
            ("rate_bits", json!(port.rate_bits)),
            ("width", json!(port.width)),
            ("speed", json!(port.speed)),
            ("mtu", json!(port.mtu)),
            ("max_mtu", json!(port.mtu_max)),
            ("lid", json!(port.lid)),
            ("sm_lid", json!(port.sm_lid)),
        ])
    }))
}

/// Own format: one object, `"device": true|false`.
pub fn dma_buf(devices: &[(&str, bool)]) -> String {
    let members: Map<_, _> = devices.iter().map(|(device, is_there)| ((*device).to_owned(), json!(is_there))).collect();
    lines(&Value::Object(members))
}

/// Own format: the members of [`NvmlReport`].
pub fn nvml(report: &NvmlReport) -> String {
    lines(&json!(report))
}

/// One object with `pfc`, `ets`, `app` and `buffer`, each as `dcb -j -s <member> show` prints it.
pub fn dcb(dcb: &Dcb) -> String {
    let bit = |bits: u8| -> Vec<bool> { (0..8).map(|bit| bits >> bit & 1 == 1).collect() };
    let algorithm = |number: &u8| table::TSA.iter().find(|row| row.0 == *number).map_or("???", |row| row.1);
    let pfc = object([
        ("pfc_cap", json!(dcb.pfc_capable)),
        ("macsec_bypass", json!(dcb.macsec_bypass)),
        ("delay", json!(dcb.pfc_delay)),
        ("prio_pfc", json!(dcb.pfc_enabled.map(bit))),
        ("requests", json!(dcb.requests)),
        ("indications", json!(dcb.indications)),
    ]);
    let ets = object([
        ("tc_bw", json!(dcb.tc_bandwidth)),
        ("tc_tsa", json!(dcb.tc_algorithm.map(|tsa| tsa.each_ref().map(algorithm)))),
        ("prio_tc", json!(dcb.prio_tc)),
    ]);
    let mut app = Map::new();
    for (selector, protocol, priority) in &dcb.apps {
        let (key, row) = match (selector, protocol) {
            (1, 0) => ("default_prio", json!(priority)),
            _ => match table::APP.iter().find(|row| row.0 == *selector) {
                Some((_, key)) => (*key, json!([protocol, priority])),
                None => continue,
            },
        };
        if let Value::Array(list) = app.entry(key).or_insert_with(|| json!([])) {
            list.push(row);
        }
    }
    let buffer = object([("prio_buffer", json!(dcb.prio_buffer)), ("buffer_size", json!(dcb.buffer_size))]);
    lines(&json!({"pfc": pfc, "ets": ets, "app": app, "buffer": buffer}))
}

/// Object without the members whose value is unknown, as the tools print it.
fn object<const N: usize>(members: [(&str, Value); N]) -> Value {
    members.into_iter().filter(|(_, value)| !value.is_null()).map(|(key, value)| (key.to_owned(), value)).collect()
}

fn rows(rows: impl Iterator<Item = Value>) -> String {
    lines(&Value::Array(rows.collect()))
}

fn lines(value: &Value) -> String {
    format!("{value:#}\n")
}

/// GUID such as `b8ce:f603:0000:0001`.
fn guid(guid: u64) -> String {
    let [a, b, c, d] = [guid >> 48, guid >> 32 & 0xffff, guid >> 16 & 0xffff, guid & 0xffff];
    format!("{a:04x}:{b:04x}:{c:04x}:{d:04x}")
}
