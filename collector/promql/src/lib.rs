//! PromQL.
