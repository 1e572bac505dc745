//! Limits of a request and of the caches of a decoder.

use fabriclens_rows::names::{LABELS, VALUE_BYTES};

/// Limits of one request, and of the decoder's caches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Samples in a request (a histogram point counts one per bucket, plus sum and count).
    pub points: usize,
    /// Labels of a series, including `__name__`.
    pub labels: usize,
    /// Bytes of a label value.
    pub label_bytes: usize,
    /// Cached label sets. If exceeded, the whole cache is dropped and built again; see also
    /// [`super::Decoder::forget_idle`].
    pub cached_series: usize,
    /// Bytes of the caches of a decoder without a shared budget ([`super::CacheBudget`]). One request may add half of it.
    pub cached_bytes: usize,
    /// Bytes that one request may add to the caches in any case.
    pub new_bytes: usize,
    /// Buckets of a histogram point, or quantiles of a summary; each becomes a series.
    pub buckets: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            points: 2_000_000,
            labels: LABELS,
            label_bytes: VALUE_BYTES,
            cached_series: 2_000_000,
            cached_bytes: 512 << 20,
            new_bytes: 128 << 20,
            buckets: 1024,
        }
    }
}

/// The longest prefix of a text within a number of bytes.
pub fn cut(text: &str, bytes: usize) -> &str {
    let end = (0..=bytes.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
    &text[..end.unwrap_or(0)]
}
