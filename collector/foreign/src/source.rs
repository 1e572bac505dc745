//! A source: how its series are recognized, and which switch they describe.

use crate::attributes::Attributes;
use crate::row::Row;

/// A family of senders with one vocabulary.
#[derive(Debug)]
pub struct Source {
    /// Name in lists and metrics.
    pub name: &'static str,
    /// What it is, for the documentation.
    pub title: &'static str,
    /// Its series are those whose name begins with one of these …
    pub prefixes: &'static [&'static str],
    /// … and that have all of these attributes.
    pub having: &'static [&'static str],
    /// What its series describe.
    pub describes: Describes,
    /// Where the switch is found, the first that is present. If none is, the sender must be bound to one switch.
    pub switch: &'static [SwitchFrom],
    /// Words that protocols append to a name (`_total` of a sum, `_ratio` of a gauge with unit 1); they are ignored where
    /// the whole name is not known.
    pub suffixes: &'static [&'static str],
    /// The last resort before a name counts as unknown: the name under which its row is found, from the name as sent.
    pub rename: fn(&str) -> Option<String>,
    /// Its names.
    pub rows: &'static [&'static [Row]],
}

/// What the series of a source describe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Describes {
    /// Switches: their series are stored under canonical names only, and senders are listed as switches.
    Switches,
    /// Hosts: their series stay under their own names, for those who use these, and some are stored under canonical names
    /// too.
    Hosts,
}

/// Where a series names its switch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SwitchFrom {
    /// An attribute with its name.
    Attribute(&'static str),
    /// An attribute with an InfiniBand node description, such as `MF0;leaf1:MQM9700/U1`.
    Description(&'static str),
    /// An attribute with a GUID, whose name other series of the source tell: those that have these two attributes.
    Guid(&'static str, &'static str),
    /// The address of the scrape target, without its port.
    Instance,
}

/// Words that OTLP and Prometheus append to names.
pub const PROTOCOL_SUFFIXES: &[&str] = &[
    "_total",
    "_ratio",
    "_bucket",
    "_count",
    "_sum",
    "_bytes",
    "_packets",
    "_nanoseconds",
    "_seconds",
    "_milliseconds",
];

/// No other name.
pub fn keep(_: &str) -> Option<String> {
    None
}

impl Source {
    /// Whether a series is one of this source.
    pub fn has(&self, name: &str, attributes: &(impl Attributes + ?Sized)) -> bool {
        self.prefixes.iter().any(|prefix| name.starts_with(prefix))
            && self.having.iter().all(|needed| attributes.get(needed).is_some())
    }

    /// All rows.
    pub fn rows(&self) -> impl Iterator<Item = &'static Row> {
        self.rows.iter().copied().flatten()
    }
}
