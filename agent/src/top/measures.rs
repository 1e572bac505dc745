//! What the table of ports measures: one row for each column.

use fabriclens_catalog::Metric;
use fabriclens_catalog::metrics::{congestion, discard, link, pause, pfc, traffic, transport};

/// How values of several series of a port become one.
#[derive(Clone, Copy, Debug)]
pub enum Join {
    /// Their sum.
    Sum,
    /// The highest: that of the worst priority.
    Max,
}

/// How a value is printed.
#[derive(Clone, Copy, Debug)]
pub enum Unit {
    /// Bytes per second.
    Bytes,
    /// Share of the time, or of the line rate.
    Share,
    /// Events per second.
    Events,
}

/// Counters of a metric: those with a direction, or all.
pub type Counters = (&'static Metric, Option<&'static str>);

/// A column.
#[derive(Clone, Copy, Debug)]
pub struct Measure {
    /// Title.
    pub title: &'static str,
    /// Counters whose rate it is: the first ones that a port has.
    pub counters: &'static [Counters],
    /// How several series become one value.
    pub join: Join,
    /// Whether the rate is divided by the port's rate.
    pub of_line: bool,
    /// How it is printed.
    pub unit: Unit,
    /// Value from which it is worth a look.
    pub warning: f64,
}

const SENT: Option<&str> = Some("transmit");
const RECEIVED: Option<&str> = Some("receive");
/// No number of events is worth a look by itself.
const NEVER: f64 = f64::INFINITY;
/// Each event is.
const ANY: f64 = f64::MIN_POSITIVE;

const EVENTS: Measure =
    Measure { title: "", counters: &[], join: Join::Sum, of_line: false, unit: Unit::Events, warning: NEVER };
const FAULTS: Measure = Measure { warning: ANY, ..EVENTS };
const BYTES: Measure = Measure { unit: Unit::Bytes, ..EVENTS };
const SHARE: Measure = Measure { join: Join::Max, unit: Unit::Share, warning: 0.01, ..EVENTS };

/// Columns that follow port, state, rate and load; the most important first. A value is a warning from where detectors consider it.
pub static MEASURES: &[Measure] = &[
    Measure { title: "SENT", counters: &[(&traffic::PORT_IO, SENT)], ..BYTES },
    Measure { title: "RECEIVED", counters: &[(&traffic::PORT_IO, RECEIVED)], ..BYTES },
    // The switch pauses the port.
    Measure { title: "PAUSED", counters: &[(&pfc::PFC_PAUSE, RECEIVED), (&pause::PAUSE_DURATION, RECEIVED)], ..SHARE },
    // The port pauses the switch.
    Measure { title: "PAUSES", counters: &[(&pfc::PFC_PAUSE, SENT), (&pause::PAUSE_DURATION, SENT)], ..SHARE },
    Measure { title: "XMITWAIT", counters: &[(&congestion::XMIT_WAIT, None)], of_line: true, warning: 0.05, ..SHARE },
    Measure { title: "ERRORS", counters: &[(&link::SYMBOL_ERRORS, None), (&link::CRC_ERRORS, RECEIVED)], ..FAULTS },
    Measure { title: "RETRANS", counters: &[(&transport::RETRANSMITS, None)], ..FAULTS },
    Measure { title: "DISCARDS", counters: &[(&discard::PORT_DISCARDS, None)], ..FAULTS },
    Measure { title: "CNP IN", counters: &[(&congestion::CNP_PACKETS, RECEIVED)], ..EVENTS },
    Measure { title: "CNP OUT", counters: &[(&congestion::CNP_PACKETS, SENT)], ..EVENTS },
    Measure { title: "MARKED", counters: &[(&congestion::ECN_PACKETS, None)], ..EVENTS },
];
