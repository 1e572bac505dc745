//! Aggregations that the remote engine computes, because it means the same by them.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use fabriclens_model::{Aggregated, Aggregation, Labels, ReadError, STALE_NAN};
use parking_lot::Mutex;
use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::protocol::selector;
use fabriclens_core::json_text::push_time;
use fabriclens_core::time;

/// Aggregations whose results depend on the values alone, up to rounding. Others choose among equal ones.
const OPERATORS: &[&str] = &["avg", "count", "group", "max", "min", "stddev", "stdvar", "sum"];

/// Functions that mean the same to Prometheus, if its ranges have the same ends, and whether they do to VictoriaMetrics: its changes over
/// time look at the sample before the range, and take a small decrease for no reset.
const FUNCTIONS: &[(&str, bool)] = &[
    ("avg_over_time", true),
    ("changes", false),
    ("count_over_time", true),
    ("delta", false),
    ("idelta", false),
    ("increase", false),
    ("irate", false),
    ("last_over_time", true),
    ("max_over_time", true),
    ("min_over_time", true),
    ("present_over_time", true),
    ("rate", false),
    ("resets", false),
    ("sum_over_time", true),
];

/// Time after which the engine is asked for its dialect again: another engine may have taken its place.
const KNOWN: Duration = Duration::from_secs(60);
/// In range queries VictoriaMetrics repeats an older value at steps that are nearer to the present than this.
const UNSETTLED_MS: i64 = 60_000;
/// A time at which a minute begins.
const WHOLE_MINUTE_MS: i64 = 1_200_000;
/// No value at a step.
const NONE: f64 = f64::from_bits(STALE_NAN);

/// What an engine means by a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Dialect {
    /// Prometheus or Mimir; `closed` if the start of a range is within.
    Prometheus {
        closed: bool,
    },
    VictoriaMetrics,
}

/// The engine's dialect, and when the engine was last asked for it.
#[derive(Default)]
pub(super) struct KnownDialect(Mutex<Option<(Instant, Dialect)>>);

/// Path and parameters of a query.
pub(super) type Question<'a> = (&'a str, &'a [(&'a str, String)]);

/// `/api/v1/query` or `query_range`.
#[derive(Deserialize)]
pub(super) struct Answer {
    data: Data,
    #[serde(default)]
    warnings: Vec<IgnoredAny>,
    #[serde(default)]
    infos: Vec<IgnoredAny>,
}

#[derive(Deserialize)]
struct Data {
    #[serde(default)]
    result: Vec<Group>,
}

#[derive(Deserialize)]
struct Group {
    metric: BTreeMap<String, String>,
    /// Of an instant.
    value: Option<(f64, String)>,
    #[serde(default)]
    values: Vec<(f64, String)>,
    histogram: Option<IgnoredAny>,
    histograms: Option<IgnoredAny>,
}

impl KnownDialect {
    /// Results at the first steps, if the engine means the same by the aggregation. `ask` sends a query, and gives `None` if the engine
    /// refuses it: that is left to the evaluator, which reads samples.
    pub(super) fn compute(
        &self,
        of: &Aggregation<'_>,
        ask: impl Fn(Question<'_>) -> Result<Option<Answer>, ReadError>,
    ) -> Result<Option<Aggregated>, ReadError> {
        if !OPERATORS.contains(&of.operator) {
            return Ok(None);
        }
        let Some(dialect) = self.dialect(&ask)? else { return Ok(None) };
        let steps = dialect.steps(of, time::now_ms());
        let Some(query) = dialect.query(of).filter(|_| steps > 0) else { return Ok(None) };
        let lookback = format!("{}ms", of.range_ms);
        let mut form = vec![("query", query), ("nocache", "1".to_owned())];
        // Prometheus' name of the parameter, and VictoriaMetrics'.
        form.extend([("lookback_delta", lookback.clone()), ("max_lookback", lookback)]);
        let path = if steps == 1 {
            form.push(("time", seconds(of.start_ms)));
            "query"
        } else {
            form.extend([("start", seconds(of.start_ms)), ("end", seconds(of.time(steps - 1)))]);
            form.push(("step", seconds(of.step_ms)));
            "query_range"
        };
        let Some(answer) = ask((path, &form))? else { return Ok(None) };
        Ok(aggregated(answer, of, steps))
    }

    /// What the engine is; `None` if it does not answer as expected.
    fn dialect(
        &self,
        ask: &impl Fn(Question<'_>) -> Result<Option<Answer>, ReadError>,
    ) -> Result<Option<Dialect>, ReadError> {
        if let Some((_, known)) = self.0.lock().filter(|(since, _)| since.elapsed() < KNOWN) {
            return Ok(Some(known));
        }
        // Value of a query that needs no samples.
        let number = |query: &str| {
            let answer = ask(("query", &[("query", query.to_owned()), ("time", seconds(WHOLE_MINUTE_MS))]))?;
            Ok(answer.and_then(|answer| answer.data.result.into_iter().next()?.value?.1.parse::<f64>().ok()))
        };
        let dialect = if number("default_rollup(vector(1)[1m])")?.is_some() {
            Dialect::VictoriaMetrics
        } else {
            // Minutes at which the range starts, passes and ends.
            match number("count_over_time(vector(1)[2m:1m])")? {
                Some(3.0) => Dialect::Prometheus { closed: true },
                Some(2.0) => Dialect::Prometheus { closed: false },
                _ => return Ok(None),
            }
        };
        *self.0.lock() = Some((Instant::now(), dialect));
        Ok(Some(dialect))
    }
}

impl Dialect {
    /// Number of first steps at which the engine's results can be used.
    fn steps(self, of: &Aggregation<'_>, now_ms: i64) -> usize {
        match self {
            Self::Prometheus { closed } if closed == of.closed => of.steps,
            Self::VictoriaMetrics if !of.closed && of.steps == 1 => 1,
            Self::VictoriaMetrics if !of.closed => {
                let settled = (now_ms - UNSETTLED_MS - of.start_ms).div_euclid(of.step_ms.max(1)) + 1;
                usize::try_from(settled).unwrap_or(0).min(of.steps)
            }
            _ => 0,
        }
    }

    /// The aggregation as a query; `None` if the engine means something else by the function.
    fn query(self, of: &Aggregation<'_>) -> Option<String> {
        let selector = selector(of.matchers);
        let offset = if of.offset_ms == 0 { String::new() } else { format!(" offset {}ms", of.offset_ms) };
        let over = |function: &str| format!("{function}({selector}[{}ms]{offset})", of.range_ms);
        let same =
            |function: &str| FUNCTIONS.iter().any(|row| row.0 == function && (row.1 || self != Self::VictoriaMetrics));
        let values = match of.function {
            Some(function) => same(function).then(|| over(function))?,
            None if self == Self::VictoriaMetrics => over("default_rollup"),
            None => format!("{selector}{offset}"),
        };
        let grouping = if of.by { "by" } else { "without" };
        Some(format!("{} {grouping} ({}) ({values})", of.operator, of.labels.join(",")))
    }
}

/// Puts an answer on the steps; `None` if it has annotations, histograms or other times, which the evaluator deals with.
fn aggregated(answer: Answer, of: &Aggregation<'_>, steps: usize) -> Option<Aggregated> {
    if !answer.warnings.is_empty() || !answer.infos.is_empty() {
        return None;
    }
    let mut groups = Vec::with_capacity(answer.data.result.len());
    for group in answer.data.result {
        if group.histogram.is_some() || group.histograms.is_some() {
            return None;
        }
        let mut values = vec![NONE; steps];
        for (time, text) in group.value.into_iter().chain(group.values) {
            let after = (time * 1000.0).round() as i64 - of.start_ms;
            let step = usize::try_from(after / of.step_ms.max(1)).ok().filter(|_| after % of.step_ms.max(1) == 0)?;
            *values.get_mut(step)? = text.parse().ok()?;
        }
        groups.push((Labels::new(group.metric), values));
    }
    Some(Aggregated { steps, groups })
}

/// A time or a duration in seconds.
fn seconds(ms: i64) -> String {
    let mut text = String::new();
    push_time(&mut text, ms);
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use fabriclens_model::Matcher;

    /// `sum by (rail) (…)` at 20 steps of 10 s from the time 1000 s on.
    fn sum<'a>(function: Option<&'a str>, matchers: &'a [Matcher], labels: &'a [String]) -> Aggregation<'a> {
        Aggregation {
            operator: "sum",
            by: true,
            labels,
            function,
            matchers,
            range_ms: 60_000,
            offset_ms: 0,
            closed: false,
            start_ms: 1_000_000,
            step_ms: 10_000,
            steps: 20,
        }
    }

    #[test]
    fn engines_are_asked_what_means_the_same_to_them() {
        let (matchers, labels) = ([Matcher::equal("__name__", "m")], ["rail".to_owned()]);
        let of = |function| sum(function, &matchers, &labels);
        let prometheus = Dialect::Prometheus { closed: false };
        let asked = [
            (prometheus, None, Some("sum by (rail) ({__name__=\"m\"})")),
            (Dialect::VictoriaMetrics, None, Some("sum by (rail) (default_rollup({__name__=\"m\"}[60000ms]))")),
            (prometheus, Some("rate"), Some("sum by (rail) (rate({__name__=\"m\"}[60000ms]))")),
            (Dialect::VictoriaMetrics, Some("rate"), None),
            (prometheus, Some("quantile_over_time"), None),
        ];
        for (dialect, function, want) in asked {
            assert_eq!(dialect.query(&of(function)).as_deref(), want, "{dialect:?} {function:?}");
        }
        let shifted = Aggregation { by: false, offset_ms: -5000, ..of(Some("max_over_time")) };
        let want = "sum without (rail) (max_over_time({__name__=\"m\"}[60000ms] offset -5000ms))";
        assert_eq!(Dialect::VictoriaMetrics.query(&shifted).as_deref(), Some(want));
    }

    #[test]
    fn results_near_the_present_are_not_victoria_metrics_own() {
        let of = sum(None, &[], &[]);
        let steps = |now_s: i64| Dialect::VictoriaMetrics.steps(&of, now_s * 1000);
        // Its last minute is left to the evaluator; the step at 1000 s is settled at 1060 s.
        assert_eq!([steps(900), steps(1059), steps(1060), steps(1069), steps(1070), steps(9999)], [0, 0, 1, 1, 2, 20]);
        assert_eq!(Dialect::VictoriaMetrics.steps(&Aggregation { steps: 1, ..of }, 1_000_000), 1);
        for dialect in [Dialect::VictoriaMetrics, Dialect::Prometheus { closed: false }] {
            assert_eq!(dialect.steps(&Aggregation { closed: true, ..of }, 9_999_000), 0, "{dialect:?}");
        }
        assert_eq!(Dialect::Prometheus { closed: true }.steps(&Aggregation { closed: true, ..of }, 1_000_000), 20);
    }

    #[test]
    fn answers_that_say_more_than_floats_are_refused() {
        let of = Aggregation { steps: 3, ..sum(None, &[], &[]) };
        let read = |text: &str| aggregated(serde_json::from_str(text).unwrap(), &of, 3);
        let answer = |group: &str, rest: &str| {
            read(&format!("{{\"data\":{{\"result\":[{{\"metric\":{{\"a\":\"b\"}},{group}}}]}}{rest}}}"))
        };
        let found = answer("\"values\":[[1000,\"1.5\"],[1020,\"+Inf\"]]", "").unwrap();
        assert_eq!(found.steps, 3);
        assert_eq!(found.groups[0].0, Labels::new([("a", "b")]));
        let bits = |values: &[f64]| values.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
        assert_eq!(bits(&found.groups[0].1), bits(&[1.5, NONE, f64::INFINITY]));
        assert_eq!(read("{\"data\":{\"result\":[]}}"), Some(Aggregated { steps: 3, groups: vec![] }));
        for (group, rest) in [
            ("\"values\":[[1000,\"1\"]]", ",\"infos\":[\"PromQL info: …\"]"),
            ("\"values\":[[1000,\"1\"]]", ",\"warnings\":[\"PromQL warning: …\"]"),
            ("\"values\":[[1001,\"1\"]]", ""),
            ("\"values\":[[1030,\"1\"]]", ""),
            ("\"values\":[[990,\"1\"]]", ""),
            ("\"values\":[[1000,\"one\"]]", ""),
            ("\"histograms\":[[1000,{}]]", ""),
        ] {
            assert_eq!(answer(group, rest), None, "{group}{rest}");
        }
    }
}
