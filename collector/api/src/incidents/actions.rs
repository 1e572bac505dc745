//! What people say of incidents: that they look after one, that it is something else, that nobody need be told.

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::{Path, State};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::{One, blocking, json, refused};
use crate::Api;
use crate::encode::Json;
use fabriclens_core::time::{now_ns, parse_duration, parse_time};
use fabriclens_incidents::{BookError, Judged, Match, Record, Said, Silence};
use fabriclens_server::error::{ApiError, Kind};

/// Bytes of a name.
const NAME: usize = 512;
/// Bytes of a note.
const NOTE: usize = 4096;

/// `{"by": "ann", "note": "cable ordered"}`
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct Acknowledge {
    by: String,
    note: String,
}

/// `{"kind": "incast", "by": "ann"}`
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Reclassify {
    kind: Judged,
    #[serde(default)]
    by: String,
    #[serde(default)]
    note: String,
}

/// `{"for": "2h", "by": "ann"}`
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct For {
    #[serde(rename = "for")]
    duration: Option<String>,
    until: Option<serde_json::Value>,
    by: String,
    note: String,
}

/// `{"match": {"node": "h3"}, "for": "2h", "by": "ann"}`
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Of {
    #[serde(rename = "match")]
    of: Match,
    #[serde(default, rename = "for")]
    duration: Option<String>,
    #[serde(default)]
    until: Option<serde_json::Value>,
    #[serde(default)]
    by: String,
    #[serde(default)]
    note: String,
}

/// Somebody looks after it.
pub(crate) async fn acknowledge(
    State(api): State<Arc<Api>>,
    Path(id): Path<String>,
    body: Bytes,
) -> Result<Json, ApiError> {
    let Acknowledge { by, note } = read(&body)?;
    let said = said(by, note)?;
    told(api, move |api| api.book.acknowledge(&id, said)).await
}

/// It is something else, or no problem.
pub(crate) async fn reclassify(
    State(api): State<Arc<Api>>,
    Path(id): Path<String>,
    body: Bytes,
) -> Result<Json, ApiError> {
    let Reclassify { kind, by, note } = read(&body)?;
    let said = said(by, note)?;
    told(api, move |api| api.book.reclassify(&id, kind, said)).await
}

/// Nobody is told of this one for a while.
pub(crate) async fn silence(
    State(api): State<Arc<Api>>,
    Path(id): Path<String>,
    body: Bytes,
) -> Result<Json, ApiError> {
    let For { duration, until, by, note } = read(&body)?;
    let said = said(by, note)?;
    let until_ns = end(duration, until, said.at_ns)?;
    let of = Match { incident: Some(id.clone()), ..Match::default() };
    told(api, move |api| {
        api.book.silence(of, until_ns, said)?;
        api.book.get(&id).ok_or(BookError::Unknown(id))
    })
    .await
}

/// Nobody is told of those that fit.
pub(crate) async fn silence_all(State(api): State<Arc<Api>>, body: Bytes) -> Result<Json, ApiError> {
    let Of { of, duration, until, by, note } = read(&body)?;
    let said = said(by, note)?;
    let until_ns = end(duration, until, said.at_ns)?;
    blocking(move || json(&api.book.silence(of, until_ns, said).map_err(refused)?)).await
}

/// The silences in force.
pub(crate) async fn silences(State(api): State<Arc<Api>>) -> Result<Json, ApiError> {
    #[derive(Serialize)]
    struct Silences {
        silences: Vec<Silence>,
    }
    json(&Silences { silences: api.book.silences(now_ns()) })
}

/// Ends a silence.
pub(crate) async fn unsilence(State(api): State<Arc<Api>>, Path(id): Path<String>) -> Result<Json, ApiError> {
    blocking(move || json(&api.book.unsilence(&id, now_ns()).map_err(refused)?)).await
}

async fn told(
    api: Arc<Api>,
    say: impl FnOnce(&Api) -> Result<Arc<Record>, BookError> + Send + 'static,
) -> Result<Json, ApiError> {
    blocking(move || {
        let record = say(&api).map_err(refused)?;
        json(&One { incident: super::shown(&api.book, &record, now_ns()) })
    })
    .await
}

/// An empty body says what a form without fields would.
fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, ApiError> {
    let body: &[u8] = if body.trim_ascii().is_empty() { b"{}" } else { body };
    serde_json::from_slice(body)
        .map_err(|e| ApiError::new(Kind::BadData, format!("the body: {e}; see docs/incidents.md")))
}

fn said(by: String, note: String) -> Result<Said, ApiError> {
    let most = |name: &str, text: &str, most: usize| {
        if text.len() <= most && !text.chars().any(|c| c.is_control() && c != '\n') {
            return Ok(());
        }
        Err(ApiError::new(Kind::BadData, format!("{name}: at most {most} bytes without control characters")))
    };
    most("by", &by, NAME)?;
    most("note", &note, NOTE)?;
    Ok(Said { at_ns: now_ns(), by, note })
}

/// When a silence is over, Unix nanoseconds.
fn end(duration: Option<String>, until: Option<serde_json::Value>, now_ns: i64) -> Result<i64, ApiError> {
    let bad = |message: String| ApiError::new(Kind::BadData, message);
    match (duration, until) {
        (Some(text), None) => {
            let ns = parse_duration(&text).and_then(|d| i64::try_from(d.as_nanos()).ok());
            let ns = ns.ok_or_else(|| bad(format!("for: {text:?} is not a duration; write for instance 2h")))?;
            Ok(now_ns.saturating_add(ns))
        }
        (None, Some(value)) => {
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            let ms = parse_time(&text).and_then(|ms| ms.checked_mul(1_000_000));
            ms.ok_or_else(|| bad(format!("until: {text:?} is no time; write Unix seconds or RFC 3339")))
        }
        _ => Err(bad("how long? give either for (\"2h\") or until (Unix seconds or RFC 3339)".to_owned())),
    }
}
