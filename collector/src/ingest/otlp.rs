//! OTLP bytes to the store's rows: the wire crate decodes, here its label sets become the store's column lists.

use fabriclens_model::Labels;
use fabriclens_store::RowGroup;
use fabriclens_wire::decode::{self, DecodeError, Meta, Rejected};

use super::layouts::Layouts;

// Values go through unread, so both crates must mean the same by "no point".
const _: () =
    assert!(decode::ABSENT_NAN == fabriclens_model::ABSENT_NAN && decode::STALE_NAN == fabriclens_model::STALE_NAN);

/// Remembers label sets and column lists of its senders.
#[derive(Default)]
pub(super) struct Decoder {
    wire: decode::Decoder,
    layouts: Layouts,
}

/// One request, ready to be stored.
pub(super) struct Rows {
    pub(super) groups: Vec<RowGroup>,
    pub(super) rejected: Vec<Rejected>,
    pub(super) metadata: Vec<Meta>,
}

impl Decoder {
    pub(super) fn decode(&mut self, body: &[u8]) -> Result<Rows, DecodeError> {
        let rows = self.wire.bytes(body)?;
        let mut list = Vec::new();
        let groups = rows.groups.into_iter().map(|group| {
            list.clear();
            list.extend(group.series.into_iter().map(Labels::from_sorted));
            RowGroup { series: self.layouts.intern(&list), times: group.times_ms, values: group.values }
        });
        Ok(Rows { groups: groups.collect(), rejected: rows.rejected, metadata: rows.metadata })
    }
}
