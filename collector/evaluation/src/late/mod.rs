//! Re-evaluates late samples. Samples that agents spooled while no collector was reachable arrive after their time was
//! evaluated. The time span is remembered, and once no more samples arrive for it, it is evaluated again from the
//! store, a minute at a time, by a second incident tracker besides the live one. The findings correct the incident
//! store.

mod review;
mod spans;

use std::sync::Arc;
use std::time::{Duration, Instant};

use fabriclens_correlate::Incident;
use parking_lot::Mutex;
use tokio::sync::watch::Receiver;

use fabriclens_core::periodic::{Trigger, periodic};
use fabriclens_core::pressure::Level;
use fabriclens_core::time::{format_time, now_ms};
use fabriclens_state::AppState;
use review::{Review, Step};
use spans::LateSpans;

const INTERVAL: Duration = Duration::from_millis(200);
/// Pause after each slice as a multiple of its duration, which limits the load to a fifth of a core.
const PAUSE_FACTOR: u32 = 4;
/// Attempts per review if the store cannot be read, and the pause between them.
const MAX_ATTEMPTS: u32 = 5;
const RETRY_PAUSE: Duration = Duration::from_secs(30);

/// Time spans of late samples, and incidents found open in them.
pub(super) struct LateSamples {
    spans: Mutex<LateSpans>,
    open: Mutex<Vec<Incident>>,
}

impl LateSamples {
    /// Restores the time spans that waited when the collector stopped.
    pub(super) fn open(state: &AppState, now: i64) -> Self {
        Self { spans: Mutex::new(LateSpans::open(&state.store, state.config.late, now)), open: Mutex::default() }
    }

    /// Records time spans of late samples that arrived by `now`; all Unix ms.
    pub(super) fn note(&self, late: &[[i64; 2]], now: i64) {
        if !late.is_empty() {
            let mut spans = self.spans.lock();
            late.iter().for_each(|span| spans.add(*span, now));
        }
    }

    /// Takes the incidents found open in late samples, which need live evaluation.
    pub(super) fn take_open(&self) -> Vec<Incident> {
        std::mem::take(&mut *self.open.lock())
    }
}

/// Re-evaluates until `stop` becomes true.
pub(super) async fn run(state: AppState, late: Arc<LateSamples>, stop: Receiver<bool>) {
    let mut reviewer = Reviewer { state, late, review: None, attempts: 0, next: Instant::now() };
    let work = move |trigger| {
        if trigger != Trigger::Stop {
            reviewer.round(now_ms());
        }
    };
    periodic(INTERVAL, Arc::default(), stop, "late samples are no longer evaluated", work).await;
}

struct Reviewer {
    state: AppState,
    late: Arc<LateSamples>,
    review: Option<Review>,
    attempts: u32,
    next: Instant,
}

impl Reviewer {
    fn round(&mut self, now: i64) {
        // A review needs as much memory as the frames of the live tracker.
        if Instant::now() < self.next || self.state.pressure.level() > Level::Normal {
            return;
        }
        if self.review.is_none() {
            let Some(span) = self.late.spans.lock().due(now) else { return };
            let [from, to] = span.map(format_time);
            tracing::info!(from, to, "evaluating late samples");
            self.review = Some(Review::new(&self.state, span));
        }
        let Some(review) = &mut self.review else { return };
        let began = Instant::now();
        let step = review.step(now);
        let took = began.elapsed();
        self.state.telemetry.verdict_seconds.with_label_values(&["late"]).observe(took.as_secs_f64());
        self.next = Instant::now() + took * PAUSE_FACTOR;
        match step {
            Ok(Step::More) => self.attempts = 0,
            Ok(Step::Done(found)) => {
                let [from, to] = review.span();
                let span = [from, to].map(|ms| ms.saturating_mul(1_000_000));
                let go_on = self.state.incidents.apply_review(now.saturating_mul(1_000_000), found, span);
                self.late.open.lock().extend(go_on);
                self.end();
            }
            Err(error) if self.attempts + 1 < MAX_ATTEMPTS => {
                tracing::debug!(%error, "cannot read late samples; will be retried");
                self.attempts += 1;
                self.next = Instant::now() + RETRY_PAUSE;
            }
            Err(error) => {
                let [from, to] = review.span().map(format_time);
                tracing::warn!(%error, from, to, "cannot read late samples; they are not evaluated");
                self.end();
            }
        }
    }

    fn end(&mut self) {
        (self.review, self.attempts) = (None, 0);
        self.late.spans.lock().done();
    }
}
