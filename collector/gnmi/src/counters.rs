//! Counters of one switch, and the names that were not understood.

use std::collections::BTreeSet;

use fabriclens_core::gnmi_telemetry::GnmiTelemetry;
use fabriclens_core::time::now_ms;
use parking_lot::Mutex;

use crate::notification::shown;
use crate::subscriptions::Stream;
use crate::target::Observer;

/// Most unknown names that are logged of one switch.
const NAMES: usize = 200;

/// See the module.
pub(crate) struct SwitchCounters {
    switch: String,
    telemetry: GnmiTelemetry,
    /// Streams that work.
    working: Mutex<BTreeSet<&'static str>>,
    unknown: Mutex<BTreeSet<String>>,
}

impl SwitchCounters {
    pub(crate) fn new(switch: &str, telemetry: GnmiTelemetry) -> Self {
        telemetry.streams.with_label_values(&[switch]).set(0);
        Self { switch: switch.to_owned(), telemetry, working: Mutex::default(), unknown: Mutex::default() }
    }

    /// Counts values that are not stored.
    pub(crate) fn dropped(&self, reason: &str, values: u64) {
        self.telemetry.dropped.with_label_values(&[self.switch.as_str(), reason]).inc_by(values);
    }

    /// Logs a name without a row, once.
    pub(crate) fn unknown(&self, name: &str) {
        let mut known = self.unknown.lock();
        if known.len() < NAMES && !known.contains(name) {
            known.insert(name.to_owned());
            tracing::info!(switch = self.switch, name = &*shown(name), "a switch sends a name that is not known");
        }
    }

    fn set(&self, stream: &Stream, works: bool) {
        let mut working = self.working.lock();
        let changed = if works { working.insert(stream.name) } else { working.remove(stream.name) };
        if changed {
            let streams = self.telemetry.streams.with_label_values(&[self.switch.as_str()]);
            streams.set(i64::try_from(working.len()).unwrap_or(i64::MAX));
        }
    }
}

impl Observer for SwitchCounters {
    fn message(&self, stream: &Stream, bytes: usize, values: usize, unread: usize) {
        let switch = [self.switch.as_str()];
        self.telemetry.values.with_label_values(&switch).inc_by(values as u64);
        self.telemetry.bytes.with_label_values(&switch).inc_by(bytes as u64);
        self.telemetry.last_message.with_label_values(&switch).set(now_ms() as f64 / 1e3);
        if unread > 0 {
            self.dropped("unreadable", unread as u64);
        }
        self.set(stream, true);
    }

    fn failed(&self, stream: &Stream, reason: &'static str) {
        self.telemetry.failures.with_label_values(&[self.switch.as_str(), stream.name, reason]).inc();
        self.set(stream, false);
    }
}

#[cfg(test)]
impl SwitchCounters {
    pub(crate) fn for_tests(switch: &str) -> Self {
        let telemetry = fabriclens_core::telemetry::Telemetry::new().expect("names are unique");
        Self::new(switch, telemetry.gnmi)
    }

    pub(crate) fn dropped_so_far(&self, reason: &str) -> u64 {
        self.telemetry.dropped.with_label_values(&[self.switch.as_str(), reason]).get()
    }
}
