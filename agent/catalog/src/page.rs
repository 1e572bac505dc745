//! The reference page `docs/metrics.md`: every metric with the vendor counters behind it, from the tables.
//! Called by `cargo run -p fabriclens-catalog --example metrics_page` and by the test that keeps the page fresh.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::bind::ON_ETHERNET;
use crate::counters::{FAMILIES, GENERIC, facts::FACTS};
use crate::{CounterSource, Metric, MetricKind, Overflow, Scope, VendorCounter, metrics};

const INTRO: &str = "\
# Metrics

<!-- Written by `cargo run -p fabriclens-catalog --example metrics_page`; change the catalog, not this page. -->

The same question is the same metric on every vendor; a driver that does not count it gives no series, never a zero.
Names are given as Prometheus and PromQL see them, with the OpenTelemetry name and unit beside.

Identity labels come before those listed: `host` on host metrics; `host`, `device` on device metrics; `host`, `device`,
`port` on port metrics (a netdev without RDMA is its own `device` and has no `port`). All else about a port is on
`fabric_port_info`.

In the lists of sources `{prio}`, `{queue}`, `{lane}` and the like stand for numbers: a label where the metric has one
of that name, a sum otherwise. \"Σ\" marks counters that add up to the series; several names without it are spellings of one
counter. `×` is the factor to the metric's unit; \"32 bits, sticks\" is a counter that stays at its end until it is reset.
";

/// The whole page as Markdown.
pub fn render() -> String {
    let sources = sources_by_metric();
    let mut page = INTRO.to_owned();
    for (title, theme) in metrics::THEMES {
        let _ = writeln!(page, "\n## {title}");
        for metric in *theme {
            describe(&mut page, metric);
            let from_rows = sources.get(metric.name).into_iter().flatten();
            let mut lines: Vec<String> = from_rows
                .map(|(family, source, names)| format!("{family}, {}: {}", source.label(), names.join(", ")))
                .collect();
            lines.extend(elsewhere(metric));
            lines.extend(FACTS.iter().filter(|f| f.metric == *metric).map(|f| format!("`{}`: {}", f.name, f.becomes)));
            if let Some((why, _)) = metrics::NOT_EXPORTED.iter().find(|(_, unread)| unread.contains(metric)) {
                lines.insert(0, format!("**not given yet**; needs {why}"));
            }
            if lines.is_empty() {
                lines.push("worked out by the agent".to_owned());
            }
            let _ = writeln!(page, "- {}", lines.join("\n- "));
        }
    }
    page
}

/// Rows of another metric that `bind` turns into this one.
fn elsewhere(metric: &Metric) -> Option<String> {
    let port = ON_ETHERNET.iter().find(|(_, rdma)| **rdma == *metric).map(|(port, _)| port);
    if let Some(port) = port {
        return Some(format!("on Ethernet ports, counters: the files of `{}`", port.prometheus_name()));
    }
    let wait = &metrics::congestion::XMIT_WAIT;
    (*metric == metrics::congestion::XMIT_WAIT_TICKS)
        .then(|| format!("where the tick is not known: the counters of `{}`", wait.prometheus_name()))
}

fn describe(page: &mut String, metric: &Metric) {
    let kind = match metric.kind {
        MetricKind::Counter => "counter",
        MetricKind::Gauge => "gauge",
        MetricKind::Info => "info, always 1",
        MetricKind::Histogram => "histogram",
    };
    let scope = match metric.scope {
        Scope::Host => "host",
        Scope::Device => "device",
        Scope::Port => "port",
    };
    let unit = match metric.unit.ucum() {
        "" => "no unit".to_owned(),
        ucum => format!("unit `{ucum}`"),
    };
    let labels = match metric.labels {
        [] => "no further labels".to_owned(),
        labels => format!("labels `{}`", labels.join("`, `")),
    };
    let _ = writeln!(page, "\n### `{}`\n\n{}", metric.prometheus_name(), metric.help);
    let _ = writeln!(page, "OpenTelemetry `{}`, {unit}; {kind} of a {scope}; {labels}.\n", metric.name);
}

type SourceList = Vec<(String, CounterSource, Vec<String>)>;

/// Per metric: family, source and the names with their remarks, in table order.
fn sources_by_metric() -> BTreeMap<&'static str, SourceList> {
    let families = FAMILIES.iter().flat_map(|f| f.rows().map(|row| (f.name, row)));
    let generic = GENERIC.iter().flat_map(|(_, rows)| rows.iter().map(|row| ("any driver", row)));
    let mut out: BTreeMap<&'static str, SourceList> = BTreeMap::new();
    for (family, counter) in families.chain(generic) {
        let list = out.entry(counter.metric.name).or_default();
        let entry = list.iter().position(|(f, s, _)| f == family && *s == counter.source).unwrap_or_else(|| {
            list.push((family.to_owned(), counter.source, Vec::new()));
            list.len() - 1
        });
        list[entry].2.push(remark(counter));
    }
    out
}

/// `` `name` (receive, 3; ×4, 32 bits, sticks) ``
fn remark(counter: &VendorCounter) -> String {
    let labels: Vec<&str> = counter.labels.as_slice().iter().map(|(_, value)| *value).collect();
    let mut facts = Vec::new();
    if counter.adds {
        facts.push("Σ".to_owned());
    }
    if counter.scale != 1.0 {
        facts.push(format!("×{}", counter.scale));
    }
    if counter.width < 64 {
        let end = if counter.overflow == Overflow::Saturate { "sticks" } else { "wraps" };
        facts.push(format!("{} bits, {end}", counter.width));
    }
    if counter.precedence > 0 {
        facts.push("second choice".to_owned());
    }
    let remarks: Vec<String> = [labels.join(" "), facts.join(", ")].into_iter().filter(|s| !s.is_empty()).collect();
    match remarks.join("; ") {
        none if none.is_empty() => format!("`{}`", counter.name),
        remarks => format!("`{}` ({remarks})", counter.name),
    }
}
