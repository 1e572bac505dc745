//! Integration tests of the catalog: tables, binding of vendor names, generated pages.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod binding;
mod coverage;
mod kernel_log;
mod page;
mod recorded;
mod tables;
