//! How each signal is measured: one typed expression, evaluated over arriving samples or asked in PromQL.

pub mod expression;
pub mod frame_sink;
pub mod late_samples;
pub mod query_eval;
pub mod queue_pair_flows;
pub mod queue_pairs;
mod stream_readers;
mod stream_slots;
pub mod streaming_eval;
pub mod table;
