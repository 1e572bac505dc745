//! Looks a foreign series up in the table.

use crate::attributes::Attributes;
use crate::conversion::Conversion;
use crate::pattern::fit;
use crate::row::{LabelValue, PortFrom, Row, Target};
use crate::source::Source;
use fabriclens_catalog::Metric;
use std::borrow::Cow;

/// What a foreign series is.
#[derive(Clone, Debug, PartialEq)]
pub enum Meaning {
    /// A canonical series.
    Series(Series),
    /// Deliberately not stored, for this reason.
    LeftOut(&'static str),
    /// No row fits: the name is unknown, or an attribute that its row needs is missing.
    Unknown,
}

/// A canonical series without the switch, and how its values are converted.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// Its metric.
    pub metric: &'static Metric,
    /// Its port; `None` if it describes the whole switch.
    pub port: Option<String>,
    /// Labels of the metric, in the order of its row.
    pub labels: Vec<(&'static str, String)>,
    /// How its values are converted.
    pub conversion: Conversion,
}

/// What a series of this source is.
pub fn meaning(source: &Source, name: &str, attributes: &(impl Attributes + ?Sized)) -> Meaning {
    let renamed = (source.rename)(name);
    let mut candidates: Vec<Cow<'_, str>> = vec![renamed.map_or(Cow::Borrowed(name), Cow::Owned)];
    // `a_bytes_total` may be `a_bytes` or `a`.
    for _ in 0..2 {
        let Some(last) = candidates.last().cloned() else { break };
        let Some(shorter) = source.suffixes.iter().find_map(|suffix| last.strip_suffix(suffix)) else { break };
        candidates.push(Cow::Owned(shorter.to_owned()));
    }
    for candidate in candidates {
        let named = source.rows().filter_map(|row| fit(row.name, &candidate).map(|number| (row, number)));
        let when = |row: &Row| row.when.iter().all(|(name, value)| attributes.get(name).unwrap_or_default() == *value);
        let mut known = named.peekable();
        if known.peek().is_none() {
            continue;
        }
        return known
            .find(|(row, _)| when(row))
            .map_or(Meaning::Unknown, |(row, number)| read(row, number, attributes));
    }
    Meaning::Unknown
}

fn read(row: &Row, number: &str, attributes: &(impl Attributes + ?Sized)) -> Meaning {
    let (metric, port, labels, conversion) = match row.target {
        Target::LeftOut(why) => return Meaning::LeftOut(why),
        Target::Series { metric, port, labels, conversion } => (metric, port, labels, conversion),
    };
    let first = |names: &[&str]| names.iter().find_map(|name| attributes.get(name)).map(str::to_owned);
    let port = match port {
        PortFrom::Switch => None,
        PortFrom::Attribute(names) => Some(first(names)),
        PortFrom::Prefixed(prefix, name) => Some(attributes.get(name).map(|number| format!("{prefix}{number}"))),
        PortFrom::Head(name) => Some(attributes.get(name).map(|text| parts(text).0.to_owned())),
    };
    if port == Some(None) {
        return Meaning::Unknown;
    }
    let value = |value: LabelValue| match value {
        LabelValue::Fixed(text) => Some(text.to_owned()),
        LabelValue::Attribute(names) => first(names),
        LabelValue::Number => Some(number.to_owned()),
        LabelValue::Tail(name) => attributes.get(name).and_then(|text| parts(text).1).map(str::to_owned),
        LabelValue::Choice(name, list) => {
            let told = attributes.get(name)?;
            list.iter().find(|(foreign, _)| *foreign == told).map(|(_, own)| (*own).to_owned())
        }
    };
    let labels: Option<Vec<_>> = labels.iter().map(|label| Some((label.name, value(label.value)?))).collect();
    labels
        .map_or(Meaning::Unknown, |labels| Meaning::Series(Series { metric, port: port.flatten(), labels, conversion }))
}

/// Port and index of an object name such as `Ethernet16|3` or `Ethernet16:3`.
fn parts(text: &str) -> (&str, Option<&str>) {
    let separator = |c: char| c == '|' || c == ':';
    let index = text.rsplit_once(separator).map(|(_, index)| index).filter(|index| !index.is_empty());
    (text.split(separator).next().unwrap_or(text), index)
}
