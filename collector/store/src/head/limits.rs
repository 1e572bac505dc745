//! How many series a generation takes: in all, of a metric, of a tenant. Without these, one label with a value for each
//! request would take all memory; with them, what is known goes on and what is too much is refused by name.

use crate::options::SeriesLimits;
use fabriclens_model::Labels;
use foldhash::{HashMap, HashMapExt as _};
use std::sync::Arc;

/// Groups of columns of which some are refused that are remembered; a sender has few.
const REMEMBERED: usize = 4096;

/// Columns that are taken of a group, and which they are.
type Cut = (Arc<[Labels]>, Arc<[u32]>);

/// See the module.
#[derive(Clone)]
pub struct Limits {
    limits: SeriesLimits,
    tenants: HashMap<Box<str>, usize>,
    /// By address of the group, which is kept so that no other can have it.
    cuts: HashMap<usize, (Arc<[Labels]>, Cut)>,
    refusal: Option<Refusal>,
}

/// Series that are there.
pub struct There<'a> {
    /// In all.
    pub all: usize,
    /// Of a metric.
    pub of_metric: &'a dyn Fn(&str) -> usize,
}

/// A limit that was met.
#[derive(Clone)]
struct Refusal {
    what: String,
    limit: usize,
    key: &'static str,
}

impl Limits {
    /// Nothing counted yet.
    pub fn new(limits: SeriesLimits) -> Self {
        Self { limits, tenants: HashMap::new(), cuts: HashMap::new(), refusal: None }
    }

    /// What they are.
    pub fn limits(&self) -> &SeriesLimits {
        &self.limits
    }

    /// Counts a new series.
    pub fn count(&mut self, labels: &Labels) {
        if !self.limits.tenant_label.is_empty() {
            add(&mut self.tenants, labels.get(&self.limits.tenant_label));
        }
    }

    /// Whether all these new series, at most so many, find room beside those that are there.
    pub fn allow<'a>(&self, there: &There<'_>, columns: usize, mut fresh: impl Iterator<Item = &'a Labels>) -> bool {
        // Nothing has more series than the store.
        let limits = &self.limits;
        if there.all + columns <= limits.all.min(limits.of_metric).min(limits.of_tenant) {
            return true;
        }
        let mut ahead = Ahead::default();
        fresh.all(|labels| self.room(there, &mut ahead, labels).is_none())
    }

    /// The columns of a group that find room; remembered, for the next rows come in the same group.
    pub fn cut(&mut self, columns: &Arc<[Labels]>, there: &There<'_>, known: impl Fn(&Labels) -> bool) -> Cut {
        let (mut ahead, mut kept) = (Ahead::default(), Vec::new());
        for (column, labels) in columns.iter().enumerate() {
            match if known(labels) { None } else { self.room(there, &mut ahead, labels) } {
                None => kept.push(column as u32),
                Some(refusal) => self.refusal = Some(refusal),
            }
        }
        let cut: Cut = (kept.iter().map(|c| columns[*c as usize].clone()).collect(), kept.into());
        if self.cuts.len() >= REMEMBERED {
            self.cuts.clear();
        }
        self.cuts.insert(Arc::as_ptr(columns).cast::<Labels>() as usize, (columns.clone(), cut.clone()));
        cut
    }

    /// What [`Limits::cut`] said of the group at this address.
    pub fn known(&self, address: usize) -> Option<Cut> {
        self.cuts.get(&address).map(|(_, cut)| cut.clone())
    }

    /// What the last series that was refused ran into.
    pub fn refusal(&self) -> Option<String> {
        let refusal = self.refusal.as_ref()?;
        let Refusal { what, limit, key } = refusal;
        Some(format!("{what} has as many series as it may ({key} = {limit})"))
    }

    /// `None`, and the series is counted ahead, when there is room; else the limit that it meets.
    fn room(&self, there: &There<'_>, ahead: &mut Ahead, labels: &Labels) -> Option<Refusal> {
        let refuse = |what: String, limit, key| Some(Refusal { what, limit, key });
        let limits = &self.limits;
        if there.all + ahead.all >= limits.all {
            return refuse("the store".into(), limits.all, "ingest.series");
        }
        let metric = labels.metric();
        if (there.of_metric)(metric) + of(&ahead.metrics, metric) >= limits.of_metric {
            return refuse(format!("metric {metric:?}"), limits.of_metric, "ingest.series_per_metric");
        }
        if !limits.tenant_label.is_empty() {
            let tenant = labels.get(&limits.tenant_label);
            if of(&self.tenants, tenant) + of(&ahead.tenants, tenant) >= limits.of_tenant {
                let what = format!("tenant {}={tenant:?}", limits.tenant_label);
                return refuse(what, limits.of_tenant, "ingest.series_per_tenant");
            }
            add(&mut ahead.tenants, tenant);
        }
        ahead.all += 1;
        add(&mut ahead.metrics, metric);
        None
    }
}

/// New series of one group, counted before they are entered.
#[derive(Default)]
struct Ahead {
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
