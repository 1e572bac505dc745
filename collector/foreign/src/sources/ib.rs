//! Counters of InfiniBand's performance management, which every exporter of InfiniBand repeats under names of its own.

use crate::conversion::Conversion;
use crate::row::{AS_IS, Label, RX, TX, fixed};
use fabriclens_catalog::Metric;
use fabriclens_catalog::metrics::{congestion, discard, link, traffic};

/// What a counter is, whoever sends it.
pub(super) struct Counter {
    pub(super) metric: &'static Metric,
    pub(super) labels: &'static [Label],
    pub(super) conversion: Conversion,
}

const fn of(metric: &'static Metric, labels: &'static [Label], conversion: Conversion) -> Counter {
    Counter { metric, labels, conversion }
}

/// A counter that sticks at its highest value, by its width in bits.
const fn bits(width: u32) -> Conversion {
    Conversion::Saturates(((1u64 << width) - 1) as f64)
}

const fn error(labels: &'static [Label], width: u32) -> Counter {
    of(&link::LINK_ERRORS, labels, bits(width))
}

const fn detail(labels: &'static [Label]) -> Counter {
    of(&discard::PORT_DISCARD_DETAILS, labels, bits(16))
}

pub(super) const XMIT_BYTES: Counter = of(&traffic::PORT_IO, &[TX], AS_IS);
pub(super) const RCV_BYTES: Counter = of(&traffic::PORT_IO, &[RX], AS_IS);
/// Words of four bytes.
pub(super) const XMIT_WORDS: Counter = of(&traffic::PORT_IO, &[TX], Conversion::Scale(4.0));
pub(super) const RCV_WORDS: Counter = of(&traffic::PORT_IO, &[RX], Conversion::Scale(4.0));
pub(super) const XMIT_PACKETS: Counter = of(&traffic::PORT_PACKETS, &[TX], bits(32));
pub(super) const RCV_PACKETS: Counter = of(&traffic::PORT_PACKETS, &[RX], bits(32));
pub(super) const XMIT_UNICAST: Counter = of(&traffic::PORT_PACKETS_CAST, &[fixed("cast", "unicast"), TX], AS_IS);
pub(super) const RCV_UNICAST: Counter = of(&traffic::PORT_PACKETS_CAST, &[fixed("cast", "unicast"), RX], AS_IS);
pub(super) const XMIT_MULTICAST: Counter = of(&traffic::PORT_PACKETS_CAST, &[fixed("cast", "multicast"), TX], AS_IS);
pub(super) const RCV_MULTICAST: Counter = of(&traffic::PORT_PACKETS_CAST, &[fixed("cast", "multicast"), RX], AS_IS);
pub(super) const SYMBOL_ERRORS: Counter = of(&link::SYMBOL_ERRORS, &[], bits(16));
pub(super) const RECOVERIES: Counter = of(&link::LINK_RECOVERIES, &[], bits(8));
pub(super) const DOWNS: Counter = of(&link::LINK_DOWNS, &[], bits(8));
pub(super) const RCV_ERRORS: Counter = of(&link::RCV_ERRORS, &[], bits(16));
pub(super) const REMOTE_PHYSICAL: Counter = error(&[RX, fixed("reason", "remote_physical")], 16);
pub(super) const SWITCH_RELAY: Counter = error(&[RX, fixed("reason", "switch_relay")], 16);
pub(super) const XMIT_CONSTRAINT: Counter = error(&[TX, fixed("reason", "constraint")], 8);
pub(super) const RCV_CONSTRAINT: Counter = error(&[RX, fixed("reason", "constraint")], 8);
pub(super) const INTEGRITY: Counter = error(&[RX, fixed("reason", "local_link_integrity")], 4);
pub(super) const EXCESSIVE_OVERRUN: Counter = error(&[RX, fixed("reason", "excessive_buffer_overrun")], 4);
pub(super) const LOCAL_PHYSICAL: Counter = error(&[RX, fixed("reason", "local_physical")], 16);
pub(super) const MALFORMED: Counter = error(&[RX, fixed("reason", "malformed")], 16);
pub(super) const OVERRUN: Counter = error(&[RX, fixed("reason", "buffer_overrun")], 16);
pub(super) const DLID_MAPPING: Counter = error(&[RX, fixed("reason", "dlid_mapping")], 16);
pub(super) const VL_MAPPING: Counter = error(&[RX, fixed("reason", "vl_mapping")], 16);
pub(super) const LOOPING: Counter = error(&[RX, fixed("reason", "looping")], 16);
pub(super) const XMIT_DISCARDS: Counter = of(&discard::PORT_DISCARDS, &[TX, fixed("reason", "discarded")], bits(16));
pub(super) const INACTIVE: Counter = detail(&[TX, fixed("reason", "inactive")]);
pub(super) const NEIGHBOR_MTU: Counter = detail(&[TX, fixed("reason", "neighbor_mtu")]);
pub(super) const LIFETIME: Counter = detail(&[TX, fixed("reason", "lifetime")]);
pub(super) const HOQ: Counter = detail(&[TX, fixed("reason", "hoq")]);
pub(super) const VL15_DROPPED: Counter = detail(&[RX, fixed("reason", "vl15")]);
pub(super) const QP1_DROPPED: Counter = detail(&[RX, fixed("reason", "qp1")]);
pub(super) const XMIT_WAIT: Counter = of(&congestion::XMIT_WAIT_TICKS, &[], bits(32));
