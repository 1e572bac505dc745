//! Functions of range vectors: two cursors per series slide a window along its samples, step by step.

use super::{ABSENT, Column, Context, Evaluated, Grid, drop_name, reject_twins};
use crate::error::QueryError;
use crate::functions::{Function, Run};
use crate::plan::Expr;
use crate::value::ValueKind;

/// The samples of one series in sight of one step; never empty.
pub(crate) struct Window<'a> {
    /// Unix milliseconds, ascending.
    pub times: &'a [i64],
    pub values: &'a [f64],
    /// Both ends of the range, inclusive, in milliseconds.
    pub start: i64,
    pub end: i64,
    /// The step's own time, whatever `offset` and `@` say.
    pub now: i64,
}

impl Context<'_> {
    pub(super) fn over_windows(&mut self, f: &Function, args: &[Expr], grid: Grid) -> Evaluated<Vec<Column>> {
        let Run::Window { run, keep_name, check } = f.run else { return Ok(vec![]) };
        let Some(matrix) = args.iter().find(|a| a.kind == ValueKind::Matrix) else { return Ok(vec![]) };
        let ranged = self.ranged(matrix, grid, f.rollup)?;
        let scalars = args.iter().filter(|a| a.kind == ValueKind::Scalar);
        let params = scalars.map(|a| self.scalar(a, grid)).collect::<Evaluated<Vec<_>>>()?;
        self.afford(ranged.series.len().saturating_mul(grid.steps))?;

        let mut at_step = vec![0.0; params.len()];
        let mut seen = vec![false; grid.steps];
        let mut out = Vec::with_capacity(ranged.series.len());
        for s in &ranged.series {
            self.check()?;
            let mut values = vec![ABSENT; grid.steps];
            let (mut low, mut high, mut any, mut sampled) = (0, 0, false, 0);
            for (i, slot) in values.iter_mut().enumerate() {
                let now = grid.time(i);
                let (start, end) = ranged.window(now);
                while high < s.times.len() && s.times[high] <= end {
                    high += 1;
                }
                while low < high && s.times[low] < start {
                    low += 1;
                }
                if low == high {
                    continue;
                }
                sampled += high - low;
                seen[i] = true;
                for (slot, p) in at_step.iter_mut().zip(&params) {
                    *slot = p[i];
                }
                let window = Window { times: &s.times[low..high], values: &s.values[low..high], start, end, now };
                if let Some(v) = run(&window, &at_step) {
                    *slot = v;
                    any = true;
                }
            }
            self.saw(sampled);
            if sampled > 0 && f.counter {
                self.doubt_counter(s.labels.metric(), matrix.offset);
            }
            if any {
                let labels = if keep_name { s.labels.clone() } else { drop_name(&s.labels) };
                out.push(Column { labels, values });
            }
        }
        if let Some(check) = check {
            for i in (0..grid.steps).filter(|i| seen[*i]) {
                for (slot, p) in at_step.iter_mut().zip(&params) {
                    *slot = p[i];
                }
                check(&at_step, args, self).map_err(QueryError::Execution)?;
            }
        }
        reject_twins(&out)?;
        Ok(out)
    }

    fn doubt_counter(&mut self, name: &str, offset: usize) {
        let counter = ["_total", "_sum", "_count", "_bucket"].iter().any(|suffix| name.ends_with(suffix));
        if !name.is_empty() && !counter {
            self.inform(
                &format!("metric might not be a counter, name does not end in _total/_sum/_count/_bucket: {name:?}"),
                offset,
            );
        }
    }
}
