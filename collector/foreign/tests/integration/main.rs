//! The table is consistent with the catalog, and knows every name of the recorded lists.

mod gnmi;
mod lists;
mod samples;
mod table;
