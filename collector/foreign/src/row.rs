//! A row of the table: one foreign name, and what it is.

use crate::conversion::Conversion;
use fabriclens_catalog::Metric;

/// One foreign name, or a family of names that differ in a number.
#[derive(Debug)]
pub struct Row {
    /// The name as its source defines it. `{}` stands for a number, which labels may take ([`LabelValue::Number`]);
    /// `*` at the end for any rest.
    pub name: &'static str,
    /// Numbers under which the source sends the name instead of the name itself.
    pub ids: Option<Ids>,
    /// Attributes that must have these values; the first row that fits a series decides.
    pub when: &'static [Condition],
    /// What it is.
    pub target: Target,
}

/// Numbers of a name, as SAI numbers statistics: the number `{}` is `n` for the id `first + n * step`.
#[derive(Clone, Copy, Debug)]
pub struct Ids {
    /// Type of the object that is counted.
    pub object: u32,
    /// First id.
    pub first: u32,
    /// Distance of two ids of the family; 0 for a single name.
    pub step: u32,
    /// Number of ids.
    pub count: u32,
}

impl Ids {
    /// Which name of the family this is.
    pub fn index(self, object: u32, id: u32) -> Option<u32> {
        let from = id.checked_sub(self.first).filter(|_| object == self.object)?;
        let index = from.checked_div(self.step).unwrap_or(from);
        (index < self.count && (self.step == 0 || index * self.step == from)).then_some(index)
    }
}

/// An attribute and a value that it must have; `""` if it must be absent.
pub type Condition = (&'static str, &'static str);

/// What a foreign name is.
#[derive(Debug)]
pub enum Target {
    /// A canonical metric.
    Series {
        /// The metric, whose kind and unit hold whatever the source declares.
        metric: &'static Metric,
        /// Where the port's name is found.
        port: PortFrom,
        /// Labels of the metric.
        labels: &'static [Label],
        /// How values are converted.
        conversion: Conversion,
    },
    /// Deliberately not stored, for this reason.
    LeftOut(&'static str),
}

/// Where a series names its port.
#[derive(Clone, Copy, Debug)]
pub enum PortFrom {
    /// The series describes the whole switch.
    Switch,
    /// The first of these attributes that is present.
    Attribute(&'static [&'static str]),
    /// The attribute after this prefix: a front panel number.
    Prefixed(&'static str, &'static str),
    /// The attribute up to its first `|` or `:`, as SONiC names queues of a port (`Ethernet16|3`).
    Head(&'static str),
}

/// A label of the canonical metric.
#[derive(Clone, Copy, Debug)]
pub struct Label {
    /// Its name in the catalog.
    pub name: &'static str,
    /// Where its value is found.
    pub value: LabelValue,
}

/// Where the value of a label is found. A series that lacks it is not understood.
#[derive(Clone, Copy, Debug)]
pub enum LabelValue {
    /// Always this text.
    Fixed(&'static str),
    /// The first of these attributes that is present.
    Attribute(&'static [&'static str]),
    /// The number in the name.
    Number,
    /// The attribute after its last `|` or `:`.
    Tail(&'static str),
    /// The attribute translated by this list.
    Choice(&'static str, &'static [(&'static str, &'static str)]),
}

/// A row of a canonical metric.
pub const fn is(
    name: &'static str,
    port: PortFrom,
    metric: &'static Metric,
    labels: &'static [Label],
    conversion: Conversion,
) -> Row {
    Row { name, ids: None, when: &[], target: Target::Series { metric, port, labels, conversion } }
}

/// A row that is left out.
pub const fn left_out(name: &'static str, why: &'static str) -> Row {
    Row { name, ids: None, when: &[], target: Target::LeftOut(why) }
}

impl Row {
    /// The same row with an id.
    pub const fn id(self, object: u32, id: u32) -> Self {
        self.ids(Ids { object, first: id, step: 0, count: 1 })
    }

    /// The same row with the ids of its family.
    pub const fn ids(self, ids: Ids) -> Self {
        Self { ids: Some(ids), ..self }
    }

    /// The same row for series with these attributes only.
    pub const fn when(self, when: &'static [Condition]) -> Self {
        Self { when, ..self }
    }
}

/// A label with a fixed value.
pub const fn fixed(name: &'static str, value: &'static str) -> Label {
    Label { name, value: LabelValue::Fixed(value) }
}

/// A label from the first of these attributes.
pub const fn from(name: &'static str, attributes: &'static [&'static str]) -> Label {
    Label { name, value: LabelValue::Attribute(attributes) }
}

/// A label from the number in the name.
pub const fn number(name: &'static str) -> Label {
    Label { name, value: LabelValue::Number }
}

/// The value as it is.
pub const AS_IS: Conversion = Conversion::Scale(1.0);
/// The port received.
pub const RX: Label = fixed("direction", "receive");
/// The port transmitted.
pub const TX: Label = fixed("direction", "transmit");
