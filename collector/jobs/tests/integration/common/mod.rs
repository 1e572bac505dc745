//! Helpers of the registry's tests.

use fabriclens_store::{MetadataTable, Options, Store};

/// The table of jobs in a directory. It may have been closed a moment ago.
pub fn table(path: &std::path::Path) -> MetadataTable {
    Store::open(path, Options { background: false, ..Options::default() }).unwrap().table("jobs")
}
