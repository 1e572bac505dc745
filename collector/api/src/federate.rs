//! `/federate`: the newest sample of each series that matches `match[]`, as text for another Prometheus to scrape.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use fabriclens_model::{Budget, Labels, ReadError, is_stale};
use fabriclens_promql::{Outcome, QueryError, Sample, Stats, Value, general};

use super::Api;
use super::encode::Json;
use super::params::Params;
use super::query::QueryContext;
use super::selector::Selectors;
use fabriclens_core::time;

/// Prometheus text format 0.0.4.
const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Handles a federation scrape; without `match[]` the answer is empty.
pub(super) async fn federate(State(api): State<Arc<Api>>, params: Params) -> Response {
    let evaluate = async {
        let (selectors, now) = (Selectors::all(&params)?, time::now_ms());
        let work = move |context: &QueryContext<'_>| newest(context, &selectors, now);
        let answer = api.evaluate(&params, work, |outcome, _, budget| text(&outcome.value, budget)).await?;
        Ok(answer.of_type(TEXT))
    };
    api.measured("federate", evaluate).await
}

/// Newest sample of each series within the lookback, unless the series has ended; sorted by name.
fn newest(context: &QueryContext<'_>, selectors: &Selectors, now: i64) -> Result<Outcome, QueryError> {
    let budget = context.budget;
    let lookback = i64::try_from(context.engine.limits().lookback.as_millis()).unwrap_or(i64::MAX);
    let mut found: BTreeMap<Labels, (i64, f64)> = BTreeMap::new();
    let mut samples = 0;
    for matchers in selectors.matchers(budget)? {
        for s in context.data.reader().select_within(&matchers, now.saturating_sub(lookback), now, budget)? {
            samples += s.times.len();
            if let (Some(&at), Some(&value)) = (s.times.last(), s.values.last())
                && !is_stale(value)
            {
                found.insert(s.labels, (at, value));
            }
        }
    }
    let sample = |(labels, (time_ms, value))| Sample { labels, time_ms, value };
    let mut newest: Vec<Sample> = found.into_iter().map(sample).collect();
    newest.sort_by(|a, b| a.labels.metric().cmp(b.labels.metric()));
    let stats = Stats { samples: newest.len(), held: samples, ..Stats::default() };
    Ok(Outcome { value: Value::Vector(newest), warnings: Vec::new(), infos: Vec::new(), stats })
}

/// Writes one line per series, with an empty `instance` if it has none, because the scraper would add its own.
fn text(value: &Value, budget: &dyn Budget) -> Result<Json, ReadError> {
    let (mut out, mut last) = (String::new(), "");
    let Value::Vector(samples) = value else { return Ok(Json(out)) };
    for s in samples {
        budget.check()?;
        let metric = s.labels.metric();
        if last != metric {
            _ = writeln!(out, "# TYPE {metric} untyped");
            last = metric;
        }
        out.push_str(metric);
        let mut before = '{';
        let instance = s.labels.get("instance").is_empty().then_some(("instance", ""));
        for (name, value) in s.labels.iter().filter(|(name, _)| *name != "__name__").chain(instance) {
            let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            _ = write!(out, "{before}{name}=\"{value}\"");
            before = ',';
        }
        _ = writeln!(out, "}} {} {}", general(s.value), s.time_ms);
    }
    Ok(Json(out))
}
