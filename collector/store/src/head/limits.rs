//! Limits on the series of a generation: in total, per metric, per tenant, and by memory in total, per host and per sender.
//! Without them one label with a value per request would exhaust memory. Known series continue; refused ones are reported
//! with the limit they exceed.

use super::account::{Charges, accounts};
use super::senders::{Amount, Exceeded, Senders, open};
use crate::options::SeriesLimits;
use fabriclens_base::{Sender, is_large_share};
use fabriclens_model::names::COMPONENT;
use fabriclens_model::{Component, Labels, Layout, LayoutId};
use foldhash::fast::RandomState;
use foldhash::{HashMap, HashMapExt as _};
use std::hash::BuildHasher;
use std::sync::Arc;

/// Columns of the row groups whose subset is cached, about 30 bytes each, and what a subset takes in columns.
const MAX_CACHED: usize = 1 << 20;
const SUBSET: usize = 8;
/// Memory of a series besides its labels: tables, location, first row. Measured in a list of 100 series.
const SERIES_BYTES: usize = 256;
/// Memory of a list of columns besides its series: tables and buffers of rows, and what decoders and detectors remember of it.
/// Measured in lists of one series.
const LIST_BYTES: usize = 2048;
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
    senders: Senders,
    /// Series by metric and sender that is bound to no host, both as one hash.
    of_sender: HashMap<u64, usize>,
    /// Series that are components of histograms besides the one that counts a histogram, in total and by metric.
    components: usize,
    components_of: HashMap<Box<str>, usize>,
    hasher: RandomState,
    /// By identity of the group's column list and the hash of its sender, and their columns in total.
    subsets: HashMap<(LayoutId, u64), Subset>,
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
            senders: Senders::default(),
            of_sender: HashMap::new(),
            components: 0,
            components_of: HashMap::new(),
            hasher: RandomState::default(),
            subsets: HashMap::new(),
            cached: 0,
            refusal: None,
        }
    }

    /// For the generation after this one, which keeps the series or starts without any.
    pub fn successor(&self, keeps_series: bool) -> Self {
        let limits = if keeps_series { self.clone() } else { Self::new(self.limits.clone()) };
        Self { senders: self.senders.successor(keeps_series), ..limits }
    }

    /// Counts a new series. After a restart its sender is not known.
    pub fn count(&mut self, labels: &Labels, sender: Option<Sender<'_>>) {
        if is_further_component(labels) {
            return self.count_component(labels, sender);
        }
        if !self.limits.tenant_label.is_empty() {
            add(&mut self.tenants, labels.get(&self.limits.tenant_label), 1);
        }
        let bytes = weight(labels);
        self.bytes += bytes;
        accounts(labels).for_each(|(account, name)| self.charges.add(account, &name, bytes));
        if let Some(sender) = sender {
            self.senders.count(sender, Amount::one(bytes));
            if let Sender::Unbound(name) = sender {
                *self.of_sender.entry(self.hasher.hash_one((labels.metric(), name))).or_default() += 1;
            }
        }
    }

    /// Counts the memory of a component; the histogram is counted once.
    fn count_component(&mut self, labels: &Labels, sender: Option<Sender<'_>>) {
        let bytes = weight(labels);
        self.components += 1;
        add(&mut self.components_of, labels.metric(), 1);
        self.bytes += bytes;
        accounts(labels).for_each(|(account, name)| self.charges.add(account, &name, bytes));
        if let Some(sender) = sender {
            self.senders.count(sender, Amount { series: 0, bytes });
        }
    }

    /// Series that are components of histograms, besides the one that counts a histogram.
    pub fn components(&self) -> usize {
        self.components
    }

    /// Counts a list of columns, which may be of known series: to who pays for the first of them.
    pub fn count_list(&mut self, columns: &[Labels], sender: Option<Sender<'_>>) {
        let Some(first) = columns.first() else { return };
        self.bytes += LIST_BYTES;
        accounts(first).for_each(|(account, name)| self.charges.add(account, &name, LIST_BYTES));
        if let Some(sender) = sender {
            self.senders.count(sender, Amount { series: 0, bytes: LIST_BYTES });
        }
    }

    /// Whether all these new series fit into the limits.
    pub fn allow<'a>(
        &self,
        sender: Sender<'_>,
        counts: &SeriesCounts<'_>,
        mut fresh: impl Iterator<Item = &'a Labels>,
    ) -> bool {
        let mut pending = PendingCounts::of_list();
        fresh.all(|labels| self.room(sender, counts, &mut pending, labels).is_none())
    }

    /// Whether all these new components of a histogram fit into the limits; otherwise the reason is kept as the last refusal.
    pub fn allow_histogram<'a>(
        &mut self,
        sender: Sender<'_>,
        counts: &SeriesCounts<'_>,
        mut fresh: impl Iterator<Item = &'a Labels>,
    ) -> bool {
        let mut pending = PendingCounts::of_list();
        let refusal = fresh.find_map(|labels| self.room(sender, counts, &mut pending, labels));
        let fits = refusal.is_none();
        self.refusal = refusal.or(self.refusal.take());
        fits
    }

    /// The columns of a group that fit into the limits. The result is cached, because the next rows use the same
    /// group.
    pub fn subset(
        &mut self,
        sender: Sender<'_>,
        columns: &Layout,
        counts: &SeriesCounts<'_>,
        known: impl Fn(&Labels) -> bool,
    ) -> Subset {
        let (mut pending, mut kept) = (PendingCounts::of_list(), Vec::new());
        for (column, labels) in columns.iter().enumerate() {
            match if known(labels) { None } else { self.room(sender, counts, &mut pending, labels) } {
                None => kept.push(column as u32),
                Some(refusal) => self.refusal = Some(refusal),
            }
        }
        let subset: Subset = (kept.iter().map(|c| columns[*c as usize].clone()).collect(), kept.into());
        self.cached += subset.0.len() + SUBSET;
        if self.cached > MAX_CACHED {
            self.subsets.clear();
            self.cached = subset.0.len() + SUBSET;
        }
        self.subsets.insert((columns.id(), self.hasher.hash_one(sender)), subset.clone());
        subset
    }

    /// The cached result of [`Limits::subset`] for a column list of a sender.
    pub fn cached(&self, sender: Sender<'_>, columns: LayoutId) -> Option<Subset> {
        if self.subsets.is_empty() {
            return None;
        }
        self.subsets.get(&(columns, self.hasher.hash_one(sender))).cloned()
    }

    /// Message about the last series that was refused, if any.
    pub fn refusal(&self) -> Option<String> {
        self.refusal.clone()
    }

    /// Returns a message about the limit that a new series exceeds, or `None` and counts it as pending.
    fn room(
        &self,
        sender: Sender<'_>,
        counts: &SeriesCounts<'_>,
        pending: &mut PendingCounts,
        labels: &Labels,
    ) -> Option<String> {
        let refuse = |what: String, limit: usize, key: &str| {
            Some(format!("{what} has reached its series limit ({key} = {limit})"))
        };
        let limits = &self.limits;
        let metric = labels.metric();
        // A histogram is one series. Its other components take memory only.
        let further = is_further_component(labels);
        let known = counts.all - self.components;
        let known_of_metric = (counts.of_metric)(metric) - of(&self.components_of, metric);
        if !further && known + pending.all >= limits.all {
            return refuse("the store".into(), limits.all, "ingest.series");
        }
        if !further && known_of_metric + of(&pending.metrics, metric) >= limits.of_metric {
            return refuse(format!("metric {metric:?}"), limits.of_metric, "ingest.series_per_metric");
        }
        if !further && !limits.tenant_label.is_empty() {
            let tenant = labels.get(&limits.tenant_label);
            if of(&self.tenants, tenant) + of(&pending.tenants, tenant) >= limits.of_tenant {
                let what = format!("tenant {}={tenant:?}", limits.tenant_label);
                return refuse(what, limits.of_tenant, "ingest.series_per_tenant");
            }
        }
        let bytes = weight(labels) + pending.list;
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
        if let Sender::Unbound(name) = sender {
            let share = |of: String, limit: usize| {
                Some(format!(
                    "{name}, which is bound to no host, has reached its share of {of} ({} for all such senders)",
                    open(limits, limit)
                ))
            };
            let all = Amount { series: known + pending.all, bytes: self.bytes + pending.bytes };
            let own = Amount { series: pending.all, bytes: pending.bytes };
            let one = Amount { series: usize::from(!further), bytes };
            match self.senders.check(limits, sender, all, own, one) {
                Err(Exceeded::Series) => return share("ingest.series".into(), limits.all),
                Err(Exceeded::Bytes) => {
                    return share("the memory for series, a part of limits.memory".into(), limits.memory);
                }
                Ok(()) => {}
            }
            let fresh = of(&pending.metrics, metric) + 1;
            let sent = self.of_sender.get(&self.hasher.hash_one((metric, name))).copied().unwrap_or(0);
            if !further && !is_large_share(open(limits, limits.of_metric), sent + fresh, known_of_metric + fresh) {
                return share(format!("ingest.series_per_metric for {metric:?}"), limits.of_metric);
            }
        }
        accounts(labels).for_each(|(account, name)| pending.charges.add(account, &name, bytes));
        pending.list = 0;
        pending.bytes += bytes;
        if further {
            return None;
        }
        if !limits.tenant_label.is_empty() {
            add(&mut pending.tenants, labels.get(&limits.tenant_label), 1);
        }
        pending.all += 1;
        add(&mut pending.metrics, metric, 1);
        None
    }
}

/// Whether a series is a component of a histogram and not the one that counts it.
fn is_further_component(labels: &Labels) -> bool {
    let component = labels.get(COMPONENT);
    !component.is_empty() && component != Component::COUNT
}

/// New series of one group, counted before they are inserted.
#[derive(Default)]
struct PendingCounts {
    all: usize,
    metrics: HashMap<Box<str>, usize>,
    tenants: HashMap<Box<str>, usize>,
    bytes: usize,
    charges: Charges,
    /// Bytes of the list, until a series pays for it.
    list: usize,
}

impl PendingCounts {
    /// Of a list without new series yet.
    fn of_list() -> Self {
        Self { list: LIST_BYTES, ..Self::default() }
    }
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
            limits.subset(Sender::Bound, one, &counts, |_| true);
        }
        let kept = lists.iter().filter(|one| limits.cached(Sender::Bound, one.id()).is_some()).count();
        assert!((1..=MAX_CACHED / COLUMNS).contains(&kept), "{kept}");
    }
}
