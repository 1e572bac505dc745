//! Queue-pair peers of a port, from the series that agents export. A large fleet has millions of queue pairs, so they
//! are only read for ports that receive too much.

use crate::model::topology::port_name;
use fabriclens_model::{FixedBudget, Labels, Matcher, Read, ReadError, Series, is_stale};
use std::collections::{BTreeSet, HashMap};

pub(super) const INFO: &str = "fabric_queue_pair_info";
/// Greater than zero if an agent exports only some of its queue pairs.
pub(super) const OMITTED: &str = "fabric_queue_pair_omitted";
/// How long the last sample of a series stays valid, ms.
const VALID_MS: i64 = 300_000;
/// Bytes that the query may read. Queue pair numbers are not unique across hosts: if ten thousand hosts use the same
/// numbers, every match is ambiguous and worth nothing.
const MAX_BYTES: usize = 16 << 20;

/// Host and port name, as [`port_name`] writes it.
pub type HostPort = (String, String);

/// Series of queue pairs at an instant, read within one budget.
pub(super) struct QueuePairSeries<'a> {
    read: &'a dyn Read,
    /// Unix ms.
    time_ms: i64,
    budget: FixedBudget,
}

impl<'a> QueuePairSeries<'a> {
    /// Those that `read` has at an instant (Unix ms).
    pub fn at(read: &'a dyn Read, time_ms: i64) -> Self {
        Self { read, time_ms, budget: FixedBudget::new(MAX_BYTES) }
    }

    /// Labels of the series of a metric whose last sample is valid and not zero.
    ///
    /// # Errors
    /// [`ReadError`] if the store cannot be read, or the answers are too large.
    pub fn standing(&self, name: &str, more: Vec<Matcher>) -> Result<Vec<Labels>, ReadError> {
        let matchers: Vec<Matcher> = [Matcher::equal("__name__", name)].into_iter().chain(more).collect();
        let all = self.read.select_within(&matchers, self.time_ms - VALID_MS, self.time_ms, &self.budget)?;
        let stands = |s: &Series| s.values.last().is_some_and(|v| !is_stale(*v) && *v > 0.0);
        Ok(all.into_iter().filter(stands).map(|s| s.labels).collect())
    }
}

/// Ports with a queue pair that may be the other end of one of this port's queue pairs at an instant (Unix ms). Empty
/// if agents export none, or only some, of the port's own. Queue pair numbers are not unique across hosts: of several
/// matches those of the same job count, or else all.
///
/// # Errors
/// [`ReadError`] if the store cannot be read.
pub fn connected_ports(read: &dyn Read, to: &HostPort, time_ms: i64) -> Result<BTreeSet<HostPort>, ReadError> {
    let series = QueuePairSeries::at(read, time_ms);
    let of_port = |name| -> Result<Vec<Labels>, ReadError> {
        let mut all = series.standing(name, vec![Matcher::equal("host", &to.0)])?;
        all.retain(|labels| place(labels) == *to);
        Ok(all)
    };
    let own = of_port(INFO)?;
    if own.is_empty() || !of_port(OMITTED)?.is_empty() {
        return Ok(BTreeSet::new());
    }
    let others = series.standing(INFO, vec![any("local", &own, "remote")?, any("remote", &own, "local")?])?;
    let ends = QueuePairIndex::of(&others);
    let mut all = BTreeSet::new();
    for pair in &own {
        let fit = || ends.other(pair).iter().filter(|other| place(other) != *to);
        let of_job = |other: &&&Labels| other.get("job") == pair.get("job");
        let alike = fit().any(|one| of_job(&one));
        all.extend(fit().filter(|one| !alike || of_job(one)).map(|one| place(one)));
    }
    Ok(all)
}

/// Queue pairs by their numbers: two are the ends of one connection if each one's `remote` is the other's `local`.
pub struct QueuePairIndex<'a>(HashMap<[&'a str; 2], Vec<&'a Labels>>);

impl<'a> QueuePairIndex<'a> {
    /// Indexes series of `fabric_queue_pair_info`.
    pub fn of(all: impl IntoIterator<Item = &'a Labels>) -> Self {
        let mut ends: HashMap<_, Vec<_>> = HashMap::new();
        for one in all {
            ends.entry([one.get("local"), one.get("remote")]).or_default().push(one);
        }
        Self(ends)
    }

    /// Queue pairs with the same numbers as this one; several if numbers repeat across hosts.
    pub fn same<'s>(&'s self, as_this: &'s Labels) -> &'s [&'a Labels] {
        self.at([as_this.get("local"), as_this.get("remote")])
    }

    /// Queue pairs that may be the other end of this one.
    pub fn other<'s>(&'s self, than: &'s Labels) -> &'s [&'a Labels] {
        self.at([than.get("remote"), than.get("local")])
    }

    fn at<'s>(&'s self, numbers: [&'s str; 2]) -> &'s [&'a Labels] {
        self.0.get(&numbers).map_or(&[], Vec::as_slice)
    }
}

/// Host and port of a series.
pub(super) fn place(labels: &Labels) -> HostPort {
    (labels.get("host").to_owned(), port_name(labels))
}

/// Matches a label against all numbers that these series have in another label.
pub(super) fn any(label: &str, of: &[Labels], other: &str) -> Result<Matcher, ReadError> {
    let is_number = |text: &&str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    one_of(label, of.iter().map(|labels| labels.get(other)).filter(is_number))
}

/// Matches a label against any of these values.
pub(super) fn one_of<'a>(label: &str, values: impl Iterator<Item = &'a str>) -> Result<Matcher, ReadError> {
    Matcher::one_of(label, values).map_err(|e| ReadError::Storage(e.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use fabriclens_model::{Memory, stale};

    const NOW: i64 = 1_000_000;

    fn series(name: &str, more: &[(&str, &str)], values: [f64; 2]) -> Series {
        let labels = [("__name__", name), ("device", "mlx5_0"), ("port", "1")].into_iter().chain(more.iter().copied());
        Series { labels: Labels::new(labels), times: vec![NOW - 60_000, NOW - 30_000], values: values.to_vec() }
    }

    fn pair(host: &str, job: &str, [local, remote]: [&str; 2]) -> Series {
        series(INFO, &[("host", host), ("job", job), ("local", local), ("remote", remote)], [1.0; 2])
    }

    /// Hosts connected to `a`.
    fn told(all: Vec<Series>) -> Vec<String> {
        let found = connected_ports(&Memory(all), &("a".to_owned(), "mlx5_0/1".to_owned()), NOW).unwrap();
        found.into_iter().map(|(host, _)| host).collect()
    }

    #[test]
    fn peer_has_reversed_numbers() {
        let own = || vec![pair("a", "1", ["10", "20"]), pair("a", "2", ["11", "20"])];
        let with = |more: Vec<Series>| told(own().into_iter().chain(more).collect());
        assert_eq!(with(vec![pair("b", "9", ["20", "10"]), pair("c", "1", ["20", "12"])]), ["b"], "whosever job it is");
        let both = || vec![pair("b", "1", ["20", "10"]), pair("c", "3", ["20", "10"])];
        assert_eq!(with(both()), ["b"], "of two that fit the one of the same job");
        assert_eq!(with(vec![pair("b", "8", ["20", "11"]), pair("c", "9", ["20", "11"])]), ["b", "c"], "or both");
        assert_eq!(with(vec![pair("a", "1", ["20", "10"])]), [""; 0], "itself is no other");
        let gone = Series { values: vec![1.0, stale()], ..pair("b", "1", ["20", "10"]) };
        assert_eq!(with(vec![gone]), [""; 0]);
        let omitted = |n| series(OMITTED, &[("host", "a")], [n; 2]);
        assert_eq!(with(both().into_iter().chain([omitted(0.0)]).collect()), ["b"]);
        assert_eq!(with(both().into_iter().chain([omitted(7.0)]).collect()), [""; 0], "another may send as well");
    }
}
