//! Answers of a remote engine: read within a budget, and put together by series.

use std::collections::BTreeMap;
use std::io::{self, BufRead, Read as _};
use std::sync::Arc;

use fabriclens_core::prompb::Histogram as Message;
use fabriclens_core::prompb_histogram::histogram_of;
use fabriclens_model::{Budget, Histogram, HistogramSeries, Labels, ReadError, Selected, SharedSeries, settle};

/// Bytes accounted for a sample and for a series, as in the store.
pub(super) const SAMPLE: usize = 16;
pub(super) const SERIES: usize = 512;
/// Bytes of a compressed answer between two checks of the budget.
pub(super) const STEP: u64 = 1 << 20;

/// The next line without its end, `None` at the end. Its memory is requested while it is read; `held` is that of the longest
/// line so far. Twice its length: what is decoded of it is there at the same time.
pub(super) fn next_line(
    answer: &mut impl BufRead,
    held: &mut usize,
    budget: &dyn Budget,
) -> Result<io::Result<Option<String>>, ReadError> {
    let mut line = Vec::new();
    loop {
        budget.check()?;
        let read = match answer.by_ref().take(STEP).read_until(b'\n', &mut line) {
            Ok(read) => read,
            Err(e) => return Ok(Err(e)),
        };
        if line.len() > *held {
            budget.request(2 * (line.len() - *held))?;
            *held = line.len();
        }
        if read == 0 || line.ends_with(b"\n") {
            break;
        }
    }
    if line.is_empty() {
        return Ok(Ok(None));
    }
    line.truncate(line.trim_ascii_end().len());
    Ok(String::from_utf8(line).map(Some).map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e)))
}

/// Memory of the messages of a remote read answer, bytes: an empty one takes two bytes of the answer.
pub(super) fn decoded(mut message: &[u8], depth: usize) -> Result<usize, String> {
    use prost::encoding::{DecodeContext, WireType, decode_key, decode_varint, skip_field};
    // Results, series, and their labels and samples.
    const BYTES: [usize; 3] = [64, 128, 64];
    const TAG_OF_HISTOGRAM: u32 = 4;
    let text = |e: prost::DecodeError| e.to_string();
    let mut sum = 0;
    while !message.is_empty() {
        let (tag, wire) = decode_key(&mut message).map_err(text)?;
        if wire != WireType::LengthDelimited {
            skip_field(wire, tag, &mut message, DecodeContext::default()).map_err(text)?;
            continue;
        }
        let length = usize::try_from(decode_varint(&mut message).map_err(text)?).unwrap_or(usize::MAX);
        let Some((inner, rest)) = message.split_at_checked(length) else {
            return Err("a message of the answer is cut off".to_owned());
        };
        message = rest;
        sum += match (depth, tag) {
            // A number of a histogram takes a byte or more.
            (2, TAG_OF_HISTOGRAM) => size_of::<Message>() + size_of::<f64>() * length,
            (2, _) => BYTES[2],
            _ => BYTES[depth] + decoded(inner, depth + 1)?,
        };
    }
    Ok(sum)
}

/// Times and values, in the order of the answer.
type Samples<T> = (Vec<i64>, Vec<T>);

/// Samples by series, in the order of labels.
#[derive(Default)]
pub(super) struct Found {
    floats: BTreeMap<Labels, Samples<f64>>,
    histograms: BTreeMap<Labels, Samples<Arc<Histogram>>>,
}

impl Found {
    pub(super) fn add_floats(&mut self, labels: Labels, samples: impl Iterator<Item = (i64, f64)>) {
        self.floats.entry(labels).or_default().extend(samples);
    }

    /// Adds histograms; their memory counts against `budget`.
    ///
    /// # Errors
    /// The inner error names one that is not valid.
    pub(super) fn add_histograms(
        &mut self,
        labels: Labels,
        messages: &[Message],
        budget: &dyn Budget,
    ) -> Result<Result<(), String>, ReadError> {
        let all = self.histograms.entry(labels).or_default();
        for message in messages {
            match histogram_of(message) {
                Ok(histogram) => {
                    budget.request(SAMPLE + histogram.bytes())?;
                    all.extend([(message.timestamp, Arc::new(histogram))]);
                }
                Err(why) => return Ok(Err(format!("its answer has a histogram that cannot be: {why}"))),
            }
        }
        Ok(Ok(()))
    }

    /// All samples in a range, both ends included.
    pub(super) fn within(self, range: (i64, i64)) -> Selected {
        let floats = self.floats.into_iter().filter_map(|(labels, samples)| {
            let (times, values) = within(samples, range)?;
            Some(SharedSeries { labels, times: times.into(), values })
        });
        let histograms = self.histograms.into_iter().filter_map(|(labels, samples)| {
            let (times, values) = within(samples, range)?;
            Some(HistogramSeries { labels, times, values })
        });
        Selected { series: floats.collect(), histograms: histograms.collect(), ..Selected::default() }
    }
}

/// Settles samples and cuts them to the range; `None` if none is left. Chunks may overlap, and samples occur twice where a request was
/// sent twice.
fn within<T>((times, values): Samples<T>, (start, end): (i64, i64)) -> Option<Samples<T>> {
    let (mut times, mut values) = settle(times, values);
    let to = times.partition_point(|t| *t <= end);
    times.truncate(to);
    values.truncate(to);
    let from = times.partition_point(|t| *t < start);
    times.drain(..from);
    values.drain(..from);
    (!times.is_empty()).then_some((times, values))
}

/// A JSON object of strings.
pub(super) struct LabelPairs(pub(super) Vec<(String, String)>);

impl<'de> serde::Deserialize<'de> for LabelPairs {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Pairs;
        impl<'de> serde::de::Visitor<'de> for Pairs {
            type Value = LabelPairs;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object of strings")
            }

            fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<LabelPairs, A::Error> {
                let mut all = Vec::new();
                while let Some(pair) = map.next_entry()? {
                    all.push(pair);
                }
                Ok(LabelPairs(all))
            }
        }
        deserializer.deserialize_map(Pairs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::BufReader;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn overlapping_chunks_become_one_series() {
        let (labels, mut found) = (Labels::new([("__name__", "m")]), Found::default());
        for chunk in [[(5, 1.0), (6, 2.0), (7, 3.0)], [(3, 4.0), (5, 5.0), (2, 6.0)]] {
            found.add_floats(labels.clone(), chunk.into_iter());
        }
        found.add_floats(Labels::default(), [(9, 1.0)].into_iter());
        let [one] = &found.within((3, 6)).series[..] else { panic!("one series is in the range") };
        assert_eq!((&one.times[..], &one.values[..]), (&[3, 5, 6][..], &[4.0, 1.0, 2.0][..]));
    }

    #[derive(Debug)]
    struct Bytes(AtomicUsize);

    impl Budget for Bytes {
        fn take(&self, bytes: usize) -> bool {
            self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(bytes)).is_ok()
        }
    }

    #[test]
    fn lines_of_an_answer_are_bounded() {
        let budget = || Bytes((8 << 20).into());
        let mut lines = BufReader::new(&b"a\r\n\nbc"[..]);
        let mut next = || next_line(&mut lines, &mut 0, &budget()).unwrap().unwrap();
        assert_eq!([next(), next(), next(), next()], [Some("a".into()), Some("".into()), Some("bc".into()), None]);
        let mut held = 0;
        let endless = next_line(&mut BufReader::new(io::repeat(b'x')), &mut held, &budget());
        assert!(matches!(endless, Err(ReadError::Memory)) && held <= 5 << 20, "{held}");
    }

    #[test]
    fn messages_of_an_answer_are_counted_before_they_are_decoded() {
        // A result with empty series, two bytes each; a series with empty labels.
        let series = [10, 0].repeat(1000);
        let result = [&[10, 0xd0, 0x0f][..], &series].concat();
        assert_eq!(decoded(&result, 0).unwrap(), 64 + 1000 * 128);
        let labels = [&[10, 102, 10, 100][..], &[10, 0].repeat(50)].concat();
        assert_eq!(decoded(&labels, 0).unwrap(), 64 + 128 + 50 * 64);
        let histograms = [&[10, 102, 10, 100][..], &[34, 0].repeat(49), &[34, 0]].concat();
        assert_eq!(decoded(&histograms, 0).unwrap(), 64 + 128 + 50 * size_of::<Message>());
        assert_eq!(decoded(&[10, 5, 10, 3, 34, 1, 0], 0).unwrap(), 64 + 128 + size_of::<Message>() + 8);
        assert!(decoded(&[10, 5, 1], 0).is_err() && decoded(&[0xff], 0).is_err());
    }
}
