//! Operator actions: acknowledge, reclassify and silence incidents, and add notes to them.

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::{Path, State};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::{One, json, refused};
use crate::Api;
use crate::blocking::blocking;
use crate::encode::Json;
use crate::unbound::Unbound;
use fabriclens_core::time::{now_ns, parse_duration, parse_time};
use fabriclens_incidents::{Classification, IncidentStoreError, OperatorNote, Record, Silence, SilenceMatcher};
use fabriclens_server::error::{ApiError, Kind};

/// Longest author, bytes.
const NAME: usize = 512;
/// Longest note, bytes.
const NOTE: usize = 4096;

/// Body of an acknowledgement or a note: `{"by": "ann", "note": "cable ordered"}`.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct NoteBody {
    by: String,
    note: String,
}

/// Body: `{"kind": "incast", "by": "ann"}`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Reclassify {
    kind: Classification,
    #[serde(default)]
    by: String,
    #[serde(default)]
    note: String,
}

/// Body: `{"for": "2h", "by": "ann"}`.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct SilenceBody {
    #[serde(rename = "for")]
    duration: Option<String>,
    until: Option<serde_json::Value>,
    by: String,
    note: String,
}

/// Body: `{"match": {"node": "h3"}, "for": "2h", "by": "ann"}`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SilenceAllBody {
    #[serde(rename = "match")]
    of: SilenceMatcher,
    #[serde(default, rename = "for")]
    duration: Option<String>,
    #[serde(default)]
    until: Option<serde_json::Value>,
    #[serde(default)]
    by: String,
    #[serde(default)]
    note: String,
}

/// Acknowledges an incident.
pub(crate) async fn acknowledge(
    _: Unbound,
    State(api): State<Arc<Api>>,
    Path(id): Path<String>,
    body: Bytes,
) -> Result<Json, ApiError> {
    let note = read_note(&body)?;
    apply(api, move |api| api.incidents.acknowledge(&id, note)).await
}

/// Adds a note to the history of an incident.
pub(crate) async fn note(
    _: Unbound,
    State(api): State<Arc<Api>>,
    Path(id): Path<String>,
    body: Bytes,
) -> Result<Json, ApiError> {
    let note = read_note(&body)?;
    apply(api, move |api| api.incidents.add_note(&id, note)).await
}

/// Reclassifies an incident.
pub(crate) async fn reclassify(
    _: Unbound,
    State(api): State<Arc<Api>>,
    Path(id): Path<String>,
    body: Bytes,
) -> Result<Json, ApiError> {
    let Reclassify { kind, by, note } = read(&body)?;
    let note = operator_note(by, note)?;
    apply(api, move |api| api.incidents.reclassify(&id, kind, note)).await
}

/// Silences an incident.
pub(crate) async fn silence(
    Unbound(caller): Unbound,
    State(api): State<Arc<Api>>,
    Path(id): Path<String>,
    body: Bytes,
) -> Result<Json, ApiError> {
    let SilenceBody { duration, until, by, note } = read(&body)?;
    let note = operator_note(by, note)?;
    let until_ns = end(duration, until, note.at_ns)?;
    let of = SilenceMatcher { incident: Some(id.clone()), ..SilenceMatcher::default() };
    let sender = caller.sender();
    apply(api, move |api| {
        api.incidents.silence(&sender, of, until_ns, note)?;
        api.incidents.get(&id).ok_or(IncidentStoreError::Unknown(id))
    })
    .await
}

/// Silences all matching incidents.
pub(crate) async fn silence_all(
    Unbound(caller): Unbound,
    State(api): State<Arc<Api>>,
    body: Bytes,
) -> Result<Json, ApiError> {
    let SilenceAllBody { of, duration, until, by, note } = read(&body)?;
    let note = operator_note(by, note)?;
    let until_ns = end(duration, until, note.at_ns)?;
    let sender = caller.sender();
    blocking(move || json(&api.incidents.silence(&sender, of, until_ns, note).map_err(refused)?)).await
}

/// Lists the silences in force.
pub(crate) async fn silences(State(api): State<Arc<Api>>) -> Result<Json, ApiError> {
    #[derive(Serialize)]
    struct Silences {
        silences: Vec<Silence>,
    }
    json(&Silences { silences: api.incidents.silences(now_ns()) })
}

/// Ends a silence.
pub(crate) async fn unsilence(
    _: Unbound,
    State(api): State<Arc<Api>>,
    Path(id): Path<String>,
) -> Result<Json, ApiError> {
    blocking(move || json(&api.incidents.unsilence(&id, now_ns()).map_err(refused)?)).await
}

async fn apply(
    api: Arc<Api>,
    say: impl FnOnce(&Api) -> Result<Arc<Record>, IncidentStoreError> + Send + 'static,
) -> Result<Json, ApiError> {
    blocking(move || {
        let record = say(&api).map_err(refused)?;
        json(&One { incident: super::shown(&api.incidents, &record, now_ns()) })
    })
    .await
}

/// Parses a body; an empty one is an empty object.
fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, ApiError> {
    let body: &[u8] = if body.trim_ascii().is_empty() { b"{}" } else { body };
    serde_json::from_slice(body)
        .map_err(|e| ApiError::new(Kind::BadData, format!("the body: {e}; see docs/incidents.md")))
}

/// The note of a body that has nothing else.
fn read_note(body: &[u8]) -> Result<OperatorNote, ApiError> {
    let NoteBody { by, note } = read(body)?;
    operator_note(by, note)
}

fn operator_note(by: String, note: String) -> Result<OperatorNote, ApiError> {
    let most = |name: &str, text: &str, most: usize| {
        if text.len() <= most && !text.chars().any(|c| c.is_control() && c != '\n') {
            return Ok(());
        }
        Err(ApiError::new(Kind::BadData, format!("{name}: at most {most} bytes without control characters")))
    };
    most("by", &by, NAME)?;
    most("note", &note, NOTE)?;
    Ok(OperatorNote { at_ns: now_ns(), by, note })
}

/// End of a silence, Unix ns.
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
            ms.ok_or_else(|| bad(format!("until: {text:?} is not a time; write Unix seconds or RFC 3339")))
        }
        _ => Err(bad("duration missing; give either for (\"2h\") or until (Unix seconds or RFC 3339)".to_owned())),
    }
}
