//! Scripts in the format of Prometheus' own cases (`promql/promqltest/README.md` there): those of `tests/promqltest`, and
//! any files that are given.

mod load;
mod samples;

use crate::common::{Row, duration, rows_match, scripts, split_labels};
use fabriclens_model::{Labels, MemoryWithHistograms, Patterns};
use fabriclens_promql::{Engine, Outcome, QueryError, Value};
use load::Loader;
use samples::{Value as Sample, agree, samples};
use std::collections::BTreeMap;
use std::path::Path;

/// Outcome of one script.
#[derive(Default)]
struct Report {
    passed: usize,
    /// Line, query and reason.
    failed: Vec<String>,
}

#[derive(Clone, Copy)]
enum When {
    At(i64),
    Over { start: i64, end: i64, step: i64 },
}

impl When {
    fn place(self, time: i64) -> Option<usize> {
        match self {
            Self::At(_) => Some(0),
            Self::Over { start, end, step } => {
                (time <= end && (time - start) % step == 0).then(|| ((time - start) / step) as usize)
            }
        }
    }
}

/// An `eval` command with the lines below it.
struct Case<'a> {
    when: When,
    query: &'a str,
    /// `fail`, `warn`, `info`, `no_warn`, `no_info`, `ordered`, with what the message must be.
    expect: Vec<(&'a str, &'a str)>,
    rows: Vec<&'a str>,
}

/// Runs all scripts of a folder and prints what fails; returns failures and cases.
fn run_folder(folder: &Path) -> (Vec<String>, usize) {
    let (mut failed, mut cases) = (vec![], 0);
    for path in scripts(folder) {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let report = run(&std::fs::read_to_string(&path).unwrap());
        println!("{name}: {} passed, {} failed", report.passed, report.failed.len());
        cases += report.passed + report.failed.len();
        failed.extend(report.failed.into_iter().map(|f| format!("{name}:{f}")));
    }
    (failed, cases)
}

#[test]
fn own_cases_hold() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/promqltest");
    let (failed, cases) = run_folder(&folder);
    assert!(failed.is_empty(), "{} of {cases} failed\n{}", failed.len(), failed.join("\n"));
}

#[test]
#[ignore = "needs: prometheus-scripts"]
fn cases_of_prometheus_hold() {
    let (failed, cases) = run_folder(&fabriclens_testing::prometheus_scripts());
    println!("{cases} cases");
    assert!(failed.is_empty(), "{} of {cases} failed\n{}", failed.len(), failed.join("\n"));
}

fn run(text: &str) -> Report {
    let lines: Vec<&str> = text.lines().map(str::trim).map(|l| if l.starts_with('#') { "" } else { l }).collect();
    let mut report = Report::default();
    let mut loader = Loader::default();
    let mut at = 0;
    while at < lines.len() {
        let (first, number) = (lines[at], at + 1);
        at += 1;
        if first.is_empty() {
            continue;
        }
        let below = lines[at..].iter().take_while(|l| !l.is_empty()).count();
        let block = &lines[at..at + below];
        if first == "clear" {
            loader = Loader::default();
            continue;
        }
        at += below;
        let words: Vec<&str> = first.split_whitespace().collect();
        let done = match words[..] {
            [command @ ("load" | "load_with_nhcb"), pace, ..] => {
                time(pace).and_then(|pace| loader.load(pace, block, command != "load")).map(|()| false)
            }
            _ => case(first, block).and_then(|c| judge(&loader.store(), &c)).map(|()| true),
        };
        match done {
            Ok(counts) => report.passed += usize::from(counts),
            Err(e) => report.failed.push(format!("{number}: {first}\n    {e}")),
        }
    }
    report
}

/// Milliseconds of a duration, or of a bare number of seconds.
fn time(text: &str) -> Result<i64, String> {
    match text.parse::<f64>() {
        Ok(seconds) => Ok((seconds * 1000.0).round() as i64),
        Err(_) => duration(text),
    }
}

fn case<'a>(first: &'a str, block: &[&'a str]) -> Result<Case<'a>, String> {
    let bad = || format!("no command: {first:?}");
    let (command, rest) = first.split_once(char::is_whitespace).ok_or_else(bad)?;
    let old = command.strip_prefix("eval").ok_or_else(bad)?.trim_start_matches('_');
    let mut expect: Vec<(&str, &str)> = if old.is_empty() { vec![] } else { vec![(old, "")] };
    let rest = rest.trim_start();
    let word = |text: &'a str| text.trim_start().split_once(char::is_whitespace).ok_or_else(bad);
    let (when, query) = if let Some(rest) = rest.strip_prefix("instant at ") {
        let (at, query) = word(rest)?;
        (When::At(time(at)?), query)
    } else {
        let rest = rest.strip_prefix("range from ").ok_or_else(bad)?;
        let (start, rest) = word(rest)?;
        let (end, rest) = word(rest.trim_start().strip_prefix("to ").ok_or_else(bad)?)?;
        let (step, query) = word(rest.trim_start().strip_prefix("step ").ok_or_else(bad)?)?;
        (When::Over { start: time(start)?, end: time(end)?, step: time(step)? }, query)
    };
    let mut rows = vec![];
    for line in block {
        match line.strip_prefix("expect ") {
            Some(rest) => {
                let (kind, message) = rest.trim().split_once(char::is_whitespace).unwrap_or((rest.trim(), ""));
                expect.push((kind, message.trim()));
            }
            None if line.starts_with("expected_fail_") => expect.push(("fail", line)),
            None => rows.push(*line),
        }
    }
    Ok(Case { when, query: query.trim(), expect, rows })
}

/// Whether a message is as `msg: …` or `regex: …` demands; anything if nothing is demanded.
fn says(message: &str, demand: &str) -> bool {
    if let Some(exact) = demand.strip_prefix("msg:").or(demand.strip_prefix("expected_fail_message")) {
        return message == exact.trim().trim_matches('"') || message == exact.trim();
    }
    match demand.strip_prefix("regex:").or(demand.strip_prefix("expected_fail_regexp")) {
        Some(pattern) => {
            Patterns::default().compile(&format!("(?s).*(?:{}).*", pattern.trim())).is_ok_and(|p| p.matches(message))
        }
        None => true,
    }
}

/// A message without its position.
fn bare(message: &str) -> &str {
    match message.rsplit_once(" (") {
        Some((text, place)) if place.ends_with(')') && place.contains(':') => text,
        _ => message,
    }
}

fn judge(store: &MemoryWithHistograms, case: &Case<'_>) -> Result<(), String> {
    let engine = Engine::default();
    let outcome = match case.when {
        When::At(t) => engine.instant(store, case.query, t),
        When::Over { start, end, step } => engine.range(store, case.query, start, end, step),
    };
    let demands = |kind: &str| case.expect.iter().filter(|(k, _)| *k == kind).map(|(_, m)| *m).collect::<Vec<_>>();
    let fails = demands("fail");
    if !fails.is_empty() {
        return match outcome {
            Ok(o) => Err(format!("expected to fail with {fails:?}, got {:?}", o.value)),
            Err(e) => refused(&e, &fails),
        };
    }
    let outcome = outcome.map_err(|e| format!("failed: {}: {e}", e.kind()))?;
    for (kind, none, got) in [("warn", "no_warn", &outcome.warnings), ("info", "no_info", &outcome.infos)] {
        let wanted = demands(kind);
        if !demands(none).is_empty() && !got.is_empty() {
            return Err(format!("expected {none}, heard {got:?}"));
        }
        if wanted.is_empty() {
            continue;
        }
        let heard = |w: &str| got.iter().any(|g| says(bare(g), w));
        if got.is_empty()
            || !wanted.iter().all(|w| heard(w))
            || !got.iter().all(|g| wanted.iter().any(|w| says(bare(g), w)))
        {
            return Err(format!("expected {kind} {wanted:?}, heard {got:?}"));
        }
    }
    if let Some(text) = demands("string").first() {
        let text = text.trim_matches(|c| c == '"' || c == '`');
        return match outcome.value {
            Value::String { value, .. } if value == text => Ok(()),
            other => Err(format!("expected string {text:?}, got {other:?}")),
        };
    }
    let place = match demands("range").first() {
        Some(vector) => placement(vector)?,
        None => case.when,
    };
    let ordered = !demands("ordered").is_empty();
    compare(&case.rows, &outcome, place, ordered)?;
    if let (When::At(t), Value::Vector(_) | Value::Scalar { .. }) = (case.when, &outcome.value) {
        let moving = ["start()", "end()", "range()", "step()"];
        if !ordered && !moving.iter().any(|m| case.query.to_lowercase().contains(m)) {
            return in_the_middle(&engine, store, case, t);
        }
    }
    Ok(())
}

/// `vector from A to B step C`
fn placement(text: &str) -> Result<When, String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    match words[..] {
        ["vector", "from", start, "to", end, "step", step] => {
            Ok(When::Over { start: time(start)?, end: time(end)?, step: time(step)? })
        }
        _ => Err(format!("expected range {text:?}?")),
    }
}

fn refused(e: &QueryError, demands: &[&str]) -> Result<(), String> {
    let text = e.to_string();
    let inner = text.split_once("parse error: ").map_or(text.as_str(), |(_, m)| m);
    if demands.iter().all(|d| says(&text, d) || says(inner, d)) {
        return Ok(());
    }
    Err(format!("expected to fail with {demands:?}, got {text:?}"))
}

/// A range query has the same values at the step in its middle.
fn in_the_middle(engine: &Engine, store: &MemoryWithHistograms, case: &Case<'_>, time: i64) -> Result<(), String> {
    let around = |e| format!("in a range query: {e}");
    let mut outcome =
        engine.range(store, case.query, time - 60_000, time + 60_000, 60_000).map_err(|e| around(e.to_string()))?;
    let Value::Matrix(series) = &mut outcome.value else { return Err(around("no matrix".to_owned())) };
    for s in series.iter_mut() {
        let kept = s.times.iter().zip(&s.values).find(|(t, _)| **t == time).map(|(t, v)| (*t, *v));
        (s.times, s.values) = kept.into_iter().unzip();
    }
    series.retain(|s| !s.times.is_empty());
    for s in &mut outcome.histograms {
        let kept = s.times.iter().zip(&s.values).find(|(t, _)| **t == time).map(|(t, h)| (*t, h.clone()));
        (s.times, s.values) = kept.into_iter().unzip();
    }
    outcome.histograms.retain(|s| !s.times.is_empty());
    compare(&case.rows, &outcome, When::Over { start: time, end: time, step: 1 }, false).map_err(around)
}

fn compare(rows: &[&str], outcome: &Outcome, when: When, ordered: bool) -> Result<(), String> {
    let mut got: Vec<(Labels, Vec<(i64, Sample)>)> = match &outcome.value {
        Value::Scalar { time_ms, value } => vec![(Labels::default(), vec![(*time_ms, Sample::Float(*value))])],
        Value::Vector(samples) => {
            samples.iter().map(|s| (s.labels.clone(), vec![(s.time_ms, Sample::Float(s.value))])).collect()
        }
        Value::Matrix(series) => {
            let points = |s: &fabriclens_model::Series| {
                s.times.iter().zip(&s.values).map(|(t, v)| (*t, Sample::Float(*v))).collect()
            };
            series.iter().map(|s| (s.labels.clone(), points(s))).collect()
        }
        Value::String { value, .. } => return Err(format!("got string {value:?}")),
    };
    for s in &outcome.histograms {
        let points = s.times.iter().zip(&s.values).map(|(t, h)| (*t, Sample::of(h.clone())));
        match got.iter_mut().find(|(labels, _)| *labels == s.labels) {
            Some((_, known)) => known.extend(points),
            None => got.push((s.labels.clone(), points.collect())),
        }
    }
    let vector = !matches!(outcome.value, Value::Matrix(_));
    let when = if vector { When::At(0) } else { when };
    let got = got.into_iter().map(|(labels, points)| placed(when, labels, points)).collect::<Result<_, _>>()?;
    rows_match(rows, row, got, ordered, agree)
}

/// Labels and samples of a row, or the value of a scalar.
fn row(text: &str) -> Result<Row<Sample>, String> {
    let lone = !text.contains('{') && text.split_whitespace().count() == 1;
    let (labels, rest) = if lone { (Labels::default(), text) } else { split_labels(text)? };
    Ok((labels, samples(rest)?))
}

/// Samples by step.
fn placed(when: When, labels: Labels, points: Vec<(i64, Sample)>) -> Result<Row<Sample>, String> {
    let mut out = vec![];
    let by_time: BTreeMap<i64, Vec<Sample>> = points.into_iter().fold(BTreeMap::new(), |mut all, (t, sample)| {
        all.entry(t).or_insert_with(Vec::new).push(sample);
        all
    });
    for (t, mut found) in by_time {
        let at = match when {
            // A range vector at one instant, in order.
            When::At(_) => out.len(),
            over => over.place(t).ok_or_else(|| format!("a value at {t} ms, between steps"))?,
        };
        out.resize(out.len().max(at + 1), None);
        out[at] = found.pop();
        if !found.is_empty() {
            return Err(format!("two samples at {t} ms"));
        }
    }
    Ok((labels, out))
}

#[test]
fn wrong_expectations_fail() {
    let wrong = |below: &str| {
        run(&format!("load 1m\n  m_total{{a=\"x\"}} 1 2 4\n\neval instant at 2m rate(m_total[5m])\n{below}"))
            .failed
            .len()
    };
    assert_eq!(wrong("  {a=\"x\"} 0.0125"), 0);
    for bad in [
        "",
        "  {a=\"x\"} 0.02",
        "  {a=\"y\"} 0.0125",
        "  expect warn\n  {a=\"x\"} 0.0125",
        "  expect fail",
        "  expect info\n  {a=\"x\"} 0.0125",
    ] {
        assert_eq!(wrong(bad), 1, "{bad}");
    }
    let gauge = |below: &str| {
        run(&format!("load 1m\n  m 1 2 4\n\neval instant at 2m rate(m[5m])\n{below}\n  {{}} 0.0125")).failed.len()
    };
    assert_eq!(
        (gauge("  expect info"), gauge("  expect no_info"), gauge("  expect info msg: x"), gauge("  expect no_warn")),
        (0, 1, 1, 0)
    );
    assert_eq!(gauge("  expect info regex: might not be a counter"), 0);
    let histogram = |row: &str| {
        let load = "load 1m\n  h {{schema:1 count:3 sum:4 z_bucket:1 buckets:[0 2] counter_reset_hint:gauge}}";
        run(&format!("{load}\n\neval instant at 0m h\n  h {row}")).failed.len()
    };
    assert_eq!(histogram("{{schema:1 count:3 sum:4 z_bucket:1 offset:1 buckets:[2]}}"), 0);
    for bad in [
        "{{schema:0 count:3 sum:4 z_bucket:1 buckets:[0 2]}}",
        "{{schema:1 count:3 sum:5 z_bucket:1 buckets:[0 2]}}",
        "{{schema:1 count:3 sum:4 buckets:[0 2]}}",
        "{{schema:1 count:3 sum:4 z_bucket:1 z_bucket_w:1 buckets:[0 2]}}",
        "{{schema:1 count:3 sum:4 z_bucket:1 buckets:[2]}}",
        "{{schema:1 count:3 sum:4 z_bucket:1 buckets:[0 2 1]}}",
        "{{schema:1 count:3 sum:4 z_bucket:1 n_buckets:[0 2]}}",
        "{{schema:1 count:3 sum:4 z_bucket:1 buckets:[0 2] counter_reset_hint:reset}}",
        "{{schema:1 count:3 sum:4 z_bucket:1 bucket:[0 2]}}",
        "{{schema:1 count:3 sum:4 z_bucket:1 buckets:[0 2]}}x1",
        "3",
    ] {
        assert_eq!(histogram(bad), 1, "{bad}");
    }
}
