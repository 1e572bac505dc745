//! Converts OTLP attributes to labels, and resources to the labels of their series.

use super::limits::Limits;
use super::names;
use crate::proto::{DecodeError, Field, Reader, text};
use fabriclens_rows::names::{NameError, check_series_within};
use fabriclens_rows::{Labels, SharedLabels};
use std::fmt::Write as _;

/// Maximum nesting of attribute values.
const DEPTH: u32 = 16;

/// Resource attributes that become labels of every series: the identity of fabric hosts and ports.
const IDENTITY: [&str; 3] = ["host", "device", "port"];

/// Resource attribute that names a switch (Cumulus Linux), and its label: which metrics are a switch's, the decoder does not
/// know.
const SWITCH: [&str; 2] = ["net.host.name", "net_host_name"];

/// Labels contributed by a resource.
#[derive(Default)]
pub(super) struct Identity {
    /// Labels of each series, unordered.
    pub(super) labels: Vec<(String, String)>,
    /// Labels of `target_info`, if the sender has a `job` or `instance` and further attributes, within the limits.
    pub(super) info: Option<Labels>,
}

/// Decodes the body of a `Resource`.
pub(super) fn resource(body: &[u8], limits: &Limits, shared: &mut SharedLabels) -> Result<Identity, DecodeError> {
    let mut raw = Vec::new();
    for field in Reader::new(body) {
        if let (1, Field::Bytes(pair)) = field? {
            raw.push(pair_of(pair)?);
        }
    }
    let get = |key: &str| raw.iter().find(|(k, _)| *k == key).map(|(_, v)| v.as_str()).filter(|v| !v.is_empty());
    let mut labels: Vec<(String, String)> =
        IDENTITY.iter().filter_map(|k| get(k).map(|v| ((*k).to_owned(), v.to_owned()))).collect();
    if let Some(switch) = get(SWITCH[0]) {
        labels.push((SWITCH[1].to_owned(), switch.to_owned()));
    }
    let mut target = Vec::new();
    if let Some(name) = get("service.name") {
        let job = get("service.namespace").map_or_else(|| name.to_owned(), |space| format!("{space}/{name}"));
        target.push(("job".to_owned(), job));
    }
    if let Some(id) = get("service.instance.id") {
        target.push(("instance".to_owned(), id.to_owned()));
    }
    let known =
        |k: &str| IDENTITY.contains(&k) || matches!(k, "service.name" | "service.namespace" | "service.instance.id");
    let rest: Vec<(&str, String)> = raw.iter().filter(|(k, _)| !known(k)).map(|(k, v)| (*k, v.clone())).collect();
    let info = (!target.is_empty() && !rest.is_empty()).then(|| {
        let mut all = joined(rest);
        all.extend(target.iter().chain(&labels).cloned());
        all.push(("__name__".to_owned(), "target_info".to_owned()));
        sorted(all)
    });
    let info = info.filter(|all| check(all, limits).is_ok()).map(|all| labels_of(&all, shared));
    labels.extend(target);
    Ok(Identity { labels, info })
}

/// Labels of one series: the point's attributes, the resource's identity, the name and, for a part of a histogram or
/// summary, `le` or `quantile`. Point attributes override resource attributes.
///
/// # Errors
/// The outer error is a malformed request; the inner one names the limit that the series exceeds.
pub(super) fn series(
    attributes: &[&[u8]],
    identity: &Identity,
    name: &str,
    part: Option<(&str, f64)>,
    limits: &Limits,
    shared: &mut SharedLabels,
) -> Result<Result<Labels, String>, DecodeError> {
    let too_many = || Ok(Err(format!("more than {} labels", limits.labels)));
    if attributes.len() > limits.labels {
        return too_many();
    }
    let own = joined(attributes.iter().map(|pair| pair_of(pair)).collect::<Result<Vec<_>, _>>()?);
    let mut all: Vec<(String, String)> = identity.labels.clone();
    all.extend(own);
    if let Some((label, value)) = part {
        all.push((label.to_owned(), float(value)));
    }
    all.push(("__name__".to_owned(), name.to_owned()));
    let pairs = sorted(all);
    Ok(check(&pairs, limits).map(|()| labels_of(&pairs, shared)).map_err(|e| e.to_string()))
}

fn check(pairs: &[(String, String)], limits: &Limits) -> Result<(), NameError> {
    check_series_within(pairs.iter().map(|(k, v)| (k.as_str(), v.as_str())), limits.labels, limits.label_bytes)
}

/// Formats a number as Prometheus does in `le` and `quantile`.
fn float(v: f64) -> String {
    if v == f64::INFINITY { "+Inf".to_owned() } else { v.to_string() }
}

/// Sorts by name, keeps the last of equal names, drops empty values.
fn sorted(mut pairs: Vec<(String, String)>) -> Vec<(String, String)> {
    pairs.sort_by(|a, b| a.0.cmp(&b.0));
    pairs.dedup_by(|next, kept| {
        let same = next.0 == kept.0;
        if same {
            std::mem::swap(&mut kept.1, &mut next.1);
        }
        same
    });
    pairs.retain(|(_, v)| !v.is_empty());
    pairs
}

fn labels_of(pairs: &[(String, String)], shared: &mut SharedLabels) -> Labels {
    shared.of(pairs.iter().map(|(k, v)| (k.as_str(), v.as_str())))
}

/// Makes names valid and sorts them. Values of names that collide are joined with `;` in the order of the original
/// names. Reserved names (`__…`) are dropped: a sender cannot choose `__name__`.
fn joined(mut raw: Vec<(&str, String)>) -> Vec<(String, String)> {
    raw.sort_by(|a, b| a.0.cmp(b.0));
    let named = raw.into_iter().map(|(key, value)| (names::label(key), value));
    let mut out: Vec<_> = named.filter(|(name, _)| !name.is_empty() && !name.starts_with("__")).collect();
    out.sort_by(|a, b| a.0.cmp(&b.0));
    out.dedup_by(|next, kept| {
        let same = next.0 == kept.0;
        if same {
            kept.1.push(';');
            kept.1.push_str(&next.1);
        }
        same
    });
    out
}

/// Decodes a `KeyValue` to key and text.
fn pair_of(body: &[u8]) -> Result<(&str, String), DecodeError> {
    let (mut key, mut value) = ("", String::new());
    for field in Reader::new(body) {
        match field? {
            (1, Field::Bytes(b)) => key = text(b)?,
            (2, Field::Bytes(b)) => {
                value.clear();
                any(b, &mut value, false, DEPTH)?;
            }
            _ => {}
        }
    }
    Ok((key, value))
}

/// Decodes an `AnyValue`: scalars as text, lists and maps as JSON, bytes as hexadecimal.
fn any(body: &[u8], out: &mut String, quote: bool, depth: u32) -> Result<(), DecodeError> {
    let depth = depth.checked_sub(1).ok_or(DecodeError::Malformed("an attribute is nested too deeply"))?;
    for field in Reader::new(body) {
        match field? {
            (1, Field::Bytes(b)) if quote => quoted(text(b)?, out),
            (1, Field::Bytes(b)) => out.push_str(text(b)?),
            (2, Field::Varint(v)) => out.push_str(if v != 0 { "true" } else { "false" }),
            (3, Field::Varint(v)) => _ = write!(out, "{}", v.cast_signed()),
            (4, Field::Fixed64(v)) => _ = write!(out, "{}", f64::from_bits(v)),
            (5, Field::Bytes(b)) => list(b, out, ['[', ']'], |item, out| any(item, out, true, depth))?,
            (6, Field::Bytes(b)) => list(b, out, ['{', '}'], |item, out| {
                for field in Reader::new(item) {
                    match field? {
                        (1, Field::Bytes(k)) => quoted(text(k)?, out),
                        (2, Field::Bytes(v)) => {
                            out.push(':');
                            any(v, out, true, depth)?;
                        }
                        _ => {}
                    }
                }
                Ok(())
            })?,
            (7, Field::Bytes(b)) => {
                let mut hex = String::with_capacity(2 * b.len());
                b.iter().for_each(|byte| _ = write!(hex, "{byte:02x}"));
                if quote { quoted(&hex, out) } else { out.push_str(&hex) }
            }
            _ => {}
        }
    }
    Ok(())
}

fn list(
    body: &[u8],
    out: &mut String,
    brackets: [char; 2],
    mut item: impl FnMut(&[u8], &mut String) -> Result<(), DecodeError>,
) -> Result<(), DecodeError> {
    out.push(brackets[0]);
    let mut first = true;
    for field in Reader::new(body) {
        if let (1, Field::Bytes(b)) = field? {
            if !std::mem::take(&mut first) {
                out.push(',');
            }
            item(b, out)?;
        }
    }
    out.push(brackets[1]);
    Ok(())
}

fn quoted(s: &str, out: &mut String) {
    out.push('"');
    for c in s.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c < ' ' => _ = write!(out, "\\u{:04x}", u32::from(c)),
            c => out.push(c),
        }
    }
    out.push('"');
}
