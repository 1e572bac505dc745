//! Vector matching over whole columns: `on`, `ignoring`, `group_left`, `group_right` and the set operators. Series are
//! put into match groups once; within a group, columns are combined pairwise.

use super::binary::{arithmetic, compared, holds};
use super::group_keys::GroupKeys;
use super::{ABSENT, Column, Context, Grid, merge, relabel};
use crate::error::{Evaluated, QueryError};
use crate::plan::{Binary, BinaryOp, Cardinality};
use fabriclens_model::{Labels, is_stale};
use foldhash::{HashMap, HashMapExt as _, HashSet, HashSetExt as _};
use std::sync::Arc;

/// Members of both sides with the same matching labels.
#[derive(Default)]
struct MatchGroup {
    labels: Labels,
    left: Vec<usize>,
    right: Vec<usize>,
}

fn match_groups(b: &Binary, left: &[Column], right: &[Column]) -> Vec<MatchGroup> {
    let mut keys = GroupKeys::new(&b.grouping);
    let mut out: Vec<MatchGroup> = vec![];
    let mut group_of = |c: &Column, out: &mut Vec<MatchGroup>| {
        let at = keys.number(&c.labels);
        if at == out.len() {
            out.push(MatchGroup::default());
        }
        at
    };
    for (i, c) in left.iter().enumerate() {
        let g = group_of(c, &mut out);
        out[g].left.push(i);
    }
    for (i, c) in right.iter().enumerate() {
        let g = group_of(c, &mut out);
        out[g].right.push(i);
    }
    for (group, labels) in out.iter_mut().zip(keys.into_labels()) {
        group.labels = labels;
    }
    out
}

/// Steps at which any of the columns has a value.
fn presence<'a>(columns: impl Iterator<Item = &'a Column>, steps: usize) -> Vec<bool> {
    let mut any = vec![false; steps];
    for c in columns {
        for (a, v) in any.iter_mut().zip(&c.values) {
            *a |= !is_stale(*v);
        }
    }
    any
}

fn failed<T>(message: impl Into<String>) -> Evaluated<T> {
    Err(QueryError::Execution(message.into()))
}

/// A label set as Prometheus writes it in messages: `{__name__="a", b="c"}`.
fn braced(labels: &Labels) -> String {
    let inner: Vec<String> = labels.iter().map(|(n, v)| format!("{n}={v:?}")).collect();
    format!("{{{}}}", inner.join(", "))
}

impl Context<'_> {
    /// Arithmetic and comparison operators between two vectors.
    pub(super) fn vectors(&mut self, b: &Binary, lhs: &[Column], rhs: &[Column], grid: Grid) -> Evaluated<Vec<Column>> {
        // "One" is the side on which a match group may have only one series.
        let swapped = b.cardinality == Cardinality::OneToMany;
        let (many, one) = if swapped { (rhs, lhs) } else { (lhs, rhs) };
        let many_present = presence(many.iter(), grid.steps);
        let groups = match_groups(b, many, one);
        let clashes = groups.iter().filter_map(|g| clash(g, one, &many_present));
        if let Some(first) = clashes.min_by_key(|c| (c.step, c.later)) {
            let side = if swapped { "left" } else { "right" };
            return failed(format!(
                "found duplicate series for the match group {} on the {side} hand-side of the operation: [{}, {}];many-to-many matching not allowed: matching labels must be unique on one side",
                braced(first.labels),
                braced(&one[first.later].labels),
                braced(&one[first.earlier].labels)
            ));
        }
        let mut out: Vec<Column> = vec![];
        for group in groups {
            self.check()?;
            if group.left.is_empty() || group.right.is_empty() {
                continue;
            }
            let first = out.len();
            for m in &group.left {
                for o in &group.right {
                    self.afford(grid.steps)?;
                    if let Some(column) = pair(b, &many[*m], &one[*o], swapped) {
                        self.charge(grid.steps)?;
                        out.push(column);
                    }
                }
            }
            if b.cardinality == Cardinality::OneToOne {
                many_side_is_unique(&out[first..], grid.steps)?;
            } else {
                results_are_unique(&out[first..])?;
            }
        }
        merge(out)
    }

    /// `and`, `or`, `unless`.
    pub(super) fn set_operation(
        &mut self,
        b: &Binary,
        mut lhs: Vec<Column>,
        mut rhs: Vec<Column>,
        grid: Grid,
    ) -> Evaluated<Vec<Column>> {
        for group in match_groups(b, &lhs, &rhs) {
            self.check()?;
            if b.op == BinaryOp::Or {
                let taken = presence(group.left.iter().map(|i| &lhs[*i]), grid.steps);
                clear(&mut rhs, &group.right, |i| taken[i]);
            } else {
                let found = presence(group.right.iter().map(|i| &rhs[*i]), grid.steps);
                let wanted = b.op == BinaryOp::And;
                clear(&mut lhs, &group.left, |i| found[i] != wanted);
            }
        }
        if b.op == BinaryOp::Or {
            lhs.append(&mut rhs);
        }
        merge(lhs)
    }
}

fn clear(columns: &mut [Column], members: &[usize], gone: impl Fn(usize) -> bool) {
    for m in members {
        for (i, v) in columns[*m].values.iter_mut().enumerate() {
            if gone(i) {
                *v = ABSENT;
            }
        }
    }
}

/// Combines one series of each side; `None` if they share no step or no value passes the filter.
fn pair(b: &Binary, many: &Column, one: &Column, swapped: bool) -> Option<Column> {
    let mut any = false;
    let combine = |(m, o): (&f64, &f64)| {
        if is_stale(*m) || is_stale(*o) {
            return ABSENT;
        }
        let (l, r) = if swapped { (*o, *m) } else { (*m, *o) };
        let v =
            if b.op.is_comparison() { compared(holds(b.op, l, r), l, b.bool_result) } else { arithmetic(b.op, l, r) };
        any |= !is_stale(v);
        v
    };
    let values: Vec<f64> = many.values.iter().zip(&one.values).map(combine).collect();
    any.then(|| Column { labels: result_labels(b, &many.labels, &one.labels), values })
}

fn result_labels(b: &Binary, many: &Labels, one: &Labels) -> Labels {
    let named = |n: &str| b.grouping.labels.iter().any(|l| l == n);
    let nameless = !b.op.is_comparison() || b.bool_result;
    let one_to_one = b.cardinality == Cardinality::OneToOne;
    let kept = relabel(many, |n| {
        let grouped = !one_to_one || if b.grouping.keep { named(n) } else { !named(n) };
        grouped && !(nameless && n == "__name__")
    });
    if b.include.is_empty() {
        return kept;
    }
    let included = |n: &str| b.include.iter().any(|i| i == n);
    let from_one = one.pairs().iter().filter(|(n, _)| included(n)).cloned();
    let own = kept.pairs().iter().filter(|(n, _)| !included(n)).cloned();
    let labels = Labels::new(own.chain(from_one).collect::<Vec<(Arc<str>, Arc<str>)>>());
    if b.bool_result { super::drop_name(&labels) } else { labels }
}

/// Two series of the "one" side in one match group at the same step.
struct Clash<'a> {
    labels: &'a Labels,
    step: usize,
    earlier: usize,
    later: usize,
}

/// The first clash of a group, if any; steps without a value on the other side are ignored.
fn clash<'a>(group: &'a MatchGroup, one: &[Column], many_present: &[bool]) -> Option<Clash<'a>> {
    if group.right.len() < 2 {
        return None;
    }
    (0..many_present.len()).filter(|i| many_present[*i]).find_map(|step| {
        let mut present = group.right.iter().copied().filter(|o| !is_stale(one[*o].values[step]));
        let (earlier, later) = (present.next()?, present.next()?);
        Some(Clash { labels: &group.labels, step, earlier, later })
    })
}

fn many_side_is_unique(results: &[Column], steps: usize) -> Evaluated<()> {
    if results.len() < 2 {
        return Ok(());
    }
    let mut taken = vec![false; steps];
    for c in results {
        for (t, v) in taken.iter_mut().zip(&c.values) {
            if *t && !is_stale(*v) {
                return failed(
                    "multiple matches for labels: many-to-one matching must be explicit (group_left/group_right)",
                );
            }
            *t |= !is_stale(*v);
        }
    }
    Ok(())
}

fn results_are_unique(results: &[Column]) -> Evaluated<()> {
    if results.len() < 2 {
        return Ok(());
    }
    let mut seen: HashSet<(&Labels, usize)> = HashSet::new();
    let mut labels: HashMap<&Labels, usize> = HashMap::new();
    for c in results {
        *labels.entry(&c.labels).or_default() += 1;
    }
    for c in results.iter().filter(|c| labels[&c.labels] > 1) {
        for (i, _) in c.values.iter().enumerate().filter(|(_, v)| !is_stale(**v)) {
            if !seen.insert((&c.labels, i)) {
                return failed("multiple matches for labels: grouping labels must ensure unique matches");
            }
        }
    }
    Ok(())
}
