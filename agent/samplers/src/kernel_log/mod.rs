//! The kernel log: records of `/dev/kmsg` ([`record`]), a bounded reader of them ([`reader`]), and the classes of messages that
//! they match ([`matching`]), by the table of the catalog. Used by the sampler `kernel_log`.

pub mod matching;
mod names;
pub mod position;
pub mod reader;
pub mod record;

pub(crate) use names::Names;
