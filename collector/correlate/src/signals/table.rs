//! The table of signals: the expression that measures each of them, and how series of one port are combined.

use crate::model::signal::Signal;
use crate::signals::expression::{Alternatives, Divisor, Selector, Spread, Term};
use fabriclens_model::MatchOp::{Equal, Regex};

/// Frames that a rate looks back over: an exporter is scraped every fifteen seconds, sometimes a little late, and an agent that
/// reads every five seconds may miss two samples.
pub const LOOK_BACK: i64 = 20;

/// How several series of one port, such as those of its priorities, become one value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Join {
    /// Their sum.
    Sum,
    /// The highest.
    Max,
}

impl Join {
    /// Combines two values.
    pub fn of(self, a: f64, b: f64) -> f64 {
        match self {
            Self::Sum => a + b,
            Self::Max => a.max(b),
        }
    }
}

/// A row of [`ALL`].
pub struct SignalSpec {
    /// The signal that is measured.
    pub signal: Signal,
    /// How it is measured.
    pub expression: Alternatives,
    /// How series of one port are combined.
    pub join: Join,
    /// It changes over minutes, so a live evaluation may ask for it seldom and reuse the answer.
    pub slow: bool,
}

impl SignalSpec {
    /// Whether values are rates since the sample before.
    pub fn is_rate(&self) -> bool {
        self.expression.is_rate()
    }

    /// Combines values of the same port; sorted by port.
    pub(crate) fn by_port(&self, mut values: Vec<(usize, f64)>) -> Vec<(usize, f64)> {
        values.sort_by_key(|value| value.0);
        values.dedup_by(|next, kept| {
            let same = next.0 == kept.0;
            if same {
                kept.1 = self.join.of(kept.1, next.1);
            }
            same
        });
        values
    }

    /// The query in PromQL; `window` is the range of its rates, such as `5s`.
    pub fn promql(&self, window: &str) -> String {
        self.expression.promql(window)
    }
}

const fn fast(signal: Signal, join: Join, terms: &'static [Term]) -> SignalSpec {
    SignalSpec { signal, expression: Alternatives(terms), join, slow: false }
}

const fn slow(signal: Signal, join: Join, terms: &'static [Term]) -> SignalSpec {
    SignalSpec { signal, expression: Alternatives(terms), join, slow: true }
}

const fn all(metric: &'static str) -> Selector {
    Selector { metric, labels: &[] }
}

const fn sent(metric: &'static str) -> Selector {
    Selector { metric, labels: &[("direction", Equal, "transmit")] }
}

const fn received(metric: &'static str) -> Selector {
    Selector { metric, labels: &[("direction", Equal, "receive")] }
}

/// Counters of how often a link went down, of which a driver has one or the other. A carrier change is half of a fall.
const DOWNS: Selector = all("fabric_link_downs_total");
const CARRIER_DOWNS: Selector =
    Selector { metric: "fabric_link_carrier_transitions_total", labels: &[("state", Equal, "down")] };
const CARRIER_CHANGES: Selector = all("fabric_link_carrier_changes_total");
const CHANGES_OF_A_FALL: Divisor = Divisor::Number(2.0);

/// How often a link went down in a time.
const fn link_downs(time: &'static str) -> [Term; 3] {
    [
        Term::growth(DOWNS, time),
        Term::growth(CARRIER_DOWNS, time),
        Term::growth(CARRIER_CHANGES, time).over(CHANGES_OF_A_FALL),
    ]
}

/// Frames or symbols that a link corrupted in a time.
const fn wire_errors(time: &'static str) -> [Term; 2] {
    [
        Term::growth(received("fabric_link_crc_errors_total"), time),
        Term::growth(all("fabric_link_symbol_errors_total"), time),
    ]
}

const STORM_ERRORS: Selector = Selector {
    metric: "fabric_pause_storm_events_total",
    labels: &[("direction", Equal, "transmit"), ("reason", Regex, "error|continuous.*")],
};
const STORM_WARNINGS: Selector = Selector {
    metric: "fabric_pause_storm_events_total",
    labels: &[("direction", Equal, "transmit"), ("reason", Equal, "warning")],
};
const WATCHDOG_STORMS: Selector =
    Selector { metric: "fabric_pfc_watchdog_events_total", labels: &[("event", Equal, "storm")] };
const LINE_RATE: Selector = all("fabric_port_rate_bytes_per_second");
const FEC_BLOCKS: Selector = all("fabric_fec_corrected_blocks_total");
const FEC_BITS: Selector = all("fabric_fec_corrected_bits_total");
const RX_POWER: Selector = all("fabric_module_receive_power_watts");

use Join::{Max, Sum};
use Spread::{LowestLane, PortsOfDevice};

/// Every signal, in the order of [`Signal`].
pub const ALL: [SignalSpec; Signal::COUNT] = [
    fast(Signal::Tx, Sum, &[Term::rate(sent("fabric_port_io_bytes_total"))]),
    fast(Signal::Rx, Sum, &[Term::rate(received("fabric_port_io_bytes_total"))]),
    fast(Signal::RxPackets, Sum, &[Term::rate(received("fabric_port_packets_total"))]),
    fast(
        Signal::PauseTx,
        Max,
        &[Term::rate(sent("fabric_pfc_pause_seconds_total")), Term::rate(sent("fabric_pause_duration_seconds_total"))],
    ),
    fast(
        Signal::PauseRx,
        Max,
        &[
            Term::rate(received("fabric_pfc_pause_seconds_total")),
            Term::rate(received("fabric_pause_duration_seconds_total")),
        ],
    ),
    fast(Signal::PauseFrames, Sum, &[Term::rate(sent("fabric_pfc_frames_total"))]),
    // A port marks at least what one of its queues marks; one queue, that of the lossless class, marks nearly everything.
    fast(
        Signal::Marks,
        Max,
        &[Term::rate(all("fabric_ecn_marks_total")), Term::rate(all("fabric_port_queue_ecn_marks_total"))],
    ),
    fast(Signal::EcnRx, Sum, &[Term::rate(all("fabric_ecn_packets_total"))]),
    fast(Signal::CnpTx, Sum, &[Term::rate(sent("fabric_cnp_packets_total"))]),
    fast(Signal::CnpRx, Sum, &[Term::rate(received("fabric_cnp_packets_total"))]),
    fast(Signal::Retransmits, Sum, &[Term::rate(all("fabric_rdma_retransmits_total"))]),
    fast(Signal::OutOfSequence, Sum, &[Term::rate(all("fabric_rdma_out_of_sequence_total"))]),
    fast(Signal::SequenceNaks, Sum, &[Term::rate(received("fabric_rdma_sequence_naks_total"))]),
    fast(Signal::Timeouts, Sum, &[Term::rate(all("fabric_rdma_ack_timeouts_total"))]),
    // One bad frame moves several of these counters.
    fast(
        Signal::WireErrors,
        Max,
        &[
            Term::rate(received("fabric_link_crc_errors_total")),
            Term::rate(all("fabric_link_symbol_errors_total")),
            Term::rate(all("fabric_link_receive_errors_total")),
        ],
    ),
    fast(Signal::Discards, Sum, &[Term::rate(all("fabric_port_discards_total"))]),
    fast(Signal::Queue, Sum, &[Term::gauge(all("fabric_port_queue_bytes"))]),
    fast(Signal::QueueMax, Max, &[Term::gauge(all("fabric_port_queue_max_bytes"))]),
    fast(Signal::Rate, Max, &[Term::gauge(LINE_RATE)]),
    fast(Signal::Up, Max, &[Term::gauge(all("fabric_port_up")), Term::gauge(all("fabric_netdev_carrier"))]),
    fast(
        Signal::XmitWait,
        Max,
        &[Term::rate(all("fabric_port_xmit_wait_bytes_total")).over(Divisor::Series(LINE_RATE))],
    ),
    fast(Signal::StormErrors, Sum, &[Term::rate(STORM_ERRORS)]),
    fast(Signal::StormWarnings, Sum, &[Term::rate(STORM_WARNINGS)]),
    slow(Signal::LinkDowns, Max, &link_downs("10m")),
    slow(Signal::LinkDownsDay, Max, &link_downs("1d")),
    slow(Signal::WireErrorsShort, Max, &wire_errors("12m")),
    slow(Signal::WireErrorsLong, Max, &wire_errors("125m")),
    fast(Signal::FecLost, Sum, &[Term::rate(all("fabric_fec_uncorrectable_blocks_total"))]),
    slow(
        Signal::FecMended,
        Max,
        &[Term::mean_rate(FEC_BLOCKS, "5m"), Term::mean_rate(FEC_BITS, "5m").unless(FEC_BLOCKS)],
    ),
    slow(
        Signal::FecMendedBefore,
        Max,
        &[Term::mean_rate(FEC_BLOCKS, "5m").ago("1d"), Term::mean_rate(FEC_BITS, "5m").ago("1d").unless(FEC_BLOCKS)],
    ),
    slow(Signal::PcieRate, Max, &[Term::gauge(all("fabric_pcie_rate_bytes_per_second")).spread(PortsOfDevice)]),
    slow(Signal::PcieRateMax, Max, &[Term::gauge(all("fabric_pcie_rate_max_bytes_per_second")).spread(PortsOfDevice)]),
    fast(Signal::PcieStall, Max, &[Term::rate(all("fabric_pcie_stall_seconds_total"))]),
    slow(Signal::GpuDirect, Max, &[Term::gauge(all("fabric_gpudirect_available")).spread(PortsOfDevice)]),
    slow(Signal::RxPower, Max, &[Term::gauge(RX_POWER).spread(LowestLane)]),
    slow(Signal::RxPowerBefore, Max, &[Term::gauge(RX_POWER).ago("1d").spread(LowestLane)]),
    slow(Signal::ModuleTemperature, Max, &[Term::gauge(all("fabric_module_temperature_celsius"))]),
    fast(Signal::RdmaTx, Sum, &[Term::rate(sent("fabric_rdma_io_bytes_total"))]),
    fast(Signal::NetdevTx, Sum, &[Term::rate(sent("fabric_netdev_io_bytes_total"))]),
    fast(Signal::RetriesExceeded, Sum, &[Term::rate(all("fabric_rdma_retries_exceeded_total"))]),
    fast(Signal::Width, Max, &[Term::gauge(all("fabric_port_width"))]),
    // A storm may be reported as it begins and counted later.
    fast(
        Signal::WatchdogStorms,
        Max,
        &[Term::rate(all("fabric_pfc_watchdog_notices_total")), Term::rate(WATCHDOG_STORMS)],
    ),
    fast(Signal::HeadroomDrops, Sum, &[Term::rate(all("fabric_port_priority_group_discards_total"))]),
    fast(
        Signal::Falls,
        Max,
        &[Term::rate(DOWNS), Term::rate(CARRIER_DOWNS), Term::rate(CARRIER_CHANGES).over(CHANGES_OF_A_FALL)],
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_ordered_and_parse() {
        for (at, row) in ALL.iter().enumerate() {
            assert_eq!(row.signal as usize, at, "{:?}", row.signal);
            fabriclens_promql::check(&row.promql("5s")).unwrap();
            assert!(row.expression.0.iter().all(|term| term.selector.matchers().is_ok()));
        }
    }
}
