//! Incidents as Grafana annotations: by `POST` for its Simple JSON data source, by `GET` for Infinity and others.

use std::sync::Arc;

use axum::Extension;
use axum::body::Bytes;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{filter, json};
use crate::Api;
use crate::blocking::in_turn;
use crate::encode::Json;
use crate::params::Params;
use fabriclens_core::time::{now_ns, parse_time};
use fabriclens_incidents::{Filter, Record, kind_text, root_text};
use fabriclens_server::auth::Caller;
use fabriclens_server::error::{ApiError, Kind};

/// Most annotations of an answer; more cannot be distinguished on a graph.
const MAX_ANNOTATIONS: usize = 1000;
/// Longest request of Simple JSON, bytes: each annotation repeats it.
const REQUEST_BYTES: usize = 16 << 10;

/// Request of Simple JSON; other fields are ignored.
#[derive(Deserialize)]
struct AnnotationRequest {
    range: Range,
    #[serde(default)]
    annotation: Value,
}

#[derive(Deserialize)]
struct Range {
    from: String,
    to: String,
}

/// An annotation; times in Unix ms.
#[derive(Serialize)]
struct Annotation<'a> {
    #[serde(skip_serializing_if = "Value::is_null")]
    annotation: &'a Value,
    id: &'a str,
    time: i64,
    #[serde(rename = "timeEnd")]
    time_end: i64,
    #[serde(rename = "isRegion")]
    is_region: bool,
    title: String,
    tags: Vec<String>,
    text: String,
}

/// Handles Simple JSON: a range, and in `annotation.query` the filters of the list (`kind=incast&node=h3`).
pub(crate) async fn post(
    State(api): State<Arc<Api>>,
    Extension(caller): Extension<Caller>,
    body: Bytes,
) -> Result<Json, ApiError> {
    if body.len() > REQUEST_BYTES {
        let message = format!("an annotation request has at most {REQUEST_BYTES} bytes");
        return Err(ApiError::new(Kind::BadData, message));
    }
    let asked: AnnotationRequest = serde_json::from_slice(&body)
        .map_err(|e| ApiError::new(Kind::BadData, format!("the body is not an annotation request: {e}")))?;
    let query = asked.annotation["query"].as_str().unwrap_or_default().trim().replace(' ', "&");
    let filter = Filter {
        from_ns: Some(moment("range.from", &asked.range.from)?),
        to_ns: Some(moment("range.to", &asked.range.to)?),
        ..filter(&Params::decode(query.as_bytes())?)?
    };
    answer(api, &caller, filter, asked.annotation).await
}

/// Handles `GET`: `from` and `to` in Unix ms, as Grafana's `${__from}`, or RFC 3339.
pub(crate) async fn get(
    State(api): State<Arc<Api>>,
    Extension(caller): Extension<Caller>,
    params: Params,
) -> Result<Json, ApiError> {
    let time = |name: &str| params.get(name).map(|text| moment(name, text)).transpose();
    let filter = Filter { from_ns: time("from")?, to_ns: time("to")?, ..filter(&params.without(&["from", "to"]))? };
    answer(api, &caller, filter, Value::Null).await
}

/// Parses Unix ms or RFC 3339 into Unix ns.
fn moment(name: &str, text: &str) -> Result<i64, ApiError> {
    let ms = text.parse::<i64>().ok().or_else(|| parse_time(text).filter(|_| text.contains(':')));
    let ns = ms.and_then(|ms| ms.checked_mul(1_000_000));
    ns.ok_or_else(|| ApiError::parameter(name, format!("{text:?} is not a time; write Unix milliseconds or RFC 3339")))
}

async fn answer(api: Arc<Api>, caller: &Caller, filter: Filter, annotation: Value) -> Result<Json, ApiError> {
    let turns = api.list_turn.clone();
    in_turn(&turns, caller, move || {
        let found = api.incidents.list(&filter);
        let now = now_ns();
        let shown: Vec<Annotation<'_>> = found.iter().take(MAX_ANNOTATIONS).map(|r| of(r, &annotation, now)).collect();
        json(&shown)
    })
    .await
}

fn of<'a>(record: &'a Record, annotation: &'a Value, now_ns: i64) -> Annotation<'a> {
    let incident = &record.incident;
    let kind = record.kind().unwrap_or(incident.kind);
    let jobs = incident.culprit_jobs.iter().map(|j| format!("culprit:{j}"));
    let jobs = jobs.chain(incident.victim_jobs.iter().map(|j| format!("victim:{j}")));
    let tags = [kind_text(kind), incident.severity.name().to_owned()].into_iter().chain(jobs.take(20)).collect();
    Annotation {
        annotation,
        id: &incident.id,
        time: incident.start_ns / 1_000_000,
        time_end: incident.end_ns.unwrap_or(now_ns) / 1_000_000,
        is_region: true,
        title: format!("{} at {}", kind_text(kind), root_text(&incident.root)),
        tags,
        text: format!("{} {}", incident.explanation, incident.action),
    }
}
