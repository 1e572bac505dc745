//! Limits of a query: time, memory, stack, and cancellation.

use crate::common::Memory;
use fabriclens_model::{
    Budget, Histogram, HistogramParts, HistogramSeries, Labels, Matcher, MemoryWithHistograms, Patterns, Read,
    ReadError, Series, Side, Span, Unlimited,
};
use fabriclens_promql::{CancelToken, Engine, Limits, QueryError, ValueKind, check, selector};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

fn store(series: usize, samples: i64) -> Memory {
    let one = |i: usize| Series {
        labels: Labels::new([("__name__", "m".to_owned()), ("i", i.to_string())]),
        times: (0..samples).map(|t| t * 1000).collect(),
        values: vec![1.0; samples as usize],
    };
    Memory((0..series).map(one).collect())
}

fn engine(change: impl FnOnce(&mut Limits)) -> Engine {
    let mut limits = Limits::default();
    change(&mut limits);
    Engine::new(limits)
}

#[test]
fn samples_and_series_are_limited() {
    let store = store(10, 100);
    let e = engine(|l| l.max_samples = 500);
    let err = e.range(&store, "m", 0, 99_000, 1000).unwrap_err();
    assert_eq!((err.clone(), err.kind()), (QueryError::TooManySamples { limit: 500 }, "execution"));
    assert!(e.instant(&store, "m", 1000).is_ok());
    // A subquery with a billion steps must be refused before its memory is allocated.
    let err = engine(|_| ()).instant(&store, "sum_over_time(vector(1)[100y:1ms])", 0).unwrap_err();
    assert!(matches!(err, QueryError::TooManySamples { .. }), "{err}");
    let err = engine(|l| l.max_series = 9).instant(&store, "m", 1000).unwrap_err();
    assert!(err.kind() == "execution" && err.to_string().contains("limit of 9"), "{err}");
}

/// Refuses requests beyond this many bytes, and records the bytes requested.
#[derive(Debug)]
struct RecordingBudget {
    bytes: usize,
    asked: AtomicUsize,
}

impl Budget for RecordingBudget {
    fn take(&self, bytes: usize) -> bool {
        self.asked.fetch_add(bytes, Ordering::Relaxed) + bytes <= self.bytes
    }
}

#[test]
fn memory_is_requested_before_allocation() {
    let store = store(10, 100);
    let ask = |query: &str, bytes: usize| {
        let budget = Arc::new(RecordingBudget { bytes, asked: AtomicUsize::new(0) });
        let outcome = Engine::default().within(budget.clone()).range(&store, query, 0, 99_000, 1000);
        (outcome.map(|_| ()), budget.asked.load(Ordering::Relaxed))
    };
    let (samples, steps) = (16 * 10 * 100, 8 * 100);
    // Ten columns, one sum, and the answer's own times.
    let needed = samples + 10 * steps + 2 * steps;
    assert_eq!(ask("sum(m)", needed), (Ok(()), needed));
    assert_eq!(ask("sum(m)", needed - 1), (Err(QueryError::Memory), needed));
    assert_eq!(ask("sum(m)", samples - 1), (Err(QueryError::Memory), samples));
    assert_eq!((QueryError::Memory).kind(), "execution");
    // A day of seconds is refused before it is allocated.
    let (outcome, asked) = ask("sum_over_time(vector(1)[1d:1s])", 100_000);
    assert!(outcome == Err(QueryError::Memory) && asked < 2_000_000, "{outcome:?} {asked}");
}

#[test]
fn created_labels_are_bounded_and_charged() {
    let (store, e) = (store(10, 100), Engine::default());
    let nested = |open: &str, close: &str| format!("{}m{}", open.repeat(20), close.repeat(20));
    for (function, query) in [
        ("label_replace", nested("label_replace(", r#", "i", "$1$1", "i", "(.*)")"#)),
        ("label_join", nested("label_join(", r#", "i", "-", "i", "i")"#)),
        ("label_replace", format!(r#"label_replace(m, "{}", "x", "i", ".*")"#, "n".repeat(20_000))),
    ] {
        let err = e.instant(&store, &query, 1000).map(|_| ()).unwrap_err();
        let text = err.to_string();
        assert!(err.kind() == "execution" && text.starts_with(function) && text.contains("16384 bytes"), "{text}");
        assert!(text.len() < 300, "{}", text.len());
    }
    let asked = |query: &str| {
        let budget = Arc::new(RecordingBudget { bytes: usize::MAX, asked: AtomicUsize::new(0) });
        Engine::default().within(budget.clone()).instant(&store, query, 1000).unwrap();
        budget.asked.load(Ordering::Relaxed)
    };
    let value = "v".repeat(10_000);
    let more = asked(&format!(r#"label_replace(m, "a", "{value}", "i", ".*")"#)) - asked("m");
    assert!(more > 10 * 10_000, "{more}");
    let more = asked(&format!(r#"label_join(m, "a", "{value}", "i", "i")"#)) - asked("m");
    assert!(more > 10 * 10_000, "{more}");
}

#[test]
fn count_values_requests_memory_incrementally() {
    let at = |t: i64| (t * 1000, t as f64);
    let (times, values) = (0..2000).map(at).unzip();
    let store = Memory(vec![Series { labels: Labels::new([("__name__", "m")]), times, values }]);
    let budget = Arc::new(RecordingBudget { bytes: 1 << 20, asked: AtomicUsize::new(0) });
    let outcome = Engine::default().within(budget.clone()).range(&store, r#"count_values("v", m)"#, 0, 1_999_000, 1000);
    // One series has 2,000 values at as many steps, which is 32 MB.
    let asked = budget.asked.load(Ordering::Relaxed);
    assert!(outcome.is_err_and(|e| e == QueryError::Memory) && asked < 2 << 20, "{asked}");
}

#[test]
fn ranges_are_checked() {
    let (store, e) = (store(1, 1), Engine::default());
    for (start, end, step, words) in [
        (0, 10, 0, "zero or negative query resolution"),
        (0, 10, -5, "zero or negative query resolution"),
        (10, 0, 1, "end timestamp must not be before start time"),
        (0, 11_000, 1, "exceeded maximum resolution of 11000 points"),
        (-(1 << 60), 1 << 60, 1, "exceeded maximum resolution"),
        (i64::MIN, i64::MAX, 1, "out of range"),
    ] {
        let err = e.range(&store, "m", start, end, step).unwrap_err();
        assert!(err.kind() == "bad_data" && err.to_string().contains(words), "{err}");
    }
    assert!(e.range(&store, "m", 0, 10_999, 1).is_ok());
}

#[test]
fn extreme_times_do_not_overflow() {
    let (store, e) = (store(2, 3), Engine::default());
    for at in [i64::MIN, -(1 << 60), -1, 1 << 60, i64::MAX] {
        for query in
            ["m", "m offset 200y", "m offset -200y", "rate(m[100y])", "m @ 9e15", "max_over_time(m[1h:1m])", "year()"]
        {
            // An answer or an error, but no panic.
            let _ = e.instant(&store, query, at);
        }
    }
}

#[test]
fn deadline_and_cancellation_stop_queries() {
    let store = store(1, 1);
    let err = engine(|l| l.timeout = Duration::ZERO).instant(&store, "m", 0).unwrap_err();
    assert_eq!((err.clone(), err.kind()), (QueryError::Timeout, "timeout"));
    let cancel = CancelToken::default();
    cancel.cancel();
    let err = Engine::default().instant_cancellable(&store, "m", 0, &cancel).unwrap_err();
    assert_eq!((err.clone(), err.kind()), (QueryError::Cancelled, "canceled"));
}

#[test]
fn nesting_cannot_overflow_the_stack() {
    let (store, e) = (store(1, 1), Engine::default());
    let wide = vec!["1"; 4_000].join("+");
    let deep = format!("{}m{}", "(".repeat(450), ")".repeat(450));
    let calls = format!("{}m{}", "abs(".repeat(450), ")".repeat(450));
    let sums = format!("{}m{}", "sum(".repeat(450), ")".repeat(450));
    let signs = format!("{}m", "-".repeat(450));
    let powers = vec!["-1"; 4_000].join("^");
    for query in [&wide, &deep, &calls, &sums, &signs, &powers] {
        assert!(e.instant(&store, query, 0).is_ok() && check(query).is_ok(), "{}…", &query[..20]);
    }
    for query in
        ["(".repeat(100_000), "-".repeat(100_000), "1+".repeat(100_000) + "1", format!("m{}", "[5m:]".repeat(5_000))]
    {
        let err = e.instant(&store, &query, 0).unwrap_err();
        assert_eq!(err.kind(), "bad_data", "{}…", &query[..20]);
    }
    assert_eq!(e.instant(&store, &" ".repeat(2 << 20), 0).unwrap_err().kind(), "bad_data");
}

#[test]
fn formatting_is_bounded_like_parsing() {
    assert_eq!(fabriclens_promql::format("sum(up)by(job)", &Unlimited).unwrap(), "sum by (job) (up)");
    for query in [vec!["m"; 1_000].join("+"), format!("{}m{}", "(".repeat(450), ")".repeat(450))] {
        assert!(fabriclens_promql::format(&query, &Unlimited).is_ok(), "{}…", &query[..20]);
    }
    for query in ["(".repeat(100_000), "m+".repeat(100_000) + "m", "m+".repeat(1_000) + "m", "sum(".to_owned()] {
        assert_eq!(fabriclens_promql::format(&query, &Unlimited).unwrap_err().kind(), "bad_data");
    }
}

#[test]
fn patterns_are_bounded_before_they_are_built() {
    let many = |n: usize, pattern: &str| {
        let matchers: Vec<String> = (0..n).map(|i| format!(r#"l{i}=~"{pattern}""#)).collect();
        format!("m{{{}}}", matchers.join(","))
    };
    let literals = |bytes: usize| format!(r#"m{{l=~"{}"}}"#, "gpu-0001|".repeat(bytes / 9));
    let distinct = |n: usize| (0..n).map(|i| format!(r#"m{{l=~"{i}.*"}}"#)).collect::<Vec<_>>().join("+");
    for fine in [many(128, "gpu-.*"), many(1, r"\\pL{5}"), literals(900_000), distinct(500)] {
        assert!(check(&fine).is_ok(), "{fine:.80}");
    }
    for (query, error) in [
        (many(129, "a"), "more than 128 label matchers in a selector"),
        (many(1, r"\\pL{150}x"), "too complex (compiled, more than 1048576 bytes)"),
        (many(1, &"a.".repeat(20_000)), "longer than 32768 bytes"),
        (distinct(501), "more than 500 regular expressions"),
        (format!("sum by ({}) (m)", vec!["a"; 129].join(",")), "more than 128 labels"),
    ] {
        let e = check(&query).unwrap_err();
        assert!(e.kind() == "bad_data" && e.to_string().contains(error), "{e:.300}");
        assert_eq!(fabriclens_promql::format(&query, &Unlimited).unwrap_err(), e);
    }
    let data = store(1, 1);
    for (pattern, error) in [
        ("(a)".repeat(65), "label_replace(): the regular expression"),
        (r"\\pL{150}x".to_owned(), "too complex"),
        ("(".to_owned(), "invalid regular expression in label_replace(): ("),
    ] {
        let query = format!(r#"label_replace(m, "a", "$1", "i", "{pattern}")"#);
        let e = Engine::default().instant(&data, &query, 0).unwrap_err();
        assert!(e.kind() == "execution" && e.to_string().contains(error), "{e:.300}");
    }
    let budget = Arc::new(RecordingBudget { bytes: 16 << 20, asked: AtomicUsize::new(0) });
    let e = Engine::default().within(budget).instant(&data, &many(100, r"[a-f]{900}\\d{1}x"), 0);
    assert!(e.is_ok(), "equal patterns are compiled once: {e:?}");
    let large: Vec<String> = (0..100).map(|i| format!(r#"l{i}=~"[a-f]{{{}}}x""#, 900 + i)).collect();
    let budget = Arc::new(RecordingBudget { bytes: 16 << 20, asked: AtomicUsize::new(0) });
    let e = Engine::default().within(budget).instant(&data, &format!("m{{{}}}", large.join(",")), 0);
    assert_eq!(e.unwrap_err(), QueryError::Memory);
}

#[test]
fn syntax_trees_are_charged_before_they_are_built() {
    let data = store(1, 1);
    let ask = |query: &str, bytes: usize| {
        let budget = Arc::new(RecordingBudget { bytes, asked: AtomicUsize::new(0) });
        Engine::default().within(budget).instant(&data, query, 0).map(|_| ())
    };
    for query in [
        vec!["1"; 4_900].join("+"),
        vec![format!("sum by ({}) (m)", vec!["a"; 127].join(",")); 1_000].join("+"),
        format!("m{{a=\"{}\"}}", "x".repeat(1_000_000)),
    ] {
        assert_eq!(ask(&query, 8 << 20), Err(QueryError::Memory), "{query:.40}");
        assert_eq!(ask(&query, 512 << 20), Ok(()), "{query:.40}");
    }
    assert_eq!(ask("m{a=\"b\"}", 100), Ok(()));
}

#[test]
fn selectors_with_patterns_must_select_something() {
    for fine in [r#"{a!~".*"}"#, r#"{a=~".+"}"#, r#"{a=~"x",b=~".*"}"#, r#"{a!~"x|"}"#] {
        assert!(check(fine).is_ok(), "{fine}");
    }
    for bad in [r#"{a=~".*"}"#, r#"{a!~".+"}"#, r#"{a=~"x|"}"#, r#"{a!~"x"}"#, r#"{a=~""}"#] {
        let e = check(bad).unwrap_err().to_string();
        assert_eq!(e, "1:1: parse error: vector selector must contain at least one non-empty matcher", "{bad}");
    }
}

#[test]
fn formatting_keeps_patterns() {
    for (query, want) in [
        (r#"m{a=~"x.*",  b!~".*|pattern0."}"#, r#"m{a=~"x.*",b!~".*|pattern0."}"#),
        (r"m{a=~`\d\.`,c='1|'}", r#"m{a=~"\\d\\.",c="1|"}"#),
    ] {
        assert_eq!(fabriclens_promql::format(query, &Unlimited).unwrap(), want);
    }
}

#[test]
fn premature_end_reports_its_position() {
    for query in ["up == 1 and", "up *"] {
        let want = format!("1:{}: parse error: unexpected end of input", query.len() + 1);
        assert_eq!(check(query).unwrap_err().to_string(), want);
    }
}

#[test]
fn store_errors_keep_their_kind() {
    struct Broken(ReadError);
    impl Read for Broken {
        fn select_within(&self, _: &[Matcher], _: i64, _: i64, _: &dyn Budget) -> Result<Vec<Series>, ReadError> {
            Err(self.0.clone())
        }
    }
    let ask = |e| Engine::default().instant(&Broken(e), "sum(m)", 0).unwrap_err();
    assert_eq!(ask(ReadError::Storage("disk".into())).kind(), "internal");
    assert_eq!(ask(ReadError::TooManySamples { limit: 7 }).kind(), "execution");
}

#[test]
fn selectors_and_types_need_no_data() {
    let selector = |text: &str| selector(text, &mut Patterns::default());
    assert_eq!(selector(r#"up{job="x", i=~"a.*"}"#).unwrap().len(), 3);
    for bad in ["up offset 5m", "rate(up[5m])", "{}", "up[5m]", "1", ""] {
        assert_eq!(selector(bad).unwrap_err().kind(), "bad_data", "{bad}");
    }
    assert_eq!(check("1 + time()"), Ok(ValueKind::Scalar));
    assert_eq!(check("up[5m]"), Ok(ValueKind::Matrix));
    assert_eq!(check("'x'"), Ok(ValueKind::String));
}

/// Histograms of 100 buckets, which are others in each series.
fn histograms(series: i32, samples: i64) -> MemoryWithHistograms {
    let of = |i: i32| {
        let positive = Side { spans: vec![Span { offset: 100 * i, length: 100 }], counts: vec![1.0; 100] };
        let parts = HistogramParts { schema: 8, count: 100.0, positive, ..HistogramParts::default() };
        Arc::new(Histogram::new(parts).unwrap())
    };
    let one = |i: i32| HistogramSeries {
        labels: Labels::new([("__name__", "h".to_owned()), ("i", i.to_string())]),
        times: (0..samples).map(|t| t * 1000).collect(),
        values: vec![of(i); samples as usize],
    };
    MemoryWithHistograms { histograms: (0..series).map(one).collect(), ..MemoryWithHistograms::default() }
}

#[test]
fn histograms_are_charged_by_their_buckets() {
    let store = histograms(10, 100);
    let ask = |query: &str, bytes: usize| {
        let budget = Arc::new(RecordingBudget { bytes, asked: AtomicUsize::new(0) });
        let outcome = Engine::default().within(budget.clone()).range(&store, query, 0, 99_000, 1000);
        (outcome.map(|_| ()), budget.asked.load(Ordering::Relaxed))
    };
    // Those that are read, and one for each step and series, with 16 bytes a bucket.
    let read = 10 * 100 * 16 * 100;
    let (_, selected) = ask("h", usize::MAX);
    let (_, doubled) = ask("h * 2", usize::MAX);
    assert!(selected > read && selected < read * 5 / 4, "{selected}");
    assert!(doubled - selected > read && doubled - selected < read * 5 / 4, "{selected} {doubled}");
    // A sum has the buckets of all.
    let (_, summed) = ask("sum(h)", usize::MAX);
    assert!(summed - selected > read, "{selected} {summed}");
    for query in ["h * 2", "-h", "h + h", "sum(h)", "avg(h)", "sum_over_time(h[9s])", "h </ 1e9"] {
        let (outcome, asked) = ask(query, selected + read / 4);
        assert!(outcome == Err(QueryError::Memory) && asked < selected + read / 2, "{query}: {outcome:?} {asked}");
    }
    let err = engine(|l| l.max_samples = 50_000).range(&store, "h", 0, 99_000, 1000).unwrap_err();
    assert_eq!(err, QueryError::TooManySamples { limit: 50_000 });
    let few = engine(|l| l.max_series = 9).instant(&store, "h", 1000).unwrap_err();
    assert!(few.to_string().contains("limit of 9"), "{few}");
}
