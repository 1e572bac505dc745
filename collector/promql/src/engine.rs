//! The public entry point: evaluates query text to a result.

use crate::error::QueryError;
use crate::eval::{self, Column, Columns, Context, Grid};
use crate::limits::Limits;
use crate::parse;
use crate::plan::{Expr, Node, Resolution};
use crate::value::{Outcome, Sample, Value, ValueKind};
use fabriclens_model::{
    Budget, CancelToken, HistogramSeries, Labels, Patterns, Read, Series, TimedBudget, Unlimited, is_stale,
};
use std::sync::Arc;
use std::time::Instant;

/// Evaluates queries. It holds only limits, so one engine serves any number of threads.
#[derive(Clone, Debug)]
pub struct Engine {
    limits: Limits,
    budget: Arc<dyn Budget>,
}

impl Default for Engine {
    fn default() -> Self {
        Self::new(Limits::default())
    }
}

/// Queries with more operands than this are evaluated on a thread with a large stack.
const SHALLOW: usize = 100;
const DEEP_STACK: usize = 256 << 20;
/// Larger times are refused: below, no sum of offsets and ranges of a query can overflow.
const MAX_TIME: i64 = 1 << 60;

fn check_time(time_ms: i64) -> Result<(), QueryError> {
    if (-MAX_TIME..=MAX_TIME).contains(&time_ms) {
        return Ok(());
    }
    Err(QueryError::BadRequest(format!("time {time_ms} ms is out of range; give Unix time")))
}

impl Engine {
    /// An engine with these limits.
    pub fn new(limits: Limits) -> Self {
        Self { limits, budget: Arc::new(Unlimited) }
    }

    /// The same engine with a memory budget that all its queries share.
    #[must_use]
    pub fn within(self, budget: Arc<dyn Budget>) -> Self {
        Self { budget, ..self }
    }

    /// Limits of each query.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Memory budget of the queries.
    pub fn budget(&self) -> &dyn Budget {
        &*self.budget
    }

    /// The budget of a query that begins now.
    pub fn timed<'a>(&'a self, cancel: &'a CancelToken) -> TimedBudget<'a> {
        TimedBudget { memory: self.budget(), cancel, deadline: Instant::now().checked_add(self.limits.timeout) }
    }

    /// Evaluates at one instant (Unix milliseconds).
    ///
    /// # Errors
    /// [`QueryError`]; its `kind()` is Prometheus' `errorType`.
    pub fn instant(&self, read: &dyn Read, query: &str, time_ms: i64) -> Result<Outcome, QueryError> {
        self.instant_cancellable(read, query, time_ms, &CancelToken::default())
    }

    /// Like [`Self::instant`], cancellable from another thread.
    ///
    /// # Errors
    /// See [`Self::instant`]; also [`QueryError::Cancelled`].
    pub fn instant_cancellable(
        &self,
        read: &dyn Read,
        query: &str,
        time_ms: i64,
        cancel: &CancelToken,
    ) -> Result<Outcome, QueryError> {
        check_time(time_ms)?;
        with_deep_stack(query, || {
            let budget = self.timed(cancel);
            let resolution = Resolution { step: 0, range: 0 };
            let expr = parse::parse(query, Some(resolution), &mut Patterns::new(&budget))?;
            let grid = Grid { start: time_ms, step: 1, steps: 1 };
            let mut cx = Context::new(read, &self.limits, &budget, query, grid, resolution);
            let value = instant_value(&mut cx, &expr, time_ms)?;
            Ok(cx.outcome(value))
        })
    }

    /// Evaluates at `start_ms`, `start_ms + step_ms`, … up to `end_ms` inclusive (all in milliseconds).
    ///
    /// # Errors
    /// [`QueryError`]; its `kind()` is Prometheus' `errorType`.
    pub fn range(
        &self,
        read: &dyn Read,
        query: &str,
        start_ms: i64,
        end_ms: i64,
        step_ms: i64,
    ) -> Result<Outcome, QueryError> {
        self.range_cancellable(read, query, start_ms, end_ms, step_ms, &CancelToken::default())
    }

    /// Like [`Self::range`], cancellable from another thread.
    ///
    /// # Errors
    /// See [`Self::range`]; also [`QueryError::Cancelled`].
    pub fn range_cancellable(
        &self,
        read: &dyn Read,
        query: &str,
        start_ms: i64,
        end_ms: i64,
        step_ms: i64,
        cancel: &CancelToken,
    ) -> Result<Outcome, QueryError> {
        let grid = self.grid(start_ms, end_ms, step_ms)?;
        with_deep_stack(query, || {
            let budget = self.timed(cancel);
            let resolution = Resolution { step: step_ms, range: end_ms - start_ms };
            let expr = parse::parse(query, Some(resolution), &mut Patterns::new(&budget))?;
            if !matches!(expr.kind, ValueKind::Scalar | ValueKind::Vector) {
                let kind = expr.kind.documented();
                return Err(QueryError::BadRequest(format!(
                    "invalid expression type {kind:?} for range query, must be Scalar or instant Vector"
                )));
            }
            let mut cx = Context::new(read, &self.limits, &budget, query, grid, resolution);
            let (series, histograms) = range_value(&mut cx, &expr, grid)?;
            Ok(cx.outcome((Value::Matrix(series), histograms)))
        })
    }

    fn grid(&self, start: i64, end: i64, step: i64) -> Result<Grid, QueryError> {
        let bad = |m: &str| Err(QueryError::BadRequest(m.to_owned()));
        if step <= 0 {
            return bad("zero or negative query resolution step widths are not accepted. Try a positive integer");
        }
        if end < start {
            return bad("end timestamp must not be before start time");
        }
        check_time(start)?;
        check_time(end)?;
        let steps = end.checked_sub(start).map(|span| span / step).and_then(|n| usize::try_from(n).ok());
        match steps {
            Some(n) if n < self.limits.max_steps => Ok(Grid { start, step, steps: n + 1 }),
            _ => Err(QueryError::BadRequest(format!(
                "exceeded maximum resolution of {} points per timeseries. Try decreasing the query resolution (?step=XX)",
                self.limits.max_steps
            ))),
        }
    }
}

/// Parsing and evaluation recurse; a query with many operands gets a stack that cannot overflow.
pub(crate) fn with_deep_stack<T: Send>(
    query: &str,
    work: impl FnOnce() -> Result<T, QueryError> + Send,
) -> Result<T, QueryError> {
    let operators = query.bytes().filter(|b| b"+-*/%^(<>=[".contains(b) || b.is_ascii_whitespace()).count();
    if operators < SHALLOW {
        return work();
    }
    std::thread::scope(|s| {
        let spawned = std::thread::Builder::new().stack_size(DEEP_STACK).spawn_scoped(s, work);
        let thread =
            spawned.map_err(|e| QueryError::Storage(format!("cannot start a thread for a large query: {e}")))?;
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Floats and histograms of a result.
type Both<T> = (T, Vec<HistogramSeries>);

fn instant_value(cx: &mut Context<'_>, expr: &Expr, time_ms: i64) -> Result<Both<Value>, QueryError> {
    let grid = cx.grid;
    if let Node::Text(value) = &expr.node {
        return Ok((Value::String { time_ms, value: value.clone() }, vec![]));
    }
    if expr.kind == ValueKind::Matrix {
        let (mut series, mut histograms) = eval::points(&cx.ranged(expr, grid, None)?, time_ms, cx.limits.version)?;
        series.retain(|s| !s.times.is_empty());
        cx.count_samples(series.iter().map(|s| s.times.len()).sum());
        cx.count_samples(histograms.iter().map(|s| s.times.len()).sum());
        series.sort_by(|a, b| a.labels.cmp(&b.labels));
        histograms.sort_by(|a, b| a.labels.cmp(&b.labels));
        return Ok((Value::Matrix(series), histograms));
    }
    Ok(match cx.eval(expr, grid)? {
        Columns::Scalar(v) => (Value::Scalar { time_ms, value: v[0] }, vec![]),
        Columns::Vector(columns) => {
            let columns = eval::finish(columns)?;
            let histograms = columns.iter().filter_map(|c| histograms(c, grid)).collect();
            let present = columns.into_iter().filter(|c| !is_stale(c.values[0]));
            let samples = present.map(|c| Sample { labels: c.labels, time_ms, value: c.values[0] }).collect();
            (Value::Vector(samples), histograms)
        }
    })
}

/// The histograms of a column with their times; `None` if there are none.
fn histograms(column: &Column, grid: Grid) -> Option<HistogramSeries> {
    let (times, values) = column.histograms.iter().map(|(i, h)| (grid.time(i), h.clone())).unzip();
    let series = HistogramSeries { labels: column.labels.clone(), times, values };
    (!series.times.is_empty()).then_some(series)
}

fn range_value(cx: &mut Context<'_>, expr: &Expr, grid: Grid) -> Result<Both<Vec<Series>>, QueryError> {
    Ok(match cx.eval(expr, grid)? {
        Columns::Scalar(values) => {
            (vec![Series { labels: Labels::default(), times: grid.times().collect(), values }], vec![])
        }
        Columns::Vector(columns) => {
            // Each series gets its own times.
            let columns = eval::finish(columns)?;
            cx.afford(columns.len().saturating_mul(grid.steps))?;
            let mut native: Vec<HistogramSeries> = columns.iter().filter_map(|c| histograms(c, grid)).collect();
            native.sort_by(|a, b| a.labels.cmp(&b.labels));
            let mut out: Vec<Series> = columns
                .into_iter()
                .map(|c| {
                    let present = grid.times().zip(c.values).filter(|(_, v)| !is_stale(*v));
                    let (times, values) = present.unzip();
                    Series { labels: c.labels, times, values }
                })
                .filter(|s| !s.times.is_empty())
                .collect();
            out.sort_by(|a, b| a.labels.cmp(&b.labels));
            (out, native)
        }
    })
}
