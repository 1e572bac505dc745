//! Range vector functions: a window slides along the samples of each series, step by step.

use super::select::Ranged;
use super::{ABSENT, Column, Context, Grid, PerTimes, Span, Window, extended, reject_duplicates, spans};
use crate::error::{Evaluated, QueryError};
use crate::functions::{Extrapolation, Function, Run};
use crate::limits::Version;
use crate::plan::{Edges, Expr};
use crate::value::ValueKind;
use fabriclens_model::{Labels, is_stale};

/// Whether a metric has the name of a counter.
pub(super) fn is_named_as_counter(name: &str) -> bool {
    ["_total", "_sum", "_count", "_bucket"].iter().any(|suffix| name.ends_with(suffix))
}

/// The windows of all steps over one list of times.
struct WindowIndex {
    spans: Vec<Span>,
    /// Samples in all windows, counted per step.
    sampled: usize,
    /// Per step, for functions that need it.
    extrapolations: Vec<Option<Extrapolation>>,
}

/// A function over the windows of many series, part by part.
struct Sliding<'f> {
    function: &'f Function,
    grid: Grid,
    /// Scalar arguments by step, and at one of them.
    params: Vec<Vec<f64>>,
    at_step: Vec<f64>,
    /// Steps in whose window some series has samples.
    seen: Vec<bool>,
    indexes: PerTimes<WindowIndex>,
    drops: Vec<usize>,
    /// Position of the range vector in the query.
    offset: usize,
    /// Metric name of all series so far, and whether it is one.
    name: Option<(Labels, bool)>,
    out: Vec<Column>,
}

impl Context<'_> {
    pub(super) fn over_windows(&mut self, f: &Function, args: &[Expr], grid: Grid) -> Evaluated<Vec<Column>> {
        let Some(matrix) = args.iter().find(|a| a.kind == ValueKind::Matrix) else { return Ok(vec![]) };
        let scalars = args.iter().filter(|a| a.kind == ValueKind::Scalar);
        let params = scalars.map(|a| self.scalar(a, grid)).collect::<Evaluated<Vec<_>>>()?;
        let mut sliding = Sliding {
            function: f,
            grid,
            at_step: vec![0.0; params.len()],
            params,
            seen: vec![false; grid.steps],
            indexes: PerTimes::new(),
            drops: Vec::new(),
            offset: matrix.offset,
            name: None,
            out: Vec::new(),
        };
        self.ranged_parts(matrix, grid, f.rollup, |cx, part| cx.slide(&mut sliding, part))?;
        let Sliding { mut at_step, params, seen, name, out, .. } = sliding;
        if let Run::Window { check: Some(check), .. } = f.run {
            for i in (0..grid.steps).filter(|i| seen[*i]) {
                for (slot, p) in at_step.iter_mut().zip(&params) {
                    *slot = p[i];
                }
                check(&at_step, args, self).map_err(QueryError::Execution)?;
            }
        }
        // Series of one metric differ in other labels.
        let one_name = name.is_none_or(|(_, one)| one);
        if self.limits.version == Version::V2 && !keeps_name(f) && !one_name {
            reject_duplicates(&out)?;
        }
        Ok(out)
    }

    /// Adds the columns of some series.
    fn slide(&mut self, sliding: &mut Sliding<'_>, mut ranged: Ranged) -> Evaluated<()> {
        let (f, grid) = (sliding.function, sliding.grid);
        // With the columns of earlier parts, which are charged when the function is done.
        self.afford((sliding.out.len() + ranged.series.len()).saturating_mul(grid.steps))?;
        let series = std::mem::take(&mut ranged.series);
        let windows = || grid.times().map(|t| ranged.window(t));
        let (version, plain) = (self.limits.version, ranged.edges == Edges::Plain);
        for (at, mut s) in series.into_iter().enumerate() {
            self.check()?;
            match &mut sliding.name {
                None => sliding.name = Some((s.labels.clone(), true)),
                Some((first, one)) => *one = *one && first.metric() == s.labels.metric(),
            }
            let index = sliding.indexes.of(&s.times, |times| {
                let reach = grid.times().map(|t| ranged.reach(t));
                let spans = spans(times, reach.map(|(start, end)| (version.first_within(start), end)));
                for (seen, span) in sliding.seen.iter_mut().zip(&spans) {
                    *seen |= span.low < span.high;
                }
                let extrapolations = match f.run {
                    Run::Change(c) if plain => {
                        spans.iter().zip(windows()).map(|(s, w)| c.extrapolate(times, *s, w)).collect()
                    }
                    _ => vec![],
                };
                WindowIndex { sampled: spans.iter().map(|s| s.high - s.low).sum(), spans, extrapolations }
            });
            let mut column = Column::new(std::mem::take(&mut s.labels), vec![ABSENT; grid.steps]);
            let values = &mut column.values;
            let mut any = match f.run {
                Run::Change(change) if plain => {
                    change.apply(&index.extrapolations, &s.values, &mut sliding.drops, values)
                }
                Run::Change(change) => {
                    let mut any = false;
                    for ((slot, span), ends) in values.iter_mut().zip(&index.spans).zip(windows()) {
                        let seen = span.low..span.high;
                        let (times, values) = (&s.times[seen.clone()], &s.values[seen]);
                        if let Some(v) = extended::change(change, times, values, ends, ranged.edges) {
                            *slot = v;
                            any = true;
                        }
                    }
                    any
                }
                Run::Window { run, .. } => {
                    let mut any = false;
                    for (i, span) in index.spans.iter().enumerate().filter(|(_, s)| s.low < s.high) {
                        for (slot, p) in sliding.at_step.iter_mut().zip(&sliding.params) {
                            *slot = p[i];
                        }
                        let mut seen = span.low..span.high;
                        if !plain {
                            let (start, _) = ranged.window(grid.time(i));
                            let Some(first) = extended::first(&s.times[seen.clone()], start) else { continue };
                            seen.start += first;
                        }
                        let (times, values_of) = (&s.times[seen.clone()], &s.values[seen]);
                        let window = Window { times, values: values_of, histograms: &[], now: grid.time(i) };
                        if let Some(v) = run(&window, &sliding.at_step) {
                            values[i] = v;
                            any = true;
                        }
                    }
                    any
                }
                Run::Map(_) | Run::Special(_) => false,
            };
            self.count_samples(index.sampled);
            if !s.histograms.is_empty() {
                self.over_histograms(f, &s, (&ranged, grid, sliding.offset), &index.spans, &mut column)?;
                any = column.values.iter().any(|v| !is_stale(*v));
            }
            if any && f.counter {
                self.hint_counter(&column.labels, sliding.offset);
            }
            if any || column.histograms.any() {
                if !keeps_name(f) {
                    self.unname(&mut column);
                }
                column.nameless |= ranged.nameless.get(at).is_some_and(|n| *n);
                sliding.out.push(column);
            }
        }
        Ok(())
    }

    /// Says that a metric may be no counter, by its type if it has one, else by its name.
    fn hint_counter(&mut self, labels: &Labels, offset: usize) {
        let (name, kind) = (labels.metric(), labels.get("__type__"));
        if !kind.is_empty() {
            if kind != "counter" && kind != "histogram" {
                let message = format!(
                    "metric might not be a counter, __type__ label is not set to \"counter\" or \"histogram\", got {kind:?}: {name:?}"
                );
                self.inform(&message, offset);
            }
            return;
        }
        if !name.is_empty() && !is_named_as_counter(name) {
            self.inform(
                &format!("metric might not be a counter, name does not end in _total/_sum/_count/_bucket: {name:?}"),
                offset,
            );
        }
    }
}

/// Whether results have the names of their series.
fn keeps_name(f: &Function) -> bool {
    matches!(f.run, Run::Window { keep_name: true, .. })
}
