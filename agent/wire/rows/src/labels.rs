//! A label set: sorted, cheap to clone, ordered as in Prometheus.

use foldhash::quality::RandomState;
use std::cmp::Ordering;
use std::fmt;
use std::hash::{BuildHasher as _, Hash, Hasher};
use std::slice;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, LazyLock};

/// Seeded per process: senders choose labels and must not be able to choose collisions.
static SEED: LazyLock<RandomState> = LazyLock::new(RandomState::default);

/// Name of the label that names the metric.
const METRIC: &str = "__name__";

/// The same as a shared text.
static METRIC_NAME: LazyLock<Arc<str>> = LazyLock::new(|| METRIC.into());

/// A label: name and value.
pub type Pair = (Arc<str>, Arc<str>);

/// Label names and values, sorted by name, without duplicates or empty values. A clone is two reference counts.
pub struct Labels {
    metric: Option<Arc<str>>,
    /// All but the metric's name: the metrics of a port have few different lists.
    others: Arc<[Pair]>,
    /// Hash of all texts, computed on first use because label sets are looked up in many tables; 0 if not computed
    /// yet.
    hash: AtomicU64,
}

impl Clone for Labels {
    fn clone(&self) -> Self {
        let hash = AtomicU64::new(self.hash.load(Relaxed));
        Self { metric: self.metric.clone(), others: self.others.clone(), hash }
    }
}

impl Labels {
    /// From pairs in any order: sorts, drops empty values (in Prometheus an empty value is an absent label), and keeps
    /// the last of equal names.
    pub fn new<N: Into<Arc<str>>, V: Into<Arc<str>>>(pairs: impl IntoIterator<Item = (N, V)>) -> Self {
        let mut v: Vec<Pair> = pairs.into_iter().map(|(n, v)| (n.into(), v.into())).collect();
        v.sort_by(|a, b| a.0.cmp(&b.0));
        let mut out: Vec<Pair> = Vec::with_capacity(v.len());
        for pair in v {
            match out.last_mut() {
                Some(last) if last.0 == pair.0 => *last = pair,
                _ => out.push(pair),
            }
        }
        out.retain(|(_, v)| !v.is_empty());
        Self::from_sorted(out)
    }

    /// From pairs that are sorted by name, without duplicates or empty values.
    pub fn from_sorted(pairs: impl IntoIterator<Item = Pair>) -> Self {
        let mut others: Vec<Pair> = pairs.into_iter().collect();
        let metric = others.iter().position(|(n, _)| **n == *METRIC).map(|at| others.remove(at).1);
        Self::from_parts(metric, others.into())
    }

    /// From the metric's name and the other labels, which are sorted by name, without duplicates or empty values; shares
    /// their list.
    pub fn from_parts(metric: Option<Arc<str>>, others: Arc<[Pair]>) -> Self {
        debug_assert!(others.is_sorted_by(|a, b| a.0 < b.0));
        debug_assert!(others.iter().all(|(n, v)| !v.is_empty() && **n != *METRIC));
        Self { metric, others, hash: AtomicU64::new(0) }
    }

    /// Computes the hash, so that clones made from now on share it.
    #[must_use]
    pub fn with_hash(self) -> Self {
        self.hash_value();
        self
    }

    fn hash_value(&self) -> u64 {
        let mut hash = self.hash.load(Relaxed);
        if hash == 0 {
            hash = SEED.hash_one((&self.metric, &*self.others)).max(1);
            self.hash.store(hash, Relaxed);
        }
        hash
    }

    /// The value of a label; `""` if absent, as in PromQL.
    pub fn get(&self, name: &str) -> &str {
        if name == METRIC {
            return self.metric();
        }
        self.others.binary_search_by(|(n, _)| n.as_ref().cmp(name)).map_or("", |i| &self.others[i].1)
    }

    /// `__name__`, or `""`.
    pub fn metric(&self) -> &str {
        self.metric.as_deref().unwrap_or_default()
    }

    /// Pairs ordered by name.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &str)> + Clone {
        self.pairs().map(|(n, v)| (n.as_ref(), v.as_ref()))
    }

    /// Pairs ordered by name, as shared strings.
    pub fn pairs(&self) -> Pairs<'_> {
        let (before, after) = self.others.split_at(self.before());
        Pairs { before: before.iter(), metric: self.metric.as_ref(), after: after.iter() }
    }

    /// Copies of the pairs, for building other label sets from the same texts.
    pub fn to_pairs(&self) -> impl Iterator<Item = Pair> + '_ {
        self.pairs().map(|(n, v)| (n.clone(), v.clone()))
    }

    /// The metric's name, and the list of the other labels.
    pub fn parts(&self) -> (Option<&Arc<str>>, &Arc<[Pair]>) {
        (self.metric.as_ref(), &self.others)
    }

    /// Number of labels that come before the metric's name: hardly any name begins with a capital letter.
    fn before(&self) -> usize {
        match self.others.first() {
            Some((first, _)) if **first < *METRIC => self.others.partition_point(|(n, _)| **n < *METRIC),
            _ => 0,
        }
    }

    /// Number of labels.
    pub fn len(&self) -> usize {
        self.others.len() + usize::from(self.metric.is_some())
    }

    /// Whether there are no labels.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Iterator over the pairs of a label set, ordered by name.
#[derive(Clone, Debug)]
pub struct Pairs<'a> {
    before: slice::Iter<'a, Pair>,
    metric: Option<&'a Arc<str>>,
    after: slice::Iter<'a, Pair>,
}

impl<'a> Iterator for Pairs<'a> {
    type Item = (&'a Arc<str>, &'a Arc<str>);

    fn next(&mut self) -> Option<Self::Item> {
        if let Some((name, value)) = self.before.next() {
            return Some((name, value));
        }
        if let Some(metric) = self.metric.take() {
            return Some((&METRIC_NAME, metric));
        }
        self.after.next().map(|(name, value)| (name, value))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let len = self.before.len() + usize::from(self.metric.is_some()) + self.after.len();
        (len, Some(len))
    }
}

impl ExactSizeIterator for Pairs<'_> {}

/// Label sets share most texts: equal addresses need no comparison of the text.
fn compare(a: &Arc<str>, b: &Arc<str>) -> Ordering {
    if Arc::ptr_eq(a, b) { Ordering::Equal } else { a.cmp(b) }
}

fn same(a: &Arc<str>, b: &Arc<str>) -> bool {
    Arc::ptr_eq(a, b) || a == b
}

/// By name, then by value.
fn compare_pair(a: (&Arc<str>, &Arc<str>), b: (&Arc<str>, &Arc<str>)) -> Ordering {
    compare(a.0, b.0).then_with(|| compare(a.1, b.1))
}

fn compare_pairs<'a>(
    mut a: impl Iterator<Item = (&'a Arc<str>, &'a Arc<str>)>,
    mut b: impl Iterator<Item = (&'a Arc<str>, &'a Arc<str>)>,
) -> Ordering {
    loop {
        match (a.next(), b.next()) {
            (Some(a), Some(b)) => match compare_pair(a, b) {
                Ordering::Equal => {}
                unequal => return unequal,
            },
            (a, b) => return a.is_some().cmp(&b.is_some()),
        }
    }
}

impl Ord for Labels {
    fn cmp(&self, other: &Self) -> Ordering {
        let same_metric = matches!((&self.metric, &other.metric), (Some(a), Some(b)) if same(a, b));
        if !same_metric {
            return compare_pairs(self.pairs(), other.pairs());
        }
        if Arc::ptr_eq(&self.others, &other.others) {
            return Ordering::Equal;
        }
        let mut pairs = self.others.iter().zip(other.others.iter());
        let first =
            pairs.find_map(|(a, b)| Some(compare_pair((&a.0, &a.1), (&b.0, &b.1))).filter(|order| order.is_ne()));
        first.unwrap_or_else(|| {
            let order = self.others.len().cmp(&other.others.len());
            let shorter = self.others.len().min(other.others.len());
            let next = self.others.get(shorter).or(other.others.get(shorter));
            // The metric's name of the shorter one is compared with this name.
            if next.is_some_and(|(name, _)| **name < *METRIC) { order.reverse() } else { order }
        })
    }
}

impl PartialOrd for Labels {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Labels {
    fn eq(&self, other: &Self) -> bool {
        let metric = match (&self.metric, &other.metric) {
            (Some(a), Some(b)) => same(a, b),
            (a, b) => a.is_none() && b.is_none(),
        };
        if !metric || Arc::ptr_eq(&self.others, &other.others) {
            return metric;
        }
        let mut pairs = self.others.iter().zip(other.others.iter());
        self.others.len() == other.others.len() && pairs.all(|(a, b)| same(&a.1, &b.1) && same(&a.0, &b.0))
    }
}

impl Eq for Labels {}

impl Hash for Labels {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash_value());
    }
}

impl Default for Labels {
    fn default() -> Self {
        Self::from_parts(None, Arc::default())
    }
}

/// `{a="b", c="d"}` with the metric name in front, as Prometheus prints it.
impl fmt::Display for Labels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.metric())?;
        let mut rest = self.iter().filter(|(n, _)| *n != "__name__").peekable();
        if rest.peek().is_none() {
            return if self.metric().is_empty() { f.write_str("{}") } else { Ok(()) };
        }
        f.write_str("{")?;
        for (i, (n, v)) in rest.enumerate() {
            write!(f, "{}{n}={v:?}", if i == 0 { "" } else { ", " })?;
        }
        f.write_str("}")
    }
}

impl fmt::Debug for Labels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sorts_dedups_and_drops_empty_values() {
        let l = Labels::new([("b", "2"), ("a", "1"), ("c", ""), ("b", "3"), ("__name__", "m")]);
        assert_eq!(l.to_string(), r#"m{a="1", b="3"}"#);
        assert_eq!((l.get("b"), l.get("c"), l.get("zz")), ("3", "", ""));
        assert_eq!(Labels::default().to_string(), "{}");
    }

    #[test]
    fn order_and_equality_depend_on_texts_only() {
        // A capital letter comes before the metric's name.
        let texts: Vec<Arc<str>> = ["A", "__name__", "c"].map(Arc::from).into();
        let mut all = vec![Labels::default()];
        for n in 0..3 {
            for v in &texts {
                all.push(Labels::new([(texts[n].clone(), v.clone())]));
                all.push(Labels::new([(texts[0].clone(), v.clone()), (texts[n].clone(), texts[1].clone())]));
                all.push(Labels::new([(texts[1].clone(), v.clone()), (texts[n].clone(), texts[1].clone())]));
            }
        }
        let fresh = |l: &Labels| Labels::new(l.iter().map(|(n, v)| (n.to_owned(), v.to_owned())));
        for (a, b) in all.iter().flat_map(|a| all.iter().map(move |b| (a, b))) {
            let pairs = |l: &Labels| l.iter().map(|(n, v)| (n.to_owned(), v.to_owned())).collect::<Vec<_>>();
            let want = pairs(a).cmp(&pairs(b));
            assert_eq!((a.cmp(b), a.cmp(&fresh(b)), a == b), (want, want, want.is_eq()), "{a} {b}");
            assert_eq!(a == &fresh(b), want.is_eq(), "{a} {b}");
            let hash = |l: &Labels| SEED.hash_one(l);
            assert_eq!((hash(a) == hash(&fresh(b)), hash(&a.clone())), (want.is_eq(), hash(a)), "{a} {b}");
        }
    }
}
