//! Liveness, readiness, and the collector's own metrics.

use std::fmt::Write as _;
use std::sync::Arc;

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};

use fabriclens_store::Stats;

use super::Api;
use fabriclens_core::pressure::Level;
use fabriclens_server::startup_listener::ALIVE;

/// Liveness: the process answers.
pub(super) async fn alive() -> &'static str {
    ALIVE
}

/// Readiness: samples are stored and queries answered; otherwise 503 with the reason. Degraded conditions are listed
/// below.
pub(super) async fn ready(State(api): State<Arc<Api>>) -> Response {
    let no = |why: String| (StatusCode::SERVICE_UNAVAILABLE, why + "\n").into_response();
    if *api.stopping.borrow() {
        return no("stopping: requests in progress are answered, others are rejected".to_owned());
    }
    let stats = api.store.stats();
    if let Some(failure) = stats.log_failure.clone().or_else(|| api.sink.failure()) {
        return no(format!("samples cannot be stored: {failure}"));
    }
    let mut text = "Fabriclens is ready.\n".to_owned();
    for remark in api.remarks(&stats) {
        _ = writeln!(text, "{remark}");
    }
    text.into_response()
}

impl Api {
    /// Degraded conditions.
    fn remarks(&self, stats: &Stats) -> Vec<String> {
        let mut all = Vec::new();
        let (used, limit) = (self.pressure.used() >> 20, self.pressure.limit() >> 20);
        match self.pressure.level() {
            Level::Normal => {}
            Level::Raised => all.push("overload: late samples are rejected"),
            Level::High => all.push("overload: all samples except those of congestion and links are rejected"),
            Level::Full => all.push("overload: all samples are rejected"),
        }
        let mut all: Vec<String> =
            all.into_iter().map(|what| format!("{what}, because {used} of {limit} MiB of memory are used")).collect();
        let rejected = self.telemetry.senders[1].get();
        if rejected > 0 {
            all.push(format!("overload: {rejected} hosts are rejected, because {limit} MiB of memory hold no more"));
        }
        all.extend(self.queried.missing());
        if stats.clock_off_ms != 0 {
            let (seconds, direction) =
                ((stats.clock_off_ms / 1000).abs(), if stats.clock_off_ms > 0 { "ahead" } else { "back" });
            all.push(format!(
                "clock: stepped {direction} by {seconds} s; for an hour nothing is deleted by age, and no sample is rejected as being in the future"
            ));
        }
        if let Some(failure) = &stats.maintenance_failure {
            all.push(format!("blocks cannot be written, and soon samples cannot be stored: {failure}"));
        }
        if !stats.damage.is_empty() {
            let (n, first) = (stats.damage.len(), &stats.damage[0]);
            all.push(format!(
                "damage: {n} damaged files or records in the data directory, first {}: {}",
                first.path.display(),
                first.message
            ));
        }
        all
    }
}

/// The collector's own metrics in the Prometheus text format.
pub(super) async fn metrics(State(api): State<Arc<Api>>) -> Response {
    api.telemetry.observe_store(&api.store.stats());
    match api.telemetry.text() {
        Ok(text) => ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text).into_response(),
        Err(e) => (StatusCode::INTERNAL_SERVER_ERROR, format!("cannot encode metrics: {e}\n")).into_response(),
    }
}
