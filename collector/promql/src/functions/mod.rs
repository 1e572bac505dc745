//! Every function of the language, as rows of one table: name, types, arity, implementation. The parser checks calls
//! against it, the evaluator runs what it names.

mod absent;
mod calendar;
mod histogram;
mod labels;
mod math;
mod over_time;
mod rate;
mod regression;
mod simple;
mod sort;

pub(crate) use rate::{Change, Reach};

use crate::eval::{Columns, Context, Evaluated, Grid, Window};
use crate::plan::Expr;
use crate::value::ValueKind::{self, Matrix, Scalar, String, Vector};
use fabriclens_model::Rollup;

/// Looks at a step's scalar parameters once per step that has samples: warns through the context, or refuses.
type Check = fn(&[f64], &[Expr], &mut Context<'_>) -> Result<(), std::string::String>;

/// How a function is computed.
#[derive(Clone, Copy)]
pub(crate) enum Run {
    /// From each value alone and the scalar parameters; the metric name goes.
    Map(fn(f64, &[f64]) -> f64),
    /// From each series' window and the scalar parameters; `None` yields no sample.
    Window { run: fn(&Window<'_>, &[f64]) -> Option<f64>, keep_name: bool, check: Option<Check> },
    /// From each series and all its windows at once; the metric name goes.
    Change(Change),
    /// In its own way.
    Special(fn(&mut Context<'_>, &[Expr], Grid) -> Evaluated<Columns>),
}

/// A row of the table.
pub(crate) struct Function {
    pub name: &'static str,
    /// Types of the arguments; the last repeats when more are allowed.
    pub args: &'static [ValueKind],
    pub least: usize,
    /// No limit when absent.
    pub most: Option<usize>,
    pub result: ValueKind,
    /// Meant for counters: say so when the metric's name is not a counter's.
    pub counter: bool,
    /// What may stand for the samples of a long window.
    pub rollup: Option<Rollup>,
    pub run: Run,
}

impl std::fmt::Debug for Function {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

const fn row(name: &'static str, args: &'static [ValueKind], run: Run) -> Function {
    Function {
        name,
        args,
        least: args.len(),
        most: Some(args.len()),
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
    row(name, &[Matrix], Run::Window { run, keep_name: false, check: None })
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

const fn calendar(name: &'static str, run: fn(&mut Context<'_>, &[Expr], Grid) -> Evaluated<Columns>) -> Function {
    Function { least: 0, ..special(name, &[Vector], run) }
}

impl Function {
    const fn counter(self) -> Self {
        Self { counter: true, ..self }
    }

    const fn rolled(self, up: Rollup) -> Self {
        Self { rollup: Some(up), ..self }
    }

    const fn scalar(self) -> Self {
        Self { result: Scalar, ..self }
    }

    const fn optional(self, least: usize) -> Self {
        Self { least, ..self }
    }

    const fn more(self, least: usize) -> Self {
        Self { least, most: None, ..self }
    }
}

/// The only list of functions, sorted by name.
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
    window("avg_over_time", over_time::avg).rolled(Rollup::Mean),
    map("ceil", |v, _| v.ceil()),
    window("changes", over_time::changes),
    row("clamp", &[Vector, Scalar, Scalar], Run::Map(math::clamp)),
    row("clamp_max", &[Vector, Scalar], Run::Map(math::clamp_max)),
    row("clamp_min", &[Vector, Scalar], Run::Map(math::clamp_min)),
    map("cos", |v, _| v.cos()),
    map("cosh", |v, _| v.cosh()),
    window("count_over_time", |w, _| Some(w.values.len() as f64)),
    calendar("day_of_month", calendar::day_of_month),
    calendar("day_of_week", calendar::day_of_week),
    calendar("day_of_year", calendar::day_of_year),
    calendar("days_in_month", calendar::days_in_month),
    map("deg", |v, _| v * 180.0 / std::f64::consts::PI),
    change("delta", false, false).rolled(Rollup::Last),
    window("deriv", regression::deriv).rolled(Rollup::Last),
    map("exp", |v, _| v.exp()),
    map("floor", |v, _| v.floor()),
    special("histogram_avg", &[Vector], histogram::of_native),
    special("histogram_count", &[Vector], histogram::of_native),
    special("histogram_fraction", &[Scalar, Scalar, Vector], histogram::of_native),
    special("histogram_quantile", &[Scalar, Vector], histogram::quantile),
    special("histogram_stddev", &[Vector], histogram::of_native),
    special("histogram_stdvar", &[Vector], histogram::of_native),
    special("histogram_sum", &[Vector], histogram::of_native),
    row(
        "holt_winters",
        &[Matrix, Scalar, Scalar],
        Run::Window { run: regression::holt_winters, keep_name: false, check: Some(regression::check_factors) },
    ),
    calendar("hour", calendar::hour),
    window("idelta", rate::idelta),
    change("increase", true, false).counter().rolled(Rollup::Increase),
    window("irate", rate::irate),
    special("label_join", &[Vector, String, String, String], labels::join).more(3),
    special("label_replace", &[Vector, String, String, String, String], labels::replace),
    row(
        "last_over_time",
        &[Matrix],
        Run::Window { run: |w, _| w.values.last().copied(), keep_name: true, check: None },
    )
    .rolled(Rollup::Last),
    map("ln", |v, _| v.ln()),
    map("log10", |v, _| v.log10()),
    map("log2", |v, _| v.log2()),
    window("mad_over_time", over_time::mad),
    window("max_over_time", over_time::max).rolled(Rollup::Max),
    window("min_over_time", over_time::min).rolled(Rollup::Min),
    calendar("minute", calendar::minute),
    calendar("month", calendar::month),
    special("pi", &[], simple::pi).scalar(),
    row("predict_linear", &[Matrix, Scalar], Run::Window { run: regression::predict, keep_name: false, check: None })
        .rolled(Rollup::Last),
    window("present_over_time", |_, _| Some(1.0)).rolled(Rollup::Last),
    row(
        "quantile_over_time",
        &[Scalar, Matrix],
        Run::Window { run: over_time::quantile, keep_name: false, check: Some(over_time::check_quantile) },
    ),
    map("rad", |v, _| v * std::f64::consts::PI / 180.0),
    change("rate", true, true).counter().rolled(Rollup::Increase),
    window("resets", over_time::resets),
    row("round", &[Vector, Scalar], Run::Map(math::round)).optional(1),
    special("scalar", &[Vector], simple::scalar).scalar(),
    map("sgn", |v, _| math::sign(v)),
    map("sin", |v, _| v.sin()),
    map("sinh", |v, _| v.sinh()),
    special("sort", &[Vector], sort::ascending),
    special("sort_by_label", &[Vector, String], sort::by_label).more(1),
    special("sort_by_label_desc", &[Vector, String], sort::by_label_desc).more(1),
    special("sort_desc", &[Vector], sort::descending),
    map("sqrt", |v, _| v.sqrt()),
    window("stddev_over_time", over_time::stddev),
    window("stdvar_over_time", over_time::stdvar),
    window("sum_over_time", over_time::sum),
    map("tan", |v, _| v.tan()),
    map("tanh", |v, _| v.tanh()),
    special("time", &[], simple::time).scalar(),
    special("timestamp", &[Vector], simple::timestamp),
    special("vector", &[Scalar], simple::vector),
    calendar("year", calendar::year),
];

/// The row of a name.
pub(crate) fn find(name: &str) -> Option<&'static Function> {
    ALL.binary_search_by(|f| f.name.cmp(name)).ok().map(|i| &ALL[i])
}

/// Makes the grammar crate, which resolves names while parsing, know the functions of 2.53 that 3.x has dropped.
pub(crate) fn register_missing() -> Result<(), std::string::String> {
    use promql_parser::parser::function::{Function as Row, register_extra_functions};
    use promql_parser::parser::value::ValueType;
    let args = vec![ValueType::Matrix, ValueType::Scalar, ValueType::Scalar];
    register_extra_functions(vec![Row::new("holt_winters", args, 0, ValueType::Vector, false)])
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
                Vector => "m",
                Matrix => "m[1m]",
            });
            let call = format!("{}({})", f.name, args.collect::<Vec<_>>().join(", "));
            assert_eq!(crate::check(&call), Ok(f.result), "{call}");
        }
    }
}
