//! `/api/v1/incidents`: the list, one incident in full, operator actions, and a stream of changes.

pub(super) mod actions;
pub(super) mod annotations;
mod listeners;
pub(super) mod stream;
mod window;

pub(crate) use listeners::Listeners;
pub(crate) use window::escape as escape_pattern;

use std::sync::Arc;

use axum::Extension;
use axum::extract::{Path, State};
use axum::response::{IntoResponse as _, Response};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::Api;
use super::blocking::{in_turn, internal};
use super::encode::Json;
use super::params::Params;
use fabriclens_core::time::now_ns;
use fabriclens_incidents::{Filter, IncidentStore, IncidentStoreError, IncidentView, Record};
use fabriclens_server::auth::Caller;
use fabriclens_server::error::{ApiError, Kind};

/// Most incidents of an answer.
const PAGE: usize = 1000;

/// Lists matching incidents, latest begin first.
pub(super) async fn list(
    State(api): State<Arc<Api>>,
    Extension(caller): Extension<Caller>,
    params: Params,
) -> Result<Json, ApiError> {
    let filter = filter(&params)?;
    let limit = params.limit_or(PAGE)?.min(PAGE);
    let offset = params.offset()?;
    let turns = api.list_turn.clone();
    in_turn(&turns, &caller, move || {
        let now = now_ns();
        let found = api.incidents.list(&filter);
        let some: Vec<IncidentView<'_>> =
            found.iter().skip(offset).take(limit).map(|r| shown(&api.incidents, r, now)).collect();
        json(&Listed { total: found.len(), incidents: some })
    })
    .await
}

/// Returns an incident, with its evidence as series before, during and after it.
pub(super) async fn one(
    State(api): State<Arc<Api>>,
    Path(id): Path<String>,
    params: Params,
) -> Result<Response, ApiError> {
    let record = api.incidents.get(&id).ok_or_else(|| refused(IncidentStoreError::Unknown(id)))?;
    match params.get("series") {
        None | Some("true") => Ok(window::answer(api, record, &params).await),
        Some("false") => Ok(json(&One { incident: shown(&api.incidents, &record, now_ns()) })?.into_response()),
        Some(other) => Err(ApiError::parameter("series", format!("{other:?} is neither true nor false"))),
    }
}

#[derive(Serialize)]
struct Listed<'a> {
    /// Number of matching incidents, of which the page has a part.
    total: usize,
    incidents: Vec<IncidentView<'a>>,
}

#[derive(Serialize)]
struct One<'a> {
    incident: IncidentView<'a>,
}

/// An incident with the silence in force.
fn shown<'a>(incidents: &IncidentStore, record: &'a Record, now_ns: i64) -> IncidentView<'a> {
    IncidentView::of(record, incidents.silence_of(record, now_ns))
}

/// Parses the filter of a request.
fn filter(params: &Params) -> Result<Filter, ApiError> {
    let ns = |name| params.get(name).map(|_| params.time(name).map(|ms| ms.saturating_mul(1_000_000))).transpose();
    let own = |name| params.get(name).map(str::to_owned);
    let open = match params.get("state") {
        None => None,
        Some("open") => Some(true),
        Some("ended") => Some(false),
        Some(other) => return Err(ApiError::parameter("state", format!("{other:?} is neither open nor ended"))),
    };
    Ok(Filter {
        from_ns: ns("from")?,
        to_ns: ns("to")?,
        kind: word(params, "kind")?,
        severity: word(params, "severity")?,
        job: own("job"),
        node: own("node"),
        open,
    })
}

/// Parses a value of an enumeration; the error lists all of them.
fn word<T: DeserializeOwned>(params: &Params, name: &str) -> Result<Option<T>, ApiError> {
    let read = |text: &str| serde_json::from_value(text.into()).map_err(|e| ApiError::parameter(name, e));
    params.get(name).map(read).transpose()
}

fn json(what: &impl Serialize) -> Result<Json, ApiError> {
    serde_json::to_string(what).map(Json).map_err(internal)
}

fn refused(e: IncidentStoreError) -> ApiError {
    let kind = match e {
        IncidentStoreError::Unknown(_) | IncidentStoreError::UnknownSilence(_) => Kind::NotFound,
        IncidentStoreError::Silence(_) | IncidentStoreError::Note(_) => Kind::BadData,
        IncidentStoreError::Disk(_) => Kind::Internal,
    };
    ApiError::new(kind, e.to_string())
}
