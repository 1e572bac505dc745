//! Numbers of detectors as users set them: in the config and on the command line, by the names of `docs/verdicts.md`.

use std::collections::BTreeMap;

use fabriclens_correlate::{OverrideError, Thresholds, detectors};

use fabriclens_base::nearest;

/// Why a threshold is not taken.
#[derive(Debug, thiserror::Error, PartialEq)]
pub enum ThresholdError {
    /// There is none of that name.
    #[error("there is no threshold {name}{}", hint.map_or_else(String::new, |h| format!("; did you mean {h}?")))]
    Unknown {
        /// What was written.
        name: String,
        /// The nearest that there is.
        hint: Option<&'static str>,
    },
    /// It cannot be so.
    #[error(transparent)]
    Value(OverrideError),
    /// Not of the form.
    #[error("{0:?} is not NAME=NUMBER, as in host_pause.held=0.02")]
    Form(String),
}

/// Sets one.
///
/// # Errors
/// [`ThresholdError`].
pub fn set(limits: &mut Thresholds, name: &str, value: f64) -> Result<(), ThresholdError> {
    limits.set(name, value).map_err(|error| match error {
        OverrideError::Unknown(name) => {
            let hint = nearest(&name, detectors::thresholds().map(|l| l.name));
            ThresholdError::Unknown { name, hint }
        }
        error @ OverrideError::Value { .. } => ThresholdError::Value(error),
    })
}

/// Those of flags, each `NAME=VALUE`.
///
/// # Errors
/// [`ThresholdError`] of the first that is wrong.
pub fn of_flags(flags: &[String]) -> Result<Thresholds, ThresholdError> {
    let mut limits = Thresholds::default();
    for flag in flags {
        let form = || ThresholdError::Form(flag.clone());
        let (name, value) = flag.split_once('=').ok_or_else(form)?;
        set(&mut limits, name.trim(), value.trim().parse().map_err(|_| form())?)?;
    }
    Ok(limits)
}

/// Those of the config, by detector.
///
/// # Errors
/// [`ThresholdError`] of the first that is wrong.
pub fn of_tables(tables: &BTreeMap<String, BTreeMap<String, f64>>) -> Result<Thresholds, ThresholdError> {
    let mut limits = Thresholds::default();
    for (detector, numbers) in tables {
        for (name, value) in numbers {
            set(&mut limits, &format!("{detector}.{name}"), *value)?;
        }
    }
    Ok(limits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_taken_and_wrong_ones_are_explained() {
        let limits = of_flags(&["host_pause.held=0.5".into(), "wait.paused = 0.2".into()]).unwrap();
        let held = detectors::thresholds().find(|l| l.name == "host_pause.held").unwrap();
        assert_eq!(limits.get(held), 0.5);
        let error = of_flags(&["host_pause.hold=0.5".into()]).unwrap_err();
        assert_eq!(error.to_string(), "there is no threshold host_pause.hold; did you mean host_pause.held?");
        for wrong in ["host_pause.held", "host_pause.held=much"] {
            assert_eq!(of_flags(&[wrong.into()]), Err(ThresholdError::Form(wrong.into())));
        }
        assert!(matches!(of_flags(&["host_pause.held=inf".into()]), Err(ThresholdError::Value(_))));
    }
}
