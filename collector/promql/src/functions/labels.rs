//! Changing labels: `label_replace` and `label_join`.

use crate::error::QueryError;
use crate::eval::{Columns, Context, Evaluated, Grid, reject_twins};
use crate::plan::{Expr, Node};
use fabriclens_model::Labels;
use std::sync::Arc;

fn text(arg: &Expr) -> &str {
    match &arg.node {
        Node::Text(t) => t,
        _ => "",
    }
}

fn is_label_name(name: &str) -> bool {
    let mut bytes = name.bytes();
    bytes.next().is_some_and(|b| b.is_ascii_alphabetic() || b == b'_')
        && bytes.all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

fn failed(message: String) -> QueryError {
    QueryError::Execution(message)
}

fn with(labels: &Labels, name: &str, value: &str) -> Labels {
    let set: (Arc<str>, Arc<str>) = (name.into(), value.into());
    Labels::new(labels.pairs().iter().cloned().chain([set]))
}

/// `label_replace(v, dst, replacement, src, regex)`.
pub(super) fn replace(cx: &mut Context<'_>, args: &[Expr], grid: Grid) -> Evaluated<Columns> {
    let [dst, replacement, src, pattern] = [1, 2, 3, 4].map(|i| text(&args[i]));
    let regex = regex::Regex::new(&format!("^(?:{})$", crate::parse::pattern::from_go(pattern)))
        .map_err(|_| failed(format!("invalid regular expression in label_replace(): {pattern}")))?;
    if !is_label_name(dst) {
        return Err(failed(format!("invalid destination label name in label_replace(): {dst}")));
    }
    let mut columns = cx.vector(&args[0], grid)?;
    for c in &mut columns {
        let Some(found) = regex.captures(c.labels.get(src)) else { continue };
        let mut value = String::new();
        found.expand(replacement, &mut value);
        c.labels = with(&c.labels, dst, &value);
    }
    reject_twins(&columns)?;
    Ok(Columns::Vector(columns))
}

/// `label_join(v, dst, separator, src...)`.
pub(super) fn join(cx: &mut Context<'_>, args: &[Expr], grid: Grid) -> Evaluated<Columns> {
    let (dst, separator) = (text(&args[1]), text(&args[2]));
    let sources: Vec<&str> = args[3..].iter().map(text).collect();
    if let Some(bad) = sources.iter().find(|s| !is_label_name(s)) {
        return Err(failed(format!("invalid source label name in label_join(): {bad}")));
    }
    if !is_label_name(dst) {
        return Err(failed(format!("invalid destination label name in label_join(): {dst}")));
    }
    let mut columns = cx.vector(&args[0], grid)?;
    for c in &mut columns {
        let values: Vec<&str> = sources.iter().map(|s| c.labels.get(s)).collect();
        c.labels = with(&c.labels, dst, &values.join(separator));
    }
    reject_twins(&columns)?;
    Ok(Columns::Vector(columns))
}
