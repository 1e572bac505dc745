//! Decodes remote write 1.0 into rows of the store. Label sets are remembered by their encoded bytes, so that a sample
//! of a known series costs one comparison or lookup, and no text is parsed twice.

mod groups;
mod lists;

use std::hash::BuildHasher as _;
use std::sync::Arc;

use fabriclens_model::names::{LABELS, check_series};
use fabriclens_model::{HistogramColumns, Labels, LayoutId, LayoutInterner, RowGroup, SharedLabels};
use fabriclens_server::auth::Caller;
use fabriclens_wire::decode::{CacheBudget, CacheShare, DecodeError, Meta};
use fabriclens_wire::proto::{Field, Reader, text};
use foldhash::HashMap;
use foldhash::fast::RandomState;
use groups::Groups;
use lists::NumberedLists;
use prost::Message as _;
use prost::encoding::{WireType, encode_key, encode_varint};

use super::foreign::{Foreign, Translations};
use super::hosts::Owners;
use super::report::{IngestError, Report};
use super::reserved::ReservedColumns;
use fabriclens_core::prompb::{Histogram, MetricMetadata};
use fabriclens_core::prompb_histogram::{MAX_HISTOGRAM_BYTES, histogram_of};

/// Most label sets that are remembered; beyond it all are forgotten.
const SERIES: usize = 2_000_000;
/// Approximate bytes of a remembered series without its encoded labels.
const ENTRY: usize = 512;
/// Most bytes that one request may add to what is remembered; at most half of what its decoder may take.
const NEW_BYTES: usize = 128 << 20;
const TOO_MUCH: &str = "the request has too many new series; send smaller requests";
/// Tag of a sample's value: field 1, 64 bits.
const VALUE: u8 = 1 << 3 | 1;
/// Most samples, and metadata of metrics, of one request.
const SAMPLES: usize = 2_000_000;
const METADATA: usize = 50_000;

/// Series with equal values of these labels belong to one source and usually arrive together.
const SOURCE: [&str; 5] = ["host", "device", "port", "job", "instance"];

/// A decoded request.
#[derive(Default)]
pub(super) struct Rows {
    pub(super) groups: Vec<RowGroup>,
    pub(super) metadata: Vec<Meta>,
    /// Points that were rejected.
    pub(super) report: Report,
    /// Number of the request, for [`Decoder::forget`].
    pub(super) request: u64,
}

/// Remembers label sets and column lists of its senders.
pub(super) struct Decoder {
    by_key: HashMap<Arc<[u8]>, u32>,
    series: Vec<Known>,
    /// Bytes of all series.
    bytes: usize,
    /// The same at the start of the request, and what the request may add.
    before: usize,
    room: usize,
    share: CacheShare,
    /// The previous series.
    last: u32,
    layouts: LayoutInterner,
    lists: NumberedLists,
    histograms: HistogramColumns,
    shared: SharedLabels,
    key: Vec<u8>,
    requests: u64,
    /// Value of `requests` when idle series were last forgotten.
    forgotten_at: u64,
    hash: RandomState,
    /// Foreign names in its column lists.
    pub(super) translations: Translations,
    /// Hosts of its column lists.
    pub(super) owners: Owners,
    /// Reserved names in its column lists.
    pub(super) reserved: ReservedColumns,
}

impl Default for Decoder {
    /// A decoder with a budget of its own.
    fn default() -> Self {
        Self::new(CacheBudget::new(64 << 20, 1))
    }
}

/// A known label set, its source, and where the current request used it.
struct Known {
    /// Labels as in the message of a series: its fields 1, each with tag and length.
    key: Arc<[u8]>,
    labels: Labels,
    source: u64,
    /// The request that brought it.
    born: u64,
    used: (u64, usize),
    /// The series that followed last time. Senders keep their order, which saves a lookup.
    next: u32,
}

impl Known {
    fn bytes(&self) -> usize {
        self.key.len() + ENTRY
    }
}

impl Decoder {
    /// A decoder whose memory counts in this budget.
    pub(super) fn new(budget: Arc<CacheBudget>) -> Self {
        Self {
            by_key: HashMap::default(),
            series: Vec::new(),
            bytes: 0,
            before: 0,
            room: 0,
            last: 0,
            layouts: LayoutInterner::with_columns(budget.list_columns()),
            lists: NumberedLists::with_columns(budget.list_columns()),
            translations: Translations::new(budget.list_columns()),
            share: CacheShare::new(budget),
            histograms: HistogramColumns::default(),
            shared: SharedLabels::default(),
            key: Vec::new(),
            requests: 0,
            forgotten_at: 0,
            hash: RandomState::default(),
            owners: Owners::default(),
            reserved: ReservedColumns::default(),
        }
    }

    pub(super) fn decode(&mut self, body: &[u8]) -> Result<Rows, IngestError> {
        let allowance = self.share.allowance();
        if self.series.len() > SERIES || self.bytes > allowance {
            self.series = Vec::new();
            self.by_key = HashMap::default();
            self.lists.clear();
            self.shared = SharedLabels::default();
            self.bytes = 0;
        }
        (self.before, self.room) = (self.bytes, (allowance / 2).min(NEW_BYTES));
        self.requests += 1;
        let rows = self.rows(body);
        self.share.set(self.bytes);
        rows
    }

    fn rows(&mut self, body: &[u8]) -> Result<Rows, IngestError> {
        let mut rows = Rows { request: self.requests, ..Rows::default() };
        let mut groups = Groups::default();
        for field in Reader::new(body) {
            match field.map_err(malformed)? {
                (1, Field::Bytes(series)) => self.series(series, &mut groups, &mut rows.report).map_err(malformed)?,
                (3, Field::Bytes(meta)) if rows.metadata.len() < METADATA => {
                    let m = MetricMetadata::decode(meta).map_err(|e| not_a_request(&e))?;
                    let kind = m.kind_word();
                    rows.metadata.push(Meta { name: m.name, kind, unit: m.unit, help: m.help });
                }
                _ => {}
            }
        }
        let Self { lists, layouts, series, .. } = self;
        let labels = |number: u32| series.get(number as usize).map(|known| known.labels.clone()).unwrap_or_default();
        rows.groups = groups.list.into_iter().map(|group| group.finish(lists, layouts, labels)).collect();
        rows.groups.append(&mut groups.histograms);
        Ok(rows)
    }

    /// Forgets the series that a request brought, because they were refused: what is refused takes no memory.
    pub(super) fn forget(&mut self, request: u64) {
        if self.series.iter().rev().any(|known| known.born == request) {
            self.keep(|known| known.born != request);
            self.layouts.forget_unused();
        }
    }

    /// Forgets column lists whose series were refused.
    pub(super) fn forget_lists(&mut self, foreign: &Foreign, caller: &Caller, lists: &[LayoutId]) {
        self.translations.forget(foreign, caller, lists);
        self.owners.forget(lists);
        self.reserved.forget(lists);
    }

    fn keep(&mut self, keep: impl Fn(&Known) -> bool) {
        self.series.retain(keep);
        self.series.shrink_to(2 * self.series.len());
        self.shared.forget_unused();
        self.bytes = self.series.iter().map(Known::bytes).sum();
        self.by_key = (0..).zip(&self.series).map(|(number, known)| (known.key.clone(), number)).collect();
        // Numbers have changed, so the successors are learned again.
        self.lists.clear();
        self.series.iter_mut().for_each(|known| known.next = 0);
        self.last = 0;
        self.share.set(self.bytes);
    }

    /// Forgets series without a request since the previous call.
    pub(super) fn forget_idle(&mut self) {
        let before = self.forgotten_at;
        self.keep(|known| known.used.0 > before);
        self.forgotten_at = self.requests;
        self.layouts.forget_unused();
        self.histograms.forget_unused();
        self.translations.forget_unused();
        self.owners.forget_unused();
        self.reserved.forget_unused();
    }

    fn series(&mut self, body: &[u8], groups: &mut Groups, report: &mut Report) -> Result<(), DecodeError> {
        self.key.clear();
        groups.samples.clear();
        let (mut histograms, mut excess) = (Vec::new(), 0);
        let expected = self.expected(body);
        let (labels, rest) = body.split_at(expected.map_or(0, |(_, length)| length));
        for field in Reader::new(rest) {
            match field? {
                (1, Field::Bytes(label)) => {
                    encode_key(1, WireType::LengthDelimited, &mut self.key);
                    encode_varint(label.len() as u64, &mut self.key);
                    self.key.extend_from_slice(label);
                }
                (2, Field::Bytes(_)) if groups.count >= SAMPLES => excess += 1,
                (2, Field::Bytes(sample)) => {
                    groups.count += 1;
                    groups.samples.push(sample_of(sample)?);
                }
                (4, Field::Bytes(_)) if groups.count >= SAMPLES => excess += 1,
                (4, Field::Bytes(histogram)) => {
                    // At most as many numbers as bytes.
                    groups.count += 1 + histogram.len();
                    histograms.push(histogram);
                }
                _ => {}
            }
        }
        report.reject("unusable", excess, "the request has more than 2,000,000 samples; send smaller requests");
        if groups.samples.is_empty() && histograms.is_empty() {
            return Ok(());
        }
        let number = match expected {
            Some((number, _)) if self.key.is_empty() => number,
            _ => {
                // Labels behind the samples are of the series, too.
                self.key.splice(..0, labels.iter().copied());
                match self.number()? {
                    Ok(number) => number,
                    Err(why) => {
                        report.reject("unusable", (groups.samples.len() + histograms.len()) as u64, why);
                        return Ok(());
                    }
                }
            }
        };
        self.last = number;
        let Some(known) = self.series.get_mut(number as usize) else { return Ok(()) };
        for message in histograms {
            match histogram(message, &known.labels, &mut self.histograms)? {
                Ok(row) => groups.histograms.push(row),
                Err(why) => report.reject("unusable", 1, format!("{}: {why}", known.labels.metric())),
            }
        }
        if groups.samples.is_empty() {
            if known.used.0 != self.requests {
                // In no group of floats yet.
                known.used = (self.requests, usize::MAX);
            }
            return Ok(());
        }
        groups.settle(report);
        let taken = (known.used.0 == self.requests).then_some(known.used.1);
        known.used = (self.requests, groups.add(known.source, number, taken));
        Ok(())
    }

    /// The series that followed the last one before, if the message begins with its labels; and their bytes.
    fn expected(&self, body: &[u8]) -> Option<(u32, usize)> {
        let next = self.series.get(self.last as usize).map_or(0, |last| last.next);
        let known = self.series.get(next as usize).filter(|known| body.starts_with(&known.key))?;
        Some((next, known.key.len()))
    }

    /// Number of the series encoded in `key`. The inner error says why it cannot be stored; such series are not
    /// remembered.
    fn number(&mut self) -> Result<Result<u32, String>, DecodeError> {
        let number = match self.by_key.get(self.key.as_slice()) {
            Some(number) => *number,
            None => {
                let pairs = match pairs_of(&self.key)? {
                    Ok(pairs) => pairs,
                    Err(why) => return Ok(Err(why)),
                };
                let bytes = self.key.len() + ENTRY;
                if self.bytes - self.before + bytes > self.room {
                    return Ok(Err(TOO_MUCH.to_owned()));
                }
                let labels = self.shared.of(pairs);
                let source = self.hash.hash_one(SOURCE.map(|name| labels.get(name)));
                let key: Arc<[u8]> = self.key.as_slice().into();
                let number = self.series.len() as u32;
                self.by_key.insert(key.clone(), number);
                self.bytes += bytes;
                self.series.push(Known { key, labels, source, born: self.requests, used: (0, 0), next: number + 1 });
                number
            }
        };
        if let Some(last) = self.series.get_mut(self.last as usize) {
            last.next = number;
        }
        Ok(Ok(number))
    }
}

fn malformed(e: DecodeError) -> IngestError {
    let DecodeError::Malformed(what) = e;
    not_a_request(&what)
}

fn not_a_request(what: &dyn std::fmt::Display) -> IngestError {
    IngestError::Malformed(format!(
        "malformed remote write request: {what}; send a snappy-compressed prometheus.WriteRequest (remote write 1.0)"
    ))
}

fn sample_of(body: &[u8]) -> Result<(i64, f64), DecodeError> {
    let (mut time, mut value) = (0, 0.0);
    let mut fields = Reader::new(body);
    // Nearly all senders write the value first.
    if let [VALUE, rest @ ..] = body
        && let Some((bits, rest)) = rest.split_first_chunk()
    {
        value = f64::from_le_bytes(*bits);
        fields = Reader::new(rest);
    }
    for field in fields {
        match field? {
            (1, Field::Fixed64(bits)) => value = f64::from_bits(bits),
            (2, Field::Varint(v)) => time = v.cast_signed(),
            _ => {}
        }
    }
    // An odd NaN of a sender must not be taken for the marker of an absent sample.
    let value = if fabriclens_model::is_absent(value) { f64::NAN } else { value };
    Ok((time, value))
}

/// Decodes a histogram to a row; the inner error says why it cannot be stored.
fn histogram(
    message: &[u8],
    labels: &Labels,
    columns: &mut HistogramColumns,
) -> Result<Result<RowGroup, String>, DecodeError> {
    if message.len() > MAX_HISTOGRAM_BYTES {
        return Ok(Err(format!("a histogram is longer than {MAX_HISTOGRAM_BYTES} bytes; use fewer buckets")));
    }
    let Ok(message) = Histogram::decode(message) else {
        return Err(DecodeError::Malformed("a histogram cannot be decoded"));
    };
    let row = histogram_of(&message).and_then(|h| columns.row(labels, message.timestamp, &h));
    Ok(row.map_err(|why| why.to_string()))
}

/// Names and values of labels.
type Texts<'a> = Vec<(&'a str, &'a str)>;

/// Decodes the labels of a key, sorted by name, without empty ones; the inner error says why they cannot be stored.
fn pairs_of(key: &[u8]) -> Result<Result<Texts<'_>, String>, DecodeError> {
    let mut pairs = Vec::new();
    // One more than admitted is enough to refuse the series.
    for field in Reader::new(key).take(LABELS + 1) {
        let (_, Field::Bytes(label)) = field? else { continue };
        let (mut name, mut value) = ("", "");
        for field in Reader::new(label) {
            match field? {
                (1, Field::Bytes(b)) => name = text(b)?,
                (2, Field::Bytes(b)) => value = text(b)?,
                _ => {}
            }
        }
        pairs.push((name, value));
    }
    if let Err(error) = check_series(pairs.iter().copied()) {
        return Ok(Err(error.to_string()));
    }
    pairs.sort_unstable();
    if let Some(twice) = pairs.windows(2).find(|w| w[0].0 == w[1].0) {
        return Ok(Err(format!("label {} occurs twice in a series", twice[0].0)));
    }
    pairs.retain(|(_, value)| !value.is_empty());
    Ok(Ok(pairs))
}

#[cfg(test)]
mod tests;
