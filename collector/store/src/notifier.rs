//! Wakes a background thread before its next regular round.

use parking_lot::{Condvar, Mutex};
use std::time::Duration;

/// Wakes one waiting thread; a notification without a waiter is kept for the next wait.
#[derive(Default)]
pub struct Notifier {
    notified: Mutex<bool>,
    condvar: Condvar,
}

impl Notifier {
    /// Wakes the thread.
    pub fn notify(&self) {
        *self.notified.lock() = true;
        self.condvar.notify_all();
    }

    /// Waits for a notification, at most this long.
    pub fn wait(&self, at_most: Duration) {
        let mut notified = self.notified.lock();
        if !*notified {
            self.condvar.wait_for(&mut notified, at_most);
        }
        *notified = false;
    }
}
