//! Immutable block files: written once, checksummed by page, read by column. `FORMAT.md` specifies every byte.

pub mod build;
mod column_list;
mod entries;
pub mod file;
mod group;
pub mod index;
mod index_encode;
pub mod label_table;
pub mod read;
pub mod reader;
pub mod series_list;
pub mod source;
pub mod tables;
