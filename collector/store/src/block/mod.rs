//! Immutable block files: written once, checksummed by page, read by column. `FORMAT.md` draws every byte.

pub mod build;
pub mod file;
pub mod index;
pub mod names;
pub mod read;
pub mod source;
