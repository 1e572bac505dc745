//! `/api/v1/jobs`: jobs as reported by hooks and people, and as known to the registry; an administrator deletes them.

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::{Extension, Path, Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use fabriclens_jobs::{Cursor, Filter, Job, JobKey, JobRecord, Page, Registry, RegistryError, Reporter};
use serde::{Deserialize, Serialize};

use super::Api;
use super::blocking;
use super::encode::{self, Json};
use super::params::Params;
use fabriclens_core::time::now_ns;
use fabriclens_job_sources::{Body, BodyError, Change};
use fabriclens_server::auth::{Caller, Hosts};
use fabriclens_server::error::{ApiError, Kind};

/// Jobs of an answer, if the request sets no limit, and at most.
const PAGE: usize = 1_000;
const MOST: usize = 10_000;
/// Memory of the jobs of an answer, bytes; at least one job is returned.
const PAGE_BYTES: usize = 16 << 20;

/// Begins a job: 201 if the run is new, 200 if it is known.
pub(super) async fn begin(
    State(api): State<Arc<Api>>,
    Extension(caller): Extension<Caller>,
    body: Bytes,
) -> Result<Response, ApiError> {
    let from = caller.clone();
    in_turn(api, &from, move |api| {
        let (key, record) = Body::read(&body).and_then(Body::record).map_err(bad)?;
        let before = api.jobs.registry.get(&key).map(|job| job.run);
        let job = changed(api, |r| r.begin(reporter(&caller), &key, record, now_ns()))?;
        let status = if before == Some(job.run) { StatusCode::OK } else { StatusCode::CREATED };
        Ok((status, answer(&job)).into_response())
    })
    .await
}

/// Changes the last run of a job.
pub(super) async fn change(
    State(api): State<Arc<Api>>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
    Query(of): Query<ClusterParam>,
    body: Bytes,
) -> Result<Json, ApiError> {
    let from = caller.clone();
    in_turn(api, &from, move |api| {
        let (key, record) = of.record(id, &body)?;
        Ok(answer(&changed(api, |r| r.amend(reporter(&caller), &key, record))?))
    })
    .await
}

/// Ends a job, now or at `end`.
pub(super) async fn end(
    State(api): State<Arc<Api>>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
    Query(of): Query<ClusterParam>,
    body: Bytes,
) -> Result<Json, ApiError> {
    let from = caller.clone();
    in_turn(api, &from, move |api| {
        let (key, record) = of.record(id, &body)?;
        let at = record.end_ns.unwrap_or_else(now_ns);
        Ok(answer(&changed(api, |r| r.end(reporter(&caller), &key, at))?))
    })
    .await
}

/// Returns the last run of a job.
pub(super) async fn one(
    State(api): State<Arc<Api>>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
    Query(of): Query<ClusterParam>,
) -> Result<Json, ApiError> {
    let key = of.key(id);
    in_turn(api, &caller, move |api| Ok(answer(&api.jobs.registry.find(&key).map_err(refused)?))).await
}

/// Deletes all runs of a job.
pub(super) async fn delete(
    State(api): State<Arc<Api>>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
    Query(of): Query<ClusterParam>,
) -> Result<Json, ApiError> {
    let key = of.key(id);
    in_turn(api, &caller, move |api| changed(api, |registry| registry.remove(&key))).await.map(deleted)
}

/// Deletes all jobs that one sender reported.
pub(super) async fn delete_all(
    State(api): State<Arc<Api>>,
    Extension(caller): Extension<Caller>,
    params: Params,
) -> Result<Json, ApiError> {
    let Some(sender) = params.get("sender").map(str::to_owned) else {
        let message = "missing; name the sender whose jobs to delete, as reported_by shows it (host/gpu-01)";
        return Err(ApiError::parameter("sender", message));
    };
    in_turn(api, &caller, move |api| changed(api, |registry| registry.remove_sender(&sender))).await.map(deleted)
}

fn deleted(runs: usize) -> Json {
    encode::success(|out| out.push_str(&format!("{{\"deleted\":{runs}}}")))
}

/// Lists matching jobs by page, latest start first.
pub(super) async fn list(
    State(api): State<Arc<Api>>,
    Extension(caller): Extension<Caller>,
    params: Params,
) -> Result<Json, ApiError> {
    let own = |name: &str| params.get(name).map(str::to_owned);
    let ns = |name| params.get(name).map(|_| params.time(name).map(|ms| ms.saturating_mul(1_000_000))).transpose();
    let running = match params.get("state") {
        None => None,
        Some("running") => Some(true),
        Some("ended") => Some(false),
        Some(other) => {
            return Err(ApiError::parameter("state", format!("{other:?} is neither running nor ended")));
        }
    };
    let filter = Filter {
        from_ns: ns("start")?,
        to_ns: ns("end")?,
        running,
        user: own("user"),
        host: own("host"),
        cluster: own("cluster"),
        sender: own("sender"),
    };
    let most = params.limit_or(PAGE)?.min(MOST);
    let invalid = |()| ApiError::parameter("cursor", "give next of the page before");
    let after: Option<Cursor> = params.get("cursor").map(|text| text.parse().map_err(invalid)).transpose()?;
    in_turn(api, &caller, move |api| {
        let Page { jobs, next, .. } = api.jobs.registry.page(&filter, after.as_ref(), most, PAGE_BYTES);
        Ok(encode::success_page(&jobs, next.map(|next| next.to_string()), |out, job| out.push_str(&json(job))))
    })
    .await
}

/// The reporter that a caller is.
fn reporter(caller: &Caller) -> Reporter {
    match &caller.hosts {
        Hosts::Only(hosts) => Reporter::bound(hosts.clone()),
        Hosts::Any => Reporter::caller(&caller.sender()),
    }
}

/// Runs `work` off the server's threads, one request at a time.
async fn in_turn<T: Send + 'static>(
    api: Arc<Api>,
    caller: &Caller,
    work: impl FnOnce(&Api) -> Result<T, ApiError> + Send + 'static,
) -> Result<T, ApiError> {
    let turns = api.job_turn.clone();
    blocking::in_turn(&turns, caller, move || work(&api)).await
}

/// Changes the registry, and tells the pollers.
fn changed<T>(api: &Api, change: impl FnOnce(&Registry) -> Result<T, RegistryError>) -> Result<T, ApiError> {
    let done = change(&api.jobs.registry);
    api.jobs.changed();
    done.map_err(refused)
}

/// Cluster of the job ID, if the collector serves several clusters.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ClusterParam {
    #[serde(default)]
    cluster: String,
}

impl ClusterParam {
    fn key(self, id: String) -> JobKey {
        JobKey { cluster: self.cluster, id }
    }

    /// Parses the key and the record of a body.
    fn record(self, id: String, body: &[u8]) -> Result<(JobKey, JobRecord), ApiError> {
        Ok((self.key(id), Change::read(body).and_then(Change::record).map_err(bad)?))
    }
}

fn bad(e: BodyError) -> ApiError {
    ApiError::new(Kind::BadData, e.to_string())
}

pub(super) fn refused(e: RegistryError) -> ApiError {
    let kind = match e {
        RegistryError::Refused { .. } | RegistryError::Overlap { .. } | RegistryError::Ambiguous { .. } => {
            Kind::BadData
        }
        RegistryError::Foreign { .. } => Kind::Denied,
        RegistryError::Full { .. } => Kind::Unavailable,
        RegistryError::Unknown(_) => Kind::NotFound,
        RegistryError::Disk(_) => Kind::Internal,
    };
    ApiError::new(kind, e.to_string())
}

fn answer(job: &Job) -> Json {
    encode::success(|out| out.push_str(&json(job)))
}

/// A job with derived fields.
#[derive(Serialize)]
struct JobView<'a> {
    #[serde(flatten)]
    job: &'a Job,
    state: &'static str,
}

fn json(job: &Job) -> String {
    let state = if job.end_ns.is_none() { "running" } else { "ended" };
    // Maps of strings and numbers always serialize to JSON.
    serde_json::to_string(&JobView { job, state }).unwrap_or_default()
}
