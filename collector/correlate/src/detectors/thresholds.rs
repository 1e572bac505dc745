//! Numbers that detectors compare with. Each is a row beside the detector that reads it, so that it can be listed, printed
//! and overridden; there is no other place where such a number lives.

/// A number that a user may want to change.
#[derive(Debug)]
pub struct Threshold {
    /// `detector.number`, as the configuration has it.
    pub name: &'static str,
    /// Where nobody says otherwise.
    pub default: f64,
    /// Of what.
    pub unit: &'static str,
    /// What it means, in plain words.
    pub help: &'static str,
}

/// Why an override is not taken.
#[derive(Debug, thiserror::Error, PartialEq)]
pub enum OverrideError {
    /// There is none of that name.
    #[error("there is no threshold {0}")]
    Unknown(String),
    /// It must be a finite number.
    #[error("threshold {name} is {value}, which is no number to compare with")]
    Value {
        /// Which.
        name: &'static str,
        /// What was given.
        value: f64,
    },
}

/// What differs from the defaults.
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

    /// What counts.
    pub fn get(&self, limit: &Threshold) -> f64 {
        self.0.iter().find(|(name, _)| *name == limit.name).map_or(limit.default, |(_, value)| *value)
    }
}

/// Rows of one file: a constant each, and all of them as `THRESHOLDS`. The comment is the help.
macro_rules! thresholds {
    ($($(#[doc = $help:literal])+ $name:ident = $key:literal, $default:expr, $unit:literal;)+) => {
        $($(#[doc = $help])+
        pub(crate) static $name: $crate::detectors::thresholds::Threshold =
            $crate::detectors::thresholds::Threshold { name: $key, default: $default, unit: $unit, help: concat!($($help),+) };)+
        /// All of this file.
        pub(crate) const THRESHOLDS: &[&$crate::detectors::thresholds::Threshold] = &[$(&$name),+];
    };
}
pub(crate) use thresholds;
