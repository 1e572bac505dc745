//! The head: appended rows that are not in a block yet, one generation per log.

mod account;
pub mod chunk;
pub mod footprint;
pub mod generation;
mod histograms;
pub mod label_orders;
pub mod layout;
pub mod limits;
pub mod memory;
mod out_of_order;
pub mod rows;
pub mod sealed_times;
pub mod senders;
pub mod series;
