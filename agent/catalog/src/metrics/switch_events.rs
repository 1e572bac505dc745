//! What the collector learns of switches by gNMI besides their counters. Agents do not export it.

use super::units::*;

metrics! {
    WATCHDOG_NOTICES, Counter, Port, "fabric.pfc.watchdog.notices", EVENTS, ["queue"],
        "Storms that the PFC watchdog of the switch reported as they began, since the collector started to listen. The switch's own count, which is sampled, is `fabric.pfc.watchdog.events`.";
    PORT_NEIGHBOR, Info, Port, "fabric.port.neighbor.info", None, ["neighbor", "neighbor_address", "neighbor_port"],
        "Always 1; the labels name the LLDP neighbor of a switch's port, its management address if known, and its port.";
}
