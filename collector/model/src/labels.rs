//! A sorted label set, cheap to clone, ordered as Prometheus orders.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

/// Label names and values sorted by name, no duplicates, no empty values; clone is one reference count.
#[derive(Clone, Eq)]
pub struct Labels(Arc<[(Arc<str>, Arc<str>)]>);

impl Labels {
    /// From pairs in any order: sorts, drops empty values (in Prometheus an empty value is an absent label),
    /// keeps the last of equal names.
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
        Self(out.into())
    }

    /// From pairs that are sorted by name already, without duplicates or empty values; shares them, copies nothing.
    pub fn from_sorted(pairs: Arc<[(Arc<str>, Arc<str>)]>) -> Self {
        debug_assert!(pairs.is_sorted_by(|a, b| a.0 < b.0) && pairs.iter().all(|p| !p.1.is_empty()));
        Self(pairs)
    }

    /// The value of a label; `""` when absent, as PromQL has it.
    pub fn get(&self, name: &str) -> &str {
        self.0.binary_search_by(|(n, _)| n.as_ref().cmp(name)).map_or("", |i| &self.0[i].1)
    }

    /// `__name__`, or `""`.
    pub fn metric(&self) -> &str {
        self.get("__name__")
    }

    /// Pairs in order of their names.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &str)> {
        self.0.iter().map(|(n, v)| (n.as_ref(), v.as_ref()))
    }

    /// Pairs as shared strings, for building other label sets without copying.
    pub fn pairs(&self) -> &[(Arc<str>, Arc<str>)] {
        &self.0
    }

    /// Number of labels.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// No labels at all.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Most texts of label sets that are compared are shared by them: the same address needs no look at the text.
fn compare(a: &Arc<str>, b: &Arc<str>) -> Ordering {
    if Arc::ptr_eq(a, b) { Ordering::Equal } else { a.cmp(b) }
}

impl Ord for Labels {
    fn cmp(&self, other: &Self) -> Ordering {
        let pairs = self.0.iter().zip(other.0.iter());
        let mut each = pairs.map(|(a, b)| compare(&a.0, &b.0).then_with(|| compare(&a.1, &b.1)));
        each.find(|o| o.is_ne()).unwrap_or_else(|| self.0.len().cmp(&other.0.len()))
    }
}

impl PartialOrd for Labels {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Labels {
    fn eq(&self, other: &Self) -> bool {
        let same = |a: &Arc<str>, b: &Arc<str>| Arc::ptr_eq(a, b) || a == b;
        let mut pairs = self.0.iter().zip(other.0.iter());
        self.0.len() == other.0.len() && pairs.all(|(a, b)| same(&a.1, &b.1) && same(&a.0, &b.0))
    }
}

impl std::hash::Hash for Labels {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

impl Default for Labels {
    fn default() -> Self {
        Self(Arc::from([]))
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
    fn order_and_equality_are_of_the_texts_whether_shared_or_not() {
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
        }
    }
}
