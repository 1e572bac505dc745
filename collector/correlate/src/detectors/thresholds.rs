//! Thresholds of detectors. Each is defined beside the detector that uses it, so that all of them can be listed and
//! overridden.

use std::sync::atomic::{AtomicBool, Ordering};

/// A threshold that users may override.
#[derive(Debug)]
pub struct Threshold {
    /// `detector.number`, as in the configuration.
    pub name: &'static str,
    /// Value without an override.
    pub default: f64,
    /// Unit of the value.
    pub unit: &'static str,
    /// What it means.
    pub help: &'static str,
    /// See [`Self::was_read`].
    pub(crate) read: AtomicBool,
}

impl Threshold {
    /// Whether any detector of this process has read it: with another value of a threshold that none read, a back-test says the
    /// same.
    pub fn was_read(&self) -> bool {
        self.read.load(Ordering::Relaxed)
    }
}

/// Why an override is rejected.
#[derive(Debug, thiserror::Error, PartialEq)]
pub enum OverrideError {
    /// No threshold has this name.
    #[error("there is no threshold {0}")]
    Unknown(String),
    /// The value is not finite.
    #[error("threshold {name} is {value}; it must be a finite number")]
    Value {
        /// Name of the threshold.
        name: &'static str,
        /// The rejected value.
        value: f64,
    },
}

/// Overrides of thresholds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Thresholds(Vec<(&'static str, f64)>);

impl Thresholds {
    /// Overrides one threshold.
    ///
    /// # Errors
    /// [`OverrideError::Value`] if the value is not finite.
    pub(super) fn override_value(&mut self, threshold: &'static Threshold, value: f64) -> Result<(), OverrideError> {
        if !value.is_finite() {
            return Err(OverrideError::Value { name: threshold.name, value });
        }
        self.0.retain(|(name, _)| *name != threshold.name);
        self.0.push((threshold.name, value));
        Ok(())
    }

    /// Value of a threshold: the override, or the default.
    pub fn get(&self, limit: &Threshold) -> f64 {
        limit.read.store(true, Ordering::Relaxed);
        self.0.iter().find(|(name, _)| *name == limit.name).map_or(limit.default, |(_, value)| *value)
    }
}

/// Defines the thresholds of one file: a static for each, and `THRESHOLDS` for all. The doc comment is the help text.
macro_rules! thresholds {
    ($($(#[doc = $help:literal])+ $name:ident = $key:literal, $default:expr, $unit:literal;)+) => {
        $($(#[doc = $help])+
        pub(crate) static $name: $crate::detectors::thresholds::Threshold =
            $crate::detectors::thresholds::Threshold {
                name: $key,
                default: $default,
                unit: $unit,
                help: concat!($($help),+),
                read: std::sync::atomic::AtomicBool::new(false),
            };)+
        /// All thresholds of this file.
        pub(crate) const THRESHOLDS: &[&$crate::detectors::thresholds::Threshold] = &[$(&$name),+];
    };
}
pub(crate) use thresholds;
