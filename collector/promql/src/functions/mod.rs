//! The function table: name, argument types, arity and implementation of every function. The parser checks calls
//! against it; the evaluator runs its implementations.

mod absent;
mod calendar;
mod histogram;
mod info;
mod labels;
mod math;
mod native;
mod native_over_time;
mod native_rate;
mod over_time;
mod rate;
mod regression;
mod simple;
mod sort;

pub(crate) use native::text as histogram_text;
pub(crate) use rate::{Change, Extrapolation};

use crate::error::Evaluated;
use crate::eval::{Columns, Context, Grid, Point, Subject, Window};
use crate::plan::{Expr, FunctionId};
use crate::value::ValueKind::{self, Matrix, Scalar, String, Vector};
use fabriclens_model::Rollup;

/// Checks the scalar parameters at each step that has samples: adds a warning, or fails.
type Check = fn(&[f64], &[Expr], &mut Context<'_>) -> Result<(), std::string::String>;

/// Computes a window with histograms, and maybe floats; `None` yields no sample.
type NativeWindow = fn(&mut Context<'_>, &Window<'_>, Subject<'_>) -> Evaluated<Option<Point>>;

/// How a function is computed.
#[derive(Clone, Copy)]
pub(crate) enum Run {
    /// From each value and the scalar parameters; drops the metric name.
    Map(fn(f64, &[f64]) -> f64),
    /// From the floats of each window and the scalar parameters; `None` yields no sample. `native` computes windows with
    /// histograms; without it they are ignored.
    Window {
        run: fn(&Window<'_>, &[f64]) -> Option<f64>,
        keep_name: bool,
        check: Option<Check>,
        native: Option<NativeWindow>,
    },
    /// From all windows of a series at once; drops the metric name.
    Change(Change),
    /// By a custom implementation.
    Special(fn(&mut Context<'_>, &[Expr], Grid) -> Evaluated<Columns>),
}

/// A row of the table.
pub(crate) struct Function {
    pub name: &'static str,
    /// Argument types; the last one repeats if more are allowed.
    pub args: &'static [ValueKind],
    pub min_args: usize,
    /// `None`: no limit.
    pub max_args: Option<usize>,
    pub result: ValueKind,
    /// Meant for counters: warn if the metric name is not a counter's.
    pub counter: bool,
    /// Rollup that may replace the samples of a long window.
    pub rollup: Option<Rollup>,
    pub run: Run,
}

const fn row(name: &'static str, args: &'static [ValueKind], run: Run) -> Function {
    Function {
        name,
        args,
        min_args: args.len(),
        max_args: Some(args.len()),
        result: Vector,
        counter: false,
        rollup: None,
        run,
    }
}

const fn map(name: &'static str, run: fn(f64, &[f64]) -> f64) -> Function {
    row(name, &[Vector], Run::Map(run))
}

const fn window(name: &'static str, run: fn(&Window<'_>, &[f64]) -> Option<f64>) -> Function {
    row(name, &[Matrix], Run::Window { run, keep_name: false, check: None, native: None })
}

const fn change(name: &'static str, counter: bool, per_second: bool) -> Function {
    row(name, &[Matrix], Run::Change(Change { counter, per_second }))
}

const fn special(
    name: &'static str,
    args: &'static [ValueKind],
    run: fn(&mut Context<'_>, &[Expr], Grid) -> Evaluated<Columns>,
) -> Function {
    row(name, args, Run::Special(run))
}

/// Double exponential smoothing, which Prometheus 2 names after Holt and Winters.
const fn smoothing(name: &'static str) -> Function {
    let run = Run::Window {
        run: regression::smoothed,
        keep_name: false,
        check: Some(regression::check_factors),
        native: None,
    };
    row(name, &[Matrix, Scalar, Scalar], run)
}

const fn calendar(name: &'static str, run: fn(&mut Context<'_>, &[Expr], Grid) -> Evaluated<Columns>) -> Function {
    Function { min_args: 0, ..special(name, &[Vector], run) }
}

impl Function {
    const fn counter(self) -> Self {
        Self { counter: true, ..self }
    }

    const fn rollup(self, rollup: Rollup) -> Self {
        Self { rollup: Some(rollup), ..self }
    }

    /// A function of windows that computes those with histograms too.
    const fn native(self, of: NativeWindow) -> Self {
        let run = match self.run {
            Run::Window { run, keep_name, check, .. } => Run::Window { run, keep_name, check, native: Some(of) },
            other => other,
        };
        Self { run, ..self }
    }

    const fn scalar(self) -> Self {
        Self { result: Scalar, ..self }
    }

    const fn optional(self, min_args: usize) -> Self {
        Self { min_args, ..self }
    }

    const fn at_most(self, max_args: usize) -> Self {
        Self { max_args: Some(max_args), ..self }
    }

    const fn variadic(self, min_args: usize) -> Self {
        Self { min_args, max_args: None, ..self }
    }
}

/// All functions, sorted by name.
pub(crate) const ALL: &[Function] = &[
    map("abs", |v, _| v.abs()),
    special("absent", &[Vector], absent::absent),
    special("absent_over_time", &[Matrix], absent::absent_over_time),
    map("acos", |v, _| v.acos()),
    map("acosh", |v, _| math::acosh(v)),
    map("asin", |v, _| v.asin()),
    map("asinh", |v, _| math::asinh(v)),
    map("atan", |v, _| v.atan()),
    map("atanh", |v, _| math::atanh(v)),
    window("avg_over_time", over_time::avg).native(native_over_time::avg).rollup(Rollup::Mean),
    map("ceil", |v, _| v.ceil()),
    window("changes", over_time::changes).native(native_over_time::changes),
    row("clamp", &[Vector, Scalar, Scalar], Run::Map(math::clamp)),
    row("clamp_max", &[Vector, Scalar], Run::Map(math::clamp_max)),
    row("clamp_min", &[Vector, Scalar], Run::Map(math::clamp_min)),
    map("cos", |v, _| v.cos()),
    map("cosh", |v, _| v.cosh()),
    window("count_over_time", |w, _| Some(w.values.len() as f64)).native(native_over_time::count),
    calendar("day_of_month", calendar::day_of_month),
    calendar("day_of_week", calendar::day_of_week),
    calendar("day_of_year", calendar::day_of_year),
    calendar("days_in_month", calendar::days_in_month),
    map("deg", |v, _| v * 180.0 / std::f64::consts::PI),
    change("delta", false, false).rollup(Rollup::Last),
    window("deriv", regression::deriv).rollup(Rollup::Last),
    smoothing("double_exponential_smoothing"),
    special("end", &[], simple::end).scalar(),
    map("exp", |v, _| v.exp()),
    row(
        "first_over_time",
        &[Matrix],
        Run::Window { run: |w, _| w.values.first().copied(), keep_name: true, check: None, native: None },
    )
    .native(native_over_time::first),
    map("floor", |v, _| v.floor()),
    special("histogram_avg", &[Vector], native::avg),
    special("histogram_count", &[Vector], native::count),
    special("histogram_fraction", &[Scalar, Scalar, Vector], histogram::fraction),
    special("histogram_quantile", &[Scalar, Vector], histogram::quantile),
    special("histogram_quantiles", &[Vector, String, Scalar], histogram::quantiles).at_most(12),
    special("histogram_stddev", &[Vector], native::stddev),
    special("histogram_stdvar", &[Vector], native::stdvar),
    special("histogram_sum", &[Vector], native::sum),
    smoothing("holt_winters"),
    calendar("hour", calendar::hour),
    window("idelta", rate::idelta).native(native_rate::idelta),
    change("increase", true, false).counter().rollup(Rollup::Increase),
    special("info", &[Vector, Vector], info::info).optional(1),
    window("irate", rate::irate).native(native_rate::irate),
    special("label_join", &[Vector, String, String, String], labels::join).variadic(3),
    special("label_replace", &[Vector, String, String, String, String], labels::replace),
    row(
        "last_over_time",
        &[Matrix],
        Run::Window { run: |w, _| w.values.last().copied(), keep_name: true, check: None, native: None },
    )
    .native(native_over_time::last)
    .rollup(Rollup::Last),
    map("ln", |v, _| v.ln()),
    map("log10", |v, _| v.log10()),
    map("log2", |v, _| v.log2()),
    window("mad_over_time", over_time::mad),
    special("max_of", &[Scalar, Scalar], simple::max_of).scalar(),
    window("max_over_time", over_time::max).rollup(Rollup::Max),
    special("min_of", &[Scalar, Scalar], simple::min_of).scalar(),
    window("min_over_time", over_time::min).rollup(Rollup::Min),
    calendar("minute", calendar::minute),
    calendar("month", calendar::month),
    special("pi", &[], simple::pi).scalar(),
    row(
        "predict_linear",
        &[Matrix, Scalar],
        Run::Window { run: regression::predict, keep_name: false, check: None, native: None },
    )
    .rollup(Rollup::Last),
    window("present_over_time", |_, _| Some(1.0)).native(native_over_time::present).rollup(Rollup::Last),
    row(
        "quantile_over_time",
        &[Scalar, Matrix],
        Run::Window {
            run: over_time::quantile,
            keep_name: false,
            check: Some(over_time::check_quantile),
            native: None,
        },
    ),
    map("rad", |v, _| v * std::f64::consts::PI / 180.0),
    special("range", &[], simple::range).scalar(),
    change("rate", true, true).counter().rollup(Rollup::Increase),
    window("resets", over_time::resets).native(native_over_time::resets),
    row("round", &[Vector, Scalar], Run::Map(math::round)).optional(1),
    special("scalar", &[Vector], simple::scalar).scalar(),
    map("sgn", |v, _| math::sign(v)),
    map("sin", |v, _| v.sin()),
    map("sinh", |v, _| v.sinh()),
    special("sort", &[Vector], sort::ascending),
    special("sort_by_label", &[Vector, String], sort::by_label).variadic(1),
    special("sort_by_label_desc", &[Vector, String], sort::by_label_desc).variadic(1),
    special("sort_desc", &[Vector], sort::descending),
    map("sqrt", |v, _| v.sqrt()),
    special("start", &[], simple::start).scalar(),
    window("stddev_over_time", over_time::stddev),
    window("stdvar_over_time", over_time::stdvar),
    special("step", &[], simple::step).scalar(),
    window("sum_over_time", over_time::sum).native(native_over_time::sum),
    map("tan", |v, _| v.tan()),
    map("tanh", |v, _| v.tanh()),
    special("time", &[], simple::time).scalar(),
    special("timestamp", &[Vector], simple::timestamp),
    window("ts_of_first_over_time", |w, _| w.times.first().map(|t| *t as f64 / 1000.0))
        .native(native_over_time::time_of_first),
    window("ts_of_last_over_time", |w, _| w.times.last().map(|t| *t as f64 / 1000.0))
        .native(native_over_time::time_of_last),
    window("ts_of_max_over_time", over_time::time_of_max),
    window("ts_of_min_over_time", over_time::time_of_min),
    special("vector", &[Scalar], simple::vector),
    calendar("year", calendar::year),
];

/// Looks a function up by name.
pub(crate) fn find(name: &str) -> Option<FunctionId> {
    ALL.binary_search_by(|f| f.name.cmp(name)).ok().map(FunctionId)
}

/// The row of a function that [`find`] returned.
pub(crate) fn get(id: FunctionId) -> &'static Function {
    &ALL[id.0]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sorted_and_every_row_parses() {
        assert!(ALL.is_sorted_by(|a, b| a.name < b.name));
        for f in ALL {
            let args = f.args.iter().map(|k| match k {
                Scalar => "1",
                String => "\"x\"",
                Vector if f.name == "info" => "{m=\"x\"}",
                Vector => "m",
                Matrix => "m[1m]",
            });
            let call = format!("{}({})", f.name, args.collect::<Vec<_>>().join(", "));
            assert_eq!(crate::check(&call), Ok(f.result), "{call}");
        }
    }
}
