//! A label set: sorted, cheap to clone, ordered as in Prometheus.

use foldhash::quality::RandomState;
use std::cmp::Ordering;
use std::fmt;
use std::hash::{BuildHasher as _, Hash, Hasher};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, LazyLock};

/// Seeded per process: senders choose labels and must not be able to choose collisions.
static SEED: LazyLock<RandomState> = LazyLock::new(RandomState::default);

/// Label names and values, sorted by name, without duplicates or empty values. A clone is one reference count.
pub struct Labels {
    pairs: Arc<[(Arc<str>, Arc<str>)]>,
    /// Hash of all texts, computed on first use because label sets are looked up in many tables; 0 if not computed
    /// yet.
    hash: AtomicU64,
}

impl Clone for Labels {
    fn clone(&self) -> Self {
        Self { pairs: self.pairs.clone(), hash: AtomicU64::new(self.hash.load(Relaxed)) }
    }
}

impl Labels {
    /// From pairs in any order: sorts, drops empty values (in Prometheus an empty value is an absent label), and keeps
    /// the last of equal names.
    pub fn new<N: Into<Arc<str>>, V: Into<Arc<str>>>(pairs: impl IntoIterator<Item = (N, V)>) -> Self {
        let mut v: Vec<(Arc<str>, Arc<str>)> = pairs.into_iter().map(|(n, v)| (n.into(), v.into())).collect();
        v.sort_by(|a, b| a.0.cmp(&b.0));
        let mut out: Vec<(Arc<str>, Arc<str>)> = Vec::with_capacity(v.len());
        for pair in v {
            match out.last_mut() {
                Some(last) if last.0 == pair.0 => *last = pair,
                _ => out.push(pair),
            }
        }
        out.retain(|(_, v)| !v.is_empty());
        Self::of(out.into())
    }

    /// From pairs that are sorted by name, without duplicates or empty values; shares them without copying.
    pub fn from_sorted(pairs: Arc<[(Arc<str>, Arc<str>)]>) -> Self {
        debug_assert!(pairs.is_sorted_by(|a, b| a.0 < b.0) && pairs.iter().all(|p| !p.1.is_empty()));
        Self::of(pairs)
    }

    fn of(pairs: Arc<[(Arc<str>, Arc<str>)]>) -> Self {
        Self { pairs, hash: AtomicU64::new(0) }
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
            hash = SEED.hash_one(&*self.pairs).max(1);
            self.hash.store(hash, Relaxed);
        }
        hash
    }

    /// The value of a label; `""` if absent, as in PromQL.
    pub fn get(&self, name: &str) -> &str {
        self.pairs.binary_search_by(|(n, _)| n.as_ref().cmp(name)).map_or("", |i| &self.pairs[i].1)
    }

    /// `__name__`, or `""`.
    pub fn metric(&self) -> &str {
        self.get("__name__")
    }

    /// Pairs ordered by name.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &str)> {
        self.pairs.iter().map(|(n, v)| (n.as_ref(), v.as_ref()))
    }

    /// Pairs as shared strings, for building other label sets without copying.
    pub fn pairs(&self) -> &[(Arc<str>, Arc<str>)] {
        &self.pairs
    }

    /// Number of labels.
    pub fn len(&self) -> usize {
        self.pairs.len()
    }

    /// Whether there are no labels.
    pub fn is_empty(&self) -> bool {
        self.pairs.is_empty()
    }
}

/// Label sets share most texts: equal addresses need no comparison of the text.
fn compare(a: &Arc<str>, b: &Arc<str>) -> Ordering {
    if Arc::ptr_eq(a, b) { Ordering::Equal } else { a.cmp(b) }
}

impl Ord for Labels {
    fn cmp(&self, other: &Self) -> Ordering {
        let pairs = self.pairs.iter().zip(other.pairs.iter());
        let mut each = pairs.map(|(a, b)| compare(&a.0, &b.0).then_with(|| compare(&a.1, &b.1)));
        each.find(|o| o.is_ne()).unwrap_or_else(|| self.pairs.len().cmp(&other.pairs.len()))
    }
}

impl PartialOrd for Labels {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Labels {
    fn eq(&self, other: &Self) -> bool {
        if Arc::ptr_eq(&self.pairs, &other.pairs) {
            return true;
        }
        let same = |a: &Arc<str>, b: &Arc<str>| Arc::ptr_eq(a, b) || a == b;
        let mut pairs = self.pairs.iter().zip(other.pairs.iter());
        self.pairs.len() == other.pairs.len() && pairs.all(|(a, b)| same(&a.1, &b.1) && same(&a.0, &b.0))
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
        Self::of(Arc::from([]))
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
        let texts: Vec<Arc<str>> = ["a", "b", "c"].map(Arc::from).into();
        let mut all = vec![Labels::default()];
        for n in 0..3 {
            for v in &texts {
                all.push(Labels::new([(texts[n].clone(), v.clone())]));
                all.push(Labels::new([(texts[0].clone(), v.clone()), (texts[n].clone(), texts[1].clone())]));
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
