//! Renders the reference page `docs/metrics.md`: every metric and the vendor counters that feed it. Used by
//! `cargo run -p fabriclens-catalog --example metrics_page` and by the test that compares the committed page.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::bind::ON_ETHERNET;
use crate::counters::{FAMILIES, GENERIC, facts::FACTS};
use crate::metric::{Metric, MetricKind, Scope};
use crate::metrics;
use crate::source::CounterSource;
use crate::vendor_counter::{Overflow, VendorCounter};

const INTRO: &str = "\
# Metrics

<!-- Written by `cargo run -p fabriclens-catalog --example metrics_page`; change the catalog, not this page. -->

Every metric that the agent exports, with the vendor counters that feed it. A metric has the same name, unit and labels on
every vendor. If a driver does not count something, there is no series; an absent counter is never exported as zero. The
headings are Prometheus names, as PromQL uses them; the OpenTelemetry name and unit follow.

Every series also has identity labels: `host` on host metrics; `host`, `device` on device metrics; `host`, `device`, `port`
on port metrics. A netdev without RDMA is its own `device` and has no `port`. All other facts about a port are labels of
`fabric_port_info`.

How to read the lists of sources:

| notation | meaning |
|---|---|
| `{prio}`, `{queue}`, `{lane}` … | a number: becomes a label if the metric has one of that name; otherwise the counters of all numbers are summed |
| Σ | the counters are summed into the series; several names without Σ are spellings of one counter |
| ×4 | factor that converts the raw value to the unit of the metric |
| 32 bits, wraps | width of the raw counter, which starts again at zero |
| 32 bits, saturates | width of the raw counter, which stays at its maximum until it is reset |
| second choice | used only if the first choice is absent |
";

/// The page as Markdown.
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
            lines.extend(other_sources(metric));
            lines.extend(FACTS.iter().filter(|f| f.metric == *metric).map(|f| format!("`{}`: {}", f.name, f.becomes)));
            if let Some((why, _)) = metrics::NOT_EXPORTED.iter().find(|(_, unread)| unread.contains(metric)) {
                lines.insert(0, format!("**not exported yet**: needs {why}"));
            }
            if lines.is_empty() {
                lines.push("computed by the agent".to_owned());
            }
            let _ = writeln!(page, "- {}", lines.join("\n- "));
        }
    }
    page
}

/// Note on counters listed under another metric that `bind` assigns to this one.
fn other_sources(metric: &Metric) -> Option<String> {
    let port = ON_ETHERNET.iter().find(|(_, rdma)| **rdma == *metric).map(|(port, _)| port);
    if let Some(port) = port {
        return Some(format!("on Ethernet ports, counters: the files of `{}`", port.prometheus_name()));
    }
    let wait = &metrics::congestion::XMIT_WAIT;
    (*metric == metrics::congestion::XMIT_WAIT_TICKS)
        .then(|| format!("if the length of a tick is not known: the counters of `{}`", wait.prometheus_name()))
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
        [] => "no other labels".to_owned(),
        labels => format!("labels `{}`", labels.join("`, `")),
    };
    let _ = writeln!(page, "\n### `{}`\n\n{}", metric.prometheus_name(), metric.help);
    let _ = writeln!(page, "OpenTelemetry `{}`, {unit}; {kind} of a {scope}; {labels}.\n", metric.name);
}

type SourceList = Vec<(String, CounterSource, Vec<String>)>;

/// For each metric: family, source, and the names with their remarks, in table order.
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

/// Name and remarks of a counter: `` `name` (receive; ×4, 32 bits, saturates) ``.
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
        let end = if counter.overflow == Overflow::Saturate { "saturates" } else { "wraps" };
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
