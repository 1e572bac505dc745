//! The write-ahead log: everything since the last block, durable before it is acknowledged.

pub mod record;
pub mod replay;
pub mod writer;
