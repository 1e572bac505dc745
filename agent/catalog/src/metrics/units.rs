//! Units under the names that the tables of metrics use.

pub(super) use crate::unit::MetricUnit::{self, *};

pub(super) const PACKETS: MetricUnit = Count("{packet}");
pub(super) const EVENTS: MetricUnit = Count("{event}");
pub(super) const ERRORS: MetricUnit = Count("{error}");
pub(super) const BLOCKS: MetricUnit = Count("{block}");
pub(super) const SYMBOLS: MetricUnit = Count("{symbol}");
pub(super) const BITS: MetricUnit = Count("{bit}");
pub(super) const TICKS: MetricUnit = Count("{tick}");
