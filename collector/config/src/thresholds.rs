//! Thresholds of the detectors set by configuration or flag, by the names in `docs/verdicts.md`.

use std::collections::BTreeMap;

use fabriclens_correlate::{OverrideError, Thresholds, detectors};

use fabriclens_base::nearest;

/// A threshold is refused.
#[derive(Debug, thiserror::Error, PartialEq)]
pub enum ThresholdError {
    /// Unknown name.
    #[error("there is no threshold {name}{}", hint.map_or_else(String::new, |h| format!("; did you mean {h}?")))]
    Unknown {
        /// Name as written.
        name: String,
        /// Nearest valid name.
        hint: Option<&'static str>,
    },
    /// Invalid value.
    #[error(transparent)]
    Value(OverrideError),
    /// Not of the form `NAME=NUMBER`.
    #[error("{0:?} is not NAME=NUMBER, as in host_pause.held=0.02")]
    Form(String),
}

/// Sets one threshold.
///
/// # Errors
/// [`ThresholdError`].
pub fn set(thresholds: &mut Thresholds, name: &str, value: f64) -> Result<(), ThresholdError> {
    thresholds.set(name, value).map_err(|error| match error {
        OverrideError::Unknown(name) => {
            let hint = nearest(&name, detectors::thresholds().map(|l| l.name));
            ThresholdError::Unknown { name, hint }
        }
        error @ OverrideError::Value { .. } => ThresholdError::Value(error),
    })
}

/// Parses flags of the form `NAME=VALUE`.
///
/// # Errors
/// [`ThresholdError`] of the first invalid one.
pub fn from_flags(flags: &[String]) -> Result<Thresholds, ThresholdError> {
    let mut thresholds = Thresholds::default();
    for flag in flags {
        let form = || ThresholdError::Form(flag.clone());
        let (name, value) = flag.split_once('=').ok_or_else(form)?;
        set(&mut thresholds, name.trim(), value.trim().parse().map_err(|_| form())?)?;
    }
    Ok(thresholds)
}

/// Reads the tables of the configuration, one per detector.
///
/// # Errors
/// [`ThresholdError`] of the first invalid one.
pub fn from_tables(tables: &BTreeMap<String, BTreeMap<String, f64>>) -> Result<Thresholds, ThresholdError> {
    let mut thresholds = Thresholds::default();
    for (detector, numbers) in tables {
        for (name, value) in numbers {
            set(&mut thresholds, &format!("{detector}.{name}"), *value)?;
        }
    }
    Ok(thresholds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threshold_flags_are_checked() {
        let limits = from_flags(&["host_pause.held=0.5".into(), "wait.paused = 0.2".into()]).unwrap();
        let held = detectors::thresholds().find(|l| l.name == "host_pause.held").unwrap();
        assert_eq!(limits.get(held), 0.5);
        let error = from_flags(&["host_pause.hold=0.5".into()]).unwrap_err();
        assert_eq!(error.to_string(), "there is no threshold host_pause.hold; did you mean host_pause.held?");
        for wrong in ["host_pause.held", "host_pause.held=much"] {
            assert_eq!(from_flags(&[wrong.into()]), Err(ThresholdError::Form(wrong.into())));
        }
        assert!(matches!(from_flags(&["host_pause.held=inf".into()]), Err(ThresholdError::Value(_))));
    }
}
