//! Samples as scripts write them: floats, and histograms such as `{{schema:1 sum:3 count:22 buckets:[5 10 7]}}`.

use crate::common::{close, number, values};
use fabriclens_model::{Histogram, HistogramParts, ResetHint, Side, Span};
use std::sync::Arc;

/// Relative, as in Prometheus' own runner.
pub const TOLERANCE: f64 = 1e-6;

/// One sample.
#[derive(Clone, Debug)]
pub enum Value {
    Float(f64),
    Histogram {
        value: Arc<Histogram>,
        /// Whether its text says what hint it has.
        hinted: bool,
    },
}

impl Value {
    pub fn of(histogram: Arc<Histogram>) -> Self {
        Self::Histogram { value: histogram, hinted: false }
    }
}

/// Samples of `1 _ stale 0+10x3 {{count:1}} {{count:1}}+{{count:2}}x3 {{count:1}}x2`.
pub fn samples(text: &str) -> Result<Vec<Option<Value>>, String> {
    let mut out = vec![];
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        if rest.starts_with("{{") {
            let (first, hinted, tail) = literal(rest)?;
            let step = match tail.as_bytes() {
                [sign @ (b'+' | b'-'), b'{', b'{', ..] => Some((*sign == b'-', literal(&tail[1..])?)),
                _ => None,
            };
            let tail = step.as_ref().map_or(tail, |(_, (_, _, tail))| tail);
            let (word, after) = tail.split_once(char::is_whitespace).unwrap_or((tail, ""));
            let repeats = match word.strip_prefix('x') {
                Some(n) => n.parse::<usize>().map_err(|_| format!("bad repeat in {text:?}"))?,
                None if word.is_empty() => 0,
                None => return Err(format!("what is {word:?} in {text:?}?")),
            };
            let mut current = first;
            for i in 0..=repeats {
                if let Some((negative, (step, ..))) = step.as_ref().filter(|_| i > 0) {
                    let done = if *negative { current.subtract(step) } else { current.add(step) };
                    done.map_err(|e| e.to_string())?;
                }
                out.push(Some(Value::Histogram { value: Arc::new(current.clone()), hinted }));
            }
            rest = after.trim_start();
        } else {
            let (word, after) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
            out.extend(values(word)?.into_iter().map(|v| v.map(Value::Float)));
            rest = after.trim_start();
        }
    }
    Ok(out)
}

/// The histogram at the start of a text, whether it has a hint, and what follows.
fn literal(text: &str) -> Result<(Histogram, bool, &str), String> {
    let bad = |what: &str| format!("{what} in histogram {text:?}");
    let end = text.find("}}").ok_or_else(|| bad("no end"))?;
    let mut parts = HistogramParts::default();
    let (mut offset, mut negative_offset, mut hinted) = (0, 0, false);
    let mut rest = text[2..end].trim();
    while let Some((key, value)) = rest.split_once(':') {
        let list = value.starts_with('[');
        let stop = if list { value.find(']').map(|at| at + 1) } else { value.find(char::is_whitespace) };
        let (value, after) = value.split_at(stop.unwrap_or(value.len()));
        let numbers = || value.trim_matches(['[', ']']).split_whitespace().map(number).collect::<Result<Vec<_>, _>>();
        let whole = || value.parse::<i32>().map_err(|_| bad("bad number"));
        match key {
            "schema" => parts.schema = whole()?,
            "count" => parts.count = number(value)?,
            "sum" => parts.sum = number(value)?,
            "z_bucket" => parts.zero_count = number(value)?,
            "z_bucket_w" => parts.zero_threshold = number(value)?,
            "buckets" => parts.positive.counts = numbers()?,
            "n_buckets" => parts.negative.counts = numbers()?,
            "offset" => offset = whole()?,
            "n_offset" => negative_offset = whole()?,
            "custom_values" => parts.custom_bounds = numbers()?,
            "counter_reset_hint" => {
                hinted = true;
                parts.hint = match value {
                    "unknown" => ResetHint::Unknown,
                    "reset" => ResetHint::Reset,
                    "not_reset" => ResetHint::NotReset,
                    "gauge" => ResetHint::Gauge,
                    _ => return Err(bad("bad hint")),
                };
            }
            other => return Err(bad(other)),
        }
        rest = after.trim_start();
    }
    if !rest.is_empty() {
        return Err(bad(rest));
    }
    for (side, offset) in [(&mut parts.positive, offset), (&mut parts.negative, negative_offset)] {
        *side = adjacent(offset, std::mem::take(&mut side.counts));
    }
    let histogram = Histogram::new(parts).map_err(|e| bad(&e.to_string()))?;
    Ok((histogram, hinted, &text[end + 2..]))
}

/// Adjacent buckets from an index on.
pub fn adjacent(offset: i32, counts: Vec<f64>) -> Side {
    let span = Span { offset, length: u32::try_from(counts.len()).unwrap_or(u32::MAX) };
    Side { spans: if counts.is_empty() { vec![] } else { vec![span] }, counts }
}

/// Whether a sample is as expected. Empty buckets do not matter, and hints only where they are written.
pub fn agree(wanted: &Value, got: &Value) -> bool {
    match (wanted, got) {
        (Value::Float(w), Value::Float(g)) => close(*w, *g, TOLERANCE),
        (Value::Histogram { value: w, hinted }, Value::Histogram { value: g, .. }) => {
            let [w, g] = [w, g].map(|h| {
                let mut compact = Histogram::clone(h);
                compact.compact();
                compact.parts()
            });
            let near = |a: f64, b: f64| close(a, b, TOLERANCE);
            let same =
                |a: &Side, b: &Side| a.spans == b.spans && a.counts.iter().zip(&b.counts).all(|(a, b)| near(*a, *b));
            w.schema == g.schema
                && w.zero_threshold.to_bits() == g.zero_threshold.to_bits()
                && [(w.zero_count, g.zero_count), (w.count, g.count), (w.sum, g.sum)].iter().all(|(a, b)| near(*a, *b))
                && same(&w.positive, &g.positive)
                && same(&w.negative, &g.negative)
                && w.custom_bounds == g.custom_bounds
                && (!hinted || w.hint == g.hint)
        }
        _ => false,
    }
}
