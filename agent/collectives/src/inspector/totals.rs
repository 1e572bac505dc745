//! Adds up observations of one job by communicator, operation and class of size.

use super::{Observation, SizeClass};
use fabriclens_catalog::waits_for_all;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// Most series of a job.
const MOST: usize = 128;
/// Most members of a communicator on one host.
const MEMBERS: usize = 256;
/// Windows without an observation after which a series ends.
const IDLE: u32 = 10;
/// Windows in a row in which the same member came last, after which it is late.
const CONFIRMED: u32 = 3;
/// Least share of the others' time that they waited for the late member.
const WAITED: f64 = 0.3;

/// Communicator, operation and class of size.
type Key = (Arc<str>, Arc<str>, SizeClass);

/// Sums of one job.
#[derive(Debug, Default)]
pub struct Totals {
    of: BTreeMap<Key, Sums>,
    /// Observations without series, because there are too many.
    pub omitted: u64,
}

#[derive(Debug, Default)]
struct Sums {
    count: u64,
    seconds: f64,
    bytes: Option<u64>,
    bus_bytes: Option<f64>,
    window: HashMap<Arc<str>, Window>,
    last: Option<Shown>,
    idle: u32,
    late: (Arc<str>, u32),
    /// Least [`Observation::most_members`] of the window.
    most_members: Option<u32>,
}

#[derive(Debug, Default, Clone, Copy)]
struct Window {
    count: u64,
    seconds: f64,
    weighted: f64,
    weight: f64,
}

#[derive(Debug, Clone)]
struct Shown {
    mean: f64,
    bus_bandwidth: Option<f64>,
    wait: Option<f64>,
}

/// Current values of a series.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// Communicator, operation and class of size.
    pub key: (Arc<str>, Arc<str>, SizeClass),
    /// Operations so far, one for each rank of this host; 0 if the file only has means.
    pub count: u64,
    /// Time in them, seconds.
    pub seconds: f64,
    /// Sizes of their messages, bytes; `None` if that is not reported.
    pub bytes: Option<u64>,
    /// Bus bandwidth times time, bytes; `None` if no bus bandwidth is reported.
    pub bus_bytes: Option<f64>,
    /// Mean time of an operation in the last window, seconds.
    pub mean: f64,
    /// Bus bandwidth in the last window, bytes per second, weighted by time.
    pub bus_bandwidth: Option<f64>,
    /// Time by which the mean member took longer than the one that came last, seconds; `None` with one member, and for
    /// operations in which not all wait for each other.
    pub wait: Option<f64>,
    /// The member for which the others wait, over several windows.
    pub late: Option<Late>,
}

/// A member for which the others wait.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Late {
    /// Rank, or GPU where the file has no rank.
    pub member: Arc<str>,
}

impl Totals {
    /// Adds an observation to the current window.
    pub fn add(&mut self, observation: &Observation) {
        let key = (Arc::clone(&observation.communicator), Arc::clone(&observation.operation), observation.size);
        if self.of.len() >= MOST && !self.of.contains_key(&key) {
            self.omitted += 1;
            return;
        }
        let sums = self.of.entry(key).or_default();
        if !observation.is_mean {
            sums.count += 1;
            sums.seconds += observation.seconds;
            let bus_bytes = observation.bus_bandwidth.map(|bandwidth| bandwidth * observation.seconds);
            sums.bus_bytes = bus_bytes.map_or(sums.bus_bytes, |bytes| Some(sums.bus_bytes.unwrap_or(0.0) + bytes));
        }
        sums.most_members = sums.most_members.into_iter().chain(observation.most_members).min();
        if sums.window.len() >= MEMBERS && !sums.window.contains_key(&observation.member) {
            return;
        }
        let window = sums.window.entry(Arc::clone(&observation.member)).or_default();
        window.count += 1;
        window.seconds += observation.seconds;
        if let Some(bandwidth) = observation.bus_bandwidth {
            window.weighted += bandwidth * observation.seconds;
            window.weight += observation.seconds;
        }
    }

    /// Adds many operations of a member at once, with the sum of their times and message sizes.
    pub fn add_sum(&mut self, key: Key, member: &Arc<str>, count: u64, seconds: f64, bytes: u64) {
        if self.of.len() >= MOST && !self.of.contains_key(&key) {
            self.omitted = self.omitted.saturating_add(count);
            return;
        }
        let sums = self.of.entry(key).or_default();
        sums.count = sums.count.saturating_add(count);
        sums.seconds += seconds;
        sums.bytes = Some(sums.bytes.unwrap_or(0).saturating_add(bytes));
        if count == 0 || (sums.window.len() >= MEMBERS && !sums.window.contains_key(member)) {
            return;
        }
        let window = sums.window.entry(Arc::clone(member)).or_default();
        window.count = window.count.saturating_add(count);
        window.seconds += seconds;
    }

    /// Ends the window; returns the values of all series.
    pub fn end_window(&mut self) -> Vec<Series> {
        self.of.retain(|_, sums| {
            sums.idle = if sums.window.is_empty() { sums.idle + 1 } else { 0 };
            sums.idle <= IDLE
        });
        self.of.iter_mut().filter_map(|(key, sums)| sums.end_window(key)).collect()
    }
}

impl Sums {
    fn end_window(&mut self, key: &Key) -> Option<Series> {
        let window = std::mem::take(&mut self.window);
        let most = std::mem::take(&mut self.most_members);
        if !window.is_empty() {
            let mut members: Vec<(&Arc<str>, f64)> =
                window.iter().map(|(member, w)| (member, w.seconds / w.count as f64)).collect();
            members.sort_by(|a, b| a.1.total_cmp(&b.1).then_with(|| a.0.cmp(b.0)));
            let mean = members.iter().map(|(_, mean)| mean).sum::<f64>() / members.len() as f64;
            let weight: f64 = window.values().map(|w| w.weight).sum();
            let weighted: f64 = window.values().map(|w| w.weighted).sum();
            // Who comes last spends the least time in the operation: all others are in it already.
            // Members of several communicators do not wait for each other.
            let is_one = most.is_none_or(|most| members.len() <= most as usize);
            let wait = (members.len() > 1 && is_one && waits_for_all(&key.1)).then(|| mean - members[0].1);
            let late = wait.filter(|wait| *wait > WAITED * mean).map(|_| Arc::clone(members[0].0));
            self.late = match late {
                Some(member) if member == self.late.0 => (member, self.late.1 + 1),
                Some(member) => (member, 1),
                None => (Arc::from(""), 0),
            };
            self.last = Some(Shown { mean, bus_bandwidth: (weight > 0.0).then(|| weighted / weight), wait });
        }
        let shown = self.last.clone()?;
        let late = (self.late.1 >= CONFIRMED).then(|| Late { member: Arc::clone(&self.late.0) });
        let Shown { mean, bus_bandwidth, wait } = shown;
        let (key, Self { count, seconds, bytes, bus_bytes, .. }) = (key.clone(), self);
        let (count, seconds, bytes, bus_bytes) = (*count, *seconds, *bytes, *bus_bytes);
        Some(Series { key, count, seconds, bytes, bus_bytes, mean, bus_bandwidth, wait, late })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn late(operation: &str) -> (Option<f64>, Option<Late>) {
        let mut totals = Totals::default();
        let mut last = Vec::new();
        for _ in 0..CONFIRMED {
            for (member, seconds) in [("0", 0.001), ("1", 0.010), ("2", 0.010)] {
                totals.add(&Observation {
                    communicator: "c0".into(),
                    host: "".into(),
                    pid: None,
                    slurm_job: None,
                    member: member.into(),
                    operation: operation.into(),
                    size: SizeClass::of(1 << 20),
                    seconds,
                    bus_bandwidth: None,
                    is_mean: false,
                    most_members: None,
                });
            }
            last = totals.end_window();
        }
        (last[0].wait, last[0].late.clone())
    }

    #[test]
    fn who_is_done_first_came_last_only_where_all_wait_for_each_other() {
        let (wait, late_rank) = late("AllReduce");
        assert!((wait.unwrap() - 0.006).abs() < 1e-9);
        assert_eq!(late_rank, Some(Late { member: "0".into() }));
        assert_eq!(late("Broadcast"), (None, None), "the root of a broadcast is done first");
    }
}
