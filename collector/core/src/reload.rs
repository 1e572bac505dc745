//! What is read from files that others change while the collector runs: certificates, tokens, whom it trusts. Files are looked at, not
//! watched: a volume of Kubernetes swaps a link, an editor renames, and both show in what `stat` tells.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Notify, watch};

use crate::periodic::periodic;
use crate::telemetry::Telemetry;

/// Between two looks.
const PACE: Duration = Duration::from_secs(5);

/// What tells a file from the one that was there before: device, inode, length, times of contents and of mode.
type Print = Option<[i64; 5]>;

/// A value made of files, as they were when it last could be made.
pub struct Reloaded<T> {
    /// For the log and the metrics.
    what: &'static str,
    files: Vec<PathBuf>,
    load: Box<dyn Fn() -> Result<T, String> + Send + Sync>,
    now: watch::Sender<Arc<T>>,
    seen: Mutex<Seen>,
    telemetry: Telemetry,
}

struct Seen {
    prints: Vec<Print>,
    /// Trigger the files as they are cannot be used.
    failure: Option<String>,
}

/// Something whose files may change.
pub trait Reload: Send + Sync {
    /// Takes over what changed; what cannot be used is told once, and the value before stays in force.
    fn look(&self);
}

impl<T: Send + Sync> Reloaded<T> {
    /// Loads for the first time.
    ///
    /// # Errors
    /// What `load` says.
    pub fn new<E: std::fmt::Display>(
        what: &'static str,
        files: Vec<PathBuf>,
        telemetry: &Telemetry,
        load: impl Fn() -> Result<T, E> + Send + Sync + 'static,
    ) -> Result<Arc<Self>, E> {
        // Before the load: what changes meanwhile is found by the next look.
        let prints = prints(&files);
        let now = watch::Sender::new(Arc::new(load()?));
        // There from now on; several may be of one name.
        telemetry.reload_failing.with_label_values(&[what]).add(0);
        let load = Box::new(move || load().map_err(|e| e.to_string()));
        let seen = Mutex::new(Seen { prints, failure: None });
        Ok(Arc::new(Self { what, files, load, now, seen, telemetry: telemetry.clone() }))
    }

    /// The value in force.
    pub fn get(&self) -> Arc<T> {
        self.now.borrow().clone()
    }

    /// The value in force, and to be told of those after it.
    pub fn follow(&self) -> watch::Receiver<Arc<T>> {
        self.now.subscribe()
    }
}

impl<T: Send + Sync> Reload for Reloaded<T> {
    fn look(&self) {
        let mut seen = self.seen.lock();
        let prints = prints(&self.files);
        // After a failure each look tries again: it may have been for want of a descriptor.
        if prints == seen.prints && seen.failure.is_none() {
            return;
        }
        seen.prints = prints;
        let count = |result: &str| self.telemetry.reloads.with_label_values(&[self.what, result]).inc();
        let failing = self.telemetry.reload_failing.with_label_values(&[self.what]);
        match (self.load)() {
            Ok(value) => {
                self.now.send_replace(Arc::new(value));
                if seen.failure.take().is_some() {
                    failing.dec();
                }
                count("ok");
                tracing::info!(what = self.what, "files changed and are in force");
            }
            Err(error) if seen.failure.as_ref() != Some(&error) => {
                tracing::error!(
                    what = self.what,
                    error,
                    "files changed and cannot be used; those before stay in force"
                );
                if seen.failure.replace(error).is_none() {
                    failing.inc();
                }
                count("failed");
            }
            Err(_) => {}
        }
    }
}

fn prints(files: &[PathBuf]) -> Vec<Print> {
    let print = |path: &PathBuf| {
        let m = fs::metadata(path).ok()?;
        let ns = |s: i64, ns: i64| s.wrapping_mul(1_000_000_000).wrapping_add(ns);
        let (written, changed) = (ns(m.mtime(), m.mtime_nsec()), ns(m.ctime(), m.ctime_nsec()));
        Some([m.dev().cast_signed(), m.ino().cast_signed(), m.len().cast_signed(), written, changed])
    };
    files.iter().map(print).collect()
}

/// Looks at all of them at a pace and when told to, until `stop` becomes true.
pub async fn run(all: Vec<Arc<dyn Reload>>, told: Arc<Notify>, stop: watch::Receiver<bool>) {
    if !all.is_empty() {
        let lost = "files are no longer looked at; restart the collector after changing them";
        periodic(PACE, told, stop, lost, move |_| all.iter().for_each(|r| r.look())).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_file_is_taken_and_a_bad_one_leaves_the_one_before() {
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
        number.look();
        assert_eq!((*number.get(), count("ok")), (1, 0), "nothing changed");
        write("2");
        number.look();
        assert_eq!((*number.get(), count("ok"), failing()), (2, 1, 0));
        write("two");
        number.look();
        number.look();
        assert_eq!((*number.get(), count("failed"), failing()), (2, 1, 1), "told once");
        fs::remove_file(&path).unwrap();
        number.look();
        assert_eq!((*number.get(), failing()), (2, 1));
        write("3");
        number.look();
        assert_eq!((*number.get(), count("ok"), failing()), (3, 2, 0));
    }
}
