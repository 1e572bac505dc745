//! Evaluates the detectors on live samples, and again on samples that arrived late, and writes incidents to the
//! incident store.
#![forbid(unsafe_code)]

mod backfill;
mod background_query;
mod collectives_feed;
mod flows;
mod forwarding_paths;
pub mod kernel_log;
mod late;
pub mod live;
mod newest_signals;
mod probe_feed;
mod queue_pairs;
mod troubled_jobs;
