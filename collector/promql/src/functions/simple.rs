//! Conversions between scalars, vectors and time, and the time of the query: `scalar`, `vector`, `timestamp`, `time`,
//! `start`, `end`, `range`, `step`.

use crate::error::Evaluated;
use crate::eval::{Column, Columns, Context, Grid, Instant};
use crate::number;
use crate::plan::{Expr, Node};
use fabriclens_model::{Labels, is_stale};

pub(super) fn time(_: &mut Context<'_>, _: &[Expr], grid: Grid) -> Evaluated<Columns> {
    Ok(Columns::Scalar(grid.times().map(|t| t as f64 / 1000.0).collect()))
}

pub(super) fn pi(_: &mut Context<'_>, _: &[Expr], grid: Grid) -> Evaluated<Columns> {
    Ok(Columns::Scalar(vec![std::f64::consts::PI; grid.steps]))
}

fn constant(value: f64, grid: Grid) -> Evaluated<Columns> {
    Ok(Columns::Scalar(vec![value; grid.steps]))
}

fn seconds(ms: i64) -> f64 {
    ms as f64 / 1000.0
}

pub(super) fn start(cx: &mut Context<'_>, _: &[Expr], grid: Grid) -> Evaluated<Columns> {
    constant(seconds(cx.grid.start), grid)
}

/// The end as it was asked for, which need not be a step.
pub(super) fn end(cx: &mut Context<'_>, _: &[Expr], grid: Grid) -> Evaluated<Columns> {
    constant(seconds(cx.grid.start + cx.resolution.range), grid)
}

pub(super) fn range(cx: &mut Context<'_>, _: &[Expr], grid: Grid) -> Evaluated<Columns> {
    constant(seconds(cx.resolution.range), grid)
}

pub(super) fn step(cx: &mut Context<'_>, _: &[Expr], grid: Grid) -> Evaluated<Columns> {
    constant(seconds(cx.resolution.step), grid)
}

pub(super) fn min_of(cx: &mut Context<'_>, args: &[Expr], grid: Grid) -> Evaluated<Columns> {
    of_two(cx, args, grid, number::min)
}

pub(super) fn max_of(cx: &mut Context<'_>, args: &[Expr], grid: Grid) -> Evaluated<Columns> {
    of_two(cx, args, grid, number::max)
}

fn of_two(cx: &mut Context<'_>, args: &[Expr], grid: Grid, of: fn(f64, f64) -> f64) -> Evaluated<Columns> {
    let (a, b) = (cx.scalar(&args[0], grid)?, cx.scalar(&args[1], grid)?);
    Ok(Columns::Scalar(a.into_iter().zip(b).map(|(a, b)| of(a, b)).collect()))
}

/// The value of a vector with exactly one element, else NaN.
pub(super) fn scalar(cx: &mut Context<'_>, args: &[Expr], grid: Grid) -> Evaluated<Columns> {
    let columns = cx.vector(&args[0], grid)?;
    let mut count = vec![0_u32; grid.steps];
    let mut values = vec![f64::NAN; grid.steps];
    for c in &columns {
        for (i, v) in c.values.iter().enumerate().filter(|(_, v)| !is_stale(**v)) {
            count[i] = count[i].saturating_add(1);
            values[i] = if count[i] == 1 { *v } else { f64::NAN };
        }
    }
    Ok(Columns::Scalar(values))
}

pub(super) fn vector(cx: &mut Context<'_>, args: &[Expr], grid: Grid) -> Evaluated<Columns> {
    let values = cx.scalar(&args[0], grid)?;
    Ok(Columns::Vector(vec![Column::new(Labels::default(), values)]))
}

/// The time of each sample: of the stored sample for a plain selector, else of the step.
pub(super) fn timestamp(cx: &mut Context<'_>, args: &[Expr], grid: Grid) -> Evaluated<Columns> {
    let mut columns = if let Node::Select(selector) = &args[0].node {
        cx.instant_columns(selector, grid, Instant::Times)?
    } else {
        let mut columns = cx.vector(&args[0], grid)?;
        for c in &mut columns {
            for i in (0..grid.steps).filter(|i| c.present(*i)).collect::<Vec<_>>() {
                c.values[i] = grid.time(i) as f64 / 1000.0;
            }
            c.histograms.clear_all();
        }
        columns
    };
    for c in &mut columns {
        cx.unname(c);
    }
    Ok(Columns::Vector(cx.settle(columns)?))
}
