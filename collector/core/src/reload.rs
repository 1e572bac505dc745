//! Values loaded from files that are replaced while the collector runs: certificates, tokens, authorities of other servers.
//! Each is polled; a file that cannot be used is logged and counted, and the value before it stays in force.

use std::path::PathBuf;
use std::sync::Arc;

use fabriclens_base::reload::{POLL_INTERVAL, WatchedFiles};
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};

use crate::periodic::periodic;
use crate::telemetry::Telemetry;

/// A value loaded from files, as of the last load that succeeded.
pub struct Reloaded<T> {
    /// Names the value in logs and metrics.
    name: &'static str,
    load: Box<dyn Fn() -> Result<T, LoadError> + Send + Sync>,
    current: watch::Sender<Arc<T>>,
    files: Mutex<WatchedFiles>,
    telemetry: Telemetry,
}

/// The files cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct LoadError(String);

/// A value that is polled for changes of its files.
pub trait Reload: Send + Sync {
    /// Reloads the value if its files changed. If they cannot be used, logs and counts it once and keeps the value.
    fn poll(&self);
}

impl<T: Send + Sync> Reloaded<T> {
    /// Loads the value for the first time.
    ///
    /// # Errors
    /// The error of `load`.
    pub fn new<E: std::fmt::Display>(
        name: &'static str,
        files: Vec<PathBuf>,
        telemetry: &Telemetry,
        load: impl Fn() -> Result<T, E> + Send + Sync + 'static,
    ) -> Result<Arc<Self>, E> {
        // Fingerprints before the load, so that the next poll finds a change made in between.
        let files = Mutex::new(WatchedFiles::new(files));
        let current = watch::Sender::new(Arc::new(load()?));
        // Creates the series; several values may share a name.
        telemetry.reload_failing.with_label_values(&[name]).add(0);
        let load = Box::new(move || load().map_err(|e| LoadError(e.to_string())));
        Ok(Arc::new(Self { name, load, current, files, telemetry: telemetry.clone() }))
    }

    /// Returns the current value.
    pub fn get(&self) -> Arc<T> {
        self.current.borrow().clone()
    }

    /// Returns a receiver of the current value and of all later ones.
    pub fn subscribe(&self) -> watch::Receiver<Arc<T>> {
        self.current.subscribe()
    }
}

impl<T: Send + Sync> Reload for Reloaded<T> {
    fn poll(&self) {
        let mut files = self.files.lock();
        let was_failing = files.failure().is_some();
        let Some(loaded) = files.poll(|| (self.load)()) else { return };
        let failing = self.telemetry.reload_failing.with_label_values(&[self.name]);
        let result = match loaded {
            Ok(value) => {
                self.current.send_replace(Arc::new(value));
                if was_failing {
                    failing.dec();
                }
                tracing::info!(what = self.name, "files reloaded");
                "ok"
            }
            Err(error) => {
                tracing::error!(
                    what = self.name,
                    error,
                    "files changed and cannot be used; the previous ones stay in force"
                );
                if !was_failing {
                    failing.inc();
                }
                "failed"
            }
        };
        self.telemetry.reloads.with_label_values(&[self.name, result]).inc();
    }
}

/// Polls all values every [`POLL_INTERVAL`] and on each notification, until `stop` becomes true.
pub async fn run(all: Vec<Arc<dyn Reload>>, notified: Arc<Notify>, stop: watch::Receiver<bool>) {
    if !all.is_empty() {
        let lost = "changed files are no longer reloaded; restart the collector after changing them";
        periodic(POLL_INTERVAL, notified, stop, lost, move |_| all.iter().for_each(|r| r.poll())).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn bad_files_keep_the_previous_value() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("n");
        let telemetry = Telemetry::new().unwrap();
        let write = |text: &str| {
            // Another file each time, as editors write it, so that no clock need tick.
            fs::write(dir.path().join("new"), text).unwrap();
            fs::rename(dir.path().join("new"), &path).unwrap();
        };
        write("1");
        let read = {
            let path = path.clone();
            move || fs::read_to_string(&path).unwrap_or_default().parse::<u32>()
        };
        let number = Reloaded::new("number", vec![path.clone()], &telemetry, read).unwrap();
        let count = |result| telemetry.reloads.with_label_values(&["number", result]).get();
        let failing = || telemetry.reload_failing.with_label_values(&["number"]).get();
        number.poll();
        assert_eq!((*number.get(), count("ok")), (1, 0), "nothing changed");
        write("2");
        number.poll();
        assert_eq!((*number.get(), count("ok"), failing()), (2, 1, 0));
        write("two");
        number.poll();
        number.poll();
        assert_eq!((*number.get(), count("failed"), failing()), (2, 1, 1), "logged and counted once");
        fs::remove_file(&path).unwrap();
        number.poll();
        assert_eq!((*number.get(), failing()), (2, 1));
        write("3");
        number.poll();
        assert_eq!((*number.get(), count("ok"), failing()), (3, 2, 0));
    }
}
