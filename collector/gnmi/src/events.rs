//! Events of SONiC: storms that the PFC watchdog found, and links that went down or up, at the moment they happen.

use std::collections::BTreeMap;

use fabriclens_catalog::metrics::{state, switch_events};
use fabriclens_model::Labels;

use crate::leaf::{Leaf, Receiver, Scalar};
use crate::outbox::Row;
use crate::output::Output;

/// Most queues whose storms are counted.
const QUEUES: usize = 10_000;
/// A counter has its previous value so long before each event: the first one is an increase too, and the rate of one after a
/// long calm is that of the event.
const BEFORE_MS: i64 = 1_000;

/// Events of one switch.
pub(crate) struct Events {
    output: Output,
    /// Name, text values and time of the event that is being read.
    name: String,
    fields: BTreeMap<String, String>,
    time_ms: i64,
    /// Storms by port and queue, with the time of the last sample.
    storms: BTreeMap<(String, String), (u64, i64)>,
}

impl Events {
    pub(crate) fn new(output: Output) -> Self {
        Self { output, name: String::new(), fields: BTreeMap::new(), time_ms: 0, storms: BTreeMap::new() }
    }

    fn push(&self, time_ms: i64, labels: Labels, value: f64) {
        self.output.push(Row { time_ms, series: vec![labels], values: vec![value] });
    }

    fn storm(&mut self) {
        let field = |name: &str| self.fields.get(name).cloned().filter(|value| !value.is_empty());
        let (Some(port), Some(queue)) = (field("ifname"), field("queue_index")) else {
            return self.output.counters.dropped("unreadable", 1);
        };
        let key = (port, queue);
        if self.storms.len() >= QUEUES && !self.storms.contains_key(&key) {
            return self.output.counters.dropped("paths", 1);
        }
        let metric = &switch_events::WATCHDOG_NOTICES;
        let labels = self.output.labels(metric, Some(&key.0), &[("queue", key.1.clone())]);
        tracing::warn!(
            switch = &*self.output.switch,
            port = key.0,
            queue = key.1,
            "the PFC watchdog of a switch found a storm"
        );
        let (count, last) = self.storms.entry(key).or_insert((0, i64::MIN));
        let (before, previous) = (*count as f64, *last);
        *count += 1;
        // A series keeps one sample a millisecond.
        *last = self.time_ms.max(previous.saturating_add(1));
        let at = *last;
        if at - BEFORE_MS > previous {
            self.push(at - BEFORE_MS, labels.clone(), before);
        }
        self.push(at, labels, before + 1.0);
    }

    fn link(&self) {
        let up = match self.fields.get("status").map(String::as_str) {
            Some("up") => 1.0,
            Some("down") => 0.0,
            _ => return self.output.counters.dropped("gap", 1),
        };
        let Some(port) = self.fields.get("ifname") else { return self.output.counters.dropped("unreadable", 1) };
        self.push(self.time_ms, self.output.labels(&state::PORT_UP, Some(port), &[]), up);
    }

    /// Handles the event that was read.
    fn finish(&mut self) {
        match self.name.rsplit(':').next().unwrap_or_default() {
            _ if self.fields.is_empty() => {}
            "pfc-storm" => self.storm(),
            "if-state" => self.link(),
            "heartbeat" | "heart" => {}
            _ => self.output.counters.dropped("left_out", 1),
        }
        self.name.clear();
        self.fields.clear();
    }
}

impl Receiver for Events {
    fn leaf(&mut self, leaf: Leaf<'_>) {
        let name = leaf.keys.first().map_or("", |(_, event)| event.as_str());
        if self.name != name {
            self.finish();
            name.clone_into(&mut self.name);
        }
        self.time_ms = leaf.time_ms;
        let field = leaf.name.rsplit('/').next().unwrap_or_default();
        let value = match leaf.value {
            Scalar::Text(text) => text.to_owned(),
            Scalar::Number(number) => number.to_string(),
        };
        // The same field again: another event of the same name.
        if self.fields.contains_key(field) {
            let name = self.name.clone();
            self.finish();
            self.name = name;
        }
        self.fields.insert(field.to_owned(), value);
    }

    fn delete(&mut self, _: &str, _: &[(String, String)], _: i64) {}

    fn end(&mut self) {
        self.finish();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(events: &mut Events, name: &str, fields: &[(&str, &str)], time_ms: i64) {
        let keys = [("object_name".to_owned(), name.to_owned())];
        for (field, value) in fields {
            let (name, value) = (&*format!("all/{field}"), Scalar::Text(value));
            events.leaf(Leaf { name, keys: &keys, value, time_ms });
        }
    }

    #[test]
    fn storms_are_counted_and_links_have_their_state() {
        let output = Output::for_tests("leaf1");
        let mut events = Events::new(output.clone());
        let storm = [("ifname", "Ethernet4"), ("queue_index", "3"), ("timestamp", "…")];
        event(&mut events, "sonic-events-swss:pfc-storm", &storm, 5_000);
        event(&mut events, "sonic-events-swss:pfc-storm", &storm, 5_000);
        event(&mut events, "sonic-events-swss:if-state", &[("ifname", "Ethernet4"), ("status", "down")], 6_000);
        event(&mut events, "sonic-events-eventd:heartbeat", &[("timestamp", "…")], 6_000);
        event(&mut events, "sonic-events-bgp:bgp-state", &[("ip", "::1")], 6_000);
        event(&mut events, "sonic-events-swss:pfc-storm", &[("ifname", "Ethernet4")], 6_000);
        event(&mut events, "sonic-events-eventd:heartbeat", &[("timestamp", "…")], 6_000);
        event(&mut events, "sonic-events-swss:pfc-storm", &storm, 90_000);
        events.end();
        let rows = output.outbox.take();
        let told: Vec<String> =
            rows.iter().map(|r| format!("{} {} @{}", r.series[0], r.values[0], r.time_ms)).collect();
        let storm = r#"fabric_pfc_watchdog_notices_total{host="leaf1", port="Ethernet4", queue="3"}"#;
        let link = r#"fabric_port_up{host="leaf1", port="Ethernet4"} 0 @6000"#;
        let expected = ["0 @4000", "1 @5000", "2 @5001", "link", "2 @89000", "3 @90000"].map(|sample| match sample {
            "link" => link.to_owned(),
            sample => format!("{storm} {sample}"),
        });
        assert_eq!(told, expected);
        assert_eq!(["left_out", "unreadable"].map(|reason| output.counters.dropped_so_far(reason)), [1, 1]);
    }
}
