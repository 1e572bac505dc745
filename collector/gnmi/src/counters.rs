//! Counters of one switch, and its entry in the list of switches.

use std::sync::Arc;

use fabriclens_base::Sender;
use fabriclens_core::gnmi_telemetry::GnmiTelemetry;
use fabriclens_core::switch_list::SwitchList;
use fabriclens_core::telemetry::Telemetry;
use fabriclens_core::time::now_ms;
use prometheus::IntGauge;

use crate::notification::shown;
use crate::subscriptions::Stream;
use crate::target::Observer;

/// Source in the list of switches.
const SOURCE: &str = "gnmi";

/// See the module.
pub(crate) struct SwitchCounters {
    switch: Arc<str>,
    switches: SwitchList,
    telemetry: GnmiTelemetry,
    /// Streams that work.
    working: IntGauge,
}

impl SwitchCounters {
    pub(crate) fn new(switch: &str, telemetry: &Telemetry) -> Self {
        let working = telemetry.gnmi.streams.with_label_values(&[switch]);
        working.set(0);
        let (switch, switches) = (Arc::from(switch), telemetry.switches.clone());
        switches.expect(&switch, SOURCE);
        Self { switch, switches, telemetry: telemetry.gnmi.clone(), working }
    }

    /// Name of the switch.
    pub(crate) fn switch(&self) -> &str {
        &self.switch
    }

    /// Counts values that are not stored.
    pub(crate) fn dropped(&self, reason: &str, values: u64) {
        self.telemetry.dropped.with_label_values(&[&*self.switch, reason]).inc_by(values);
    }

    /// Logs a name without a row, once.
    pub(crate) fn unknown(&self, name: &str) {
        if self.switches.unknown(&self.switch, SOURCE, name, now_ms()) {
            tracing::info!(switch = &*self.switch, name = &*shown(name), "a switch sends a name that is not known");
        }
    }

    /// Records that a stream works, or why it does not.
    fn set(&self, stream: &Stream, failed: Option<&'static str>) {
        if let Some(working) = self.switches.stream(&self.switch, SOURCE, stream.name, failed) {
            self.working.set(i64::try_from(working).unwrap_or(i64::MAX));
        }
    }
}

impl Observer for SwitchCounters {
    fn message(&self, stream: &Stream, bytes: usize, values: usize, unread: usize) {
        let switch = [&*self.switch];
        self.telemetry.values.with_label_values(&switch).inc_by(values as u64);
        self.telemetry.bytes.with_label_values(&switch).inc_by(bytes as u64);
        let now = now_ms();
        self.telemetry.last_message.with_label_values(&switch).set(now as f64 / 1e3);
        self.switches.received(Sender::Bound, &self.switch, SOURCE, [now, now], &[]);
        if unread > 0 {
            self.dropped("unreadable", unread as u64);
        }
        self.set(stream, None);
    }

    fn failed(&self, stream: &Stream, reason: &'static str) {
        self.telemetry.failures.with_label_values(&[&*self.switch, stream.name, reason]).inc();
        self.set(stream, Some(reason));
    }
}

#[cfg(test)]
impl SwitchCounters {
    pub(crate) fn for_tests(switch: &str) -> Self {
        let telemetry = Telemetry::new().expect("names are unique");
        Self::new(switch, &telemetry)
    }

    pub(crate) fn dropped_so_far(&self, reason: &str) -> u64 {
        self.telemetry.dropped.with_label_values(&[&*self.switch, reason]).get()
    }
}
