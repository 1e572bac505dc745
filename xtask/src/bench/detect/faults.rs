//! The faults that `bench detect` injects at a port.

use crate::sim::nic::Nic;
use crate::sim::tree::Link;
use std::time::Duration;

/// Time without carrier before a link returns at half its rate.
const RETRAINS: Duration = Duration::from_millis(200);
/// Traffic of a healthy port in bytes per second: a quarter of 400 Gb/s.
pub const TRAFFIC: f64 = 12.5e9;

/// A kind of fault.
pub struct Fault {
    pub name: &'static str,
    /// Kind that the incident must have.
    pub kind: &'static str,
    /// Changes the counters of a port for a step of `dt` seconds.
    pub counts: fn(&mut Nic, f64),
    /// Link states, each with the time since the begin of the fault.
    pub link: &'static [(Duration, Link)],
    /// Series that shows the fault first; `$h` is the host, `$d` the device.
    pub series: &'static str,
    /// The incident stays open for a while after the fault; such faults come last.
    pub lasts: bool,
}

const NONE: fn(&mut Nic, f64) = |_, _| {};

/// Every fault, in the order of a run.
pub const FAULTS: &[Fault] = &[
    Fault {
        name: "PFC storm",
        kind: "pfc_storm",
        counts: |nic, dt| {
            nic.rx_bytes -= TRAFFIC * dt; // no data arrives
            nic.tx_pause_s += 0.99 * dt;
            nic.storm_warnings += 2.0 * dt;
        },
        link: &[],
        series: "fabric_pfc_pause_seconds_total{host=\"$h\",device=\"$d\",direction=\"transmit\"}",
        lasts: false,
    },
    Fault {
        name: "slow receiver",
        kind: "slow_receiver",
        counts: |nic, dt| nic.tx_pause_s += 0.3 * dt,
        link: &[],
        series: "fabric_pfc_pause_seconds_total{host=\"$h\",device=\"$d\",direction=\"transmit\"}",
        lasts: false,
    },
    Fault {
        name: "link down",
        kind: "link_down",
        counts: NONE,
        link: &[(Duration::ZERO, Link::Down)],
        series: "fabric_port_up{host=\"$h\",device=\"$d\"}",
        lasts: false,
    },
    Fault {
        name: "link at half its rate",
        kind: "degraded_link",
        counts: NONE,
        link: &[(Duration::ZERO, Link::Down), (RETRAINS, Link::Up(200))],
        series: "fabric_port_rate_bytes_per_second{host=\"$h\",device=\"$d\"}",
        lasts: false,
    },
    Fault {
        name: "symbol errors",
        kind: "lossy_link",
        counts: |nic, dt| nic.symbol_errors += 220.0 * dt,
        link: &[],
        series: "fabric_link_symbol_errors_total{host=\"$h\",device=\"$d\"}",
        lasts: true,
    },
];
