//! Late samples correct what was said: what agents kept while no collector took it comes when its time has been judged
//! without it. That time is remembered, and once no more comes of it, it is judged again out of the store, a minute at a time,
//! by a second watch beside the live one. What that finds is held against the book.

mod review;
mod stretches;

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
use stretches::Stretches;

const PACE: Duration = Duration::from_millis(200);
/// Rest after each slice beside the time that it took: a fifth of a core at most.
const REST: u32 = 4;
/// Times that a review is tried when the store cannot be read, and the rest before the next.
const TRIES: u32 = 5;
const AGAIN: Duration = Duration::from_secs(30);

/// What came late, and what was found in it and goes on.
pub(super) struct Late {
    stretches: Mutex<Stretches>,
    take_up: Mutex<Vec<Incident>>,
}

impl Late {
    /// With what waited when the collector stopped.
    pub(super) fn open(state: &AppState, now: i64) -> Self {
        Self { stretches: Mutex::new(Stretches::open(&state.store, state.config.late, now)), take_up: Mutex::default() }
    }

    /// Of these stretches of time samples came late, by now; all Unix ms.
    pub(super) fn note(&self, told: &[[i64; 2]], now: i64) {
        if !told.is_empty() {
            let mut stretches = self.stretches.lock();
            told.iter().for_each(|stretch| stretches.add(*stretch, now));
        }
    }

    /// What goes on by late samples and is watched by nobody, once.
    pub(super) fn take_up(&self) -> Vec<Incident> {
        std::mem::take(&mut *self.take_up.lock())
    }
}

/// Judges again until `stop` becomes true.
pub(super) async fn run(state: AppState, late: Arc<Late>, stop: Receiver<bool>) {
    let mut again = Again { state, late, review: None, tries: 0, next: Instant::now() };
    let work = move |why| {
        if why != Trigger::Stop {
            again.round(now_ms());
        }
    };
    periodic(PACE, Arc::default(), stop, "what comes late is judged no more", work).await;
}

struct Again {
    state: AppState,
    late: Arc<Late>,
    review: Option<Review>,
    tries: u32,
    next: Instant,
}

impl Again {
    fn round(&mut self, now: i64) {
        // It takes as much memory as the frames of the live watch.
        if Instant::now() < self.next || self.state.pressure.level() > Level::Calm {
            return;
        }
        if self.review.is_none() {
            let Some(stretch) = self.late.stretches.lock().due(now) else { return };
            let [from, to] = stretch.map(format_time);
            tracing::info!(from, to, "samples of this time came late; it is judged again");
            self.review = Some(Review::new(&self.state, stretch));
        }
        let Some(review) = &mut self.review else { return };
        let began = Instant::now();
        let step = review.step(now);
        let took = began.elapsed();
        self.state.telemetry.verdict_seconds.with_label_values(&["late"]).observe(took.as_secs_f64());
        self.next = Instant::now() + took * REST;
        match step {
            Ok(Step::More) => self.tries = 0,
            Ok(Step::Done(found)) => {
                let [from, to] = review.stretch();
                let span = [from, to].map(|ms| ms.saturating_mul(1_000_000));
                let go_on = self.state.book.judged_again(now.saturating_mul(1_000_000), found, span);
                self.late.take_up.lock().extend(go_on);
                self.end();
            }
            Err(error) if self.tries + 1 < TRIES => {
                tracing::debug!(%error, "late samples cannot be read now");
                self.tries += 1;
                self.next = Instant::now() + AGAIN;
            }
            Err(error) => {
                let [from, to] = review.stretch().map(format_time);
                tracing::warn!(%error, from, to, "late samples of this time cannot be read and are not judged");
                self.end();
            }
        }
    }

    fn end(&mut self) {
        (self.review, self.tries) = (None, 0);
        self.late.stretches.lock().done();
    }
}
