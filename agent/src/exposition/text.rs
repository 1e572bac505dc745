//! Prometheus text 0.0.4 and OpenMetrics 1.0.

use super::{Family, Sample, families};
use fabriclens_catalog::MetricKind;
use fabriclens_wire::{Histogram, Section, Value};
use std::fmt::Write as _;

/// Text format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Prometheus text 0.0.4.
    Prometheus,
    /// OpenMetrics 1.0.
    OpenMetrics,
}

impl Format {
    /// Media type.
    pub fn content_type(self) -> &'static str {
        match self {
            Self::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }

    /// Negotiates the format from an `Accept` header: OpenMetrics if its weight is at least that of plain text.
    pub fn negotiate(accept: &str) -> Self {
        let quality = |media: &str| {
            let parts = accept.split(',').filter_map(|item| {
                let mut parts = item.split(';').map(str::trim);
                let name = parts.next()?;
                let q = parts.find_map(|p| p.strip_prefix("q=")).map_or(1.0, |q| q.parse::<f64>().unwrap_or(0.0));
                (name == media).then_some(q)
            });
            parts.fold(0.0, f64::max)
        };
        let open = quality("application/openmetrics-text");
        if open > 0.0 && open >= quality("text/plain") { Self::OpenMetrics } else { Self::Prometheus }
    }
}

/// Renders all sections.
pub fn render(sections: &[Section], format: Format) -> String {
    let mut out = String::with_capacity(sections.len() * 2048);
    for family in families(sections) {
        header(&family, format, &mut out);
        for sample in &family.samples {
            match sample.value {
                Value::Histogram(h) => distribution(&family.name, sample, h, &mut out),
                value => line((&family.name, ""), sample, None, value, &mut out),
            }
        }
    }
    if format == Format::OpenMetrics {
        out.push_str("# EOF\n");
    }
    out
}

fn header(family: &Family<'_>, format: Format, out: &mut String) {
    let metric = family.metric;
    let open = format == Format::OpenMetrics;
    // OpenMetrics names a family without the suffix of its samples.
    let (name, kind) = match metric.kind {
        MetricKind::Counter if open => (family.name.strip_suffix("_total"), "counter"),
        MetricKind::Counter => (Some(&*family.name), "counter"),
        MetricKind::Info if open => (family.name.strip_suffix("_info"), "info"),
        MetricKind::Gauge | MetricKind::Info => (Some(&*family.name), "gauge"),
        MetricKind::Histogram => (Some(&*family.name), "histogram"),
    };
    let (name, kind) = name.map_or((&*family.name, "unknown"), |n| (n, kind));
    _ = writeln!(out, "# TYPE {name} {kind}");
    if let Some(unit) = metric.unit.suffix().filter(|u| open && name.ends_with(&format!("_{u}"))) {
        _ = writeln!(out, "# UNIT {name} {unit}");
    }
    _ = write!(out, "# HELP {name} ");
    escape(metric.help, open, out);
    out.push('\n');
}

fn distribution(name: &str, sample: &Sample<'_>, h: &Histogram, out: &mut String) {
    let count = Value::Int(h.count());
    let mut bound = String::new();
    for (le, count) in h.cumulative() {
        bound.clear();
        number(&Value::Float(le), &mut bound);
        line((name, "_bucket"), sample, Some(&bound), &Value::Int(count), out);
    }
    line((name, "_bucket"), sample, Some("+Inf"), &count, out);
    line((name, "_sum"), sample, None, &Value::Float(h.sum), out);
    line((name, "_count"), sample, None, &count, out);
}

fn line(name: (&str, &str), sample: &Sample<'_>, le: Option<&str>, value: &Value, out: &mut String) {
    out.push_str(name.0);
    out.push_str(name.1);
    out.push_str("{host=\"");
    escape(&sample.resource.host, true, out);
    out.push('"');
    if let Some(device) = &sample.resource.device {
        label("device", device, out);
    }
    if let Some(port) = sample.resource.port {
        _ = write!(out, ",port=\"{port}\"");
    }
    for (name, value) in sample.labels {
        label(name, value, out);
    }
    if let Some(le) = le {
        label("le", le, out);
    }
    out.push_str("} ");
    number(value, out);
    out.push('\n');
}

fn label(name: &str, value: &str, out: &mut String) {
    out.push(',');
    out.push_str(name);
    out.push_str("=\"");
    escape(value, true, out);
    out.push('"');
}

fn escape(text: &str, quotes: bool, out: &mut String) {
    if !text.bytes().any(|b| matches!(b, b'\\' | b'\n' | b'"')) {
        out.push_str(text);
        return;
    }
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '"' if quotes => out.push_str("\\\""),
            c => out.push(c),
        }
    }
}

fn number(value: &Value, out: &mut String) {
    _ = match value {
        Value::Int(v) => write!(out, "{v}"),
        Value::Float(v) if v.is_infinite() => out.write_str(if *v > 0.0 { "+Inf" } else { "-Inf" }),
        Value::Float(v) => write!(out, "{v}"),
        // `distribution` writes histograms bucket by bucket.
        Value::Absent | Value::Stale | Value::Histogram(_) => out.write_str("NaN"),
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use fabriclens_catalog::{Metric, MetricUnit, Scope};
    use fabriclens_wire::{Column, Resource};
    use std::sync::Arc;

    static IO: Metric = Metric {
        name: "fabric.port.io",
        unit: MetricUnit::Bytes,
        kind: MetricKind::Counter,
        scope: Scope::Port,
        labels: &["direction"],
        help: "Bytes \"on\" the\\wire.",
    };
    static INFO: Metric =
        Metric { name: "fabric.port.info", unit: MetricUnit::None, kind: MetricKind::Info, help: "Facts.", ..IO };
    static TEMPERATURE: Metric = Metric {
        name: "fabric.module.temperature",
        unit: MetricUnit::Celsius,
        kind: MetricKind::Gauge,
        help: "Heat.",
        ..IO
    };

    fn section(port: u32, end_ns: u64, columns: &[(&'static Metric, &str)], values: &[Value]) -> Section {
        let labels = |v: &str| if v.is_empty() { vec![] } else { vec![("direction".into(), v.into())] };
        Section {
            resource: Arc::new(Resource { host: "h".into(), device: Some("mlx5_0".into()), port: Some(port) }),
            columns: columns.iter().map(|(metric, l)| Column { metric, labels: labels(l) }).collect(),
            begin_ns: end_ns,
            end_ns,
            starts: vec![0; values.len()].into(),
            values: values.to_vec(),
            urgent: false,
        }
    }

    fn sections() -> Vec<Section> {
        let io = [(&IO, "receive"), (&IO, "a\\b\"c\nd")];
        vec![
            section(10, 5, &io, &[Value::Int(u64::MAX), Value::Absent]),
            section(2, 9, &io, &[Value::Int(2), Value::Float(f64::INFINITY)]),
            section(2, 8, &io, &[Value::Int(1), Value::Stale]),
            section(2, 9, &[(&INFO, ""), (&TEMPERATURE, "")], &[Value::Int(1), Value::Float(41.5)]),
            section(3, 9, &[(&TEMPERATURE, "")], &[Value::Stale]),
        ]
    }

    #[test]
    fn prometheus_text() {
        let want = "# TYPE fabric_module_temperature_celsius gauge\n\
            # HELP fabric_module_temperature_celsius Heat.\n\
            fabric_module_temperature_celsius{host=\"h\",device=\"mlx5_0\",port=\"2\"} 41.5\n\
            # TYPE fabric_port_info gauge\n\
            # HELP fabric_port_info Facts.\n\
            fabric_port_info{host=\"h\",device=\"mlx5_0\",port=\"2\"} 1\n\
            # TYPE fabric_port_io_bytes_total counter\n\
            # HELP fabric_port_io_bytes_total Bytes \"on\" the\\\\wire.\n\
            fabric_port_io_bytes_total{host=\"h\",device=\"mlx5_0\",port=\"2\",direction=\"a\\\\b\\\"c\\nd\"} +Inf\n\
            fabric_port_io_bytes_total{host=\"h\",device=\"mlx5_0\",port=\"2\",direction=\"receive\"} 2\n\
            fabric_port_io_bytes_total{host=\"h\",device=\"mlx5_0\",port=\"10\",direction=\"receive\"} 18446744073709551615\n";
        assert_eq!(render(&sections(), Format::Prometheus), want);
    }

    #[test]
    fn histogram_has_cumulative_buckets() {
        static RTT: Metric = Metric {
            name: "fabric.tcp.rtt",
            unit: MetricUnit::Seconds,
            kind: MetricKind::Histogram,
            help: "Round trip.",
            ..IO
        };
        let rtt = Histogram { bounds: Arc::from([0.001, 0.5]), counts: vec![2, 0, 1], sum: 9.25 };
        let section = section(1, 7, &[(&RTT, "x")], &[Value::Histogram(Arc::new(rtt))]);
        let labels = "host=\"h\",device=\"mlx5_0\",port=\"1\",direction=\"x\"";
        let want = format!(
            "# TYPE fabric_tcp_rtt_seconds histogram\n\
             # HELP fabric_tcp_rtt_seconds Round trip.\n\
             fabric_tcp_rtt_seconds_bucket{{{labels},le=\"0.001\"}} 2\n\
             fabric_tcp_rtt_seconds_bucket{{{labels},le=\"0.5\"}} 2\n\
             fabric_tcp_rtt_seconds_bucket{{{labels},le=\"+Inf\"}} 3\n\
             fabric_tcp_rtt_seconds_sum{{{labels}}} 9.25\n\
             fabric_tcp_rtt_seconds_count{{{labels}}} 3\n"
        );
        assert_eq!(render(&[section], Format::Prometheus), want);
    }

    #[test]
    fn openmetrics_names_families_without_suffix_and_ends() {
        let text = render(&sections(), Format::OpenMetrics);
        for line in [
            "# TYPE fabric_port_io_bytes counter",
            "# UNIT fabric_port_io_bytes bytes",
            "# HELP fabric_port_io_bytes Bytes \\\"on\\\" the\\\\wire.",
            "# TYPE fabric_port info",
            "# UNIT fabric_module_temperature_celsius celsius",
        ] {
            assert!(text.lines().any(|l| l == line), "{line} is missing in:\n{text}");
        }
        assert!(text.ends_with("} 18446744073709551615\n# EOF\n"), "{text}");
    }

    #[test]
    fn formats_are_negotiated() {
        let prometheus = "application/openmetrics-text;version=1.0.0;q=0.6,text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
        assert_eq!(Format::negotiate(prometheus), Format::OpenMetrics);
        assert_eq!(Format::negotiate("text/plain, application/openmetrics-text;q=0.5"), Format::Prometheus);
        assert_eq!(Format::negotiate("application/openmetrics-text;q=0"), Format::Prometheus);
        assert_eq!(Format::negotiate("text/html,*/*"), Format::Prometheus);
        assert_eq!(Format::negotiate(""), Format::Prometheus);
    }
}
