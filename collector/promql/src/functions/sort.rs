//! Sort functions: effective at a single step only, where the order of columns is the order of the result.

use crate::error::Evaluated;
use crate::eval::{Column, Columns, Context, Grid};
use crate::plan::{Expr, Node};
use std::cmp::Ordering;

pub(super) fn ascending(cx: &mut Context<'_>, args: &[Expr], grid: Grid) -> Evaluated<Columns> {
    by_value(cx, args, grid, false)
}

pub(super) fn descending(cx: &mut Context<'_>, args: &[Expr], grid: Grid) -> Evaluated<Columns> {
    by_value(cx, args, grid, true)
}

pub(super) fn by_label(cx: &mut Context<'_>, args: &[Expr], grid: Grid) -> Evaluated<Columns> {
    by_labels(cx, args, grid, false)
}

pub(super) fn by_label_desc(cx: &mut Context<'_>, args: &[Expr], grid: Grid) -> Evaluated<Columns> {
    by_labels(cx, args, grid, true)
}

fn warn_if_ineffective(cx: &mut Context<'_>, arg: &Expr) {
    if cx.resolution.step > 0 {
        let message = "sort is ineffective for range queries since results are always ordered by labels";
        cx.warn(message, arg.offset);
    }
}

/// NaN is last in both directions.
fn by_value(cx: &mut Context<'_>, args: &[Expr], grid: Grid, reverse: bool) -> Evaluated<Columns> {
    let mut columns = cx.vector(&args[0], grid)?;
    warn_if_ineffective(cx, &args[0]);
    for c in &mut columns {
        c.histograms.clear_all();
    }
    columns.retain(Column::any);
    if grid.steps == 1 {
        columns.sort_by(|a, b| {
            let (a, b) = (a.values[0], b.values[0]);
            match (a.is_nan(), b.is_nan()) {
                (false, false) if reverse => b.partial_cmp(&a).unwrap_or(Ordering::Equal),
                (false, false) => a.partial_cmp(&b).unwrap_or(Ordering::Equal),
                (a, b) => a.cmp(&b),
            }
        });
    }
    Ok(Columns::Vector(columns))
}

fn by_labels(cx: &mut Context<'_>, args: &[Expr], grid: Grid, reverse: bool) -> Evaluated<Columns> {
    let mut columns = cx.vector(&args[0], grid)?;
    warn_if_ineffective(cx, &args[0]);
    let names: Vec<&str> = args[1..].iter().map(|a| if let Node::Text(t) = &a.node { t } else { "" }).collect();
    if grid.steps == 1 {
        let compare = |a: &Column, b: &Column| {
            let by_name = |n: &&str| natural(a.labels.get(n), b.labels.get(n));
            let named = names.iter().map(by_name).find(|o| o.is_ne()).unwrap_or(Ordering::Equal);
            // Ties are broken by all labels.
            named.then_with(|| a.labels.cmp(&b.labels))
        };
        columns.sort_by(|a, b| if reverse { compare(b, a) } else { compare(a, b) });
    }
    Ok(Columns::Vector(columns))
}

/// Compares runs of digits as numbers: `eth9` before `eth10`.
fn natural(a: &str, b: &str) -> Ordering {
    if a == b {
        return Ordering::Equal;
    }
    let (mut a, mut b) = (chunks(a).into_iter(), chunks(b).into_iter());
    loop {
        let order = match (a.next(), b.next()) {
            (None, None) => return Ordering::Equal,
            (None, _) => return Ordering::Less,
            (_, None) => return Ordering::Greater,
            (Some(x), Some(y)) => {
                let digits = |s: &str| s.as_bytes()[0].is_ascii_digit();
                if digits(x) && digits(y) {
                    let (m, n) = (x.trim_start_matches('0'), y.trim_start_matches('0'));
                    m.len().cmp(&n.len()).then_with(|| m.cmp(n)).then_with(|| x.len().cmp(&y.len()))
                } else {
                    x.cmp(y)
                }
            }
        };
        if order.is_ne() {
            return order;
        }
    }
}

/// Splits into runs of digits and of other characters; no run is empty.
fn chunks(text: &str) -> Vec<&str> {
    let mut out = vec![];
    let mut rest = text;
    while let Some(first) = rest.bytes().next() {
        let digits = first.is_ascii_digit();
        let end = rest.bytes().take_while(|b| b.is_ascii_digit() == digits).count();
        out.push(&rest[..end]);
        rest = &rest[end..];
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_compare_as_numbers() {
        assert_eq!(natural("eth9", "eth10"), Ordering::Less);
        assert_eq!(natural("4m1000", "4m600"), Ordering::Greater);
        assert_eq!(natural("a", "a1"), Ordering::Less);
    }
}
