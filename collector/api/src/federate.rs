//! `/federate`: the newest sample of each series that matches `match[]`, as text for another Prometheus to scrape.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::Response;
use fabriclens_model::{Budget, Labels, ReadError, is_stale};
use fabriclens_promql::{Outcome, QueryError, Sample, Stats, Value};

use super::Api;
use super::encode::Json;
use super::params::Params;
use super::query::QueryContext;
use super::selector::Selectors;
use fabriclens_core::exposition::Exposition;
use fabriclens_core::time;

/// Prometheus text format 0.0.4.
const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Handles a federation scrape; without `match[]` the answer is empty.
pub(super) async fn federate(State(api): State<Arc<Api>>, headers: HeaderMap, params: Params) -> Response {
    let (quoted, skipped) = (accepts_quoted_names(&headers), api.telemetry.skipped_series("federate"));
    let evaluate = async {
        let (selectors, now) = (Selectors::all(&params)?, time::now_ms());
        let work = move |context: &QueryContext<'_>| newest(context, &selectors, now);
        let write = move |outcome: &Outcome, _, budget: &dyn Budget| {
            let (text, left_out) = text(&outcome.value, quoted, budget)?;
            skipped.inc_by(left_out);
            Ok(Json(text))
        };
        let answer = api.evaluate(&params, work, write).await?;
        Ok(answer.of_type(TEXT))
    };
    api.measured("federate", evaluate).await
}

/// Newest sample of each series within the lookback, unless the series has ended; sorted by name.
fn newest(context: &QueryContext<'_>, selectors: &Selectors, now: i64) -> Result<Outcome, QueryError> {
    let budget = context.budget;
    let lookback = i64::try_from(context.engine.limits().lookback.as_millis()).unwrap_or(i64::MAX);
    let oldest = context.engine.limits().version.first_within(now.saturating_sub(lookback));
    let mut found: BTreeMap<Labels, (i64, f64)> = BTreeMap::new();
    let mut samples = 0;
    for matchers in selectors.matchers(budget)? {
        for s in context.data.reader().select_within(&matchers, oldest, now, budget)? {
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
    let value = Value::Vector(newest);
    Ok(Outcome { value, histograms: Vec::new(), warnings: Vec::new(), infos: Vec::new(), stats })
}

/// Writes one line per series, with an empty `instance` if it has none, because the scraper would add its own. Returns the
/// text and the number of series that cannot be written.
fn text(value: &Value, quoted_names: bool, budget: &dyn Budget) -> Result<(String, u64), ReadError> {
    let mut out = Exposition::new(quoted_names);
    if let Value::Vector(samples) = value {
        for s in samples {
            budget.check()?;
            let instance = s.labels.get("instance").is_empty().then_some(("instance", ""));
            out.push(&s.labels, instance, s.value, s.time_ms);
        }
    }
    Ok(out.finish())
}

/// Whether a scraper accepts names in quotes: Prometheus 3 does, and says so.
fn accepts_quoted_names(headers: &HeaderMap) -> bool {
    let accepts = |value: &HeaderValue| value.to_str().is_ok_and(|text| text.contains("escaping=allow-utf-8"));
    headers.get_all(header::ACCEPT).iter().any(accepts)
}
