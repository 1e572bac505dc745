//! Vector matching over whole columns: `on`, `ignoring`, `group_left`, `group_right` and the set operators. Series are
//! put into match groups once; within a group, columns are combined pairwise.

use super::annotation::StepAnnotations;
use super::binary::{arithmetic, compared, holds};
use super::group_keys::GroupKeys;
use super::result_labels::ResultLabels;
use super::{ABSENT, Column, Context, Grid, merge};
use crate::error::{Evaluated, QueryError};
use crate::limits::Version;
use crate::plan::{Binary, BinaryOp, Cardinality, Grouping};
use fabriclens_model::{Labels, is_stale};
use foldhash::{HashMap, HashMapExt as _, HashSet, HashSetExt as _};
use smallvec::SmallVec;

/// Members of both sides with the same matching labels.
struct MatchGroup<'c> {
    /// One of them.
    example: &'c Labels,
    left: Few<usize>,
    right: Few<usize>,
}

/// Members of a group, of which there is usually one.
type Few<T> = SmallVec<[T; 1]>;

fn match_groups<'c>(b: &'c Binary, left: &'c [Column], right: &'c [Column]) -> Vec<MatchGroup<'c>> {
    let mut keys = GroupKeys::new(&b.grouping);
    let mut out: Vec<MatchGroup<'c>> = vec![];
    let mut group_of = |c: &'c Column, out: &mut Vec<MatchGroup<'c>>| {
        let at = keys.number(&c.labels);
        if at == out.len() {
            out.push(MatchGroup { example: &c.labels, left: Few::new(), right: Few::new() });
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
    out
}

/// Steps at which any of the columns has a value.
fn presence<'a>(columns: impl Iterator<Item = &'a Column>, steps: usize) -> Vec<bool> {
    let mut any = vec![false; steps];
    for c in columns {
        for (a, v) in any.iter_mut().zip(&c.values) {
            *a |= !is_stale(*v);
        }
        for (i, _) in c.histograms.iter() {
            any[i] = true;
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
    /// Arithmetic and comparison operators between two vectors. With a `grouping`, the caller looks only at the labels of
    /// results by which it groups.
    pub(super) fn vectors<'c>(
        &mut self,
        b: &Binary,
        lhs: &'c [Column],
        rhs: &'c [Column],
        grid: Grid,
        grouping: Option<&Grouping>,
    ) -> Evaluated<Vec<Column>> {
        // "One" is the side on which a match group may have only one series.
        let swapped = b.cardinality == Cardinality::OneToMany;
        let (many, one) = if swapped { (rhs, lhs) } else { (lhs, rhs) };
        let (fill_many, fill_one) = if swapped { (b.fill.right, b.fill.left) } else { (b.fill.left, b.fill.right) };
        // Steps at which two series of the "one" side clash.
        let mut many_present = presence(many.iter(), grid.steps);
        if fill_many.is_some() {
            many_present.fill(true);
        }
        let groups = match_groups(b, many, one);
        let clashes = groups.iter().filter_map(|g| clash(g, one, &many_present));
        if let Some(first) = clashes.min_by_key(|c| (c.step, c.later)) {
            let side = if swapped { "left" } else { "right" };
            return failed(format!(
                "found duplicate series for the match group {} on the {side} hand-side of the operation: [{}, {}];many-to-many matching not allowed: matching labels must be unique on one side",
                braced(&b.grouping.labels_of(first.example)),
                braced(&one[first.later].labels),
                braced(&one[first.earlier].labels)
            ));
        }
        let native = b.op.is_trim() || lhs.iter().chain(rhs).any(|c| c.histograms.any());
        let labels = ResultLabels::new(b, self.limits.version);
        // If no two results can have equal labels, none are compared, and an aggregation needs only those that it groups by.
        let single = groups.iter().all(|g| g.right.len() < 2) && fill_many.is_none() && fill_one.is_none();
        let distinct = single && !native && labels.differ(many);
        let labels = labels.only(grouping.filter(|_| distinct));
        let mut annotations = StepAnnotations::default();
        let mut out: Vec<Column> = vec![];
        for group in groups {
            self.check()?;
            let first = out.len();
            // Prometheus visits the "many" side in its order, then what is missing there.
            let orders = || group.left.iter().copied();
            let members = |of: &[usize], all: &'c [Column]| of.iter().map(|i| &all[*i]).collect::<Few<_>>();
            let (of_many, of_one) = (members(&group.left, many), members(&group.right, one));
            let of_group = || b.grouping.labels_of(group.example);
            let other = filled(of_group, fill_one, &of_many, &of_one, grid.steps);
            let missing = filled(of_group, fill_many, &of_one, &of_many, grid.steps);
            let ordered = of_many.iter().zip(orders());
            let pairs = ordered.flat_map(|(m, at)| of_one.iter().copied().chain(&other).map(move |o| (*m, o, at)));
            let late = missing.iter().flat_map(|m| of_one.iter().map(move |o| (m, *o, usize::MAX)));
            for (m, o, order) in pairs.chain(late) {
                self.afford(grid.steps)?;
                let column = if native {
                    self.native_pair(b, (m, o), swapped, (order, &mut annotations))?
                } else {
                    pair(b, m, o, swapped, labels)
                };
                if let Some(column) = column {
                    self.charge(grid.steps + column.histograms.size())?;
                    out.push(column);
                }
            }
            if b.cardinality == Cardinality::OneToOne {
                if self.limits.version == Version::V2 {
                    many_side_is_unique(out[first..].iter(), |_| true, grid.steps)?;
                } else if of_many.len() > 1 {
                    // Whether or not a filter keeps the results.
                    let matched = presence(of_one.iter().copied(), grid.steps);
                    let counts = |i: usize| matched[i] || fill_one.is_some();
                    many_side_is_unique(of_many.iter().copied(), counts, grid.steps)?;
                }
            } else if !distinct {
                results_are_unique(&out[first..])?;
            }
        }
        annotations.emit(self, b.lhs.offset);
        if distinct { Ok(out) } else { merge(out) }
    }

    /// `and`, `or`, `unless`.
    pub(super) fn set_operation(
        &mut self,
        b: &Binary,
        mut lhs: Vec<Column>,
        mut rhs: Vec<Column>,
        grid: Grid,
    ) -> Evaluated<Vec<Column>> {
        let groups: Vec<_> = match_groups(b, &lhs, &rhs).into_iter().map(|group| (group.left, group.right)).collect();
        for (left, right) in groups {
            self.check()?;
            if b.op == BinaryOp::Or {
                let taken = presence(left.iter().map(|i| &lhs[*i]), grid.steps);
                clear(&mut rhs, &right, |i| taken[i]);
            } else {
                let found = presence(right.iter().map(|i| &rhs[*i]), grid.steps);
                let wanted = b.op == BinaryOp::And;
                clear(&mut lhs, &left, |i| found[i] != wanted);
            }
        }
        if b.op == BinaryOp::Or {
            lhs.append(&mut rhs);
        }
        merge(lhs)
    }
}

/// A series that stands in for a missing side: `value` where a series of the other side is present, and none of its own.
fn filled(
    labels: impl Fn() -> Labels,
    value: Option<f64>,
    present: &[&Column],
    own: &[&Column],
    steps: usize,
) -> Option<Column> {
    let value = value.filter(|_| !present.is_empty())?;
    let (there, here) = (presence(present.iter().copied(), steps), presence(own.iter().copied(), steps));
    let values: Vec<f64> = there.iter().zip(&here).map(|(t, h)| if *t && !*h { value } else { ABSENT }).collect();
    Some(Column::new(labels(), values)).filter(Column::any)
}

fn clear(columns: &mut [Column], members: &[usize], gone: impl Fn(usize) -> bool) {
    for m in members {
        let column = &mut columns[*m];
        for i in (0..column.values.len()).filter(|i| gone(*i)) {
            column.put(i, None);
        }
    }
}

/// Combines one series of each side; `None` if they share no step or no value passes the filter.
fn pair(b: &Binary, many: &Column, one: &Column, swapped: bool, labels: ResultLabels<'_>) -> Option<Column> {
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
    any.then(|| Column { nameless: labels.nameless(many), ..Column::new(labels.of(&many.labels, &one.labels), values) })
}

/// Two series of the "one" side in one match group at the same step.
struct Clash<'a> {
    example: &'a Labels,
    step: usize,
    earlier: usize,
    later: usize,
}

/// The first clash of a group, if any; steps without a value on the other side are ignored.
fn clash<'a>(group: &MatchGroup<'a>, one: &[Column], many_present: &[bool]) -> Option<Clash<'a>> {
    if group.right.len() < 2 {
        return None;
    }
    (0..many_present.len()).filter(|i| many_present[*i]).find_map(|step| {
        let mut present = group.right.iter().copied().filter(|o| one[*o].present(step));
        let (earlier, later) = (present.next()?, present.next()?);
        Some(Clash { example: group.example, step, earlier, later })
    })
}

/// Fails if two of the columns have a value at one of the steps that count.
fn many_side_is_unique<'a>(
    columns: impl Iterator<Item = &'a Column>,
    counts: impl Fn(usize) -> bool,
    steps: usize,
) -> Evaluated<()> {
    let mut taken = vec![false; steps];
    for c in columns {
        for (i, t) in taken.iter_mut().enumerate() {
            let present = c.present(i);
            if *t && present && counts(i) {
                return failed(
                    "multiple matches for labels: many-to-one matching must be explicit (group_left/group_right)",
                );
            }
            *t |= present;
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
        for i in (0..c.values.len()).filter(|i| c.present(*i)) {
            if !seen.insert((&c.labels, i)) {
                return failed("multiple matches for labels: grouping labels must ensure unique matches");
            }
        }
    }
    Ok(())
}
