//! Limits on the series of a generation: in total, per metric, per tenant, and by memory in total and per sender. Without them
//! one label with a value per request would exhaust memory. Known series continue; refused ones are reported with the limit they exceed.

use super::account::{Charges, accounts};
use crate::options::SeriesLimits;
use fabriclens_model::{Labels, Layout, LayoutId};
use foldhash::{HashMap, HashMapExt as _};
use std::sync::Arc;

/// Columns of the row groups whose subset is cached, about 30 bytes each.
const MAX_CACHED: usize = 1 << 20;
/// Memory of a series besides its labels: tables, location, first row. Measured in a list of 100 series; 1,000 bytes in a list
/// of its own.
const SERIES_BYTES: usize = 256;
/// Memory of a label besides its value. Names are shared between series.
const LABEL_BYTES: usize = 32;

/// The columns accepted of a group, and their indexes in it.
type Subset = (Layout, Arc<[u32]>);

/// Series counts of a generation against its limits.
#[derive(Clone)]
pub struct Limits {
    limits: SeriesLimits,
    tenants: HashMap<Box<str>, usize>,
    /// Estimated bytes of all series, and by account.
    bytes: usize,
    charges: Charges,
    /// By identity of the group's column list, and their columns in total.
    subsets: HashMap<LayoutId, Subset>,
    cached: usize,
    /// Message about the last series that was refused.
    refusal: Option<String>,
}

/// Numbers of series that exist.
pub struct SeriesCounts<'a> {
    /// In total.
    pub all: usize,
    /// By metric.
    pub of_metric: &'a dyn Fn(&str) -> usize,
}

impl Limits {
    /// No series counted yet.
    pub fn new(limits: SeriesLimits) -> Self {
        Self {
            limits,
            tenants: HashMap::new(),
            bytes: 0,
            charges: Charges::default(),
            subsets: HashMap::new(),
            cached: 0,
            refusal: None,
        }
    }

    /// The configured limits.
    pub fn limits(&self) -> &SeriesLimits {
        &self.limits
    }

    /// Counts a new series.
    pub fn count(&mut self, labels: &Labels) {
        if !self.limits.tenant_label.is_empty() {
            add(&mut self.tenants, labels.get(&self.limits.tenant_label), 1);
        }
        let bytes = weight(labels);
        self.bytes += bytes;
        accounts(labels).for_each(|(account, name)| self.charges.add(account, &name, bytes));
    }

    /// Whether all these new series fit into the limits.
    pub fn allow<'a>(&self, counts: &SeriesCounts<'_>, mut fresh: impl Iterator<Item = &'a Labels>) -> bool {
        let mut pending = PendingCounts::default();
        fresh.all(|labels| self.room(counts, &mut pending, labels).is_none())
    }

    /// The columns of a group that fit into the limits. The result is cached, because the next rows use the same
    /// group.
    pub fn subset(&mut self, columns: &Layout, counts: &SeriesCounts<'_>, known: impl Fn(&Labels) -> bool) -> Subset {
        let (mut pending, mut kept) = (PendingCounts::default(), Vec::new());
        for (column, labels) in columns.iter().enumerate() {
            match if known(labels) { None } else { self.room(counts, &mut pending, labels) } {
                None => kept.push(column as u32),
                Some(refusal) => self.refusal = Some(refusal),
            }
        }
        let subset: Subset = (kept.iter().map(|c| columns[*c as usize].clone()).collect(), kept.into());
        self.cached += subset.0.len() + 1;
        if self.cached > MAX_CACHED {
            self.subsets.clear();
            self.cached = subset.0.len() + 1;
        }
        self.subsets.insert(columns.id(), subset.clone());
        subset
    }

    /// The cached result of [`Limits::subset`] for a column list.
    pub fn cached(&self, columns: LayoutId) -> Option<Subset> {
        self.subsets.get(&columns).cloned()
    }

    /// Message about the last series that was refused, if any.
    pub fn refusal(&self) -> Option<String> {
        self.refusal.clone()
    }

    /// Returns a message about the limit that a new series exceeds, or `None` and counts it as pending.
    fn room(&self, counts: &SeriesCounts<'_>, pending: &mut PendingCounts, labels: &Labels) -> Option<String> {
        let refuse = |what: String, limit: usize, key: &str| {
            Some(format!("{what} has reached its series limit ({key} = {limit})"))
        };
        let limits = &self.limits;
        if counts.all + pending.all >= limits.all {
            return refuse("the store".into(), limits.all, "ingest.series");
        }
        let metric = labels.metric();
        if (counts.of_metric)(metric) + of(&pending.metrics, metric) >= limits.of_metric {
            return refuse(format!("metric {metric:?}"), limits.of_metric, "ingest.series_per_metric");
        }
        if !limits.tenant_label.is_empty() {
            let tenant = labels.get(&limits.tenant_label);
            if of(&self.tenants, tenant) + of(&pending.tenants, tenant) >= limits.of_tenant {
                let what = format!("tenant {}={tenant:?}", limits.tenant_label);
                return refuse(what, limits.of_tenant, "ingest.series_per_tenant");
            }
        }
        let bytes = weight(labels);
        let over = |what: String, limit: usize| {
            Some(format!("{what} has reached the limit of memory for series ({limit} bytes, a part of limits.memory)"))
        };
        if self.bytes + pending.bytes + bytes > limits.memory {
            return over("the store".into(), limits.memory);
        }
        for (account, name) in accounts(labels) {
            let most = limits.memory / account.fraction();
            if self.charges.of(account, &name) + pending.charges.of(account, &name) + bytes > most {
                return over(account.describe(&name), most);
            }
        }
        accounts(labels).for_each(|(account, name)| pending.charges.add(account, &name, bytes));
        if !limits.tenant_label.is_empty() {
            add(&mut pending.tenants, labels.get(&limits.tenant_label), 1);
        }
        pending.all += 1;
        pending.bytes += bytes;
        add(&mut pending.metrics, metric, 1);
        None
    }
}

/// New series of one group, counted before they are inserted.
#[derive(Default)]
struct PendingCounts {
    all: usize,
    metrics: HashMap<Box<str>, usize>,
    tenants: HashMap<Box<str>, usize>,
    bytes: usize,
    charges: Charges,
}

/// Estimated memory of a series without its rows, bytes.
fn weight(labels: &Labels) -> usize {
    SERIES_BYTES + labels.iter().map(|(_, value)| LABEL_BYTES + value.len()).sum::<usize>()
}

fn of(counts: &HashMap<Box<str>, usize>, what: &str) -> usize {
    counts.get(what).copied().unwrap_or(0)
}

fn add(counts: &mut HashMap<Box<str>, usize>, what: &str, by: usize) {
    match counts.get_mut(what) {
        Some(count) => *count += by,
        None => _ = counts.insert(what.into(), by),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cached_subsets_are_bounded_by_their_columns() {
        const COLUMNS: usize = 1 << 17;
        let mut limits = Limits::new(SeriesLimits::default());
        let counts = SeriesCounts { all: 0, of_metric: &|_| 0 };
        let labels = Labels::new([("__name__", "m")]);
        let list = || -> Layout { (0..COLUMNS).map(|_| labels.clone()).collect() };
        let lists: Vec<Layout> = (0..10).map(|_| list()).collect();
        for one in &lists {
            limits.subset(one, &counts, |_| true);
        }
        let kept = lists.iter().filter(|one| limits.cached(one.id()).is_some()).count();
        assert!((1..=MAX_CACHED / COLUMNS).contains(&kept), "{kept}");
    }
}
