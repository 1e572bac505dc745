//! Runs every script of `tests/promql`; the README there describes the language.

use crate::common::{Memory, Row, close, duration, number, rows_match, scripts, split_labels, values};
use fabriclens_model::Series;
use fabriclens_promql::{Engine, Limits, Outcome, QueryError, Value, Version};
use std::path::Path;

const TOLERANCE: f64 = 1e-12;

/// When a case is evaluated.
#[derive(Clone, Copy)]
enum When {
    At(i64),
    Over { start: i64, end: i64, step: i64 },
}

/// A query and the indented lines below it.
struct Case<'a> {
    line: usize,
    when: When,
    version: Version,
    ordered: bool,
    query: &'a str,
    expected: Vec<&'a str>,
}

#[test]
fn scripts_hold() {
    let mut failures = vec![];
    let mut cases = 0;
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/promql");
    for path in scripts(&folder) {
        let text = std::fs::read_to_string(&path).unwrap();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        match run(&text) {
            Ok((ran, wrong)) => {
                cases += ran;
                failures.extend(wrong.into_iter().map(|w| format!("{name}:{w}")));
            }
            Err(e) => failures.push(format!("{name}:{e}")),
        }
    }
    println!("{cases} cases");
    assert!(failures.is_empty(), "{} of {cases} failed\n{}", failures.len(), failures.join("\n"));
}

/// Number of cases run, and failures with line numbers; `Err` if the script cannot be parsed.
fn run(text: &str) -> Result<(usize, Vec<String>), String> {
    let mut store = Memory::default();
    let mut pace = 0;
    let mut loading = false;
    let mut version = Version::default();
    let mut case: Option<Case<'_>> = None;
    let (mut ran, mut wrong) = (0, vec![]);
    let lines = text.lines().chain(["clear"]);
    for (i, raw) in lines.enumerate() {
        let fail = |e: String| format!("{}: {e}", i + 1);
        let line = raw.trim_end();
        if line.trim().is_empty() || line.trim_start().starts_with('#') {
            continue;
        }
        if line.starts_with(' ') {
            match &mut case {
                Some(c) => c.expected.push(line.trim()),
                None if loading => store.0.push(series(line, pace).map_err(fail)?),
                None => return Err(fail("indented line below nothing".into())),
            }
            continue;
        }
        if let Some(c) = case.take() {
            ran += 1;
            if let Err(e) = judge(&store, &c) {
                wrong.push(format!("{}: {}\n    {e}", c.line, c.query));
            }
        }
        loading = false;
        if line == "clear" {
            store = Memory::default();
        } else if let Some(name) = line.strip_prefix("version ") {
            version = Version::named(name).ok_or_else(|| fail(format!("no version {name:?}")))?;
        } else if let Some(every) = line.strip_prefix("data every ") {
            pace = duration(every).map_err(fail)?;
            loading = true;
        } else {
            case = Some(Case { version, ..header(line, i + 1).map_err(fail)? });
        }
    }
    Ok((ran, wrong))
}

fn series(line: &str, pace: i64) -> Result<Series, String> {
    let (labels, rest) = split_labels(line)?;
    let points = values(rest)?.into_iter().enumerate().filter_map(|(i, v)| Some((pace * i as i64, v?)));
    let (times, values) = points.unzip();
    Ok(Series { labels, times, values })
}

/// `at TIME: QUERY`, `ordered at TIME: QUERY` or `over START..END by STEP: QUERY`.
fn header(line: &str, number: usize) -> Result<Case<'_>, String> {
    let (ordered, line) = line.strip_prefix("ordered ").map_or((false, line), |rest| (true, rest));
    let (when, query) = line.split_once(": ").ok_or_else(|| format!("neither data nor a case: {line:?}"))?;
    let when = if let Some(at) = when.strip_prefix("at ") {
        When::At(duration(at)?)
    } else if let Some(over) = when.strip_prefix("over ") {
        let parts = over.split_once("..").and_then(|(start, rest)| Some((start, rest.split_once(" by ")?)));
        let (start, (end, step)) = parts.ok_or_else(|| format!("expected START..END by STEP, got {over:?}"))?;
        When::Over { start: duration(start)?, end: duration(end)?, step: duration(step)? }
    } else {
        return Err(format!("neither data nor a case: {line:?}"));
    };
    Ok(Case { line: number, when, version: Version::default(), ordered, query, expected: vec![] })
}

fn judge(store: &Memory, case: &Case<'_>) -> Result<(), String> {
    let engine = Engine::new(Limits { version: case.version, ..Limits::default() });
    let outcome = match case.when {
        When::At(t) => engine.instant(store, case.query, t),
        When::Over { start, end, step } => engine.range(store, case.query, start, end, step),
    };
    if let Some(words) = case.expected.iter().find_map(|l| l.strip_prefix("fails ")) {
        return refused(words, outcome);
    }
    let outcome = outcome.map_err(|e| format!("failed: {}: {e}", e.kind()))?;
    let remarks = [("warns ", &outcome.warnings), ("informs ", &outcome.infos)];
    for (word, got) in remarks {
        let wanted: Vec<&str> = case.expected.iter().filter_map(|l| l.strip_prefix(word)).collect();
        if wanted.len() != got.len() || !wanted.iter().all(|w| got.iter().any(|g| g.contains(w))) {
            return Err(format!("expected to hear that it {word}{wanted:?}, heard {got:?}"));
        }
    }
    let rows: Vec<&str> =
        case.expected.iter().copied().filter(|l| !remarks.iter().any(|(w, _)| l.starts_with(w))).collect();
    compare(case, &rows, &outcome.value)
}

fn refused(words: &str, outcome: Result<Outcome, QueryError>) -> Result<(), String> {
    match outcome {
        Ok(o) => Err(format!("expected to fail with {words:?}, got {:?}", o.value)),
        Err(e) => {
            let text = format!("{}: {e}", e.kind());
            if text.contains(words) { Ok(()) } else { Err(format!("expected to fail with {words:?}, got {text:?}")) }
        }
    }
}

fn compare(case: &Case<'_>, rows: &[&str], value: &Value) -> Result<(), String> {
    match value {
        Value::Scalar { value, .. } => match rows {
            [one] => same(&[number(one)?], &[*value]).map_err(|e| format!("scalar: {e}")),
            _ => Err(format!("expected {} rows, got scalar {value}", rows.len())),
        },
        Value::String { value, .. } => match rows {
            [one] if *one == format!("{value:?}") => Ok(()),
            _ => Err(format!("expected {rows:?}, got {value:?}")),
        },
        Value::Vector(samples) => {
            let got = samples.iter().map(|s| (s.labels.clone(), vec![Some(s.value)])).collect();
            rows_match(rows, row, got, case.ordered, |w, g| close(*w, *g, TOLERANCE))
        }
        Value::Matrix(series) => {
            let got = series.iter().map(|s| (s.labels.clone(), placed(case.when, s))).collect();
            rows_match(rows, row, got, case.ordered, |w, g| close(*w, *g, TOLERANCE))
        }
    }
}

/// Values at each step, or in order for a range selector at one instant.
fn placed(when: When, s: &Series) -> Vec<Option<f64>> {
    match when {
        When::At(_) => s.values.iter().copied().map(Some).collect(),
        When::Over { start, end, step } => {
            let at = |t| s.times.iter().position(|x| *x == t).map(|i| s.values[i]);
            (0..=(end - start) / step).map(|i| at(start + i * step)).collect()
        }
    }
}

/// Labels and values of a row.
fn row(text: &str) -> Result<Row, String> {
    let (labels, rest) = split_labels(text).map_err(|e| format!("{e} in {text:?}"))?;
    Ok((labels, values(rest)?))
}

fn same(wanted: &[f64], got: &[f64]) -> Result<(), String> {
    let agree = wanted.len() == got.len() && wanted.iter().zip(got).all(|(w, g)| close(*w, *g, TOLERANCE));
    if agree { Ok(()) } else { Err(format!("expected {wanted:?}, got {got:?}")) }
}

#[test]
fn wrong_expectation_fails() {
    let script = |expected: &str| format!("data every 1m\n  m{{a=\"x\"}} 1 2\nat 1m: m\n{expected}");
    let wrong = |expected: &str| run(&script(expected)).unwrap().1.len();
    assert_eq!(wrong("  m{a=\"x\"} 2"), 0);
    assert_eq!(wrong("  m{a=\"x\"} 3"), 1);
    assert_eq!(wrong("  m{a=\"y\"} 2"), 1);
    assert_eq!(wrong(""), 1);
    assert_eq!(wrong("  fails execution"), 1);
    assert_eq!(wrong("  m{a=\"x\"} 2\n  warns something"), 1);
}
