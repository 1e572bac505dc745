//! Label functions: `label_replace` and `label_join`.

use crate::error::{Evaluated, QueryError};
use crate::eval::{Column, Columns, Context, Grid, reject_duplicates};
use crate::parse::pattern::from_go;
use crate::plan::{Expr, Node};
use fabriclens_model::{Labels, PatternError};
use std::sync::Arc;

fn text(arg: &Expr) -> &str {
    match &arg.node {
        Node::Text(t) => t,
        _ => "",
    }
}

/// Maximum bytes of a name or value that these functions create; stored labels have 4 KiB at most. Without a limit,
/// nested calls multiply the length at each level.
const LABEL_BYTES: usize = 16 << 10;

fn failed(message: String) -> QueryError {
    QueryError::Execution(message)
}

/// Checks the length of a label.
fn bounded(function: &str, dst: &str, bytes: usize) -> Evaluated<()> {
    if dst.len() <= LABEL_BYTES && bytes <= LABEL_BYTES {
        return Ok(());
    }
    let name: String = dst.chars().take(64).collect();
    Err(failed(format!(
        "{function}(): the label {name} would be longer than {LABEL_BYTES} bytes; make its value shorter"
    )))
}

/// Sets a label; charges its bytes as values.
fn set(cx: &mut Context<'_>, column: &mut Column, name: &Arc<str>, value: &str) -> Evaluated<()> {
    let pair = size_of::<(Arc<str>, Arc<str>)>();
    cx.charge((value.len() + pair * (column.labels.len() + 1)).div_ceil(size_of::<f64>()))?;
    let set: (Arc<str>, Arc<str>) = (name.clone(), value.into());
    column.labels = Labels::new(column.labels.to_pairs().chain([set]));
    // A name that is given is kept.
    column.nameless &= &**name != "__name__";
    Ok(())
}

/// `label_replace(v, dst, replacement, src, regex)`.
pub(super) fn replace(cx: &mut Context<'_>, args: &[Expr], grid: Grid) -> Evaluated<Columns> {
    let [dst, replacement, src, pattern] = [1, 2, 3, 4].map(|i| text(&args[i]));
    let regex = cx.patterns.with_groups(&from_go(pattern)).map_err(|e| match e {
        PatternError::Ended(ended) => ended.into(),
        PatternError::Invalid(_) => failed(format!("invalid regular expression in label_replace(): {pattern}")),
        refused => failed(format!("label_replace(): {refused}")),
    })?;
    if dst.is_empty() {
        return Err(failed(format!("invalid destination label name in label_replace(): {dst}")));
    }
    let mut columns = cx.vector(&args[0], grid)?;
    let (name, groups) = (Arc::from(dst), replacement.matches('$').count());
    for c in &mut columns {
        cx.check()?;
        let source = c.labels.get(src);
        let Some(found) = regex.find(source) else { continue };
        // No capture group is longer than the source.
        bounded("label_replace", dst, replacement.len().saturating_add(groups.saturating_mul(source.len())))?;
        let value = found.expand(replacement);
        set(cx, c, &name, &value)?;
    }
    reject_duplicates(&columns)?;
    Ok(Columns::Vector(columns))
}

/// `label_join(v, dst, separator, src...)`.
pub(super) fn join(cx: &mut Context<'_>, args: &[Expr], grid: Grid) -> Evaluated<Columns> {
    let (dst, separator) = (text(&args[1]), text(&args[2]));
    let sources: Vec<&str> = args[3..].iter().map(text).collect();
    if let Some(bad) = sources.iter().find(|s| s.is_empty()) {
        return Err(failed(format!("invalid source label name in label_join(): {bad}")));
    }
    if dst.is_empty() {
        return Err(failed(format!("invalid destination label name in label_join(): {dst}")));
    }
    let mut columns = cx.vector(&args[0], grid)?;
    let name = Arc::from(dst);
    let separators = separator.len().saturating_mul(sources.len().saturating_sub(1));
    for c in &mut columns {
        cx.check()?;
        let values: Vec<&str> = sources.iter().map(|s| c.labels.get(s)).collect();
        bounded("label_join", dst, separators.saturating_add(values.iter().map(|v| v.len()).sum()))?;
        let value = values.join(separator);
        set(cx, c, &name, &value)?;
    }
    reject_duplicates(&columns)?;
    Ok(Columns::Vector(columns))
}
