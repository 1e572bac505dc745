//! Remote write 2.0 as 1.0: a request names its texts once, in a table of symbols, and its series refer to them. Written out as a
//! request of 1.0 it goes the same way as all others.
//!
//! Specification: <https://prometheus.io/docs/specs/prw/remote_write_spec_2_0/>. Exemplars and start times of counters are not
//! stored.

use bytes::{BufMut, Bytes};
use fabriclens_model::names::{LABELS, VALUE_BYTES};
use fabriclens_server::body::BodyError;
use fabriclens_wire::decode::DecodeError;
use fabriclens_wire::proto::{Field, Reader, text};
use foldhash::HashSet;
use prost::encoding::encode_varint;

use super::report::IngestError;

/// Most texts of a request.
const SYMBOLS: usize = 1 << 20;
/// Labels that are written out: one more than admitted is enough to refuse a series.
const WRITTEN: usize = LABELS + 1;

/// Writes a request of 2.0 out as one of 1.0.
///
/// # Errors
/// [`IngestError::Malformed`] if it is no request of 2.0, or a series names a symbol that is not there;
/// [`IngestError::Body`] if the result has more than `limit` bytes.
pub(super) fn to_version_1(body: &[u8], limit: usize) -> Result<Bytes, IngestError> {
    let symbols = symbols(body)?;
    let (mut out, mut series, mut described) = (Vec::new(), Vec::new(), HashSet::default());
    for field in Reader::new(body) {
        let (5, Field::Bytes(message)) = field.map_err(malformed)? else { continue };
        series.clear();
        let meta = write_series(message, &symbols, &mut series)?;
        put(&mut out, 1, &series);
        if let Some(meta) = meta.filter(|meta| described.insert(meta.name)) {
            put(&mut out, 3, &meta.encoded());
        }
        if out.len() > limit {
            return Err(BodyError::TooLarge { when: "written out as version 1.0", limit }.into());
        }
    }
    Ok(out.into())
}

/// The table of texts. Longer ones than a label value may be are cut where they are surely too long, and refused with their series.
fn symbols(body: &[u8]) -> Result<Vec<&str>, IngestError> {
    let mut all = Vec::new();
    for field in Reader::new(body) {
        match field.map_err(malformed)? {
            (4, Field::Bytes(_)) if all.len() == SYMBOLS => {
                return Err(IngestError::Malformed(format!(
                    "the request has more than {SYMBOLS} symbols; send smaller requests"
                )));
            }
            (4, Field::Bytes(symbol)) => {
                let symbol = text(symbol).map_err(malformed)?;
                let end = (VALUE_BYTES + 1..symbol.len()).find(|at| symbol.is_char_boundary(*at));
                all.push(&symbol[..end.unwrap_or(symbol.len())]);
            }
            _ => {}
        }
    }
    Ok(all)
}

/// Type, unit and help of a metric.
#[derive(Default)]
struct Metadata<'a> {
    name: &'a str,
    kind: u64,
    unit: &'a str,
    help: &'a str,
}

impl Metadata<'_> {
    /// As `prometheus.MetricMetadata`; both versions number the types alike.
    fn encoded(&self) -> Vec<u8> {
        let mut out = vec![1 << 3];
        encode_varint(self.kind, &mut out);
        put(&mut out, 2, self.name.as_bytes());
        put(&mut out, 4, self.help.as_bytes());
        put(&mut out, 5, self.unit.as_bytes());
        out
    }
}

/// Appends a series as `prometheus.TimeSeries`, and returns what it says of its metric.
fn write_series<'a>(
    message: &[u8],
    symbols: &[&'a str],
    out: &mut Vec<u8>,
) -> Result<Option<Metadata<'a>>, IngestError> {
    let symbol = |reference: u64| {
        let found = usize::try_from(reference).ok().and_then(|at| symbols.get(at));
        found
            .copied()
            .ok_or_else(|| not_a_request(&format!("a series names symbol {reference} of a table of {}", symbols.len())))
    };
    let (mut references, mut meta) = (Vec::new(), None);
    for field in Reader::new(message) {
        match field.map_err(malformed)? {
            (1, Field::Varint(reference)) if references.len() < 2 * WRITTEN => references.push(reference),
            (1, Field::Bytes(packed)) => {
                let mut packed = Reader::new(packed);
                while let Some(reference) = packed.packed().filter(|_| references.len() < 2 * WRITTEN) {
                    references.push(reference.map_err(malformed)?);
                }
            }
            (2, Field::Bytes(sample)) => put(out, 2, sample),
            (3, Field::Bytes(histogram)) => put(out, 4, histogram),
            (5, Field::Bytes(metadata)) => meta = Some(metadata_of(metadata, symbol)?),
            _ => {}
        }
    }
    if references.len() % 2 > 0 {
        return Err(not_a_request(&"a series has a label without a value"));
    }
    let mut label = Vec::new();
    for pair in references.chunks_exact(2) {
        let (name, value) = (symbol(pair[0])?, symbol(pair[1])?);
        if let Some(meta) = meta.as_mut().filter(|_| name == "__name__") {
            meta.name = value;
        }
        label.clear();
        put(&mut label, 1, name.as_bytes());
        put(&mut label, 2, value.as_bytes());
        put(out, 1, &label);
    }
    Ok(meta.filter(|meta| !meta.name.is_empty()))
}

/// Metadata, without the name of the metric.
fn metadata_of<'a>(
    message: &[u8],
    symbol: impl Fn(u64) -> Result<&'a str, IngestError>,
) -> Result<Metadata<'a>, IngestError> {
    let mut meta = Metadata::default();
    for field in Reader::new(message) {
        match field.map_err(malformed)? {
            (1, Field::Varint(kind)) => meta.kind = kind,
            (3, Field::Varint(reference)) => meta.help = symbol(reference)?,
            (4, Field::Varint(reference)) => meta.unit = symbol(reference)?,
            _ => {}
        }
    }
    Ok(meta)
}

/// Appends a field of bytes.
fn put(out: &mut Vec<u8>, field: u8, bytes: &[u8]) {
    out.put_u8(field << 3 | 2);
    encode_varint(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}

fn malformed(e: DecodeError) -> IngestError {
    let DecodeError::Malformed(what) = e;
    not_a_request(&what)
}

fn not_a_request(what: &dyn std::fmt::Display) -> IngestError {
    IngestError::Malformed(format!(
        "malformed remote write request: {what}; send a snappy-compressed io.prometheus.write.v2.Request (remote write 2.0)"
    ))
}

#[cfg(test)]
mod tests;
