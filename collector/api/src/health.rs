//! Liveness, readiness, and the collector's own metrics.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};

use fabriclens_store::Stats;

use super::Api;
use super::blocking::{blocking, internal};
use fabriclens_core::pressure::Level;
use fabriclens_server::auth::Caller;
use fabriclens_server::startup_listener::ALIVE;

/// Liveness: the process answers.
pub(super) async fn alive() -> &'static str {
    ALIVE
}

/// Readiness: samples are stored and queries answered; otherwise 503 with the reason. Degraded conditions are listed
/// below. Paths, URLs and error texts are for callers with a role.
pub(super) async fn ready(State(api): State<Arc<Api>>, Extension(caller): Extension<Caller>) -> Response {
    let detailed = !api.config.requires_authentication() || !caller.roles.is_empty();
    let with = |what: &str, detail: String| {
        if detailed && !detail.is_empty() { format!("{what}: {detail}\n") } else { format!("{what}\n") }
    };
    let no = |what, detail| (StatusCode::SERVICE_UNAVAILABLE, with(what, detail)).into_response();
    if *api.stopping.borrow() {
        return no("stopping: requests in progress are answered, others are rejected", String::new());
    }
    let stats = api.store.stats();
    if let Some(failure) = stats.log_failure.clone().or_else(|| api.sink.failure()) {
        return no("samples cannot be stored", failure);
    }
    let mut text = "Fabriclens is ready.\n".to_owned();
    for (what, detail) in api.remarks(&stats) {
        text += &with(&what, detail);
    }
    text.into_response()
}

impl Api {
    /// Degraded conditions, and their details.
    pub(super) fn remarks(&self, stats: &Stats) -> Vec<(String, String)> {
        let mut all = Vec::new();
        let (used, limit) = (self.pressure.used() >> 20, self.pressure.limit() >> 20);
        let overload = match self.pressure.level() {
            Level::Normal => None,
            Level::Raised => Some("late samples are rejected"),
            Level::High => Some("all samples except those of congestion and links are rejected"),
            Level::Full => Some("all samples are rejected"),
        };
        let because =
            |what| (format!("overload: {what}, because {used} of {limit} MiB of memory are used"), String::new());
        all.extend(overload.map(because));
        let rejected = self.telemetry.senders[1].get();
        if rejected > 0 {
            let text = format!("overload: {rejected} hosts are rejected, because {limit} MiB of memory hold no more");
            all.push((text, String::new()));
        }
        let missing = self.queried.missing();
        all.extend(missing.into_iter().map(|why| ("a source of samples did not answer".to_owned(), why)));
        all.extend(self.telemetry.judges.remarks());
        if stats.clock_off_ms != 0 {
            let (seconds, direction) =
                ((stats.clock_off_ms / 1000).abs(), if stats.clock_off_ms > 0 { "ahead" } else { "back" });
            let text = format!(
                "clock: stepped {direction} by {seconds} s; for an hour nothing is deleted by age, and no sample is rejected as being in the future"
            );
            all.push((text, String::new()));
        }
        if let Some(failure) = &stats.maintenance_failure {
            all.push(("blocks cannot be written, and soon samples cannot be stored".to_owned(), failure.clone()));
        }
        if let Some(first) = stats.damage.first() {
            let n = stats.damage.len();
            let detail = format!("first {}: {}", first.path.display(), first.message);
            all.push((format!("damage: {n} damaged files or records in the data directory"), detail));
        }
        all
    }
}

/// The collector's own metrics in the Prometheus text format. Off the server's threads: switches and hosts have series of their own.
pub(super) async fn metrics(State(api): State<Arc<Api>>) -> Response {
    let text = blocking(move || {
        api.telemetry.observe_store(&api.store.stats());
        api.telemetry.text().map_err(internal)
    });
    match text.await {
        Ok(text) => ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text).into_response(),
        Err(error) => {
            (StatusCode::INTERNAL_SERVER_ERROR, format!("cannot encode metrics: {}\n", error.message)).into_response()
        }
    }
}
