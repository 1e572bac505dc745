//! Evaluates the detectors on live samples, and again on samples that arrived late; writes the incidents to the incident store.
#![forbid(unsafe_code)]

mod backfill;
mod flows;
mod late;
pub mod live;
