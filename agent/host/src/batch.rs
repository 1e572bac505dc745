//! Result of one read of a source: vendor counters as raw integers, and facts that are already canonical values.
//!
//! Samplers fill a [`Batch`]; `plan` decides which columns it feeds; `device` turns it into sections. Buffers are
//! reused from tick to tick.

use crate::sysfile::{FileError, is_shortage};
use fabriclens_base::error_chain::with_causes;
use fabriclens_catalog::Metric;
use fabriclens_kernel::CallError;
use fabriclens_wire::{Column, Resource, Section, Value};
use std::sync::Arc;

/// Reason why a sampler gave no values.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SampleError {
    /// This host does not have the source; the reason.
    #[error("{0}")]
    Absent(String),
    /// The read failed; the error with its remedy.
    #[error("{0}")]
    Failed(String),
    /// The device is gone: reopen or rediscover it.
    #[error("{0}")]
    Gone(String),
    /// This process lacks resources for the read; the state of the source is unknown.
    #[error("{0}")]
    Shortage(String),
}

impl From<CallError> for SampleError {
    fn from(error: CallError) -> Self {
        let text = with_causes(&error);
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
        let text = with_causes(&error);
        match error {
            FileError::Absent { .. } => Self::Absent(text),
            FileError::Gone { .. } => Self::Gone(text),
            FileError::Shortage { .. } => Self::Shortage(text),
            FileError::Denied { .. } | FileError::Bad { .. } | FileError::Io { .. } => Self::Failed(text),
        }
    }
}

/// Values of one read.
#[derive(Debug, Default)]
pub struct Batch {
    names: Arc<[Arc<str>]>,
    generation: u64,
    /// One per name; `None` if it was not readable this time.
    pub values: Vec<Option<u64>>,
    /// Canonical values, for sources that are not lists of counters.
    pub facts: Vec<(Column, Value)>,
    /// Facts of the previous read in reverse order: most recur in the same order, and their labels are reused.
    former: Vec<(Column, Value)>,
    /// Number of names that the catalog lacks.
    pub unknown: usize,
    /// Rows of this read that were dropped because their content is not a number.
    pub bad: usize,
    /// Reason for one of the dropped rows.
    pub example: Option<String>,
    /// Note on the cost of the source, for `doctor`; mostly empty.
    pub note: String,
    /// The read saw a change that must be sent at once.
    pub urgent: bool,
}

impl Batch {
    /// Its facts as one section, read at one instant; counters count since `start_ns`. Times are Unix nanoseconds.
    pub fn section(&self, resource: Arc<Resource>, start_ns: u64, now_ns: u64) -> Section {
        Section {
            resource,
            columns: self.facts.iter().map(|(column, _)| column.clone()).collect(),
            begin_ns: now_ns,
            end_ns: now_ns,
            starts: vec![start_ns; self.facts.len()].into(),
            values: self.facts.iter().map(|(_, value)| value.clone()).collect(),
            urgent: false,
        }
    }

    /// Clears the values of a read; names stay.
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

    /// Number that changes whenever the names change.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Replaces the names, if they differ. Passing the same list again costs nothing.
    pub fn set_names(&mut self, names: &Arc<[Arc<str>]>) {
        if !Arc::ptr_eq(&self.names, names) {
            self.generation += u64::from(self.names != *names);
            self.names = Arc::clone(names);
        }
    }

    /// Sets names and values of a source that always returns both. Nothing is allocated if the strings are those of the
    /// last read, which the kernel crate shares.
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

    /// Counts a row with unreadable content.
    pub fn drop_row(&mut self, error: &FileError) {
        if !error.is_absent() {
            self.bad += 1;
            if self.example.is_none() {
                self.example = Some(with_causes(error));
            }
        }
    }

    /// Adds a canonical value. `labels` are those besides the resource identity; empty values are left out.
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

    /// [`Batch::fact`], unless `value` is `None`.
    pub fn fact_if(&mut self, metric: &'static Metric, labels: &[(&str, &str)], value: Option<Value>) {
        if let Some(value) = value {
            self.fact(metric, labels, value);
        }
    }

    /// Number of values of this read.
    pub fn len(&self) -> usize {
        self.values.iter().flatten().count() + self.facts.len()
    }

    /// True if the read gave no values.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Whether `column` has this metric and these labels; label names are distinct.
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
    fn labels_are_reused_only_for_equal_facts() {
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
