//! Shared by the tests of this crate: series in memory, and the notation of the scripts.

pub mod generate;
pub mod prometheus;

pub use fabriclens_model::Memory;
use fabriclens_model::{Labels, stale};

/// Milliseconds of `1h30m`, `500ms` or a bare `0`, with an optional minus.
pub fn duration(text: &str) -> Result<i64, String> {
    if let Some(positive) = text.strip_prefix('-') {
        return duration(positive).map(|v| -v);
    }
    if text == "0" {
        return Ok(0);
    }
    let (mut total, mut rest) = (0, text);
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let unit = rest[digits..].bytes().take_while(u8::is_ascii_alphabetic).count();
        let number: i64 = rest[..digits].parse().map_err(|_| format!("bad duration {text:?}"))?;
        total += number
            * match &rest[digits..digits + unit] {
                "ms" => 1,
                "s" => 1_000,
                "m" => 60_000,
                "h" => 3_600_000,
                "d" => 86_400_000,
                "w" => 604_800_000,
                "y" => 31_536_000_000,
                other => return Err(format!("bad unit {other:?} in duration {text:?}")),
            };
        rest = &rest[digits + unit..];
    }
    Ok(total)
}

/// A number in the notation of the scripts.
pub fn number(text: &str) -> Result<f64, String> {
    match text {
        "stale" => Ok(stale()),
        "Inf" | "+Inf" | "inf" | "+inf" => Ok(f64::INFINITY),
        "-Inf" | "-inf" => Ok(f64::NEG_INFINITY),
        "NaN" | "nan" => Ok(f64::NAN),
        other => other.parse().map_err(|_| format!("bad number {other:?}")),
    }
}

/// Values of `1 2 _ stale 0+10x3 5x2 _x4`: `axn` is `n` repeats after the first, `a+bxn` counts up `n` times.
pub fn values(text: &str) -> Result<Vec<Option<f64>>, String> {
    let mut out = vec![];
    for word in text.split_whitespace() {
        let (body, repeats) = match word.rsplit_once('x') {
            Some((body, n)) => (body, Some(n.parse::<usize>().map_err(|_| format!("bad repeat in {word:?}"))?)),
            None => (word, None),
        };
        if body == "_" {
            out.extend(std::iter::repeat_n(None, repeats.unwrap_or(1)));
            continue;
        }
        // The sign of the step: not the number's own, nor an exponent's.
        let sign = body
            .char_indices()
            .skip(1)
            .find(|(i, c)| matches!(c, '+' | '-') && !matches!(body.as_bytes()[i - 1], b'e' | b'E'))
            .map(|(i, _)| i)
            .filter(|_| repeats.is_some());
        let (first, step) = match sign {
            Some(at) => (number(&body[..at])?, number(&body[at..])?),
            None => (number(body)?, 0.0),
        };
        out.push(Some(first));
        for i in 1..=repeats.unwrap_or(0) {
            out.push(Some(if sign.is_some() { first + step * i as f64 } else { first }));
        }
    }
    Ok(out)
}

/// Splits `name{a="b"} rest` after the label set.
pub fn split_labels(line: &str) -> Result<(Labels, &str), String> {
    let line = line.trim();
    let end = match line.find('{') {
        Some(open) if !line[..open].contains(char::is_whitespace) => {
            let mut quoted = false;
            let close = line.char_indices().skip(open).find(|(i, c)| {
                if *c == '"' && line.as_bytes()[i - 1] != b'\\' {
                    quoted = !quoted;
                }
                *c == '}' && !quoted
            });
            close.ok_or_else(|| format!("no closing brace in {line:?}"))?.0 + 1
        }
        _ => line.find(char::is_whitespace).unwrap_or(line.len()),
    };
    Ok((labels(&line[..end])?, line[end..].trim()))
}

fn labels(text: &str) -> Result<Labels, String> {
    if text == "{}" {
        return Ok(Labels::default());
    }
    let matchers = fabriclens_promql::selector(text, &mut fabriclens_model::Patterns::default())
        .map_err(|e| format!("{text:?}: {e}"))?;
    Ok(Labels::new(matchers.into_iter().map(|m| (m.name, m.value))))
}

/// Whether two values are equal within the tolerance.
pub fn close(a: f64, b: f64, tolerance: f64) -> bool {
    if a.is_nan() || b.is_nan() {
        return a.is_nan() && b.is_nan();
    }
    a == b || (a - b).abs() <= tolerance * a.abs().max(b.abs())
}

/// A series with its value at each step.
pub type Row<V = f64> = (Labels, Vec<Option<V>>);

/// Compares rows as a script writes them with those of an answer by `agree`; rows may end early where there are no values.
pub fn rows_match<V: Clone + std::fmt::Debug>(
    rows: &[&str],
    parse: impl Fn(&str) -> Result<Row<V>, String>,
    mut got: Vec<Row<V>>,
    ordered: bool,
    agree: impl Fn(&V, &V) -> bool,
) -> Result<(), String> {
    let shown = format!("got {got:?}");
    for row in rows {
        let (labels, wanted) = parse(row)?;
        let at = if ordered { Some(0) } else { got.iter().position(|(l, _)| *l == labels) };
        let at = at.filter(|i| got.get(*i).is_some_and(|(l, _)| *l == labels));
        let (_, found) = got.remove(at.ok_or_else(|| format!("no {row:?} where expected; {shown}"))?);
        for i in 0..wanted.len().max(found.len()) {
            let (w, g) = (wanted.get(i).cloned().flatten(), found.get(i).cloned().flatten());
            let same = match (&w, &g) {
                (None, None) => true,
                (Some(w), Some(g)) => agree(w, g),
                _ => false,
            };
            if !same {
                return Err(format!("{row:?} at {i}: expected {w:?}, got {g:?}; {shown}"));
            }
        }
    }
    if got.is_empty() { Ok(()) } else { Err(format!("not expected: {got:?}")) }
}

/// Scripts of a folder, by name.
pub fn scripts(folder: &std::path::Path) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    let mut found: Vec<_> =
        entries.map(|e| e.unwrap().path()).filter(|p| p.extension().is_some_and(|e| e == "test")).collect();
    found.sort();
    assert!(!found.is_empty(), "no scripts in {}", folder.display());
    found
}
