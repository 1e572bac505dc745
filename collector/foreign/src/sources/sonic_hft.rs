//! SONiC high-frequency telemetry: `countersyncd` sends SAI statistics by number over OTLP.
//!
//! It names no switch. The sender must be bound to one by certificate, token or address.

use super::sai;
use crate::source::{Describes, PROTOCOL_SUFFIXES, Source};

/// `sai_counter_type_{object}_stat_{id}`, with the attribute `object_name`.
pub static SOURCE: Source = Source {
    name: "sonic_hft",
    title: "SONiC high-frequency telemetry (countersyncd, OTLP)",
    prefixes: &["sai_counter_type_"],
    having: &[],
    describes: Describes::Switches,
    switch: &[],
    suffixes: PROTOCOL_SUFFIXES,
    rename,
    rows: &[sai::PORT, sai::QUEUE, sai::PRIORITY_GROUP, sai::BUFFER_POOL, sai::SWITCH],
};

/// The SAI name of a numbered statistic.
fn rename(name: &str) -> Option<String> {
    let numbers = name.strip_prefix("sai_counter_type_")?;
    let numbers = PROTOCOL_SUFFIXES.iter().find_map(|suffix| numbers.strip_suffix(suffix)).unwrap_or(numbers);
    let (object, id) = numbers.split_once("_stat_")?;
    let (object, id) = (object.parse().ok()?, id.parse().ok()?);
    let found = SOURCE.rows().find_map(|row| Some((row, row.ids?.index(object, id)?)));
    found.map(|(row, index)| row.name.replace("{}", &index.to_string()))
}
