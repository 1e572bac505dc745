//! Vendor counters: which metric each one feeds, and how its raw value is converted.

use crate::metric::{Metric, MetricKind};
use crate::source::CounterSource;

/// Behavior of a hardware counter at the end of its range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Overflow {
    /// Starts again at zero.
    Wrap,
    /// Stays at all ones until it is reset.
    Saturate,
}

/// Label values that follow from a vendor's name, at most three.
#[derive(Clone, Copy, Debug, Default)]
pub struct FixedLabels {
    items: [(&'static str, &'static str); 3],
    len: u8,
}

impl FixedLabels {
    /// No labels.
    pub const NONE: Self = Self { items: [("", ""); 3], len: 0 };

    /// Adds a label. In a constant, a fourth label is a compile-time error.
    #[must_use]
    pub const fn with(mut self, name: &'static str, value: &'static str) -> Self {
        self.items[self.len as usize] = (name, value);
        self.len += 1;
        self
    }

    /// Name and value of each label, in the order written.
    pub fn as_slice(&self) -> &[(&'static str, &'static str)] {
        &self.items[..usize::from(self.len)]
    }
}

/// One vendor counter: the metric it feeds, and the conversion to that metric's unit.
#[derive(Debug, Clone, Copy)]
pub struct VendorCounter {
    /// Interface that it is read from.
    pub source: CounterSource,
    /// The vendor's name. `{prio}`, `{queue}`, `{lane}`, `{vl}`, `{tc}` … stand for decimal numbers. A placeholder
    /// becomes a label if the metric has one of that name (`prio` is `priority`); otherwise the counters of all its
    /// numbers are summed.
    pub name: &'static str,
    /// The canonical metric.
    pub metric: &'static Metric,
    /// Label values that follow from the name (`direction`, `reason` …).
    pub labels: FixedLabels,
    /// The label that takes the vendor's own name in `snake_case`, for metrics with a long tail of names.
    pub named: Option<&'static str>,
    /// Exported value = raw value × scale.
    pub scale: f64,
    /// Width of the raw counter in bits, for wrap and saturation.
    pub width: u8,
    /// Behavior at the end of `width`.
    pub overflow: Overflow,
    /// True for one term of a sum: readings from one source with the same metric and labels are added up. If false,
    /// such readings are spellings of one counter, and the first one counts.
    pub adds: bool,
    /// 0; higher for a counter that is used only if no counter with a lower number is present.
    pub precedence: u8,
}

impl VendorCounter {
    /// False if the raw value is not a measurement: firmware that cannot answer fills 64-bit counters with ones.
    pub fn is_reading(&self, raw: u64) -> bool {
        raw != u64::MAX || self.width < 64 || self.metric.kind != MetricKind::Counter
    }

    /// Whether a saturating counter has reached its end, so that its value is only a lower bound.
    pub fn is_saturated(&self, raw: u64) -> bool {
        self.overflow == Overflow::Saturate && self.width < 64 && raw >= (1 << self.width) - 1
    }

    /// Increase of a counter from `before` to `now` in raw units, across a wrap if need be. `None` if the value fell
    /// for another reason (a reset, a driver reload).
    ///
    /// A decrease counts as a wrap only if the counter wraps below 64 bits and the step is under a quarter of its range:
    /// at one sample a second no queue counter moves further, while a reset nearly always appears to.
    ///
    /// ```
    /// use fabriclens_catalog::{CounterSource, DriverFamily, LinkLayer, bind};
    ///
    /// let mlx5 = DriverFamily::for_driver("mlx5_ib");
    /// let bound = bind(mlx5, LinkLayer::Ethernet, CounterSource::HwCounters, "out_of_sequence").expect("a known counter");
    /// assert_eq!(bound.counter.step(10, 15), Some(5));
    /// assert_eq!(bound.counter.step(u32::MAX.into(), 1), Some(2));
    /// assert_eq!(bound.counter.step(1_000, 0), None);
    /// ```
    pub fn step(&self, before: u64, now: u64) -> Option<u64> {
        if now >= before {
            return Some(now - before);
        }
        if self.overflow != Overflow::Wrap || self.width >= 64 || before >> self.width != 0 {
            return None;
        }
        let range = 1u64 << self.width;
        Some(range - before + now).filter(|step| *step < range / 4)
    }
}
