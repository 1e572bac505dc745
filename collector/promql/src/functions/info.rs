//! `info(v, {…})`: adds the labels of info series, such as `target_info`, to the series of the same `instance` and `job`.

use crate::error::{Evaluated, QueryError};
use crate::eval::{ABSENT, Column, Columns, Context, Grid, Instant, merge};
use crate::plan::{Edges, Expr, Node, Selector, Shift};
use fabriclens_model::{Labels, MatchOp, Matcher, is_stale};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

/// Labels that an info series has in common with the series that it tells of.
const IDENTIFYING: [&str; 2] = ["instance", "job"];
/// Info series if none are named.
const DEFAULT: &str = "target_info";
/// Info series if names are only excluded.
const ANY_NAME: &str = ".+_info";

/// What the second argument says.
struct Wanted {
    /// Names of info series.
    names: Vec<Matcher>,
    /// Labels to add, and the values of which one must match; all labels if there are none.
    data: Vec<Matcher>,
}

impl Wanted {
    fn of(cx: &mut Context<'_>, selector: Option<&Selector>) -> Evaluated<Self> {
        let matchers = selector.map_or(&[][..], |s| &s.matchers);
        let (mut names, data): (Vec<Matcher>, Vec<Matcher>) =
            matchers.iter().cloned().partition(|m| m.name == "__name__");
        if names.is_empty() {
            names.push(Matcher::equal("__name__", DEFAULT));
        } else if names.iter().all(|m| matches!(m.op, MatchOp::NotEqual | MatchOp::NotRegex)) {
            let any = Matcher::compiled("__name__", MatchOp::Regex, ANY_NAME, &mut cx.patterns);
            names.push(any.map_err(|e| QueryError::Execution(e.to_string()))?);
        }
        Ok(Self { names, data })
    }

    fn is_info(&self, labels: &Labels) -> bool {
        self.names.iter().all(|m| m.matches(labels))
    }

    fn adds(&self, label: &str) -> bool {
        self.data.is_empty() || self.data.iter().any(|m| m.name == label)
    }

    /// Whether a series may go without info.
    fn optional(&self) -> bool {
        self.data.iter().all(|m| m.matches_value(""))
    }
}

/// What tells which info series belong to a series.
fn identity(labels: &Labels) -> [&str; 2] {
    IDENTIFYING.map(|label| labels.get(label))
}

/// Indexes of the info series of one identity, by name.
type ByName<'c> = BTreeMap<&'c str, Vec<usize>>;

pub(super) fn info(cx: &mut Context<'_>, args: &[Expr], grid: Grid) -> Evaluated<Columns> {
    let base = cx.vector(&args[0], grid)?;
    let selector = args.get(1).and_then(|a| if let Node::Select(s) = &a.node { Some(s) } else { None });
    let wanted = Wanted::of(cx, selector)?;
    let infos = fetch(cx, &base, &wanted, grid)?;
    let mut by_identity: HashMap<[&str; 2], ByName<'_>> = HashMap::new();
    for (at, c) in infos.iter().enumerate() {
        by_identity.entry(identity(&c.labels)).or_default().entry(c.labels.metric()).or_default().push(at);
    }
    let mut out = Vec::with_capacity(base.len());
    for column in base {
        cx.check()?;
        if wanted.is_info(&column.labels) {
            out.push(column);
            continue;
        }
        let of_column = by_identity.get(&identity(&column.labels));
        enrich(cx, &column, (&infos, of_column), &wanted, &mut out)?;
    }
    Ok(Columns::Vector(merge(out)?))
}

/// The info series that may belong to the base series, with the times of their samples as values.
fn fetch(cx: &mut Context<'_>, base: &[Column], wanted: &Wanted, grid: Grid) -> Evaluated<Vec<Column>> {
    let mut matchers = wanted.names.clone();
    let plain = || base.iter().filter(|c| !wanted.is_info(&c.labels));
    for label in IDENTIFYING {
        let values: BTreeSet<&str> = plain().map(|c| c.labels.get(label)).filter(|v| !v.is_empty()).collect();
        if !values.is_empty() {
            let one = Matcher::one_of(label, values);
            matchers.push(one.map_err(|e| QueryError::Execution(format!("info(): {e}; narrow the selector")))?);
        }
    }
    if matchers.len() == wanted.names.len() {
        return Ok(vec![]);
    }
    matchers.extend(wanted.data.iter().cloned());
    let selector = Selector { matchers, shift: Shift::default(), edges: Edges::Plain };
    cx.instant_columns(&selector, grid, Instant::TimesOfFloats)
}

/// Adds one column for each set of labels that a series has over the steps.
fn enrich(
    cx: &mut Context<'_>,
    column: &Column,
    (infos, of_column): (&[Column], Option<&ByName<'_>>),
    wanted: &Wanted,
    out: &mut Vec<Column>,
) -> Evaluated<()> {
    let steps = column.values.len();
    let mut of_chosen: HashMap<Vec<usize>, usize> = HashMap::new();
    for i in (0..steps).filter(|i| column.present(*i)) {
        let mut chosen = vec![];
        for candidates in of_column.into_iter().flat_map(BTreeMap::values) {
            chosen.extend(newest(infos, candidates, i)?);
        }
        if chosen.is_empty() && !wanted.optional() {
            continue;
        }
        let at = match of_chosen.get(&chosen) {
            Some(at) => *at,
            None => {
                cx.charge(steps)?;
                let labels = joined(&column.labels, chosen.iter().map(|c| &infos[*c]), wanted)?;
                let values = vec![ABSENT; steps];
                out.push(Column { nameless: column.nameless, ..Column::new(labels, values) });
                of_chosen.insert(chosen, out.len() - 1);
                out.len() - 1
            }
        };
        out[at].put(i, column.point(i));
    }
    Ok(())
}

/// The info series with the newest sample at a step.
fn newest(infos: &[Column], candidates: &[usize], step: usize) -> Evaluated<Option<usize>> {
    let time = |c: usize| infos[c].values[step];
    let mut best: Option<usize> = None;
    for c in candidates.iter().copied().filter(|c| !is_stale(time(*c))) {
        match best {
            Some(b) if time(b) > time(c) => {}
            Some(b) if time(b).total_cmp(&time(c)).is_eq() => {
                let ms = (time(c) * 1000.0).round() as i64;
                return Err(QueryError::Execution(format!(
                    "found duplicate series for info metric: existing {} @ {ms}, new {} @ {ms}",
                    infos[b].labels, infos[c].labels
                )));
            }
            _ => best = Some(c),
        }
    }
    Ok(best)
}

fn joined<'c>(base: &Labels, infos: impl Iterator<Item = &'c Column>, wanted: &Wanted) -> Evaluated<Labels> {
    let mut added: BTreeMap<Arc<str>, Arc<str>> = BTreeMap::new();
    for (name, value) in infos.flat_map(|c| c.labels.pairs()) {
        if &**name == "__name__" || !wanted.adds(name) || !base.get(name).is_empty() {
            continue;
        }
        match added.get(name) {
            Some(other) if other != value => {
                return Err(QueryError::Execution(format!("conflicting label: {name}")));
            }
            _ => drop(added.insert(name.clone(), value.clone())),
        }
    }
    Ok(Labels::new(base.to_pairs().chain(added)))
}
