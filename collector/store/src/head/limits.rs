//! Limits on the series of a generation: in total, per metric, per tenant. Without them one label with a value per
//! request would exhaust memory. Known series continue; refused ones are reported with the limit they exceed.

use crate::options::SeriesLimits;
use fabriclens_model::{Labels, Layout, LayoutId};
use foldhash::{HashMap, HashMapExt as _};
use std::sync::Arc;

/// Row groups with refused columns whose subset is cached; a sender has few.
const MAX_CACHED: usize = 4096;

/// The columns accepted of a group, and their indexes in it.
type Subset = (Layout, Arc<[u32]>);

/// Series counts of a generation against its limits.
#[derive(Clone)]
pub struct Limits {
    limits: SeriesLimits,
    tenants: HashMap<Box<str>, usize>,
    /// By identity of the group's column list.
    subsets: HashMap<LayoutId, Subset>,
    refusal: Option<Refusal>,
}

/// Numbers of series that exist.
pub struct SeriesCounts<'a> {
    /// In total.
    pub all: usize,
    /// By metric.
    pub of_metric: &'a dyn Fn(&str) -> usize,
}

/// A limit that was exceeded.
#[derive(Clone)]
struct Refusal {
    what: String,
    limit: usize,
    key: &'static str,
}

impl Limits {
    /// No series counted yet.
    pub fn new(limits: SeriesLimits) -> Self {
        Self { limits, tenants: HashMap::new(), subsets: HashMap::new(), refusal: None }
    }

    /// The configured limits.
    pub fn limits(&self) -> &SeriesLimits {
        &self.limits
    }

    /// Counts a new series.
    pub fn count(&mut self, labels: &Labels) {
        if !self.limits.tenant_label.is_empty() {
            add(&mut self.tenants, labels.get(&self.limits.tenant_label));
        }
    }

    /// Whether all these new series (at most `columns`) fit into the limits.
    pub fn allow<'a>(
        &self,
        counts: &SeriesCounts<'_>,
        columns: usize,
        mut fresh: impl Iterator<Item = &'a Labels>,
    ) -> bool {
        // Fast path: no metric or tenant has more series than the store.
        let limits = &self.limits;
        if counts.all + columns <= limits.all.min(limits.of_metric).min(limits.of_tenant) {
            return true;
        }
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
        if self.subsets.len() >= MAX_CACHED {
            self.subsets.clear();
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
        let refusal = self.refusal.as_ref()?;
        let Refusal { what, limit, key } = refusal;
        Some(format!("{what} has reached its series limit ({key} = {limit})"))
    }

    /// Returns the limit that a new series exceeds, or `None` and counts it as pending.
    fn room(&self, counts: &SeriesCounts<'_>, pending: &mut PendingCounts, labels: &Labels) -> Option<Refusal> {
        let refuse = |what: String, limit, key| Some(Refusal { what, limit, key });
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
            add(&mut pending.tenants, tenant);
        }
        pending.all += 1;
        add(&mut pending.metrics, metric);
        None
    }
}

/// New series of one group, counted before they are inserted.
#[derive(Default)]
struct PendingCounts {
    all: usize,
    metrics: HashMap<Box<str>, usize>,
    tenants: HashMap<Box<str>, usize>,
}

fn of(counts: &HashMap<Box<str>, usize>, what: &str) -> usize {
    counts.get(what).copied().unwrap_or(0)
}

fn add(counts: &mut HashMap<Box<str>, usize>, what: &str) {
    match counts.get_mut(what) {
        Some(count) => *count += 1,
        None => _ = counts.insert(what.into(), 1),
    }
}
