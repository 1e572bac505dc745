//! The table is consistent with the catalog, and knows every name of the recorded lists.

mod lists;
mod samples;
mod table;
