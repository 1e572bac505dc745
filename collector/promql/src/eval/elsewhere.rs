//! Aggregations that the reader computes where the samples are, so that only results are read.

use super::window::is_named_as_counter;
use super::{ABSENT, Column, Context, Grid, names_metric};
use crate::error::Evaluated;
use crate::functions::{self, Function};
use crate::limits::Version;
use crate::plan::{AGGREGATIONS, Aggregate, Edges, Expr, Node, Selector};
use fabriclens_model::{Aggregation, Labels, MatchOp, Matcher};
use foldhash::{HashMap, HashMapExt as _};

/// Results at the first steps of a grid.
pub(super) struct Elsewhere {
    pub steps: usize,
    pub columns: Vec<Column>,
}

impl Context<'_> {
    /// Asks the reader for the results of an aggregation; `None` if it is of another form, or the reader leaves it to this evaluator.
    pub(super) fn elsewhere(&mut self, a: &Aggregate, grid: Grid) -> Evaluated<Option<Elsewhere>> {
        let Some((selector, range, function)) = values(&a.expr.node) else { return Ok(None) };
        let Some(metric) = metric(selector) else { return Ok(None) };
        // Annotations about names are made here.
        let annotated = function.is_some_and(|f| f.counter) && !is_named_as_counter(metric);
        let plain = selector.edges == Edges::Plain && selector.shift.at.is_none() && grid.steps > 0;
        let operator = AGGREGATIONS.iter().find(|(_, op)| *op == a.op && a.param.is_none());
        let Some((operator, _)) = operator.filter(|_| plain && !annotated && !keeps_name(a)) else { return Ok(None) };
        let question = Aggregation {
            operator,
            by: a.grouping.keep,
            labels: &a.grouping.labels,
            function: function.map(|f| f.name),
            matchers: &selector.matchers,
            range_ms: range.unwrap_or_else(|| self.lookback_ms()),
            offset_ms: selector.shift.offset,
            closed: self.limits.version == Version::V2,
            start_ms: grid.start,
            step_ms: grid.step,
            steps: grid.steps,
        };
        let Some(found) = self.ask(&question)? else { return Ok(None) };
        self.charge(found.groups.len().saturating_mul(found.steps))?;
        let columns = found.groups.into_iter().map(|(labels, values)| Column::new(labels, values)).collect();
        Ok(Some(Elsewhere { steps: found.steps, columns }))
    }

    /// Appends the results at the rest of the grid.
    pub(super) fn continued(&mut self, first: Elsewhere, rest: Vec<Column>, grid: Grid) -> Evaluated<Vec<Column>> {
        let mut columns = first.columns;
        let groups = columns.len().saturating_add(rest.len());
        self.afford(groups.saturating_mul(grid.steps))?;
        let mut places: HashMap<Labels, usize> = HashMap::with_capacity(groups);
        for (at, column) in columns.iter_mut().enumerate() {
            column.values.resize(grid.steps, ABSENT);
            places.insert(column.labels.clone(), at);
        }
        for mut column in rest {
            match places.get(&column.labels) {
                Some(at) => columns[*at].values[first.steps..].copy_from_slice(&column.values),
                None => {
                    column.values.splice(..0, std::iter::repeat_n(ABSENT, first.steps));
                    columns.push(column);
                }
            }
        }
        Ok(columns)
    }
}

/// The selector whose values are aggregated, with range and function unless they are its latest samples.
fn values(node: &Node) -> Option<(&Selector, Option<i64>, Option<&Function>)> {
    match node {
        Node::Select(selector) => Some((selector, None, None)),
        Node::Call(id, args) => match &args[..] {
            [Expr { node: Node::Range(selector, range), .. }] => {
                Some((selector, Some(*range), Some(functions::get(*id))))
            }
            _ => None,
        },
        _ => None,
    }
}

/// The metric whose series a selector finds, if it is one.
fn metric(selector: &Selector) -> Option<&str> {
    let mut named = selector.matchers.iter().filter(|m| m.name == "__name__");
    match (named.next(), named.next()) {
        (Some(Matcher { op: MatchOp::Equal, value, .. }), None) if !value.is_empty() => Some(value),
        _ => None,
    }
}

/// Whether groups may keep the name of the metric.
fn keeps_name(a: &Aggregate) -> bool {
    a.grouping.keep && a.grouping.labels.iter().any(|label| names_metric(label))
}

#[cfg(test)]
mod tests {
    use crate::{Engine, Outcome, Value};
    use fabriclens_model::{
        Aggregated, Aggregation, Budget, Labels, Matcher, Memory, Read, ReadError, STALE_NAN, Series,
    };
    use std::sync::Mutex;

    /// A reader that computes each aggregation at the first two steps, as 100 for a group that only it knows.
    struct Computing {
        samples: Memory,
        asked: Mutex<Vec<String>>,
    }

    impl Read for Computing {
        fn select_within(
            &self,
            matchers: &[Matcher],
            start_ms: i64,
            end_ms: i64,
            budget: &dyn Budget,
        ) -> Result<Vec<Series>, ReadError> {
            self.samples.select_within(matchers, start_ms, end_ms, budget)
        }

        fn aggregate(&self, of: &Aggregation<'_>, _: &dyn Budget) -> Result<Option<Aggregated>, ReadError> {
            let Aggregation { operator, by, labels, function, range_ms, offset_ms, start_ms, steps, .. } = of;
            let asked = format!("{operator} {by} {labels:?} {function:?} {range_ms} {offset_ms} {start_ms} {steps}");
            self.asked.lock().unwrap().push(asked);
            let group = |name: &str, values: Vec<f64>| (Labels::new([("a", name)]), values);
            let none = f64::from_bits(STALE_NAN);
            let groups = vec![group("x", vec![none, 1.0]), group("far", vec![100.0, none])];
            Ok(Some(Aggregated { steps: 2, groups }))
        }
    }

    fn evaluated(query: &str) -> (Outcome, Vec<String>) {
        let series = |name: &str| Series {
            labels: Labels::new([("__name__", "m_total"), ("a", name)]),
            times: (0..6).map(|i| 10_000 * i).collect(),
            values: (0..6).map(f64::from).collect(),
        };
        let samples = Memory(vec![series("x"), series("y")]);
        let read = Computing { samples, asked: Mutex::default() };
        let outcome = Engine::default().range(&read, query, 10_000, 40_000, 10_000).unwrap();
        (outcome, read.asked.into_inner().unwrap())
    }

    #[test]
    fn results_of_the_reader_are_continued_here() {
        let (outcome, asked) = evaluated("sum by (a) (max_over_time(m_total[20s] offset 10s))");
        assert_eq!(asked, ["sum true [\"a\"] Some(\"max_over_time\") 20000 10000 10000 4"]);
        let Value::Matrix(series) = outcome.value else { panic!("not a matrix") };
        let found: Vec<(&str, Vec<i64>, Vec<f64>)> =
            series.iter().map(|s| (s.labels.get("a"), s.times.clone(), s.values.clone())).collect();
        let want = [
            ("far", vec![10_000], vec![100.0]),
            ("x", vec![20_000, 30_000, 40_000], vec![1.0, 2.0, 3.0]),
            ("y", vec![30_000, 40_000], vec![2.0, 3.0]),
        ];
        assert_eq!(found, want);
    }

    #[test]
    fn only_aggregations_of_one_metric_without_annotations_are_asked() {
        let asked = |query: &str| !evaluated(query).1.is_empty();
        for query in
            ["sum(m_total)", "avg without (a) (m_total)", "max(rate(m_total[1m])) + 1", "count(m_total offset 5s)"]
        {
            assert!(asked(query), "{query}");
        }
        for query in [
            "m_total",
            "topk(1, m_total)",
            "quantile(0.5, m_total)",
            "sum({__name__=~\"m.*\"})",
            "sum({a=\"x\"})",
            "sum(m_total @ 20)",
            "sum(rate(m[1m]))",
            "sum by (__name__) (m_total)",
            "sum(m_total * 2)",
            "sum(quantile_over_time(0.5, m_total[1m]))",
            "sum(max_over_time(m_total[1m:10s]))",
            "sum(m_total smoothed)",
        ] {
            assert!(!asked(query), "{query}");
        }
    }
}
