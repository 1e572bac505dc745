//! Range vector functions: a window slides along the samples of each series, step by step.

use super::point::Samples;
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

impl Context<'_> {
    pub(super) fn over_windows(&mut self, f: &Function, args: &[Expr], grid: Grid) -> Evaluated<Vec<Column>> {
        let Some(matrix) = args.iter().find(|a| a.kind == ValueKind::Matrix) else { return Ok(vec![]) };
        let mut ranged = self.ranged(matrix, grid, f.rollup)?;
        let scalars = args.iter().filter(|a| a.kind == ValueKind::Scalar);
        let params = scalars.map(|a| self.scalar(a, grid)).collect::<Evaluated<Vec<_>>>()?;
        self.afford(ranged.series.len().saturating_mul(grid.steps))?;

        let mut at_step = vec![0.0; params.len()];
        let mut seen = vec![false; grid.steps];
        let series = std::mem::take(&mut ranged.series);
        let windows = || grid.times().map(|t| ranged.window(t));
        let (version, plain) = (self.limits.version, ranged.edges == Edges::Plain);
        let (mut cache, mut drops) = (PerTimes::new(), vec![]);
        let mut out = Vec::with_capacity(series.len());
        let keep_name = matches!(f.run, Run::Window { keep_name: true, .. });
        // Series of one metric differ in other labels.
        let may_collide = version == Version::V2 && !keep_name && !one_name(&series);
        for (at, mut s) in series.into_iter().enumerate() {
            self.check()?;
            let index = cache.of(&s.times, |times| {
                let reach = grid.times().map(|t| ranged.reach(t));
                let spans = spans(times, reach.map(|(start, end)| (version.first_within(start), end)));
                for (seen, span) in seen.iter_mut().zip(&spans) {
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
                Run::Change(change) if plain => change.apply(&index.extrapolations, &s.values, &mut drops, values),
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
                        for (slot, p) in at_step.iter_mut().zip(&params) {
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
                        if let Some(v) = run(&window, &at_step) {
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
                self.over_histograms(f, &s, (&ranged, grid, matrix.offset), &index.spans, &mut column)?;
                any = column.values.iter().any(|v| !is_stale(*v));
            }
            if any && f.counter {
                self.hint_counter(&column.labels, matrix.offset);
            }
            if any || column.histograms.any() {
                if !keep_name {
                    self.unname(&mut column);
                }
                column.nameless |= ranged.nameless.get(at).is_some_and(|n| *n);
                out.push(column);
            }
        }
        if let Run::Window { check: Some(check), .. } = f.run {
            for i in (0..grid.steps).filter(|i| seen[*i]) {
                for (slot, p) in at_step.iter_mut().zip(&params) {
                    *slot = p[i];
                }
                check(&at_step, args, self).map_err(QueryError::Execution)?;
            }
        }
        if may_collide {
            reject_duplicates(&out)?;
        }
        Ok(out)
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

fn one_name(series: &[Samples]) -> bool {
    series.windows(2).all(|pair| pair[0].labels.metric() == pair[1].labels.metric())
}
