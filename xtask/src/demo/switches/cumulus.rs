//! A switch that pushes OTLP as NVIDIA Cumulus Linux does: gauges, one data point for each interface. Cumulus sends them by
//! gRPC, this one by HTTP as JSON.

use crate::sim::layout::LINE;
use crate::sim::link::Link;
use crate::sim::switch::{Switch, SwitchPort};
use anyhow::{Context, Result};
use serde_json::{Value, json};
use std::time::Duration;

/// A metric, its attribute besides the interface, and its value by the links into and out of the port.
type Row = (&'static str, Option<(&'static str, &'static str)>, fn(&Link, &Link) -> f64);

const PRIORITY: Option<(&str, &str)> = Some(("switch-priority", "3"));
const CLASS: Option<(&str, &str)> = Some(("tc", "3"));
/// Bits of `oper_state`.
const UP: f64 = 1.0;

const ROWS: &[Row] = &[
    ("nvswitch_interface_ether_stats_octets", None, |rx, _| rx.bytes),
    ("nvswitch_interface_ether_stats_pkts", None, |rx, _| rx.packets()),
    ("nvswitch_interface_if_out_octets", None, |_, tx| tx.bytes),
    ("nvswitch_interface_if_out_pkts", None, |_, tx| tx.packets()),
    ("nvswitch_interface_if_in_discards", None, |_, _| 0.0),
    ("nvswitch_interface_if_out_discards", None, |_, _| 0.0),
    ("nvswitch_interface_if_in_errors", None, |rx, _| rx.crc_errors),
    ("nvswitch_interface_dot3_stats_fcs_errors", None, |rx, _| rx.crc_errors),
    // The neighbor pauses what this port sends.
    ("nvswitch_interface_sp_rx_pause", PRIORITY, |_, tx| tx.pause_frames()),
    ("nvswitch_interface_sp_tx_pause", PRIORITY, |rx, _| rx.pause_frames()),
    ("nvswitch_interface_sp_rx_pause_duration", PRIORITY, |_, tx| tx.pause_s * 1e6),
    ("nvswitch_interface_sp_tx_pause_duration", PRIORITY, |rx, _| rx.pause_s * 1e6),
    ("nvswitch_interface_performance_marked_packets", None, |_, tx| tx.marks),
    ("nvswitch_interface_tc_tx_ecn_marked_tc", CLASS, |_, tx| tx.marks),
    ("nvswitch_interface_tc_tx_queue", CLASS, |_, tx| tx.queue),
    ("nvswitch_interface_oper_state", None, |_, _| UP),
    ("nvswitch_interface_oper_aggregate_speed", None, |_, _| LINE * 8.0),
    ("nvswitch_interface_carrier_changes_total", None, |_, _| 1.0),
];

/// Sends the counters that a switch had at this time since 1970.
///
/// # Errors
/// When the collector does not take them.
pub fn push(otlp: &str, switch: &Switch, links: &[Link], now: Duration) -> Result<()> {
    ureq::post(format!("{otlp}/v1/metrics"))
        .config()
        .timeout_global(Some(Duration::from_secs(2)))
        .build()
        .content_type("application/json")
        .send(request(switch, links, now).to_string())
        .with_context(|| format!("send the counters of {}", switch.name))?;
    Ok(())
}

fn attribute(key: &str, value: &str) -> Value {
    json!({"key": key, "value": {"stringValue": value}})
}

/// The request as JSON.
pub(super) fn request(switch: &Switch, links: &[Link], now: Duration) -> Value {
    let time = now.as_nanos().to_string();
    let point = |port: &SwitchPort, more: &[(&str, &str)], value: f64| {
        let own = [("interface", port.name.as_str())];
        let attributes: Vec<Value> = own.iter().chain(more).map(|(key, value)| attribute(key, value)).collect();
        json!({"attributes": attributes, "timeUnixNano": time, "asDouble": value.floor()})
    };
    let gauge = |name: &str, points: Vec<Value>| json!({"name": name, "gauge": {"dataPoints": points}});
    let counters = ROWS.iter().map(|(name, more, value)| {
        let points = switch
            .ports
            .iter()
            .map(|port| point(port, more.as_slice(), value(&links[port.ingress], &links[port.egress])));
        gauge(name, points.collect())
    });
    let neighbors = switch.ports.iter().map(|port| {
        let (name, id) = &port.neighbor;
        let id = [("port_id", id.as_str()), ("port_id_type", "ifname"), ("port_description", id)];
        let about: Vec<(&str, &str)> = [("system_name", name.as_str())].into_iter().chain(id).collect();
        point(port, &about, 1.0)
    });
    let neighbors = gauge("nvswitch_lldp_neighbor_info", neighbors.collect());
    let metrics: Vec<Value> = counters.chain([neighbors]).collect();
    json!({"resourceMetrics": [{
        "resource": {"attributes": [attribute("net.host.name", &switch.name)]},
        "scopeMetrics": [{"metrics": metrics}],
    }]})
}
