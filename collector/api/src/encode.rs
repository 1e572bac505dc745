//! Writes query results and label sets as JSON of the Prometheus API. Every successful answer of the query API has the
//! envelope `{"status":"success","data":…}`, with `warnings` and `infos` if there are any; errors have that of
//! [`fabriclens_server::error`].

mod histograms;

use axum::http::header;
use axum::response::{IntoResponse, Response};
use fabriclens_model::{Budget, Labels, ReadError};
use fabriclens_promql::{Outcome, Value};
use std::convert::Infallible;
use std::fmt::Write as _;
use std::time::Duration;

use fabriclens_core::json_text::{push_labels, push_text, push_time, push_value};

/// A body of complete JSON.
pub struct Json(pub String);

impl IntoResponse for Json {
    fn into_response(self) -> Response {
        ([(header::CONTENT_TYPE, "application/json")], self.0).into_response()
    }
}

/// Wraps what `data` writes into the success envelope.
pub fn success(data: impl FnOnce(&mut String)) -> Json {
    envelope(data, &[], &[])
}

/// The same with warnings.
pub fn success_with(data: impl FnOnce(&mut String), warnings: &[String]) -> Json {
    envelope(data, warnings, &[])
}

/// The same for a list; a warning says if `limit` cut it.
pub fn success_list<T>(items: &[T], limit: usize, mut warnings: Vec<String>, item: impl Fn(&mut String, &T)) -> Json {
    let shown = cut(items, limit, &mut warnings);
    envelope(|out| push_list(out, shown, item), &warnings, &[])
}

/// The same within a budget; `size` is the length of an item as JSON, or rather more.
///
/// # Errors
/// Those of `budget`.
pub fn list_within<T>(
    items: &[T],
    limit: usize,
    mut warnings: Vec<String>,
    budget: &dyn Budget,
    size: impl Fn(&T) -> usize,
    item: impl Fn(&mut String, &T),
) -> Result<Json, ReadError> {
    let shown = cut(items, limit, &mut warnings);
    let bytes = shown.iter().map(size).sum();
    budget.request(bytes)?;
    let data = |out: &mut String| {
        out.reserve_exact(bytes);
        push_list_within(out, shown, budget, item)
    };
    try_envelope(data, &warnings, &[])
}

fn cut<'a, T>(items: &'a [T], limit: usize, warnings: &mut Vec<String>) -> &'a [T] {
    if limit < items.len() {
        warnings.push("results truncated due to limit".to_owned());
    }
    &items[..items.len().min(limit)]
}

/// The same for a page of a list; `next` is what the client gives as `cursor` for the following page.
pub fn success_page<T>(items: &[T], next: Option<String>, item: impl Fn(&mut String, &T)) -> Json {
    let Json(mut out) = envelope(|out| push_list(out, items, item), &[], &[]);
    if let Some(next) = next {
        out.pop();
        out.push_str(",\"next\":");
        push_text(&mut out, &next);
        out.push('}');
    }
    Json(out)
}

/// Timings of a query, returned with `stats`.
#[derive(Clone, Copy, Debug)]
pub struct Timings {
    /// Time until evaluation began.
    pub queued: Duration,
    /// Time of the evaluation.
    pub evaluated: Duration,
}

/// Encodes the result of a query; `limit` cuts its series.
///
/// # Errors
/// Those of `budget`, which has granted the memory.
pub fn outcome(
    outcome: &Outcome,
    limit: usize,
    timings: Option<Timings>,
    budget: &dyn Budget,
) -> Result<Json, ReadError> {
    let mut warnings = outcome.warnings.clone();
    if histograms::series(outcome) > limit {
        warnings.push("results truncated due to limit".to_owned());
    }
    let data = |out: &mut String| {
        if outcome.histograms.is_empty() {
            push_result(out, &outcome.value, limit, budget)?;
        } else {
            histograms::push(out, outcome, limit, budget)?;
        }
        if let Some(timings) = timings {
            push_stats(out, outcome, timings);
        }
        out.push('}');
        Ok(())
    };
    try_envelope(data, &warnings, &outcome.infos)
}

/// Estimates the bytes of [`outcome`]'s JSON, rather too high.
pub fn size(outcome: &Outcome) -> usize {
    let series = |labels: &Labels| 64 + labels.iter().map(|(n, v)| n.len() + v.len() + 6).sum::<usize>();
    let native: usize = outcome.histograms.iter().map(|s| series(&s.labels) + histograms::size(s)).sum();
    native
        + match &outcome.value {
            Value::Vector(v) => v.iter().map(|s| series(&s.labels) + POINT).sum::<usize>(),
            Value::Matrix(m) => m.iter().map(|s| series(&s.labels) + POINT * s.times.len()).sum(),
            Value::Scalar { .. } | Value::String { .. } => POINT,
        }
}

/// Bytes of a point, `[1700000000.123,"12345.6789"],`, rounded up.
const POINT: usize = 40;

fn envelope(data: impl FnOnce(&mut String), warnings: &[String], infos: &[String]) -> Json {
    let data = |out: &mut String| {
        data(out);
        Ok::<(), Infallible>(())
    };
    let Ok(json) = try_envelope(data, warnings, infos);
    json
}

fn try_envelope<E>(
    data: impl FnOnce(&mut String) -> Result<(), E>,
    warnings: &[String],
    infos: &[String],
) -> Result<Json, E> {
    let mut out = String::from("{\"status\":\"success\",\"data\":");
    data(&mut out)?;
    for (name, list) in [("warnings", warnings), ("infos", infos)] {
        if !list.is_empty() {
            out.push_str(",\"");
            out.push_str(name);
            out.push_str("\":");
            push_list(&mut out, list, |out, text| push_text(out, text));
        }
    }
    out.push('}');
    Ok(Json(out))
}

/// Items of a list that are written between two checks of the budget.
const ITEMS_PER_CHECK: usize = 256;

/// Writes a JSON array, unless the budget ends.
fn push_list_within<T>(
    out: &mut String,
    items: &[T],
    budget: &dyn Budget,
    item: impl Fn(&mut String, &T),
) -> Result<(), ReadError> {
    out.push('[');
    for (i, x) in items.iter().enumerate() {
        if i % ITEMS_PER_CHECK == 0 {
            budget.check()?;
        }
        if i > 0 {
            out.push(',');
        }
        item(out, x);
    }
    out.push(']');
    Ok(())
}

/// Writes a JSON array.
pub fn push_list<T>(out: &mut String, items: &[T], item: impl Fn(&mut String, &T)) {
    out.push('[');
    for (i, x) in items.iter().enumerate() {
        if i > 0 {
            out.push(',');
        }
        item(out, x);
    }
    out.push(']');
}

/// Writes `{"resultType":"matrix","result":[…]` without the closing brace; `limit` cuts its series.
///
/// # Errors
/// Those of `budget`.
pub fn push_result(out: &mut String, value: &Value, limit: usize, budget: &dyn Budget) -> Result<(), ReadError> {
    match value {
        Value::Scalar { time_ms, value } => {
            out.push_str("{\"resultType\":\"scalar\",\"result\":");
            push_point(out, *time_ms, *value);
        }
        Value::String { time_ms, value } => {
            out.push_str("{\"resultType\":\"string\",\"result\":[");
            push_time(out, *time_ms);
            out.push(',');
            push_text(out, value);
            out.push(']');
        }
        Value::Vector(samples) => {
            out.push_str("{\"resultType\":\"vector\",\"result\":");
            return push_list_within(out, &samples[..samples.len().min(limit)], budget, |out, s| {
                out.push_str("{\"metric\":");
                push_labels(out, &s.labels);
                out.push_str(",\"value\":");
                push_point(out, s.time_ms, s.value);
                out.push('}');
            });
        }
        Value::Matrix(series) => {
            out.push_str("{\"resultType\":\"matrix\",\"result\":");
            return push_list_within(out, &series[..series.len().min(limit)], budget, |out, s| {
                out.push_str("{\"metric\":");
                push_labels(out, &s.labels);
                out.push_str(",\"values\":[");
                for (i, (t, v)) in s.times.iter().zip(&s.values).enumerate() {
                    if i > 0 {
                        out.push(',');
                    }
                    push_point(out, *t, *v);
                }
                out.push_str("]}");
            });
        }
    }
    Ok(())
}

/// Writes `,"stats":…` with the names of Prometheus, in seconds. Results leave the engine sorted, so sorting takes no
/// extra time.
fn push_stats(out: &mut String, outcome: &Outcome, timings: Timings) {
    let (stats, Timings { queued, evaluated }) = (outcome.stats, timings);
    let seconds = |t: Duration| t.as_secs_f64();
    let inner = seconds(evaluated.saturating_sub(stats.reading));
    _ = write!(
        out,
        ",\"stats\":{{\"timings\":{{\"evalTotalTime\":{},\"resultSortTime\":0,\"queryPreparationTime\":{},\
         \"innerEvalTime\":{inner},\"execQueueTime\":{},\"execTotalTime\":{}}},\
         \"samples\":{{\"totalQueryableSamples\":{},\"peakSamples\":{}}}}}",
        seconds(evaluated),
        seconds(stats.reading),
        seconds(queued),
        seconds(queued + evaluated),
        stats.samples,
        stats.held,
    );
}

fn push_point(out: &mut String, time_ms: i64, value: f64) {
    out.push('[');
    push_time(out, time_ms);
    out.push_str(",\"");
    push_value(out, value);
    out.push_str("\"]");
}

#[cfg(test)]
mod tests {
    use super::*;
    use fabriclens_model::{Series, Unlimited};
    use fabriclens_promql::Sample;

    fn result(value: Value, limit: usize) -> String {
        let stats = fabriclens_promql::Stats::default();
        let of = Outcome { value, histograms: vec![], warnings: vec![], infos: vec!["i".to_owned()], stats };
        outcome(&of, limit, None, &Unlimited).unwrap().0
    }

    #[test]
    fn every_result_type_encodes() {
        assert_eq!(
            result(Value::Scalar { time_ms: 1500, value: f64::INFINITY }, 9),
            r#"{"status":"success","data":{"resultType":"scalar","result":[1.500,"+Inf"]},"infos":["i"]}"#
        );
        assert_eq!(
            result(Value::String { time_ms: 1000, value: "a\"b".to_owned() }, 9),
            r#"{"status":"success","data":{"resultType":"string","result":[1,"a\"b"]},"infos":["i"]}"#
        );
        let labels = Labels::new([("__name__", "m"), ("a", "1")]);
        let sample = Sample { labels: labels.clone(), time_ms: 1000, value: 0.5 };
        assert_eq!(
            result(Value::Vector(vec![sample.clone(), sample]), 1),
            r#"{"status":"success","data":{"resultType":"vector","result":[{"metric":{"__name__":"m","a":"1"},"value":[1,"0.5"]}]},"warnings":["results truncated due to limit"],"infos":["i"]}"#
        );
        let series = Series { labels, times: vec![1000, 1001], values: vec![1.0, f64::NAN] };
        assert_eq!(
            result(Value::Matrix(vec![series]), 9),
            r#"{"status":"success","data":{"resultType":"matrix","result":[{"metric":{"__name__":"m","a":"1"},"values":[[1,"1"],[1.001,"NaN"]]}]},"infos":["i"]}"#
        );
    }
}
