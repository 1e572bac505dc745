//! What one read of one source gives: vendor counters as raw integers, and facts that are canonical already.
//!
//! Samplers fill a [`Batch`]; `plan` decides which columns it feeds; `device` turns it into sections. Buffers are
//! reused from tick to tick.

use crate::sysfile::{FileError, is_shortage};
use fabriclens_catalog::Metric;
use fabriclens_kernel::CallError;
use fabriclens_wire::{Column, Value};
use std::sync::Arc;

/// Why a sampler gave nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SampleError {
    /// There is nothing to read here; says why.
    #[error("{0}")]
    Absent(String),
    /// It should have worked; says what would help.
    #[error("{0}")]
    Failed(String),
    /// The device went away: open again or discover again.
    #[error("{0}")]
    Gone(String),
    /// This process could not ask: nothing is known of the source.
    #[error("{0}")]
    Shortage(String),
}

impl From<CallError> for SampleError {
    fn from(error: CallError) -> Self {
        let text = chain(&error);
        match error {
            CallError::Unsupported { .. } => Self::Absent(text),
            CallError::Gone { .. } => Self::Gone(text),
            CallError::Failed { source, .. } if is_shortage(&source) => Self::Shortage(text),
            CallError::Denied { .. } | CallError::ListChanged { .. } | CallError::Failed { .. } => Self::Failed(text),
        }
    }
}

impl From<FileError> for SampleError {
    fn from(error: FileError) -> Self {
        let text = chain(&error);
        match error {
            FileError::Absent { .. } => Self::Absent(text),
            FileError::Gone { .. } => Self::Gone(text),
            FileError::Shortage { .. } => Self::Shortage(text),
            FileError::Denied { .. } | FileError::Bad { .. } | FileError::Io { .. } => Self::Failed(text),
        }
    }
}

/// An error with its sources, on one line.
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(source) = next {
        text.push_str(": ");
        text.push_str(&source.to_string());
        next = source.source();
    }
    text
}

/// One read.
#[derive(Debug, Default)]
pub struct Batch {
    names: Arc<[Arc<str>]>,
    generation: u64,
    /// One per name; `None` = not readable this time.
    pub values: Vec<Option<u64>>,
    /// Canonical values, for sources that are no lists of counters.
    pub facts: Vec<(Column, Value)>,
    /// Facts of the read before, last one first: most come again in the same order, and their labels with them.
    former: Vec<(Column, Value)>,
    /// Names that the source has and the catalog does not know.
    pub unknown: usize,
    /// Rows dropped in this read because their content was no number.
    pub bad: usize,
    /// An example of such a row, with the reason.
    pub example: Option<String>,
    /// What it costs, for `doctor`; empty where there is nothing to say.
    pub note: String,
    /// The read saw something that must be known at once.
    pub urgent: bool,
}

impl Batch {
    /// Empties what one read fills; names stay.
    pub fn begin(&mut self) {
        self.values.clear();
        std::mem::swap(&mut self.facts, &mut self.former);
        self.former.reverse();
        self.facts.clear();
        self.bad = 0;
        self.example = None;
        self.urgent = false;
    }

    /// Names, in the order of `values`.
    pub fn names(&self) -> &[Arc<str>] {
        &self.names
    }

    /// Changes whenever the names do.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Replaces the names, if they differ. A list that is told again costs nothing.
    pub fn set_names(&mut self, names: &Arc<[Arc<str>]>) {
        if !Arc::ptr_eq(&self.names, names) {
            self.generation += u64::from(self.names != *names);
            self.names = Arc::clone(names);
        }
    }

    /// Names and values of a source that always tells both. Where the list is the one of the last read, which the
    /// kernel crate shows by sharing the strings, nothing is allocated.
    pub fn set_pairs(&mut self, pairs: &[(Arc<str>, u64)]) {
        let same = self.names.len() == pairs.len()
            && self.names.iter().zip(pairs).all(|(had, (has, _))| Arc::ptr_eq(had, has) || had == has);
        if !same {
            self.names = pairs.iter().map(|(name, _)| Arc::clone(name)).collect();
            self.generation += 1;
        }
        self.values.clear();
        self.values.extend(pairs.iter().map(|(_, value)| Some(*value)));
    }

    /// A row whose content was unreadable.
    pub fn drop_row(&mut self, error: &FileError) {
        if !error.is_absent() {
            self.bad += 1;
            if self.example.is_none() {
                self.example = Some(chain(error));
            }
        }
    }

    /// Adds a canonical value; `labels` beside the identity, empty ones left out.
    pub fn fact(&mut self, metric: &'static Metric, labels: &[(&str, &str)], value: Value) {
        if let Some((column, _)) = self.former.pop()
            && is(&column, metric, labels)
        {
            self.facts.push((column, value));
            return;
        }
        let mut labels: Vec<(Arc<str>, Arc<str>)> = labels
            .iter()
            .filter(|(_, value)| !value.is_empty())
            .map(|(name, value)| (Arc::from(*name), Arc::from(*value)))
            .collect();
        labels.sort_unstable();
        self.facts.push((Column { metric, labels }, value));
    }

    /// [`Batch::fact`] for a value that may not be told.
    pub fn fact_if(&mut self, metric: &'static Metric, labels: &[(&str, &str)], value: Option<Value>) {
        if let Some(value) = value {
            self.fact(metric, labels, value);
        }
    }

    /// How many values this read gave.
    pub fn len(&self) -> usize {
        self.values.iter().flatten().count() + self.facts.len()
    }

    /// True when it gave none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Whether `column` is what `metric` and `labels` would make; label names are distinct.
fn is(column: &Column, metric: &'static Metric, labels: &[(&str, &str)]) -> bool {
    let given = || labels.iter().filter(|(_, value)| !value.is_empty());
    std::ptr::eq(column.metric, metric)
        && given().count() == column.labels.len()
        && given().all(|(name, value)| column.labels.iter().any(|(n, v)| **n == **name && **v == **value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use fabriclens_catalog::metrics::state::{PORT_INFO, PORT_UP};

    #[test]
    fn facts_of_the_last_read_are_taken_over_only_where_they_are_the_same() {
        let mut batch = Batch::default();
        let mut read = |labels: &[&[(&str, &str)]]| {
            batch.begin();
            batch.fact(&PORT_UP, &[], Value::Int(1));
            labels.iter().for_each(|l| batch.fact(&PORT_INFO, l, Value::Int(labels.len() as u64)));
            let text =
                |(column, value): &(Column, Value)| (column.metric.name, format!("{:?}", column.labels), value.clone());
            batch.facts.iter().map(text).collect::<Vec<_>>()
        };
        let info = |labels: &str, n| (PORT_INFO.name, labels.to_owned(), Value::Int(n));
        let up = (PORT_UP.name, "[]".to_owned(), Value::Int(1));
        let first = [up.clone(), info(r#"[("a", "1"), ("b", "2")]"#, 2), info(r#"[("a", "3")]"#, 2)];
        assert_eq!(read(&[&[("b", "2"), ("a", "1")], &[("a", "3"), ("b", "")]]), first);
        assert_eq!(read(&[&[("a", "1"), ("b", "2")], &[("a", "3")]]), first);
        // One label less, another value, another name.
        assert_eq!(read(&[&[("a", "1")]]), [up.clone(), info(r#"[("a", "1")]"#, 1)]);
        assert_eq!(read(&[&[("a", "2")]]), [up.clone(), info(r#"[("a", "2")]"#, 1)]);
        assert_eq!(read(&[&[("b", "2")]]), [up, info(r#"[("b", "2")]"#, 1)]);
    }
}
