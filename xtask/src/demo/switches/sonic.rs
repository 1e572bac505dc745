//! Switches that answer gNMI as SONiC does: rows of its databases, with numbers as text. `tests/gnmi` speaks the protocol;
//! this writes what it tells.

use crate::sim::layout::LINE;
use crate::sim::link::Link;
use crate::sim::switch::{Switch, SwitchPort};
use anyhow::{Context, Result};
use serde_json::{Map, Value, json};
use std::io::Write;

/// A statistic, and its value by the links into and out of the port.
type Row = (&'static str, fn(&Link, &Link) -> f64);

const PORT: &[Row] = &[
    ("SAI_PORT_STAT_IF_IN_OCTETS", |rx, _| rx.bytes),
    ("SAI_PORT_STAT_IF_OUT_OCTETS", |_, tx| tx.bytes),
    ("SAI_PORT_STAT_ETHER_STATS_RX_NO_ERRORS", |rx, _| rx.packets()),
    ("SAI_PORT_STAT_ETHER_STATS_TX_NO_ERRORS", |_, tx| tx.packets()),
    ("SAI_PORT_STAT_IF_IN_DISCARDS", |_, _| 0.0),
    ("SAI_PORT_STAT_IF_OUT_DISCARDS", |_, _| 0.0),
    ("SAI_PORT_STAT_IF_IN_ERRORS", |rx, _| rx.crc_errors),
    // The neighbor pauses what this port sends.
    ("SAI_PORT_STAT_PFC_3_RX_PKTS", |_, tx| tx.pause_frames()),
    ("SAI_PORT_STAT_PFC_3_TX_PKTS", |rx, _| rx.pause_frames()),
    ("SAI_PORT_STAT_PFC_3_RX_PAUSE_DURATION_US", |_, tx| tx.pause_s * 1e6),
    ("SAI_PORT_STAT_PFC_3_TX_PAUSE_DURATION_US", |rx, _| rx.pause_s * 1e6),
    ("SAI_PORT_STAT_ECN_MARKED_PACKETS", |_, tx| tx.marks),
];
const QUEUE: &[Row] = &[
    ("SAI_QUEUE_STAT_PACKETS", |_, tx| tx.packets()),
    ("SAI_QUEUE_STAT_BYTES", |_, tx| tx.bytes),
    ("SAI_QUEUE_STAT_DROPPED_PACKETS", |_, _| 0.0),
    ("SAI_QUEUE_STAT_WRED_ECN_MARKED_PACKETS", |_, tx| tx.marks),
];
/// The watchdog of the spines never acts: none of the faults pauses a spine without end.
const WATCHDOG: &[Row] =
    &[("PFC_WD_QUEUE_STATS_DEADLOCK_DETECTED", |_, _| 0.0), ("PFC_WD_QUEUE_STATS_DEADLOCK_RESTORED", |_, _| 0.0)];

/// Path of a client's request, the end of the row's name after the port, and the fields.
const TABLES: &[(&str, &str, &[Row])] = &[
    ("COUNTERS_DB/COUNTERS/Ethernet*", "", PORT),
    ("COUNTERS_DB/COUNTERS/Ethernet*/Queues", ":3", QUEUE),
    ("COUNTERS_DB/COUNTERS/Ethernet*/Pfcwd", ":3", WATCHDOG),
];

fn write(to: &mut impl Write, switch: &Switch, path: &str, rows: impl Iterator<Item = (String, Value)>) -> Result<()> {
    let table: Map<String, Value> = rows.collect();
    writeln!(to, "{}", json!([switch.name, path, table])).context("write the values of the spines")
}

/// Writes counters of ports, queues and the watchdog.
///
/// # Errors
/// When the spines do not read them.
pub fn write_counters(to: &mut impl Write, switches: &[Switch], links: &[Link]) -> Result<()> {
    for switch in switches {
        for (path, end, fields) in TABLES {
            let row = |port: &SwitchPort| {
                let (rx, tx) = (&links[port.ingress], &links[port.egress]);
                let field = |row: &Row| (row.0.to_owned(), json!(format!("{:.0}", row.1(rx, tx).floor())));
                (format!("{}{end}", port.name), Value::Object(fields.iter().map(field).collect()))
            };
            write(to, switch, path, switch.ports.iter().map(row))?;
        }
    }
    Ok(())
}

/// Writes what does not change: state of links and neighbors.
///
/// # Errors
/// When the spines do not read it.
pub fn write_state(to: &mut impl Write, switches: &[Switch]) -> Result<()> {
    let speed = format!("{:.0}", LINE * 8e-6);
    for switch in switches {
        let state = json!({"oper_status": "up", "admin_status": "up", "speed": speed, "mtu": "9100"});
        let ports = switch.ports.iter().map(|port| (port.name.clone(), state.clone()));
        write(to, switch, "APPL_DB/PORT_TABLE", ports)?;
        let neighbors = switch.ports.iter().map(|port| {
            let (name, id) = &port.neighbor;
            let row = json!({"lldp_rem_sys_name": name, "lldp_rem_port_id": id, "lldp_rem_port_desc": id});
            (port.name.clone(), row)
        });
        write(to, switch, "APPL_DB/LLDP_ENTRY_TABLE", neighbors)?;
    }
    Ok(())
}
