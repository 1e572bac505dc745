//! Runs the detectors over recordings. The live engine is the collector's, around [`crate::IncidentTracker`].

pub mod backtest;
mod kept_series;
mod latest_values;
pub mod recording;
mod slow_signals;
