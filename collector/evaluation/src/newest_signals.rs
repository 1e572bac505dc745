//! Publishes the newest signals of all ports for those who look at the present.

use std::time::Instant;

use fabriclens_core::newest_signals::{NewestSignals, SignalTable};
use fabriclens_correlate::{IncidentTracker, Signal};

/// Age up to which a value is the newest, ns; as the range of the queries that read the past.
const RECENT_NS: i64 = 60_000_000_000;

/// Publishes a table if the API asked for one and the last one is old.
pub(crate) fn publish_newest(tracker: &IncidentTracker, newest: &NewestSignals) {
    let Some(signals) = newest.wanted() else { return };
    let from_ns = tracker.now_ns().saturating_sub(RECENT_NS);
    let fabric = tracker.fabric();
    let of = |signal: &Signal| (*signal, tracker.newest(*signal, from_ns));
    let name = |end: &fabriclens_correlate::LinkEnd| (fabric.topology.nodes[end.node].name.clone(), end.port.clone());
    let ports = &fabric.ports.list;
    newest.publish(SignalTable {
        made: Instant::now(),
        ports: ports.iter().map(|port| name(&port.end)).collect(),
        line_rates: (0..ports.len()).map(|port| tracker.line_rate(port).map_or(f32::NAN, |rate| rate as f32)).collect(),
        signals: signals.iter().map(of).collect(),
    });
}
