//! `/api/v1/query`, `query_range`, `format_query`, `query_exemplars`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use fabriclens_promql::{CancelToken, Engine, Limits, Outcome, QueryError};
use fabriclens_store::Store;

use super::encode::{self, Json};
use super::error::{ApiError, Kind};
use super::params::Params;
use super::{Api, time};
use crate::config;

/// Points of one series in one answer, as in Prometheus.
const MAX_POINTS: i64 = 11_000;
const TOO_MANY_POINTS: &str = "exceeded maximum resolution of 11,000 points per timeseries. \
                               Try decreasing the query resolution (?step=XX)";

/// The engine's limits by the config.
pub(super) fn limits(query: &config::Query) -> Limits {
    Limits {
        max_samples: usize::try_from(query.max_samples).unwrap_or(usize::MAX),
        max_steps: MAX_POINTS as usize + 1,
        timeout: query.timeout,
        lookback: query.lookback,
        ..Limits::default()
    }
}

/// Stops the query when its client has gone away.
struct CancelOnDrop(CancelToken);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

/// An instant query.
pub(super) async fn instant(State(api): State<Arc<Api>>, params: Params) -> Response {
    let evaluate = async {
        let limit = params.limit()?;
        let at = params.time_or("time", time::now_ms())?;
        let query = params.get("query").unwrap_or_default().to_owned();
        let outcome = api
            .evaluate(&params, move |engine, store, cancel| engine.instant_cancellable(store, &query, at, cancel))
            .await?;
        Ok(encode::outcome(&outcome, limit))
    };
    api.measured("query", evaluate).await
}

/// A range query.
pub(super) async fn range(State(api): State<Arc<Api>>, params: Params) -> Response {
    let evaluate = async {
        let limit = params.limit()?;
        let (start, end) = (params.time("start")?, params.time("end")?);
        if end < start {
            return Err(ApiError::parameter("end", "end timestamp must not be before start time"));
        }
        let step = step(&params)?;
        if (end - start) / step > MAX_POINTS {
            return Err(ApiError::new(Kind::BadData, TOO_MANY_POINTS));
        }
        let query = params.get("query").unwrap_or_default().to_owned();
        let outcome = api
            .evaluate(&params, move |engine, store, cancel| {
                engine.range_cancellable(store, &query, start, end, step, cancel)
            })
            .await?;
        Ok(encode::outcome(&outcome, limit))
    };
    api.measured("query_range", evaluate).await
}

/// The step in milliseconds.
fn step(params: &Params) -> Result<i64, ApiError> {
    let positive = "zero or negative query resolution step widths are not accepted. Try a positive integer";
    // Parsed as a duration only what is no number: Prometheus has its own words for numbers below zero.
    if params.get("step").and_then(|s| s.parse::<f64>().ok()).is_some_and(|s| s <= 0.0) {
        return Err(ApiError::parameter("step", positive));
    }
    let missing = || ApiError::parameter("step", "cannot parse \"\" to a valid duration");
    let step = params.duration("step")?.ok_or_else(missing)?;
    match i64::try_from(step.as_millis()) {
        Ok(ms) if ms > 0 => Ok(ms),
        _ => Err(ApiError::parameter("step", positive)),
    }
}

/// The query, laid out for reading.
pub(super) async fn format(params: Params) -> Result<Json, ApiError> {
    let query = params.get("query").unwrap_or_default().to_owned();
    let text = match tokio::task::spawn_blocking(move || fabriclens_promql::format(&query)).await {
        Ok(result) => result.map_err(|e| of_query(&e))?,
        Err(e) => return Err(ApiError::new(Kind::Internal, format!("internal error: {e}; please report it"))),
    };
    Ok(encode::success(|out| super::number::push_text(out, &text)))
}

/// None are stored, so none are found.
pub(super) async fn exemplars() -> Json {
    encode::success(|out| out.push_str("[]"))
}

impl Api {
    /// Runs one evaluation on the blocking pool when it is its turn.
    async fn evaluate(
        &self,
        params: &Params,
        work: impl FnOnce(&Engine, &Store, &CancelToken) -> Result<Outcome, QueryError> + Send + 'static,
    ) -> Result<Outcome, ApiError> {
        let mut limits = self.engine.limits().clone();
        limits.timeout = params.duration("timeout")?.map_or(limits.timeout, |t| t.min(limits.timeout));
        limits.lookback = params.duration("lookback_delta")?.filter(|l| !l.is_zero()).unwrap_or(limits.lookback);
        let deadline = limits.timeout;
        let turn = tokio::time::timeout(deadline, self.turns.clone().acquire_owned());
        let Ok(Ok(turn)) = turn.await else {
            let text = format!(
                "query timed out in queue: {} queries are running already (query.concurrency); ask less often or raise it",
                self.config.query.concurrency
            );
            return Err(ApiError::new(Kind::Timeout, text));
        };
        let cancel = CancelOnDrop(CancelToken::default());
        let (engine, store, token) = (Engine::new(limits), self.store.clone(), cancel.0.clone());
        self.telemetry.queries_in_flight.inc();
        let in_flight = self.telemetry.queries_in_flight.clone();
        let job = tokio::task::spawn_blocking(move || {
            let result = work(&engine, &store, &token);
            in_flight.dec();
            drop(turn);
            result
        });
        match job.await {
            Ok(result) => result.map_err(|e| of_query(&e)),
            Err(e) => Err(ApiError::new(Kind::Internal, format!("internal error: {e}; please report it"))),
        }
    }

    /// Counts and times one answer.
    async fn measured(&self, endpoint: &str, evaluate: impl Future<Output = Result<Json, ApiError>>) -> Response {
        let began = Instant::now();
        let result = evaluate.await;
        let took = began.elapsed();
        self.telemetry.query_seconds.with_label_values(&[endpoint]).observe(took.as_secs_f64());
        let word = match &result {
            Ok(_) => "ok",
            Err(e) => e.kind.text(),
        };
        self.telemetry.queries.with_label_values(&[endpoint, word]).inc();
        if took > Duration::from_secs(10) {
            tracing::info!(endpoint, seconds = took.as_secs_f64(), "slow query");
        }
        result.into_response()
    }
}

fn of_query(e: &QueryError) -> ApiError {
    match e {
        QueryError::Parse { .. } => ApiError::parameter("query", e),
        QueryError::BadRequest(_) => ApiError::new(Kind::BadData, e.to_string()),
        QueryError::Execution(_) | QueryError::TooManySamples { .. } => ApiError::new(Kind::Execution, e.to_string()),
        QueryError::Timeout => ApiError::new(Kind::Timeout, e.to_string()),
        QueryError::Cancelled => ApiError::new(Kind::Canceled, e.to_string()),
        QueryError::Storage(_) => ApiError::new(Kind::Internal, e.to_string()),
    }
}
