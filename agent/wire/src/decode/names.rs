//! Translates OpenTelemetry names to Prometheus names by OpenTelemetry's rules.
//!
//! Applied to every metric that arrives, so that a catalog metric sent through a stock OpenTelemetry Collector ends in
//! the same series as one sent by an agent. `agent/wire/tests/integration/catalog.rs` checks the catalog against it.

/// The properties of a metric that its name depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Monotonic cumulative sum: `_total`.
    Counter,
    /// Gauge: `_ratio` for unit `1`.
    Gauge,
    /// Histogram, summary or non-monotonic sum: unit suffix only.
    Other,
}

/// UCUM code → word in a name; other codes are used as they are.
const UNITS: &[(&str, &str)] = &[
    ("d", "days"),
    ("h", "hours"),
    ("min", "minutes"),
    ("s", "seconds"),
    ("ms", "milliseconds"),
    ("us", "microseconds"),
    ("ns", "nanoseconds"),
    ("By", "bytes"),
    ("KiBy", "kibibytes"),
    ("MiBy", "mebibytes"),
    ("GiBy", "gibibytes"),
    ("TiBy", "tibibytes"),
    ("KBy", "kilobytes"),
    ("kBy", "kilobytes"),
    ("MBy", "megabytes"),
    ("GBy", "gigabytes"),
    ("TBy", "terabytes"),
    ("m", "meters"),
    ("V", "volts"),
    ("A", "amperes"),
    ("J", "joules"),
    ("W", "watts"),
    ("g", "grams"),
    ("Cel", "celsius"),
    ("Hz", "hertz"),
    ("1", ""),
    ("%", "percent"),
];

/// The same for units after a `/`.
const PER: &[(&str, &str)] =
    &[("s", "second"), ("m", "minute"), ("h", "hour"), ("d", "day"), ("w", "week"), ("mo", "month"), ("y", "year")];

/// The Prometheus name of a metric; empty if no valid character of `name` is left.
pub fn metric(name: &str, unit: &str, shape: Shape) -> String {
    let mut tokens: Vec<String> = words(name);
    let (main, per) = unit.split_once('/').unwrap_or((unit, ""));
    for suffix in [word(main, UNITS).unwrap_or_default(), per_word(per)] {
        let suffix = words(&suffix).join("_");
        if !suffix.is_empty() && !tokens.contains(&suffix) {
            tokens.push(suffix);
        }
    }
    let last = match shape {
        Shape::Counter => Some("total"),
        Shape::Gauge if unit.trim() == "1" => Some("ratio"),
        _ => None,
    };
    if let Some(last) = last {
        tokens.retain(|t| t != last);
        tokens.push(last.to_owned());
    }
    let mut out = tokens.join("_");
    if out.starts_with(|c: char| c.is_ascii_digit()) {
        out.insert(0, '_');
    }
    out
}

/// A valid label name; a leading digit or single underscore gets a prefix, as in OpenTelemetry.
pub fn label(name: &str) -> String {
    let mut out: String = name.chars().map(|c| if c.is_ascii_alphanumeric() || c == '_' { c } else { '_' }).collect();
    if out.starts_with(|c: char| c.is_ascii_digit()) {
        out.insert_str(0, "key_");
    } else if out.starts_with('_') && !out.starts_with("__") {
        out.insert_str(0, "key");
    }
    out
}

/// The runs of valid characters in a name.
fn words(name: &str) -> Vec<String> {
    name.split(|c: char| !(c.is_ascii_alphanumeric() || c == ':'))
        .filter(|t| !t.is_empty())
        .map(str::to_owned)
        .collect()
}

/// The word for a unit; `None` for annotations such as `{packet}`.
fn word(unit: &str, table: &[(&str, &str)]) -> Option<String> {
    let unit = unit.trim();
    if unit.is_empty() || unit.contains(['{', '}']) {
        return None;
    }
    Some(table.iter().find(|(code, _)| *code == unit).map_or(unit, |(_, word)| word).to_owned())
}

fn per_word(unit: &str) -> String {
    word(unit, PER).map_or_else(String::new, |w| format!("per_{w}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metric_names_follow_opentelemetry() {
        for (name, unit, shape, want) in [
            ("http.server.request.duration", "s", Shape::Other, "http_server_request_duration_seconds"),
            ("system.cpu.utilization", "1", Shape::Gauge, "system_cpu_utilization_ratio"),
            ("system.network.io", "By", Shape::Counter, "system_network_io_bytes_total"),
            ("jobs.done", "{job}", Shape::Counter, "jobs_done_total"),
            ("jobs.total.done", "1", Shape::Counter, "jobs_done_total"),
            ("disk.speed", "By/s", Shape::Gauge, "disk_speed_bytes_per_second"),
            ("requests", "{request}/s", Shape::Gauge, "requests_per_second"),
            ("wait_seconds", "s", Shape::Counter, "wait_seconds_total"),
            ("odd name!!", "foo/bar", Shape::Gauge, "odd_name_foo_per_bar"),
            ("95th.percentile", "ms", Shape::Gauge, "_95th_percentile_milliseconds"),
            ("a:b", "", Shape::Gauge, "a:b"),
            ("ü", "", Shape::Gauge, ""),
        ] {
            assert_eq!(metric(name, unit, shape), want, "{name} [{unit}]");
        }
    }

    #[test]
    fn labels_are_made_valid() {
        for (name, want) in [("a.b-c", "a_b_c"), ("9p", "key_9p"), ("_x", "key_x"), ("__x", "__x"), ("ä", "key_")] {
            assert_eq!(label(name), want, "{name}");
        }
    }
}
