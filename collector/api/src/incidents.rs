//! `/api/v1/incidents`: what is and was wrong, what people say of it, and a stream of what changes.

pub(super) mod actions;
pub(super) mod annotations;
pub(super) mod stream;
mod window;

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::response::{IntoResponse as _, Response};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::Api;
use super::encode::Json;
use super::params::Params;
use fabriclens_core::time::now_ns;
use fabriclens_incidents::{Book, BookError, Filter, Record, Shown};
use fabriclens_server::error::{ApiError, Kind};

/// Incidents of an answer that does not say how many it wants.
const USUAL: usize = 1000;

/// All that fit, the one that began last first.
pub(super) async fn list(State(api): State<Arc<Api>>, params: Params) -> Result<Json, ApiError> {
    let filter = filter(&params)?;
    let limit = if params.get("limit").is_some() { params.limit()? } else { USUAL };
    blocking(move || {
        let now = now_ns();
        let found = api.book.list(&filter);
        let some: Vec<Shown<'_>> = found.iter().take(limit).map(|r| shown(&api.book, r, now)).collect();
        json(&Listed { total: found.len(), incidents: some })
    })
    .await
}

/// One, with what its evidence was before, during and after it.
pub(super) async fn one(
    State(api): State<Arc<Api>>,
    Path(id): Path<String>,
    params: Params,
) -> Result<Response, ApiError> {
    let record = api.book.get(&id).ok_or_else(|| refused(BookError::Unknown(id)))?;
    match params.get("series") {
        None | Some("true") => Ok(window::answer(api, record, &params).await),
        Some("false") => Ok(json(&One { incident: shown(&api.book, &record, now_ns()) })?.into_response()),
        Some(other) => Err(ApiError::parameter("series", format!("{other:?} is neither true nor false"))),
    }
}

#[derive(Serialize)]
struct Listed<'a> {
    /// How many fit; a limit shows fewer.
    total: usize,
    incidents: Vec<Shown<'a>>,
}

#[derive(Serialize)]
struct One<'a> {
    incident: Shown<'a>,
}

/// An incident with the silence that is in force for it.
fn shown<'a>(book: &Book, record: &'a Record, now_ns: i64) -> Shown<'a> {
    Shown::of(record, book.silence_of(record, now_ns))
}

/// Which incidents are asked for.
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

/// One of a list of words; the error names all of them.
fn word<T: DeserializeOwned>(params: &Params, name: &str) -> Result<Option<T>, ApiError> {
    let read = |text: &str| serde_json::from_value(text.into()).map_err(|e| ApiError::parameter(name, e));
    params.get(name).map(read).transpose()
}

/// The book reads and writes its disk.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ApiError> + Send + 'static,
) -> Result<T, ApiError> {
    tokio::task::spawn_blocking(work).await.map_err(|e| ApiError::new(Kind::Internal, e.to_string()))?
}

fn json(what: &impl Serialize) -> Result<Json, ApiError> {
    serde_json::to_string(what).map(Json).map_err(|e| ApiError::new(Kind::Internal, e.to_string()))
}

fn refused(e: BookError) -> ApiError {
    let kind = match e {
        BookError::Unknown(_) | BookError::UnknownSilence(_) => Kind::NotFound,
        BookError::Silence(_) => Kind::BadData,
        BookError::Disk(_) => Kind::Internal,
    };
    ApiError::new(kind, e.to_string())
}
