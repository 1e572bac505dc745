//! Columnar evaluation: every expression yields, for all steps of a [`Grid`] at once, either one number per step or a
//! set of [`Column`]s. [`Context`] holds the shared state of a query: data, limits, annotations.

mod aggregate;
mod annotation;
mod binary;
mod columns;
mod context;
mod elsewhere;
mod extended;
mod group_keys;
mod matching;
mod native_aggregate;
mod native_binary;
mod native_combine;
mod native_window;
mod point;
mod result_labels;
mod sample;
mod select;
mod topk;
mod window;
mod window_index;

pub(crate) use annotation::{Annotation, Combination, Subject};
pub(crate) use binary::arithmetic;
pub(crate) use columns::{
    ABSENT, Column, Columns, Grid, drop_name, finish, merge, names_metric, reject_duplicates, relabel,
};
pub(crate) use context::Context;
pub(crate) use extended::points;
pub(crate) use point::{Point, between};
pub(crate) use select::Instant;
pub(crate) use window_index::{PerTimes, Span, Window, spans};

use crate::error::{Evaluated, QueryError};
use crate::functions::{self, Run};
use crate::plan::{Expr, Grouping, Node};
use fabriclens_model::is_stale;
use std::sync::Arc;

impl Context<'_> {
    /// Evaluates an expression of type scalar or instant vector at every step of the grid.
    pub(crate) fn eval(&mut self, expr: &Expr, grid: Grid) -> Evaluated<Columns> {
        self.eval_for(expr, grid, None)
    }

    /// The same for an aggregation that looks only at the labels by which it groups.
    fn eval_for(&mut self, expr: &Expr, grid: Grid, grouping: Option<&Grouping>) -> Evaluated<Columns> {
        self.check()?;
        let out = match &expr.node {
            Node::Number(n) => Columns::Scalar(vec![*n; grid.steps]),
            Node::Select(s) => Columns::Vector(self.instant_columns(s, grid, Instant::Samples)?),
            Node::Negate(inner) => self.negate(inner, grid)?,
            Node::Binary(b) => self.binary(b, grid, grouping)?,
            Node::Aggregate(a) => Columns::Vector(self.aggregate(a, grid)?),
            Node::Call(id, args) => {
                let function = functions::get(*id);
                extended::check(function, args)?;
                match function.run {
                    Run::Map(map) => Columns::Vector(self.map(map, args, grid)?),
                    Run::Window { .. } | Run::Change(_) => Columns::Vector(self.over_windows(function, args, grid)?),
                    Run::Special(run) => run(self, args, grid)?,
                }
            }
            Node::Text(_) | Node::Range(..) | Node::Subquery(_) => {
                return Err(QueryError::Execution(format!("unexpected {} operand", expr.kind.documented())));
            }
        };
        if !matches!(expr.node, Node::Select(_)) {
            self.charge(out.size())?;
        }
        Ok(out)
    }

    /// Evaluates an instant vector.
    pub(crate) fn vector(&mut self, expr: &Expr, grid: Grid) -> Evaluated<Vec<Column>> {
        self.vector_for(expr, grid, None)
    }

    /// The same for an aggregation that looks only at the labels by which it groups.
    pub(crate) fn vector_for(
        &mut self,
        expr: &Expr,
        grid: Grid,
        grouping: Option<&Grouping>,
    ) -> Evaluated<Vec<Column>> {
        match self.eval_for(expr, grid, grouping)? {
            Columns::Vector(v) => Ok(v),
            Columns::Scalar(_) => Err(QueryError::Execution("expected an instant vector, got a scalar".into())),
        }
    }

    /// Evaluates a scalar at each step.
    pub(crate) fn scalar(&mut self, expr: &Expr, grid: Grid) -> Evaluated<Vec<f64>> {
        match self.eval(expr, grid)? {
            Columns::Scalar(v) => Ok(v),
            Columns::Vector(_) => Err(QueryError::Execution("expected a scalar, got an instant vector".into())),
        }
    }

    fn negate(&mut self, inner: &Expr, grid: Grid) -> Evaluated<Columns> {
        Ok(match self.eval(inner, grid)? {
            Columns::Scalar(v) => Columns::Scalar(v.into_iter().map(|v| -v).collect()),
            Columns::Vector(mut columns) => {
                for c in &mut columns {
                    self.unname(c);
                    for v in c.values.iter_mut().filter(|v| !is_stale(**v)) {
                        *v = -*v;
                    }
                    for i in c.histograms.iter().map(|(i, _)| i).collect::<Vec<_>>() {
                        if let Some(h) = c.histograms.clear(i) {
                            let mut negative = Arc::unwrap_or_clone(h);
                            negative.scale(-1.0);
                            self.charge_histogram(&negative)?;
                            c.histograms.set(i, grid.steps, negative.into());
                        }
                    }
                }
                Columns::Vector(self.settle(columns)?)
            }
        })
    }

    /// Applies a function to each float; further arguments are scalars. Histograms are left out.
    fn map(&mut self, f: fn(f64, &[f64]) -> f64, args: &[Expr], grid: Grid) -> Evaluated<Vec<Column>> {
        let Some((vector, scalars)) = args.split_first() else { return Ok(vec![]) };
        let mut columns = self.vector(vector, grid)?;
        let params = scalars.iter().map(|a| self.scalar(a, grid)).collect::<Evaluated<Vec<_>>>()?;
        let mut at_step = vec![0.0; params.len()];
        for c in &mut columns {
            self.unname(c);
            c.histograms.clear_all();
            for (i, v) in c.values.iter_mut().enumerate().filter(|(_, v)| !is_stale(**v)) {
                for (slot, p) in at_step.iter_mut().zip(&params) {
                    *slot = p[i];
                }
                *v = f(*v, &at_step);
            }
        }
        self.settle(columns)
    }
}
