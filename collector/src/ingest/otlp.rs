//! OTLP bytes to the store's rows: the wire crate decodes, here its label sets become the store's column lists.

use fabriclens_model::{Labels, absent};
use fabriclens_store::RowGroup;
use fabriclens_wire::decode::{self, ABSENT_NAN, DecodeError, Meta, Rejected};

use super::layouts::Layouts;

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
        let groups = rows.groups.into_iter().map(|mut group| {
            list.clear();
            list.extend(group.series.into_iter().map(Labels::from_sorted));
            for v in &mut group.values {
                if v.to_bits() == ABSENT_NAN {
                    *v = absent();
                }
            }
            RowGroup { series: self.layouts.intern(&list), times: group.times_ms, values: group.values }
        });
        Ok(Rows { groups: groups.collect(), rejected: rows.rejected, metadata: rows.metadata })
    }
}
