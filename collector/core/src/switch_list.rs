//! List of the switches that the collector hears of: which, by which source, when the last sample arrived, gNMI streams, and
//! names that were not understood. The list begins anew at each start. A judge lists what its ingest collectors report, too.

mod entries;
mod reported;
mod source;

use std::borrow::Cow;
use std::sync::Arc;

use fabriclens_base::Sender;
use parking_lot::Mutex;
use prometheus::{GaugeVec, Opts, Registry};

pub use entries::SILENT_MS;
use entries::{Entries, Entry, key};
use reported::Reported;
pub use source::{StreamState, SwitchSource, UnknownName};

/// See the module. Clones share one list.
#[derive(Clone)]
pub struct SwitchList {
    all: Arc<Mutex<Entries>>,
    reported: Arc<Mutex<Reported>>,
    received: GaugeVec,
}

impl SwitchList {
    /// Declares the metric.
    ///
    /// # Errors
    /// If the name is taken.
    pub(crate) fn new(registry: &Registry) -> Result<Self, prometheus::Error> {
        let received = GaugeVec::new(
            Opts::new(
                "fabriclens_switch_last_received_timestamp_seconds",
                "When the last sample of a switch arrived, by source. Unix time.",
            ),
            &["switch", "source"],
        )?;
        registry.register(Box::new(received.clone()))?;
        Ok(Self { all: Arc::default(), reported: Arc::default(), received })
    }

    /// Lists a switch that is configured, before anything arrives.
    pub fn expect(&self, switch: &Arc<str>, source: &'static str) {
        let key = key(switch, source);
        if let Some(entry) = self.all.lock().entry(Sender::Bound, switch, &key) {
            entry.expected = true;
        }
    }

    /// Records that samples of a switch arrived from a sender at `now_ms`, the newest of them of `newest_ms`, some under names
    /// that were not understood.
    pub fn received(
        &self,
        sender: Sender<'_>,
        switch: &Arc<str>,
        source: &'static str,
        [newest_ms, now_ms]: [i64; 2],
        unknown: &[String],
    ) {
        let (key, mut all) = (key(switch, source), self.all.lock());
        if !all.admits(sender, &key) {
            // It has no metric if nothing arrived.
            let gone = |entry: &Entry, source| _ = self.received.remove_label_values(&[&*entry.switch, source]);
            all.forget_silent(sender, now_ms, gone);
        }
        let Some(entry) = all.entry(sender, switch, &key) else { return };
        entry.last_ms = entry.last_ms.max(Some(newest_ms));
        entry.received_ms = now_ms;
        let gauge = || self.received.with_label_values(&[&*entry.switch, source]);
        entry.received.get_or_insert_with(gauge).set(now_ms as f64 / 1e3);
        for name in unknown {
            all.unknown(sender, &key, name, newest_ms);
        }
    }

    /// Records a name of a switch that the collector itself reads, which was not understood. Returns whether it is new and kept.
    pub fn unknown(&self, switch: &Arc<str>, source: &'static str, name: &str, time_ms: i64) -> bool {
        let (key, mut all) = (key(switch, source), self.all.lock());
        all.entry(Sender::Bound, switch, &key).is_some() && all.unknown(Sender::Bound, &key, name, time_ms)
    }

    /// Records that a gNMI stream works, or why it does not. Returns how many streams of the switch work; `None` if the
    /// list is full.
    pub fn stream(
        &self,
        switch: &Arc<str>,
        source: &'static str,
        stream: &'static str,
        failed: Option<&'static str>,
    ) -> Option<usize> {
        let (key, mut all) = (key(switch, source), self.all.lock());
        let entry = all.entry(Sender::Bound, switch, &key)?;
        entry.streams.insert(stream, failed);
        Some(entry.working())
    }

    /// Replaces the list of an ingest collector, which the number names; `bytes` is the length of the list as JSON.
    pub fn report(&self, collector: u64, switches: Vec<SwitchSource>, bytes: usize, now_ms: i64) {
        self.reported.lock().take(collector, switches, bytes, now_ms);
    }

    /// All switches that this collector hears of or ingest collectors report to it, ordered by name and source. `now_ms`
    /// (Unix ms) decides which are silent.
    pub fn list(&self, now_ms: i64) -> Vec<SwitchSource> {
        let own = self.own(now_ms);
        self.reported.lock().add_to(own, now_ms)
    }

    /// Switches that this collector hears of itself.
    fn own(&self, now_ms: i64) -> Vec<SwitchSource> {
        let all = self.all.lock();
        let one = |(entry, source): (&Entry, &'static str)| {
            let streams = entry
                .streams
                .iter()
                .map(|(stream, failed)| StreamState { stream: (*stream).into(), failed: failed.map(Cow::Borrowed) });
            let unknown = entry.unknown.iter().map(|(name, last)| UnknownName { name: name.clone(), last_ms: *last });
            let silent = match entry.streams.is_empty() {
                true => now_ms - entry.received_ms > SILENT_MS,
                false => entry.working() == 0,
            };
            SwitchSource {
                switch: entry.switch.to_string(),
                source: source.into(),
                last_ms: entry.last_ms,
                silent,
                streams: streams.collect(),
                unknown: unknown.collect(),
                more_unknown: entry.more,
            }
        };
        all.iter().map(one).collect()
    }
}

#[cfg(test)]
mod tests;
