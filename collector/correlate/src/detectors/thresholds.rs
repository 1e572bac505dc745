//! Numbers that detectors compare with. Each is a row beside the detector that reads it, so that it can be listed, printed
//! and overridden; there is no other place where such a number lives.

/// A number that a user may want to change.
#[derive(Debug)]
pub struct Limit {
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
pub enum LimitError {
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
pub struct Limits(Vec<(&'static str, f64)>);

impl Limits {
    /// Overrides one by its name.
    ///
    /// # Errors
    /// [`LimitError`].
    pub fn set(&mut self, name: &str, value: f64) -> Result<(), LimitError> {
        let Some(limit) = all().find(|l| l.name == name) else { return Err(LimitError::Unknown(name.to_owned())) };
        if !value.is_finite() {
            return Err(LimitError::Value { name: limit.name, value });
        }
        self.0.retain(|(n, _)| *n != limit.name);
        self.0.push((limit.name, value));
        Ok(())
    }

    /// What counts.
    pub fn get(&self, limit: &Limit) -> f64 {
        self.0.iter().find(|(name, _)| *name == limit.name).map_or(limit.default, |(_, value)| *value)
    }
}

/// Every number, in the order of the detectors.
pub fn all() -> impl Iterator<Item = &'static Limit> {
    crate::detect::LIMITS.iter().flat_map(|of_one| of_one.iter().copied())
}

/// Rows of one file: a constant each, and all of them as `LIMITS`. The comment is the help.
macro_rules! limits {
    ($($(#[doc = $help:literal])+ $name:ident = $key:literal, $default:expr, $unit:literal;)+) => {
        $($(#[doc = $help])+
        pub(crate) static $name: $crate::limits::Limit =
            $crate::limits::Limit { name: $key, default: $default, unit: $unit, help: concat!($($help),+) };)+
        /// All of this file.
        pub(crate) static LIMITS: &[&$crate::limits::Limit] = &[$(&$name),+];
    };
}
pub(crate) use limits;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_of_a_detector() {
        let names: Vec<&str> = all().map(|l| l.name).collect();
        for (at, name) in names.iter().enumerate() {
            assert!(!names[..at].contains(name), "{name} twice");
            let detector = name.split_once('.').unwrap().0;
            assert!(
                ["wait", "victims"].contains(&detector) || crate::detect::ALL.iter().any(|d| d.name == detector),
                "{name}"
            );
        }
    }

    #[test]
    fn an_override_counts_and_a_wrong_one_is_refused() {
        let first = all().next().unwrap();
        let mut limits = Limits::default();
        assert_eq!(limits.get(first), first.default);
        limits.set(first.name, 0.5).unwrap();
        limits.set(first.name, 0.25).unwrap();
        assert_eq!((limits.get(first), limits.0.len()), (0.25, 1));
        assert_eq!(limits.set("host_pause.hled", 1.0), Err(LimitError::Unknown("host_pause.hled".into())));
        assert!(matches!(limits.set(first.name, f64::NAN), Err(LimitError::Value { .. })));
    }
}
