//! PromQL: `/api/v1/query`, `query_range`, `format_query`, `query_exemplars`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use fabriclens_model::{Budget, CancelToken, ReadError, TimedBudget};
use fabriclens_promql::{Engine, Limits, Outcome, QueryError};
use prometheus::IntGauge;

use super::Api;
use super::encode::{self, Json, Timings};
use super::memory::{Answer, Grant};
use super::params::Params;
use super::pieces::in_pieces;
use super::result_cache::ResultCache;
use super::result_parts::Steps;
use fabriclens_core::json_text::push_text;
use fabriclens_core::pressure::Level;
use fabriclens_core::query_thread::on_query_thread;
use fabriclens_core::telemetry::Telemetry;
use fabriclens_core::time;
use fabriclens_data::{Data, MAX_POINTS};
use fabriclens_server::error::{ApiError, Kind};

const TOO_MANY_POINTS: &str = "exceeded maximum resolution of 11,000 points per timeseries. \
                               Try decreasing the query resolution (?step=XX)";

/// Cancels the query when its client disconnects.
#[derive(Default)]
pub(super) struct CancelOnDrop(pub(super) CancelToken);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

/// Resources for the evaluation of a query.
pub(super) struct QueryContext<'a> {
    /// Engine with the remaining limits.
    pub engine: &'a Engine,
    pub data: &'a Data,
    /// Memory, deadline and cancellation; the engine uses them, too.
    pub budget: &'a TimedBudget<'a>,
    /// Time until evaluation began.
    pub queued: Duration,
    /// Permit and memory.
    grant: &'a Grant,
}

/// Counts a query while it is evaluated.
struct InFlight(IntGauge);

impl InFlight {
    fn new(telemetry: &Telemetry) -> Self {
        telemetry.queries_in_flight.inc();
        Self(telemetry.queries_in_flight.clone())
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.dec();
    }
}

/// Instant query.
pub(super) async fn instant(State(api): State<Arc<Api>>, params: Params) -> Response {
    let evaluate = async {
        let limit = params.limit()?;
        let at = params.time_or("time", time::now_ms())?;
        let query = params.get("query").unwrap_or_default().to_owned();
        let evaluate =
            move |cx: &QueryContext<'_>| cx.engine.instant_cancellable(cx.data.reader(), &query, at, cx.budget.cancel);
        api.evaluate(&params, evaluate, move |outcome, t, budget| encode::outcome(outcome, limit, t, budget)).await
    };
    api.measured("query", evaluate).await
}

/// Range query.
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
        // Statistics are those of a whole evaluation.
        let asked_anew = ["nocache", "stats"].iter().any(|name| params.get(name).is_some());
        let (divisible, shared) = (fabriclens_promql::looks_only_back(&query), api.clone());
        let evaluate = move |cx: &QueryContext<'_>| {
            let run = |Steps { start, end, step }| {
                cx.engine.range_cancellable(cx.data.reader(), &query, start, end, step, cx.budget.cancel)
            };
            let all = Steps { start, end, step };
            if !divisible {
                return run(all);
            }
            let from = |start| in_pieces(Steps { start, ..all }, cx.grant, run);
            match (cx.data, shared.results()) {
                (Data::Local(store), Some(results)) if !asked_anew => {
                    results.range(store, (&query, cx.engine.limits().lookback), all, cx.budget, from)
                }
                _ => from(start),
            }
        };
        api.evaluate(&params, evaluate, move |outcome, t, budget| encode::outcome(outcome, limit, t, budget)).await
    };
    api.measured("query_range", evaluate).await
}

/// Step in ms.
fn step(params: &Params) -> Result<i64, ApiError> {
    let positive = "zero or negative query resolution step widths are not accepted. Try a positive integer";
    // Only non-numbers are parsed as durations: Prometheus has its own message for negative numbers.
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

/// Returns the query, formatted.
pub(super) async fn format(State(api): State<Arc<Api>>, params: Params) -> Result<Answer, ApiError> {
    api.formatted(&params, |text| encode::success(|out| push_text(out, text))).await
}

/// Exemplars are not stored, so the result is empty; invalid queries are refused, though.
pub(super) async fn exemplars(State(api): State<Arc<Api>>, params: Params) -> Result<Answer, ApiError> {
    let (start, end) = (params.time_or("start", i64::MIN)?, params.time_or("end", i64::MAX)?);
    if end < start {
        return Err(ApiError::new(Kind::BadData, "end timestamp must not be before start timestamp"));
    }
    api.formatted(&params, |_| encode::success(|out| out.push_str("[]"))).await
}

impl Api {
    /// Evaluates a query once it has a permit.
    pub(super) async fn evaluate(
        &self,
        params: &Params,
        work: impl Fn(&QueryContext<'_>) -> Result<Outcome, QueryError> + Send + Sync + 'static,
        encode: impl Fn(&Outcome, Option<Timings>, &dyn Budget) -> Result<Json, ReadError> + Send + Sync + 'static,
    ) -> Result<Answer, ApiError> {
        let wants_stats = params.get("stats").is_some();
        let work = move |context: &QueryContext<'_>| {
            let began = Instant::now();
            let mut outcome = work(context)?;
            outcome.warnings.extend(context.data.missing());
            context.budget.request(encode::size(&outcome))?;
            let timings = wants_stats.then(|| Timings { queued: context.queued, evaluated: began.elapsed() });
            Ok(encode(&outcome, timings, context.budget)?)
        };
        self.within_limits(params, work).await
    }

    /// Kept results; `None`, and none are kept, while memory is short.
    fn results(&self) -> Option<&ResultCache> {
        if self.pressure.level() > Level::Normal {
            self.results.clear();
            return None;
        }
        Some(&self.results)
    }

    /// Formats the query, or says why it is invalid.
    async fn formatted(
        &self,
        params: &Params,
        encode: impl Fn(&str) -> Json + Send + Sync + 'static,
    ) -> Result<Answer, ApiError> {
        let query = params.get("query").unwrap_or_default().to_owned();
        let work = move |context: &QueryContext<'_>| Ok(encode(&fabriclens_promql::format(&query, context.budget)?));
        self.within_limits(params, work).await
    }

    /// Runs work on samples once it has a permit, and again with more memory reserved if it needs more than is free.
    pub(super) async fn within_limits(
        &self,
        params: &Params,
        work: impl Fn(&QueryContext<'_>) -> Result<Json, QueryError> + Send + Sync + 'static,
    ) -> Result<Answer, ApiError> {
        let began = Instant::now();
        let mut limits = self.engine.limits().clone();
        let timeout = params.duration("timeout")?.map_or(limits.timeout, |t| t.min(limits.timeout));
        limits.lookback = params.duration("lookback_delta")?.filter(|l| !l.is_zero()).unwrap_or(limits.lookback);
        let cancel = CancelOnDrop::default();
        let work = Arc::new(work);
        let mut set_aside = 0;
        loop {
            let left = || timeout.saturating_sub(began.elapsed());
            let Ok(Some(grant)) = tokio::time::timeout(left(), self.pool.enter(set_aside)).await else {
                return Err(self.no_permit(set_aside > 0));
            };
            let engine = Engine::new(Limits { timeout: left(), ..limits.clone() }).within(grant.clone());
            let (work, store, token, held) = (work.clone(), self.data(params), cancel.0.clone(), grant.clone());
            let running = InFlight::new(&self.telemetry);
            let job = on_query_thread(move || {
                let _running = running;
                let queued = began.elapsed();
                let deadline = began.checked_add(timeout);
                let budget = TimedBudget { memory: &*held, cancel: &token, deadline };
                work(&QueryContext { engine: &engine, data: &store, budget: &budget, queued, grant: &held })
            });
            // Some steps, such as sorting, end later than they should; nobody waits for them.
            let Ok(done) = tokio::time::timeout(left(), job).await else {
                return Err(of_query(&QueryError::Timeout));
            };
            match done {
                Ok(Ok(json)) => return Ok(Answer::new(json, grant)),
                Ok(Err(QueryError::Memory)) => match grant.more() {
                    Some(bytes) => set_aside = bytes,
                    None => return Err(of_query(&QueryError::Memory)),
                },
                Ok(Err(e)) => return Err(of_query(&e)),
                Err(e) => return Err(ApiError::new(Kind::Internal, format!("internal error: {e}; please report it"))),
            }
            self.telemetry.query_memory_waits.inc();
        }
    }

    pub(super) fn no_permit(&self, heavy: bool) -> ApiError {
        let config = &self.config.query;
        let why = if heavy {
            format!(
                "other queries hold the memory that this query needs ({} MiB for all queries, query.memory); narrow the query, retry later, or raise the limit",
                config.memory >> 20
            )
        } else {
            format!(
                "{} queries are running (query.concurrency); query less often, or raise the limit",
                config.concurrency
            )
        };
        ApiError::new(Kind::Timeout, format!("query timed out in query queue: {why}"))
    }

    /// Counts and times an answer.
    pub(super) async fn measured(
        &self,
        endpoint: &str,
        evaluate: impl Future<Output = Result<Answer, ApiError>>,
    ) -> Response {
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

pub(super) fn of_query(e: &QueryError) -> ApiError {
    match e {
        QueryError::Parse { .. } => ApiError::parameter("query", e),
        QueryError::BadRequest(_) => ApiError::new(Kind::BadData, e.to_string()),
        QueryError::Execution(_) | QueryError::TooManySamples { .. } => ApiError::new(Kind::Execution, e.to_string()),
        QueryError::Memory => ApiError::new(
            Kind::Execution,
            "query processing would load too many samples into memory in query execution (more than query.memory; narrow \
             the selector or the time range, or raise it)",
        ),
        QueryError::Timeout => ApiError::new(Kind::Timeout, e.to_string()),
        QueryError::Cancelled => ApiError::new(Kind::Canceled, e.to_string()),
        QueryError::Storage(_) => ApiError::new(Kind::Internal, e.to_string()),
    }
}
