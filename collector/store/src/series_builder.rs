//! Assembles series from chunks. Series with samples at the same times share one list of times.

use crate::codec::{Corrupt, ints};
use fabriclens_model::{is_absent, settle};
use foldhash::HashMap;
use std::ops::Range;
use std::sync::Arc;

/// All times of a chunk, and the selected rows.
pub type Rows = (Arc<[i64]>, Range<usize>);

/// The rows of a chunk within `[start, end]`.
pub fn rows(times: &[i64], start: i64, end: i64) -> Range<usize> {
    let from = times.partition_point(|t| *t < start);
    from..times.partition_point(|t| *t <= end).max(from)
}

/// Encoded times of at most this many bytes are regular: one interval with few exceptions.
const REGULAR: usize = 64;

/// Decodes times. Regular ones are cached by their bytes: hosts that are sampled at the same times have them in
/// separate layouts.
#[derive(Default)]
pub struct TimesCache(HashMap<Box<[u8]>, Arc<[i64]>>);

impl TimesCache {
    /// The times of `rows` rows.
    pub fn times(&mut self, bytes: &[u8], rows: usize) -> Result<Arc<[i64]>, Corrupt> {
        if let Some(times) = self.0.get(bytes).filter(|t| t.len() == rows) {
            return Ok(times.clone());
        }
        let times: Arc<[i64]> = ints::decode(bytes, rows)?.into();
        if bytes.len() <= REGULAR {
            self.0.insert(bytes.into(), times.clone());
        }
        Ok(times)
    }

    /// Empties the cache.
    pub fn clear(&mut self) {
        self.0.clear();
    }
}

/// Chunks by address, each with the selected rows.
type Key = Vec<(usize, usize, usize)>;

/// Lists of times with the same ends and length.
type SameEnds = Vec<Arc<[i64]>>;

/// Lists compared before giving up: if every port misses a different second, there are very many lists.
const MAX_ALIKE: usize = 8;

/// Assembled lists of times, each stored once if it can be found.
#[derive(Default)]
pub struct Times {
    /// Keeps the chunks alive, so that an address identifies one chunk.
    by_chunks: HashMap<Key, (Vec<Rows>, Arc<[i64]>)>,
    by_ends: HashMap<(i64, i64, usize), SameEnds>,
    /// The series of a port come one after the other.
    last: Option<(Key, Arc<[i64]>)>,
}

impl Times {
    /// Concatenates the times of these rows; the flag says whether they ascend.
    fn of(&mut self, chunks: &mut Vec<Rows>) -> (Arc<[i64]>, bool) {
        let key = || chunks.iter().map(|(t, r)| (t.as_ptr() as usize, r.start, r.end));
        if let Some((last, times)) = &self.last
            && last.iter().copied().eq(key())
        {
            return (times.clone(), true);
        }
        let key: Key = key().collect();
        if let Some((_, times)) = self.by_chunks.get(&key) {
            self.last = Some((key, times.clone()));
            return (times.clone(), true);
        }
        let all: Vec<i64> = chunks.iter().flat_map(|(t, r)| &t[r.clone()]).copied().collect();
        if !all.is_sorted_by(|a, b| a < b) {
            return (all.into(), false);
        }
        let times = self.shared(all);
        self.last = Some((key.clone(), times.clone()));
        self.by_chunks.insert(key, (std::mem::take(chunks), times.clone()));
        (times, true)
    }

    /// A list of ascending times; one that was made before, if it is equal.
    pub fn shared(&mut self, all: Vec<i64>) -> Arc<[i64]> {
        let (first, last) = (all.first().copied().unwrap_or(0), all.last().copied().unwrap_or(0));
        let alike = self.by_ends.entry((first, last, all.len())).or_default();
        if let Some(times) = alike.iter().find(|t| ***t == all[..]) {
            return times.clone();
        }
        let times: Arc<[i64]> = all.into();
        if alike.len() < MAX_ALIKE {
            alike.push(times.clone());
        }
        times
    }
}

/// One series being assembled.
#[derive(Default)]
pub struct SeriesBuilder {
    chunks: Vec<Rows>,
    /// Times of its own, once a sample was absent.
    own: Option<Vec<i64>>,
    values: Vec<f64>,
}

impl SeriesBuilder {
    /// Samples so far.
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Adds the selected rows of a chunk; `values` has one value per row of the chunk. With `gaps` some may be absent.
    pub fn push(&mut self, (times, rows): Rows, values: &[f64], gaps: bool) {
        let values = &values[rows.clone()];
        if !gaps && self.own.is_none() {
            if !rows.is_empty() {
                self.values.extend_from_slice(values);
                self.chunks.push((times, rows));
            }
            return;
        }
        let before = &self.chunks;
        let own = self.own.get_or_insert_with(|| before.iter().flat_map(|(t, r)| &t[r.clone()]).copied().collect());
        for (t, v) in times[rows].iter().zip(values).filter(|(_, v)| !is_absent(**v)) {
            own.push(*t);
            self.values.push(*v);
        }
    }

    /// The samples in ascending order of time, the first one of each time.
    pub fn finish(mut self, times: &mut Times) -> (Arc<[i64]>, Vec<f64>) {
        let own = match self.own {
            Some(own) => own,
            None => match times.of(&mut self.chunks) {
                (shared, true) => return (shared, self.values),
                (own, false) => own.to_vec(),
            },
        };
        let (own, values) = settle(own, self.values);
        (own.into(), values)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fabriclens_model::absent;

    fn put(times: &mut Times, pieces: &[(&Arc<[i64]>, &[f64])], start: i64, end: i64) -> (Arc<[i64]>, Vec<f64>) {
        let mut joined = SeriesBuilder::default();
        for (t, v) in pieces {
            joined.push(((*t).clone(), rows(t, start, end)), v, v.iter().any(|v| is_absent(*v)));
        }
        joined.finish(times)
    }

    #[test]
    fn regular_times_are_decoded_once() {
        let bytes = |times: &[i64]| {
            let mut out = Vec::new();
            ints::encode(times, &mut out);
            out
        };
        let regular: Vec<i64> = (0..100).map(|i| 7 + i * 1000).collect();
        let odd: Vec<i64> = (0..200).map(|i| i * 1000 + i * i * i * 7919 % 997).collect();
        let mut decoded = TimesCache::default();
        let mut twice = |bytes: &[u8], n| (decoded.times(bytes, n).unwrap(), decoded.times(bytes, n).unwrap());
        let (a, b) = twice(&bytes(&regular), 100);
        assert!(a[..] == regular[..] && Arc::ptr_eq(&a, &b));
        // The same bytes can encode fewer rows.
        assert_eq!(twice(&bytes(&regular), 40).1[..], regular[..40]);
        let (a, b) = twice(&bytes(&odd), 200);
        assert!(a[..] == odd[..] && a == b && !Arc::ptr_eq(&a, &b));
    }

    #[test]
    fn equal_times_are_shared_across_chunks() {
        let mut times = Times::default();
        let chunk = |t: &[i64]| Arc::<[i64]>::from(t);
        let (a, b, all) = (chunk(&[1, 2]), chunk(&[3, 4]), chunk(&[0, 1, 2, 3, 4, 5]));
        let values = [9.0, 1.0, 2.0, 3.0, 4.0, 9.0];
        let parts = put(&mut times, &[(&a, &[1.0, 2.0]), (&b, &[3.0, 4.0])], 1, 4);
        let whole = put(&mut times, &[(&all, &values)], 1, 4);
        assert_eq!((&parts.0[..], &parts.1[..]), (&[1, 2, 3, 4][..], &values[1..5]));
        assert!(Arc::ptr_eq(&parts.0, &whole.0) && parts.1 == whole.1);
        assert!(Arc::ptr_eq(&parts.0, &put(&mut times, &[(&a, &[5.0, 6.0]), (&b, &[7.0, 8.0])], 0, 9).0));
        let shorter = put(&mut times, &[(&all, &values)], 2, 4);
        assert_eq!((&shorter.0[..], &shorter.1[..]), (&[2, 3, 4][..], &values[2..5]));
    }

    #[test]
    fn gaps_late_and_duplicate_samples_get_their_own_times() {
        let mut times = Times::default();
        let (a, b): (Arc<[i64]>, Arc<[i64]>) = (Arc::from([1, 2, 3]), Arc::from([2, 5]));
        let gaps = put(&mut times, &[(&a, &[1.0, absent(), 3.0]), (&b, &[4.0, 5.0])], 0, 9);
        assert_eq!((&gaps.0[..], &gaps.1[..]), (&[1, 2, 3, 5][..], &[1.0, 4.0, 3.0, 5.0][..]));
        let late = put(&mut times, &[(&b, &[4.0, 5.0]), (&a, &[1.0, 2.0, absent()])], 0, 9);
        assert_eq!((&late.0[..], &late.1[..]), (&[1, 2, 5][..], &[1.0, 4.0, 5.0][..]));
        let twice = put(&mut times, &[(&a, &[1.0, 2.0, 3.0]), (&b, &[4.0, 5.0])], 0, 9);
        assert_eq!((&twice.0[..], &twice.1[..]), (&[1, 2, 3, 5][..], &[1.0, 2.0, 3.0, 5.0][..]));
        assert!(put(&mut times, &[(&a, &[1.0, 2.0, 3.0])], 6, 9).0.is_empty());
    }
}
