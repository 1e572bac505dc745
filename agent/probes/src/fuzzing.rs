//! Entry points for `fuzz`: parsers of kernel descriptions and of map records.

use crate::btf::{Member, words_of};
use crate::{bounds, format, histogram};
use fabriclens_ebpf_abi::histogram::WORDS;

const MEMBERS: &[Member] = &[
    Member { global: "A", steps: &[("tcp_sock", "srtt_us")] },
    Member { global: "B", steps: &[("sock", "__sk_common"), ("sock_common", "skc_family")] },
];

/// Parses BTF data.
pub fn btf(bytes: &[u8]) {
    _ = words_of(bytes, MEMBERS);
}

/// Parses a tracepoint format.
pub fn tracepoint(text: &str) {
    for name in ["saddr", "common_type"] {
        _ = format::offset(text, name);
    }
}

/// Parses a histogram record.
pub fn record(bytes: &[u8]) {
    let mut record = [0; WORDS];
    for (word, eight) in record.iter_mut().zip(bytes.chunks_exact(8)) {
        *word = u64::from_le_bytes(eight.try_into().unwrap_or_default());
    }
    if let Some(histogram) = histogram(&record, &bounds()) {
        assert_eq!(histogram.counts.len(), histogram.bounds.len() + 1, "a bucket has its bound");
    }
}
