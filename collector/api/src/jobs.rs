//! `/api/v1/jobs`: jobs as reported by hooks and people, and as known to the registry.

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use fabriclens_jobs::{Filter, Job, JobKey, JobRecord, RegistryError, Source};
use serde::{Deserialize, Serialize};

use super::Api;
use super::encode::{self, Json};
use super::params::Params;
use fabriclens_core::time::now_ns;
use fabriclens_job_sources::{Body, BodyError, Change};
use fabriclens_server::error::{ApiError, Kind};

/// Begins a job: 201 if the run is new, 200 if it is known.
pub(super) async fn begin(State(api): State<Arc<Api>>, body: Bytes) -> Result<Response, ApiError> {
    let (key, record) = Body::read(&body).and_then(Body::record).map_err(bad)?;
    let before = api.jobs.registry.get(&key).map(|job| job.run);
    let job = update(api, move |r| r.begin(Source::Http, &key, record, now_ns())).await?;
    let status = if before == Some(job.run) { StatusCode::OK } else { StatusCode::CREATED };
    Ok((status, answer(&job)).into_response())
}

/// Changes the last run of a job.
pub(super) async fn change(
    State(api): State<Arc<Api>>,
    Path(id): Path<String>,
    Query(of): Query<ClusterParam>,
    body: Bytes,
) -> Result<Json, ApiError> {
    let (key, record) = of.record(id, &body)?;
    Ok(answer(&update(api, move |r| r.amend(Source::Http, &key, record)).await?))
}

/// Ends a job, now or at `end`.
pub(super) async fn end(
    State(api): State<Arc<Api>>,
    Path(id): Path<String>,
    Query(of): Query<ClusterParam>,
    body: Bytes,
) -> Result<Json, ApiError> {
    let (key, record) = of.record(id, &body)?;
    let at = record.end_ns.unwrap_or_else(now_ns);
    Ok(answer(&update(api, move |r| r.end(Source::Http, &key, at)).await?))
}

/// Returns the last run of a job.
pub(super) async fn one(
    State(api): State<Arc<Api>>,
    Path(id): Path<String>,
    Query(of): Query<ClusterParam>,
) -> Result<Json, ApiError> {
    let key = of.key(id);
    Ok(answer(&api.jobs.registry.find(&key).map_err(refused)?))
}

/// Lists matching jobs, latest start first.
pub(super) async fn list(State(api): State<Arc<Api>>, params: Params) -> Result<Json, ApiError> {
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
    };
    let limit = params.limit()?;
    let work = tokio::task::spawn_blocking(move || api.jobs.registry.list(&filter));
    let jobs = work.await.map_err(|e| ApiError::new(Kind::Internal, e.to_string()))?;
    Ok(encode::success_list(&jobs, limit, Vec::new(), |out, job| out.push_str(&json(job))))
}

/// Updates the registry, which syncs to disk.
async fn update(
    api: Arc<Api>,
    say: impl FnOnce(&fabriclens_jobs::Registry) -> Result<Job, RegistryError> + Send + 'static,
) -> Result<Job, ApiError> {
    let work = tokio::task::spawn_blocking(move || {
        let job = say(&api.jobs.registry);
        api.jobs.changed();
        job
    });
    work.await.map_err(|e| ApiError::new(Kind::Internal, e.to_string()))?.map_err(refused)
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
