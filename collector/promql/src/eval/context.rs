//! State of a running query that all its parts share: data, limits, deadline, annotations.

use super::point::Samples;
use super::{Column, Grid, drop_name, merge};
use crate::error::{Evaluated, Position, QueryError};
use crate::limits::{Limits, Version};
use crate::plan::{At, Resolution, Shift};
use crate::value::{Outcome, Stats, Value};
use fabriclens_model::{
    Aggregated, Aggregation, Budget as _, Hint, Histogram, HistogramSeries, Matcher, Patterns, Read, Selected,
    SharedSeries, TimedBudget,
};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

pub(crate) struct Context<'a> {
    read: &'a dyn Read,
    pub limits: &'a Limits,
    /// The grid of the whole query; `start()` and `end()` refer to its ends.
    pub grid: Grid,
    query: &'a str,
    pub resolution: Resolution,
    budget: &'a TimedBudget<'a>,
    /// Patterns of label functions.
    pub patterns: Patterns<'a>,
    /// Samples read, and values computed.
    read_samples: usize,
    computed: usize,
    /// Most of both together so far.
    held: usize,
    /// Values whose memory the budget has granted.
    granted: usize,
    seen: usize,
    reading: Duration,
    warnings: BTreeSet<String>,
    infos: BTreeSet<String>,
}

/// Maximum annotations of one kind in an answer, as in Prometheus.
const MAX_REMARKS: usize = 10;

impl<'a> Context<'a> {
    pub fn new(
        read: &'a dyn Read,
        limits: &'a Limits,
        budget: &'a TimedBudget<'a>,
        query: &'a str,
        grid: Grid,
        resolution: Resolution,
    ) -> Self {
        Self {
            read,
            limits,
            budget,
            grid,
            query,
            resolution,
            patterns: Patterns::new(budget),
            read_samples: 0,
            computed: 0,
            held: 0,
            granted: 0,
            seen: 0,
            reading: Duration::ZERO,
            warnings: BTreeSet::new(),
            infos: BTreeSet::new(),
        }
    }

    /// Reads the series of a selector between two instants, sorted by labels; counts against limit and budget.
    pub fn fetch(&mut self, matchers: &[Matcher], start: i64, end: i64, hint: Hint) -> Evaluated<Vec<Samples>> {
        let began = Instant::now();
        let selected = self.read.select_for(matchers, start, end, hint, self.budget)?;
        self.reading += began.elapsed();
        self.found(selected)
    }

    /// Hands the same to `with`, some series after the others. Their samples count while it runs.
    pub fn fetch_parts(
        &mut self,
        matchers: &[Matcher],
        (start, end): (i64, i64),
        hint: Hint,
        mut with: impl FnMut(&mut Self, Vec<Samples>) -> Evaluated<()>,
    ) -> Evaluated<()> {
        let (read, budget) = (self.read, self.budget);
        let (mut began, mut done) = (Instant::now(), Ok(()));
        read.visit_for(matchers, start, end, hint, budget, &mut |part| {
            self.reading += began.elapsed();
            let before = self.read_samples;
            done = self.found(part).and_then(|series| with(self, series));
            self.read_samples = before;
            began = Instant::now();
            done.is_ok()
        })?;
        self.reading += began.elapsed();
        done
    }

    /// The samples that a reader found, sorted by labels; counts them.
    fn found(&mut self, selected: Selected) -> Evaluated<Vec<Samples>> {
        let Selected { mut series, in_label_order, histograms, resolution_ms } = selected;
        if let Some(ms) = resolution_ms {
            let info = format!(
                "PromQL info: rollups of {} s are used in place of samples that are too many or expired",
                ms / 1000
            );
            self.infos.insert(info);
        }
        if !in_label_order {
            series.sort_by(|a, b| a.labels.cmp(&b.labels));
        }
        let found = joined(series, histograms);
        self.read_samples = self.read_samples.saturating_add(found.iter().map(Samples::size).sum());
        self.afford(0)?;
        self.note_held();
        Ok(found)
    }

    /// Asks the reader for the results of an aggregation.
    pub fn ask(&mut self, of: &Aggregation<'_>) -> Evaluated<Option<Aggregated>> {
        let began = Instant::now();
        let found = self.read.aggregate(of, self.budget)?;
        self.reading += began.elapsed();
        Ok(found)
    }

    /// Counts the memory of a computed histogram against limit and budget.
    pub fn charge_histogram(&mut self, histogram: &Histogram) -> Evaluated<()> {
        self.charge(histogram.bytes().div_ceil(size_of::<f64>()))
    }

    /// Counts computed values against limit and budget.
    pub fn charge(&mut self, values: usize) -> Evaluated<()> {
        self.afford(values)?;
        self.computed += values;
        self.note_held();
        Ok(())
    }

    fn note_held(&mut self) {
        self.held = self.held.max(self.computed.saturating_add(self.read_samples));
    }

    /// Counts samples that a selector passed to the expression.
    pub fn count_samples(&mut self, samples: usize) {
        self.seen += samples;
    }

    /// Samples counted so far.
    pub fn seen(&self) -> usize {
        self.seen
    }

    /// Resets the count of samples to an earlier value.
    pub fn reset_seen(&mut self, seen: usize) {
        self.seen = seen;
    }

    /// Refuses work that would exceed limit or budget, before its memory is allocated.
    pub fn afford(&mut self, values: usize) -> Evaluated<()> {
        let computed = self.computed.saturating_add(values);
        if computed.saturating_add(self.read_samples) > self.limits.max_samples {
            return Err(QueryError::TooManySamples { limit: self.limits.max_samples });
        }
        if computed > self.granted {
            if !self.budget.take((computed - self.granted).saturating_mul(size_of::<f64>())) {
                return Err(QueryError::Memory);
            }
            self.granted = computed;
        }
        Ok(())
    }

    /// Checks deadline and cancellation; call it between pieces of work.
    pub fn check(&self) -> Evaluated<()> {
        Ok(self.budget.check()?)
    }

    /// Adds "PromQL warning: …" about the expression at `offset` of the query text.
    pub fn warn(&mut self, message: &str, offset: usize) {
        self.warnings.insert(format!("PromQL warning: {message} ({})", Position::of(self.query, offset)));
    }

    /// Adds "PromQL info: …".
    pub fn inform(&mut self, message: &str, offset: usize) {
        self.infos.insert(format!("PromQL info: {message} ({})", Position::of(self.query, offset)));
    }

    /// The result with its annotations.
    pub fn outcome(self, (value, histograms): (Value, Vec<HistogramSeries>)) -> Outcome {
        let stats = Stats { samples: self.seen, held: self.held, reading: self.reading };
        Outcome {
            value,
            histograms,
            warnings: limited(self.warnings, "warning"),
            infos: limited(self.infos, "info"),
            stats,
        }
    }

    /// The instant that a selector evaluated at `time` looks at.
    pub fn shifted(&self, shift: Shift, time: i64) -> i64 {
        let pinned = match shift.at {
            None => time,
            Some(At::Time(t)) => t,
            Some(At::Start) => self.grid.start,
            Some(At::End) => self.grid.end(),
        };
        pinned.saturating_sub(shift.offset)
    }

    /// Makes a column another quantity than its metric: its name is dropped, at once in version 2.
    pub fn unname(&self, column: &mut Column) {
        match self.limits.version {
            Version::V2 => column.labels = drop_name(&column.labels),
            Version::V3 => column.nameless = true,
        }
    }

    /// Columns with a value; in version 2, where names are gone, those with equal labels are merged.
    pub fn settle(&self, mut columns: Vec<Column>) -> Evaluated<Vec<Column>> {
        if self.limits.version == Version::V2 {
            return merge(columns);
        }
        columns.retain(Column::any);
        Ok(columns)
    }

    pub fn lookback_ms(&self) -> i64 {
        millis(self.limits.lookback)
    }

    pub fn subquery_step_ms(&self) -> i64 {
        millis(self.limits.subquery_step).max(1)
    }
}

/// The samples of each series, sorted by labels, as `floats` are.
fn joined(floats: Vec<SharedSeries>, mut histograms: Vec<HistogramSeries>) -> Vec<Samples> {
    debug_assert!(floats.is_sorted_by(|a, b| a.labels <= b.labels));
    if histograms.is_empty() {
        return floats.into_iter().map(Into::into).collect();
    }
    histograms.sort_by(|a, b| a.labels.cmp(&b.labels));
    let mut out = Vec::with_capacity(floats.len().max(histograms.len()));
    let mut floats = floats.into_iter().peekable();
    for h in histograms {
        while let Some(s) = floats.next_if(|s| s.labels < h.labels) {
            out.push(s.into());
        }
        let own = floats.next_if(|s| s.labels == h.labels);
        let mut samples: Samples =
            own.map_or_else(|| SharedSeries { labels: h.labels, times: [].into(), values: vec![] }.into(), Into::into);
        samples.histograms = h.times.into_iter().zip(h.values).collect();
        out.push(samples);
    }
    out.extend(floats.map(Samples::from));
    out
}

fn millis(d: Duration) -> i64 {
    i64::try_from(d.as_millis()).unwrap_or(i64::MAX / 4)
}

fn limited(remarks: BTreeSet<String>, kind: &str) -> Vec<String> {
    let more = remarks.len().saturating_sub(MAX_REMARKS);
    let mut out: Vec<String> = remarks.into_iter().take(MAX_REMARKS).collect();
    if more > 0 {
        out.push(format!("{more} more {kind} annotations omitted"));
    }
    out
}
