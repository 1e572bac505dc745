//! Builders for the counter tables: a constructor per source takes the vendor's name and the metric; methods add labels,
//! scale, width and overflow behavior.

use crate::metric::Metric;
use crate::source::CounterSource;
use crate::vendor_counter::{FixedLabels, Overflow, VendorCounter};

pub(super) const fn counter(source: CounterSource, name: &'static str, metric: &'static Metric) -> VendorCounter {
    let (labels, overflow) = (FixedLabels::NONE, Overflow::Wrap);
    VendorCounter {
        source,
        name,
        metric,
        labels,
        named: None,
        scale: 1.0,
        width: 64,
        overflow,
        adds: false,
        precedence: 0,
    }
}

macro_rules! sources {
    ($($short:ident = $source:ident),*) => {
        $(pub(super) const fn $short(name: &'static str, metric: &'static Metric) -> VendorCounter {
            counter(CounterSource::$source, name, metric)
        })*
    };
}

sources!(
    sys = SysfsCounters,
    hw = HwCounters,
    dev = DeviceHwCounters,
    eth = Ethtool,
    std = EthtoolStd,
    dcb = Dcb,
    net = NetStatistics,
    proc = ProcNet,
    pci = Pci,
    module = Module,
    mad = PmaMad,
    other = Other
);

impl VendorCounter {
    pub(super) const fn label(mut self, name: &'static str, value: &'static str) -> Self {
        self.labels = self.labels.with(name, value);
        self
    }

    pub(super) const fn rx(self) -> Self {
        self.label("direction", "receive")
    }

    pub(super) const fn tx(self) -> Self {
        self.label("direction", "transmit")
    }

    pub(super) const fn reason(self, value: &'static str) -> Self {
        self.label("reason", value)
    }

    pub(super) const fn class(self, value: &'static str) -> Self {
        self.label("class", value)
    }

    pub(super) const fn cast(self, value: &'static str) -> Self {
        self.label("cast", value)
    }

    /// Upper bound of a size bucket, in bytes.
    pub(super) const fn size(self, value: &'static str) -> Self {
        self.label("size", value)
    }

    pub(super) const fn op(self, value: &'static str) -> Self {
        self.label("operation", value)
    }

    /// Sets the label `reason` to the vendor's name in snake case.
    pub(super) const fn named(mut self) -> Self {
        self.named = Some("reason");
        self
    }

    /// Sets the label `parameter` to the vendor's name in snake case.
    pub(super) const fn parameter(mut self) -> Self {
        self.named = Some("parameter");
        self
    }

    pub(super) const fn times(mut self, scale: f64) -> Self {
        self.scale = scale;
        self
    }

    /// The counter is in microseconds.
    pub(super) const fn us(self) -> Self {
        self.times(1e-6)
    }

    /// A hardware counter of `width` bits that wraps to zero.
    pub(super) const fn bits(mut self, width: u8) -> Self {
        self.width = width;
        self
    }

    /// A hardware counter of `width` bits that saturates at all ones.
    pub(super) const fn saturates(mut self, width: u8) -> Self {
        self.width = width;
        self.overflow = Overflow::Saturate;
        self
    }

    /// One term of a sum.
    pub(super) const fn adds(mut self) -> Self {
        self.adds = true;
        self
    }

    /// Used only if the first choice is absent.
    pub(super) const fn second(mut self) -> Self {
        self.precedence = 1;
        self
    }
}

/// Counters of one metric whose label `reason` is the vendor's own name.
macro_rules! tail {
    ($source:ident, $metric:path, [$($name:literal),* $(,)?]) => {
        &[$($crate::counters::build::$source($name, &$metric).named()),*]
    };
}
pub(super) use tail;
