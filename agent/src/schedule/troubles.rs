//! What is wrong with the engine's own threads, which no source tells: for `/healthz`.

use parking_lot::Mutex;
use std::any::Any;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// A search for devices that takes longer is stuck: it looks into files of drivers, and a driver may hang.
const STUCK: Duration = Duration::from_secs(30);

/// See the module.
#[derive(Debug)]
pub(super) struct Troubles {
    /// By what is concerned.
    told: Mutex<BTreeMap<String, String>>,
    /// When `watch` was last seen at work; `None` once it has ended.
    watched: Mutex<Option<Instant>>,
}

impl Default for Troubles {
    fn default() -> Self {
        Self { told: Mutex::default(), watched: Mutex::new(Some(Instant::now())) }
    }
}

impl Troubles {
    /// Notes one; true when it is new.
    pub fn set(&self, what: &str, why: String) -> bool {
        self.told.lock().insert(what.to_owned(), why).is_none()
    }

    /// It is over; true when there was one.
    pub fn clear(&self, what: &str) -> bool {
        self.told.lock().remove(what).is_some()
    }

    /// `watch` is at work, or, with `None`, ends.
    pub fn watching(&self, at: Option<Instant>) {
        *self.watched.lock() = at;
    }

    /// All of them in words.
    pub fn list(&self, now: Instant) -> Vec<String> {
        let mut list: Vec<String> = self.told.lock().iter().map(|(what, why)| format!("{what}: {why}")).collect();
        let still = self.watched.lock().map(|at| now.saturating_duration_since(at));
        if let Some(time) = still.filter(|time| *time > STUCK) {
            list.push(format!(
                "the search for devices has been stuck for {} s; those that are known go on",
                time.as_secs()
            ));
        }
        list
    }
}

/// What a thread said when it panicked.
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
    fn a_search_that_does_not_come_back_is_told_until_it_does() {
        let (troubles, begin) = (Troubles::default(), Instant::now());
        troubles.watching(Some(begin));
        assert!(troubles.list(begin + STUCK).is_empty());
        let told = troubles.list(begin + STUCK * 2);
        assert!(told.len() == 1 && told[0].contains("stuck for 60 s"), "{told:?}");
        troubles.watching(Some(begin + STUCK * 2));
        assert!(troubles.list(begin + STUCK * 2).is_empty());
        troubles.watching(None);
        assert!(troubles.list(begin + STUCK * 9).is_empty(), "one that has ended is not stuck");
    }

    #[test]
    fn troubles_are_news_once_and_end() {
        let troubles = Troubles::default();
        assert!(troubles.set("device a", "no thread".into()) && !troubles.set("device a", "no thread".into()));
        assert_eq!(troubles.list(Instant::now()), ["device a: no thread"]);
        assert!(troubles.clear("device a") && !troubles.clear("device a"));
        assert!(troubles.list(Instant::now()).is_empty());
    }
}
