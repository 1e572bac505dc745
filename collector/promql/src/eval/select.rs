//! Selectors: each reads its series once over the time span of all steps, and then walks along the steps.

use super::point::{HistogramPoint, Samples, between, sampled};
use super::{ABSENT, Column, Context, Grid, PerTimes, Span, reject_duplicates, spans};
use crate::error::{Evaluated, QueryError};
use crate::plan::{Edges, Expr, Node, Selector, Shift, Subquery};
use fabriclens_model::{Hint, Rollup, is_stale};
use std::sync::Arc;

/// Series with all samples in the windows of a range selector or subquery, without staleness markers.
pub(crate) struct Ranged {
    pub series: Vec<Samples>,
    /// Series of a subquery whose names are dropped at the end of the query.
    pub nameless: Vec<bool>,
    pub edges: Edges,
    /// How far samples beyond the ends are needed, ms.
    before: i64,
    after: i64,
    /// Milliseconds.
    pub range: i64,
    offset: i64,
    pinned: Option<i64>,
}

impl Ranged {
    /// Both ends of the window at `time`; the version of the language says whether the start is within.
    pub fn window(&self, time: i64) -> (i64, i64) {
        let end = self.pinned.unwrap_or_else(|| time.saturating_sub(self.offset));
        (end.saturating_sub(self.range), end)
    }

    /// Removes staleness markers.
    fn clean(&mut self) -> Evaluated<()> {
        self.series.iter_mut().for_each(drop_stale);
        if self.edges != Edges::Plain && self.series.iter().any(|s| !s.histograms.is_empty()) {
            return Err(extended_histograms());
        }
        Ok(())
    }

    /// Both ends of the time whose samples are needed at `time`.
    pub fn reach(&self, time: i64) -> (i64, i64) {
        let (start, end) = self.window(time);
        (start.saturating_sub(self.before), end.saturating_add(self.after))
    }
}

/// Which samples an instant selector finds, and what it makes of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Instant {
    /// Samples.
    Samples,
    /// Their times in seconds.
    Times,
    /// Times in seconds of floats; histograms are an error.
    TimesOfFloats,
}

impl Context<'_> {
    pub(super) fn read(
        &mut self,
        selector: &Selector,
        (start, end): (i64, i64),
        hint: Hint,
    ) -> Evaluated<Vec<Samples>> {
        let series = self.fetch(&selector.matchers, start, end, hint)?;
        self.permit(series.len())?;
        Ok(series)
    }

    /// Hands the same to `with`, some series after the others.
    fn read_parts(
        &mut self,
        selector: &Selector,
        span: (i64, i64),
        hint: Hint,
        mut with: impl FnMut(&mut Self, Vec<Samples>) -> Evaluated<()>,
    ) -> Evaluated<()> {
        let mut all = 0;
        self.fetch_parts(&selector.matchers, span, hint, |cx, series| {
            all += series.len();
            cx.permit(all)?;
            with(cx, series)
        })
    }

    /// Refuses too many series.
    fn permit(&self, series: usize) -> Evaluated<()> {
        let most = self.limits.max_series;
        if series > most {
            let message = format!("selector matches {series} series, more than the limit of {most}; narrow it");
            return Err(QueryError::Execution(message));
        }
        self.check()
    }

    /// The latest sample within the lookback at each step.
    pub(crate) fn instant_columns(&mut self, s: &Selector, grid: Grid, wanted: Instant) -> Evaluated<Vec<Column>> {
        let times = wanted != Instant::Samples;
        if grid.steps == 0 {
            return Ok(vec![]);
        }
        if s.edges == Edges::Smoothed && !times {
            return self.smoothed(s, grid);
        }
        let lookback = self.lookback_ms();
        let (first, last) = (self.shifted(s.shift, grid.start), self.shifted(s.shift, grid.end()));
        let hint = Hint { step_ms: grid.distance(), range_ms: 0, rollup: (!times).then_some(Rollup::Last) };
        let version = self.limits.version;
        let oldest = |end: i64| version.first_within(end.saturating_sub(lookback));
        let (mut columns, mut seen) = (Vec::new(), PerTimes::new());
        self.read_parts(s, (oldest(first), last), hint, |cx, series| {
            cx.latest_samples(series, s.shift, (grid, oldest), wanted, &mut seen, &mut columns)
        })?;
        Ok(columns)
    }

    /// Columns of the latest sample at each step.
    fn latest_samples(
        &mut self,
        series: Vec<Samples>,
        shift: Shift,
        (grid, oldest): (Grid, impl Fn(i64) -> i64),
        wanted: Instant,
        seen: &mut PerTimes<Vec<Span>>,
        columns: &mut Vec<Column>,
    ) -> Evaluated<()> {
        let times = wanted != Instant::Samples;
        self.afford(series.len().saturating_mul(grid.steps))?;
        let before = columns.len();
        for one in series {
            self.check()?;
            let mut column = Column::new(one.labels, vec![ABSENT; grid.steps]);
            let mut any = 0;
            let latest = seen.of(&one.times, |times| {
                let ends = grid.times().map(|t| self.shifted(shift, t));
                spans(times, ends.map(|end| (oldest(end), end)))
            });
            let present = column.values.iter_mut().zip(&*latest).filter(|(_, span)| span.low < span.high);
            for (slot, span) in present {
                let found = span.high - 1;
                if is_stale(one.values[found]) {
                    continue;
                }
                *slot = if times { one.times[found] as f64 / 1000.0 } else { one.values[found] };
                any += 1;
            }
            for i in (0..grid.steps).filter(|_| !one.histograms.is_empty()) {
                let end = self.shifted(shift, grid.time(i));
                let Some(latest) = between(&one.histograms, (oldest(end), end)).last() else { continue };
                let newer = between_floats(&one.times, (latest.0, end));
                if newer {
                    continue;
                }
                any += self.put_histogram(&mut column, i, latest, wanted)?;
            }
            self.count_samples(any);
            if any > 0 {
                columns.push(column);
            }
        }
        self.charge(columns[before..].iter().map(|c| c.values.len() + c.histograms.size()).sum())
    }

    /// Puts a histogram that is the latest sample at a step; returns the samples that it counts as.
    fn put_histogram(
        &self,
        column: &mut Column,
        step: usize,
        point: &HistogramPoint,
        wanted: Instant,
    ) -> Evaluated<usize> {
        let (time, histogram) = point;
        column.values[step] = ABSENT;
        if histogram.is_stale() {
            return Ok(0);
        }
        match wanted {
            Instant::Samples => column.histograms.set(step, column.values.len(), histogram.clone()),
            Instant::Times => column.values[step] = *time as f64 / 1000.0,
            Instant::TimesOfFloats => {
                let message = format!("this should be an info metric, with float samples: {}", column.labels);
                return Err(QueryError::Execution(message));
            }
        }
        Ok(sampled(std::slice::from_ref(point)))
    }

    /// All samples in the windows of a range selector or subquery; `rollup` may replace them.
    pub(crate) fn ranged(&mut self, expr: &Expr, grid: Grid, rollup: Option<Rollup>) -> Evaluated<Ranged> {
        match &expr.node {
            Node::Range(selector, range) => {
                let mut ranged = self.selected(selector, *range);
                if grid.steps > 0 {
                    let (span, hint) = self.wanted(&ranged, grid, rollup);
                    ranged.series = self.read(selector, span, hint)?;
                    ranged.clean()?;
                }
                Ok(ranged)
            }
            Node::Subquery(s) => self.subquery(s, grid),
            _ => Err(QueryError::Execution(format!("expected a range vector, got {}", expr.kind.documented()))),
        }
    }

    /// Hands the same to `with`, some series after the others.
    pub(super) fn ranged_parts(
        &mut self,
        expr: &Expr,
        grid: Grid,
        rollup: Option<Rollup>,
        mut with: impl FnMut(&mut Self, Ranged) -> Evaluated<()>,
    ) -> Evaluated<()> {
        let Node::Range(selector, range) = &expr.node else {
            let all = self.ranged(expr, grid, rollup)?;
            return with(self, all);
        };
        if grid.steps == 0 {
            return Ok(());
        }
        let (span, hint) = self.wanted(&self.selected(selector, *range), grid, rollup);
        self.read_parts(selector, span, hint, |cx, series| {
            let mut part = Ranged { series, ..cx.selected(selector, *range) };
            part.clean()?;
            with(cx, part)
        })
    }

    /// The windows of a range selector, without series.
    fn selected(&self, selector: &Selector, range: i64) -> Ranged {
        let edges = selector.edges;
        Ranged {
            edges,
            before: if edges == Edges::Plain { 0 } else { self.lookback_ms() },
            after: if edges == Edges::Smoothed { self.lookback_ms() } else { 0 },
            ..self.view(selector.shift, range)
        }
    }

    /// The time whose samples are needed, and what for.
    fn wanted(&self, ranged: &Ranged, grid: Grid, rollup: Option<Rollup>) -> ((i64, i64), Hint) {
        let ((start, _), (_, end)) = (ranged.reach(grid.start), ranged.reach(grid.end()));
        // Rollups say nothing of the values at the ends.
        let rollup = rollup.filter(|_| ranged.edges == Edges::Plain);
        let hint = Hint { step_ms: grid.distance(), range_ms: ranged.range, rollup };
        ((self.limits.version.first_within(start), end), hint)
    }

    fn view(&self, shift: Shift, range: i64) -> Ranged {
        let pinned = shift.at.map(|_| self.shifted(shift, 0));
        let (series, nameless, edges) = (vec![], vec![], Edges::Plain);
        Ranged { series, nameless, edges, before: 0, after: 0, range, offset: shift.offset, pinned }
    }

    fn subquery(&mut self, s: &Subquery, grid: Grid) -> Evaluated<Ranged> {
        let mut ranged = self.view(s.shift, s.range);
        if grid.steps == 0 {
            return Ok(ranged);
        }
        let step = s.step.unwrap_or_else(|| self.subquery_step_ms());
        let from = self.limits.version.first_within(ranged.window(grid.start).0);
        let (_, end) = ranged.window(grid.end());
        // Subquery steps are multiples of its resolution, independent of the outer step.
        let start = from.div_euclid(step) * step;
        let start = if start < from { start + step } else { start };
        let steps = if end < start { 0 } else { usize::try_from((end - start) / step + 1).unwrap_or(usize::MAX) };
        self.afford(steps)?;
        let inner = Grid { start, step, steps };
        let seen = self.seen();
        let columns = self.vector(&s.expr, inner)?;
        // They are counted when windows slide over them.
        self.reset_seen(seen);
        reject_duplicates(&columns)?;
        let times: Arc<[i64]> = inner.times().collect();
        for c in columns {
            let histograms = c.histograms.iter().map(|(i, h)| (inner.time(i), h.clone())).collect();
            let mut series = Samples { labels: c.labels, times: times.clone(), values: c.values, histograms };
            drop_stale(&mut series);
            ranged.series.push(series);
            ranged.nameless.push(c.nameless);
        }
        Ok(ranged)
    }
}

/// Values per vectorized check.
const STRIDE: usize = 64;

/// Whether a time lies within both ends.
fn between_floats(times: &[i64], (start, end): (i64, i64)) -> bool {
    times.partition_point(|t| *t <= end) > times.partition_point(|t| *t < start)
}

pub(super) fn extended_histograms() -> QueryError {
    QueryError::Execution("smoothed and anchored modifiers do not work with native histograms".to_owned())
}

pub(super) fn drop_stale(s: &mut Samples) {
    s.histograms.retain(|(_, h)| !h.is_stale());
    // The staleness marker is a NaN, and testing for NaN is faster.
    if !s.values.chunks(STRIDE).any(|c| c.iter().fold(false, |any, v| any | v.is_nan())) {
        return;
    }
    if !s.values.iter().any(|v| is_stale(*v)) {
        return;
    }
    let kept = s.times.iter().zip(&s.values).filter(|(_, v)| !is_stale(**v)).map(|(t, v)| (*t, *v));
    let (times, values): (Vec<i64>, Vec<f64>) = kept.unzip();
    (s.times, s.values) = (times.into(), values);
}
