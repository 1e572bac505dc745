//! Facts of a port with labels that no other port has: its identity and cable, and which of its counters are saturated.
//! They are a section of their own, so that all ports of a kind can share the column list of their counters.

use fabriclens_catalog::Metric;
use fabriclens_wire::{Column, Value};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Interval of facts that do not change.
pub const RENEWAL: Duration = Duration::from_secs(30);

/// Facts of one port, each of value 1.
#[derive(Debug, Default)]
pub struct OwnFacts {
    columns: Arc<[Column]>,
    /// Facts that are no longer true, and have not been sent as such.
    ended: Vec<Column>,
    /// Last time that they were sent; `None`: they have changed since.
    sent: Option<Instant>,
}

impl OwnFacts {
    /// Replaces the facts of one metric.
    pub fn set(&mut self, metric: &'static Metric, new: Vec<Column>) {
        let is_of = |column: &&Column| std::ptr::eq(column.metric, metric);
        if self.columns.iter().filter(is_of).eq(&new) {
            return;
        }
        let (had, others): (Vec<_>, Vec<_>) = self.columns.iter().cloned().partition(|column| is_of(&column));
        self.ended.extend(had);
        self.columns = others.into_iter().chain(new).collect();
        self.sent = None;
    }

    /// Columns and values to send now; `None` if they were sent within the interval. An ended fact is sent once more, as
    /// stale.
    pub fn due(&mut self, at: Instant) -> Option<(Arc<[Column]>, Vec<Value>)> {
        if self.sent.is_some_and(|sent| at.saturating_duration_since(sent) < RENEWAL) {
            return None;
        }
        self.sent = Some(at);
        let mut ended = std::mem::take(&mut self.ended);
        ended.retain(|column| !self.columns.contains(column));
        let mut values = vec![Value::Int(1); self.columns.len()];
        values.resize(values.len() + ended.len(), Value::Stale);
        let columns = if ended.is_empty() {
            Arc::clone(&self.columns)
        } else {
            self.columns.iter().cloned().chain(ended).collect()
        };
        (!values.is_empty()).then_some((columns, values))
    }

    /// Columns whose series have to be ended, if any; forgets all facts.
    pub fn take(&mut self) -> Option<Arc<[Column]>> {
        let Self { columns, ended, .. } = std::mem::take(self);
        let columns: Arc<[Column]> = columns.iter().cloned().chain(ended).collect();
        (!columns.is_empty()).then_some(columns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fabriclens_catalog::metrics::link::COUNTER_SATURATED;
    use fabriclens_catalog::metrics::state::PORT_INFO;

    fn column(metric: &'static Metric, value: &str) -> Column {
        Column { metric, labels: vec![("name".into(), value.into())] }
    }

    #[test]
    fn facts_are_sent_when_they_change_and_once_an_interval() {
        let (mut facts, at) = (OwnFacts::default(), Instant::now());
        assert_eq!(facts.due(at), None, "no facts");
        facts.set(&PORT_INFO, vec![column(&PORT_INFO, "spine1")]);
        let sent = |facts: &mut OwnFacts, at| {
            let (columns, values) = facts.due(at)?;
            Some(columns.iter().map(|c| c.labels[0].1.to_string()).zip(values).collect::<Vec<_>>())
        };
        let (yes, no) = (Value::Int(1), Value::Stale);
        assert_eq!(sent(&mut facts, at), Some(vec![("spine1".into(), yes.clone())]));
        facts.set(&PORT_INFO, vec![column(&PORT_INFO, "spine1")]);
        assert_eq!(sent(&mut facts, at + RENEWAL / 2), None);
        assert_eq!(sent(&mut facts, at + RENEWAL), Some(vec![("spine1".into(), yes.clone())]));
        facts.set(&COUNTER_SATURATED, vec![column(&COUNTER_SATURATED, "errors")]);
        facts.set(&PORT_INFO, vec![column(&PORT_INFO, "spine2")]);
        let changed = [("errors", &yes), ("spine2", &yes), ("spine1", &no)];
        let changed = changed.map(|(name, value)| (name.to_owned(), value.clone())).to_vec();
        assert_eq!(sent(&mut facts, at + RENEWAL), Some(changed));
        facts.set(&COUNTER_SATURATED, Vec::new());
        facts.set(&COUNTER_SATURATED, vec![column(&COUNTER_SATURATED, "errors")]);
        let again = vec![("spine2".to_owned(), yes.clone()), ("errors".to_owned(), yes)];
        assert_eq!(sent(&mut facts, at + RENEWAL), Some(again), "it did not end");
        assert_eq!((facts.take().map(|c| c.len()), facts.due(at)), (Some(2), None));
    }
}
