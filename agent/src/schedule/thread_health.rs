//! Problems of the engine's own threads, which no source can report. Shown in `/healthz`.

use parking_lot::Mutex;
use std::any::Any;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// A discovery longer than this is stuck: it reads driver files, and a driver may hang.
const STUCK: Duration = Duration::from_secs(30);

/// Current problems of engine threads.
#[derive(Debug)]
pub(super) struct ThreadHealth {
    /// Problem by component.
    problems: Mutex<BTreeMap<String, String>>,
    /// Time of the last activity of `watch`; `None` once it has ended.
    watched: Mutex<Option<Instant>>,
}

impl Default for ThreadHealth {
    fn default() -> Self {
        Self { problems: Mutex::default(), watched: Mutex::new(Some(Instant::now())) }
    }
}

impl ThreadHealth {
    /// Adds or replaces a problem; true if the component had none.
    pub fn set(&self, component: &str, why: String) -> bool {
        self.problems.lock().insert(component.to_owned(), why).is_none()
    }

    /// Removes a problem; true if there was one.
    pub fn clear(&self, component: &str) -> bool {
        self.problems.lock().remove(component).is_some()
    }

    /// Records activity of `watch`, or its end with `None`.
    pub fn watching(&self, at: Option<Instant>) {
        *self.watched.lock() = at;
    }

    /// All problems as sentences.
    pub fn list(&self, now: Instant) -> Vec<String> {
        let mut list: Vec<String> =
            self.problems.lock().iter().map(|(component, why)| format!("{component}: {why}")).collect();
        let still = self.watched.lock().map(|at| now.saturating_duration_since(at));
        if let Some(time) = still.filter(|time| *time > STUCK) {
            list.push(format!(
                "the search for devices has been stuck for {} s; known devices are sampled as usual",
                time.as_secs()
            ));
        }
        list
    }
}

/// Message of a panic.
pub(crate) fn words(panic: &(dyn Any + Send)) -> &str {
    panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stuck_discovery_is_reported_until_it_returns() {
        let (troubles, begin) = (ThreadHealth::default(), Instant::now());
        troubles.watching(Some(begin));
        assert!(troubles.list(begin + STUCK).is_empty());
        let problems = troubles.list(begin + STUCK * 2);
        assert!(problems.len() == 1 && problems[0].contains("stuck for 60 s"), "{problems:?}");
        troubles.watching(Some(begin + STUCK * 2));
        assert!(troubles.list(begin + STUCK * 2).is_empty());
        troubles.watching(None);
        assert!(troubles.list(begin + STUCK * 9).is_empty(), "a finished discovery is not stuck");
    }

    #[test]
    fn problem_is_new_once_and_can_be_cleared() {
        let troubles = ThreadHealth::default();
        assert!(troubles.set("device a", "no thread".into()) && !troubles.set("device a", "no thread".into()));
        assert_eq!(troubles.list(Instant::now()), ["device a: no thread"]);
        assert!(troubles.clear("device a") && !troubles.clear("device a"));
        assert!(troubles.list(Instant::now()).is_empty());
    }
}
