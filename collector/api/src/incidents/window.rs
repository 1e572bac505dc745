//! Series of an incident's evidence before, during and after it, at the nodes that it touches.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::sync::Arc;

use axum::response::{IntoResponse as _, Response};
use fabriclens_correlate::ALL;
use fabriclens_correlate::Location;
use fabriclens_model::{Budget, ReadError};
use fabriclens_promql::Outcome;

use super::{One, json};
use crate::Api;
use crate::encode;
use crate::encode::Json;
use crate::params::Params;
use crate::query::QueryContext;
use fabriclens_core::json_text::push_text;
use fabriclens_core::time::now_ns;
use fabriclens_incidents::Record;
use fabriclens_server::error::ApiError;

/// Time shown before and after an incident, ms.
const MARGIN_MS: i64 = 5 * 60_000;
/// Most points of a series.
const POINTS: i64 = 300;
/// Most nodes, queries, and series of each result.
const NODES: usize = 16;
const QUERIES: usize = 8;
const SERIES: usize = 64;

/// Queried range, Unix ms.
#[derive(Clone, Copy)]
struct Window {
    start: i64,
    end: i64,
    step: i64,
}

impl Window {
    fn of(record: &Record, now_ms: i64) -> Self {
        let start = record.incident.start_ns / 1_000_000 - MARGIN_MS;
        let over = record.incident.end_ns.map_or(now_ms, |end| end / 1_000_000 + MARGIN_MS);
        let end = over.min(now_ms).max(start + 1000);
        let step = ((end - start) / POINTS + 999).max(1000) / 1000 * 1000;
        Self { start, end, step }
    }
}

/// Returns the incident with its series; if they cannot be read, with a warning instead.
pub(super) async fn answer(api: Arc<Api>, record: Arc<Record>, params: &Params) -> Response {
    let window = Window::of(&record, now_ns() / 1_000_000);
    let queries = queries(&record, window.step);
    let shown = match json(&One { incident: super::shown(&api.incidents, &record, now_ns()) }) {
        Ok(Json(shown)) => shown,
        Err(e) => return e.into_response(),
    };
    let begin = shown.strip_suffix('}').unwrap_or(&shown).to_owned();
    let (head, asked) = (begin.clone(), queries.clone());
    let work = move |context: &QueryContext<'_>| {
        let mut out = opened(&head, window);
        out.push_str(",\"series\":[");
        for (n, (metric, query)) in asked.iter().enumerate() {
            let Window { start, end, step } = window;
            let outcome = context.engine.range_cancellable(
                context.data.reader(),
                query,
                start,
                end,
                step,
                context.budget.cancel,
            )?;
            context.budget.request(encode::size(&outcome))?;
            push(&mut out, n, metric, query, &outcome, context.budget)?;
        }
        out.push_str("]}");
        Ok(Json(out))
    };
    if queries.is_empty() {
        return Json(opened(&begin, window) + ",\"series\":[]}").into_response();
    }
    match api.within_limits(params, work).await {
        Ok(answer) => answer.into_response(),
        Err(ApiError { message, .. }) => {
            let mut out = opened(&begin, window);
            out.push_str(",\"series\":[],\"warnings\":[");
            push_text(&mut out, &format!("no series: {message}"));
            out.push_str("]}");
            Json(out).into_response()
        }
    }
}

fn opened(begin: &str, window: Window) -> String {
    let Window { start, end, step } = window;
    format!("{begin},\"window\":{{\"start_ms\":{start},\"end_ms\":{end},\"step_ms\":{step}}}")
}

fn push(
    out: &mut String,
    n: usize,
    metric: &str,
    query: &str,
    outcome: &Outcome,
    budget: &dyn Budget,
) -> Result<(), ReadError> {
    out.push_str(if n > 0 { ",{\"metric\":" } else { "{\"metric\":" });
    push_text(out, metric);
    out.push_str(",\"query\":");
    push_text(out, query);
    out.push(',');
    let mut result = String::new();
    encode::push_result(&mut result, &outcome.value, SERIES, budget)?;
    out.push_str(result.trim_start_matches('{'));
    out.push('}');
    Ok(())
}

/// Metrics of the evidence with their queries: those of the detectors, restricted to the nodes of the incident.
fn queries(record: &Record, step_ms: i64) -> Vec<(String, String)> {
    let nodes = nodes(record);
    let metrics: BTreeSet<&str> = record.incident.evidence.iter().map(|e| e.metric.as_str()).collect();
    if nodes.is_empty() {
        return Vec::new();
    }
    let hosts: Vec<String> = nodes.iter().map(|n| escape(n)).collect();
    let hosts = format!("host=~\"{}\"", hosts.join("|"));
    // Covers several samples even if agents send every ten seconds.
    let window = format!("{}s", (4 * step_ms / 1000).max(45));
    let plain = |m: &str| m.starts_with("fabric_") && m.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    let mut all = Vec::new();
    for metric in metrics.into_iter().filter(|m| plain(m)) {
        let signals: Vec<String> =
            ALL.iter().filter(|row| row.expression.reads(metric)).map(|row| row.promql(&window)).collect();
        let own = if metric.ends_with("_total") { format!("rate({metric}[{window}])") } else { metric.to_owned() };
        let queries = if signals.is_empty() { vec![own] } else { signals };
        let of = |query: String| (metric.to_owned(), narrow(&query, &hosts));
        all.extend(queries.into_iter().map(of));
    }
    all.truncate(QUERIES);
    all
}

/// Nodes of the cause, the evidence and the victim ports, in this order.
fn nodes(record: &Record) -> Vec<String> {
    let of = |place: &Location| match place {
        Location::Port { node, .. } | Location::Switch { node } | Location::Host { node } => vec![node.clone()],
        Location::Link { a, b, .. } => vec![a.clone(), b.clone()],
        Location::Job { .. } | Location::Fabric => Vec::new(),
    };
    let incident = &record.incident;
    let evidence = incident.evidence.iter().filter_map(|e| Some(e.at.split_once(" port ")?.0.to_owned()));
    let victims = incident.victim_ports.iter().flat_map(of);
    let mut seen = BTreeSet::new();
    let all = of(&incident.root).into_iter().chain(evidence).chain(victims);
    all.filter(|node| seen.insert(node.clone())).take(NODES).collect()
}

/// Adds a matcher to each selector of a query.
fn narrow(query: &str, matcher: &str) -> String {
    let mut out = String::with_capacity(query.len() + 64);
    let mut rest = query;
    while let Some(at) = rest.find("fabric_") {
        let name = rest[at..].find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).map_or(rest.len(), |n| at + n);
        out.push_str(&rest[..name]);
        rest = &rest[name..];
        match rest.strip_prefix('{') {
            Some(inner) => {
                _ = write!(out, "{{{matcher},");
                rest = inner;
            }
            None => _ = write!(out, "{{{matcher}}}"),
        }
    }
    out.push_str(rest);
    out
}

/// Escapes a string for a regular expression inside a PromQL string.
pub(crate) fn escape(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\n' => out.push_str("\\n"),
            '\\' => out.push_str("\\\\\\\\"),
            _ if c.is_alphanumeric() || "-_ /:".contains(c) => out.push(c),
            _ => _ = write!(out, "\\\\{c}"),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use fabriclens_correlate::{Evidence, IncidentKind};
    use fabriclens_correlate::{Incident, Severity};

    /// A slow receiver at h3 since second 1.
    fn incident(id: &str) -> Incident {
        Incident {
            id: id.to_owned(),
            kind: IncidentKind::SlowReceiver,
            start_ns: 1_000_000_000,
            detected_ns: 3_000_000_000,
            end_ns: None,
            merged_into: None,
            split_from: None,
            severity: Severity::Warning,
            confidence: 0.9,
            root: Location::Port { node: "h3".to_owned(), port: "1".to_owned() },
            priorities: Default::default(),
            culprit_jobs: vec!["a".to_owned()],
            victim_jobs: vec!["b".to_owned()],
            low_before: Default::default(),
            victim_ports: vec![Location::Port { node: "h7".to_owned(), port: "1".to_owned() }],
            senders: vec![],
            path: None,
            considered: vec![],
            evidence: vec![Evidence {
                metric: "fabric_pfc_pause_seconds_total".to_owned(),
                at: "h3 port 1".to_owned(),
                value: 0.4,
                threshold: 0.01,
                window_ns: [1_000_000_000, 3_000_000_000],
            }],
            explanation: "h3 port 1 pauses its switch 40 % of the time.".to_owned(),
            action: "Look at the host.".to_owned(),
        }
    }

    #[test]
    fn evidence_is_queried_at_the_nodes() {
        let record = Record::new(incident("a"), 0);
        let asked = queries(&record, 1000);
        assert_eq!(asked.len(), 2, "pause has two directions");
        let (metric, query) = &asked[0];
        assert_eq!(metric, "fabric_pfc_pause_seconds_total");
        assert_eq!(
            query,
            "irate(fabric_pfc_pause_seconds_total{host=~\"h3|h7\",direction=\"transmit\"}[45s]) or \
             irate(fabric_pause_duration_seconds_total{host=~\"h3|h7\",direction=\"transmit\"}[45s])"
        );
        let odd = Location::Switch { node: "a.b|\"c\\d".to_owned() };
        let mut of = incident("b");
        of.root = odd;
        of.evidence[0].metric = "fabric_of_another_kind_total".to_owned();
        let asked = queries(&Record::new(of.clone(), 0), 60_000);
        assert!(asked[0].1.starts_with("rate(fabric_of_another_kind_total{host=~\"a\\\\.b\\\\|\\\""), "{asked:?}");
        for (_, query) in &asked {
            fabriclens_promql::check(query).unwrap();
        }
        of.evidence[0].metric = "up) or vector(1".to_owned();
        assert!(queries(&Record::new(of, 0), 1000).is_empty(), "no metric");
        for row in &ALL {
            let query = narrow(&row.promql("5s"), "host=~\"h3\"");
            fabriclens_promql::check(&query).unwrap();
            assert_eq!(query.matches("host=~").count(), query.matches("fabric_").count());
        }
    }

    #[test]
    fn window_is_bounded_and_ends_now() {
        let mut of = incident("a");
        of.start_ns = 1_000_000 * 10_000_000;
        let open = Window::of(&Record::new(of.clone(), 0), 10_060_000);
        assert_eq!((open.start, open.end, open.step), (9_700_000, 10_060_000, 2000));
        of.end_ns = Some(1_000_000 * 20_000_000);
        let over = Window::of(&Record::new(of, 0), 99_000_000);
        assert_eq!((over.end, over.step), (20_300_000, 36_000));
    }
}
