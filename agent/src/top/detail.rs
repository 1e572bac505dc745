//! A row in full: all series of a port, a job or a source.

use super::reading::{Reading, Series};
use fabriclens_top::unit::per_second;
use std::fmt::Write as _;

/// Text of a row.
pub fn text(table: usize, id: &str, reading: &Reading, rates: &[Option<f64>]) -> String {
    let is_of: &dyn Fn(&Series) -> bool = match table {
        0 => &|series| series.port().as_deref() == Some(id),
        1 => &|series| series.label("job") == id,
        _ => return source(id, reading),
    };
    let mut text = format!("{id}\n");
    for (series, rate) in reading.series.iter().zip(rates).filter(|(series, _)| is_of(series)) {
        let rate = rate.map_or_else(String::new, per_second);
        _ = writeln!(text, "{:>20}  {rate:>9}  {}", series.text(), name(series));
    }
    text
}

/// Name and labels of a series. Labels that say which row it is of are left out.
fn name(series: &Series) -> String {
    let shared = ["host", "device", "port", "job"];
    let labels = series.labels.iter().filter(|(name, _)| !shared.contains(&name.as_str()));
    let labels: Vec<String> = labels.map(|(name, value)| format!("{name}={value:?}")).collect();
    if labels.is_empty() { series.name.clone() } else { format!("{}{{{}}}", series.name, labels.join(",")) }
}

fn source(id: &str, reading: &Reading) -> String {
    let found = reading.sources.iter().find(|source| format!("{} {}", source.sampler, source.target) == id);
    let Some(source) = found else { return format!("{id} is no longer there") };
    let detail = source.detail.as_deref().unwrap_or("nothing more is known");
    format!("{} of {}: {}\n{detail}\n", source.sampler, source.target, source.outcome)
}
