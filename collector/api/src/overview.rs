//! `/api/v1/overview`: what is wrong and what is busy, in one answer.
//!
//! What needs samples (hosts, ports, jobs that suffer) is read by a fixed number of queries, at most once in [`REUSE`] however many
//! clients ask, and less often where that takes long ([`SHARE`]); incidents are those of this moment.

mod incidents;
mod measured;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Extension;
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use serde_json::{Value, json};
use tokio::sync::Mutex;

use super::Api;
use super::blocking::{blocking, in_turn};
use super::encode;
use super::params::Params;
use super::query::QueryContext;
use fabriclens_core::time::now_ms;
use fabriclens_server::auth::Caller;
use fabriclens_server::error::ApiError;

/// Age up to which measured values are reused.
const REUSE: Duration = Duration::from_secs(5);
/// The same as a multiple of the time that reading them took, so that it takes a twentieth of a core at most.
const SHARE: u32 = 20;
/// Longest such age.
const LONGEST_REUSE: Duration = Duration::from_secs(60);
/// Most silent switches, incidents and notes of an answer.
const LISTED: usize = 20;

/// Measured values as JSON, shared by all clients. Its lock is held while they are read, so that one client at a time reads them.
#[derive(Default)]
pub(super) struct Shared(Mutex<Option<Measured>>);

/// Measured values, and until when they are reused.
struct Measured {
    until: Instant,
    text: Arc<str>,
}

/// Answers with the overview.
pub(super) async fn overview(
    State(api): State<Arc<Api>>,
    Extension(caller): Extension<Caller>,
    params: Params,
) -> Response {
    match answer(&api, &caller, &params).await {
        Ok(text) => encode::success(|out| out.push_str(&text)).into_response(),
        Err(error) => error.into_response(),
    }
}

async fn answer(api: &Arc<Api>, caller: &Caller, params: &Params) -> Result<String, ApiError> {
    let measured = measured(api, params).await?;
    let api = api.clone();
    let turns = api.list_turn.clone();
    in_turn(&turns, caller, move || {
        let (incidents, switches) = (incidents::open(&api), switches(&api));
        let remarks = api.remarks(&api.store.stats()).into_iter().take(LISTED).map(|(what, _)| what);
        let remarks = Value::from(remarks.collect::<Vec<_>>());
        let of = [("incidents", incidents), ("switches", switches), ("remarks", remarks)];
        let fixed: String = of.iter().map(|(name, value)| format!("\"{name}\":{value},")).collect();
        Ok(format!("{{{fixed}\"measured\":{measured}}}"))
    })
    .await
}

/// Measured values; those of an earlier request while they are reused.
async fn measured(api: &Arc<Api>, params: &Params) -> Result<Arc<str>, ApiError> {
    let mut shared = api.overview.0.lock().await;
    if let Some(kept) = shared.as_ref().filter(|kept| Instant::now() < kept.until) {
        return Ok(kept.text.clone());
    }
    let began = Instant::now();
    // The registry of jobs may wait for the disk.
    let of = api.clone();
    let suffering = blocking(move || Ok(incidents::suffering(&of))).await?;
    let present = api.present(params).await;
    let work = move |context: &QueryContext<'_>| measured::read(context, present.as_deref(), &suffering, now_ms());
    let answer = api.within_limits(params, work).await?;
    let text: Arc<str> = answer.text().into();
    *shared = Some(Measured { until: Instant::now() + reuse(began.elapsed()), text: text.clone() });
    Ok(text)
}

/// How long values are reused that took so long to read.
fn reuse(took: Duration) -> Duration {
    took.saturating_mul(SHARE).clamp(REUSE, LONGEST_REUSE)
}

/// Switches that send samples, and the silent ones.
fn switches(api: &Api) -> Value {
    let all = api.telemetry.switches.list(now_ms());
    // A switch that sends by one of its sources is not silent.
    let mut is_silent: BTreeMap<&str, bool> = BTreeMap::new();
    for source in &all {
        is_silent.entry(&source.switch).and_modify(|silent| *silent &= source.silent).or_insert(source.silent);
    }
    let silent: Vec<&str> = is_silent.iter().filter(|(_, silent)| **silent).map(|(name, _)| *name).collect();
    json!({ "known": is_silent.len(), "silent": silent.len(), "names": &silent[..silent.len().min(LISTED)] })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_take_long_are_read_seldom() {
        let of = |ms| reuse(Duration::from_millis(ms)).as_secs();
        assert_eq!([of(10), of(250), of(1000), of(30_000)], [5, 5, 20, 60]);
    }
}
