//! Parses and checks single values; errors carry the key.

use std::time::Duration;

use super::ConfigError;
use fabriclens_base::{duration, size};

/// An error about the value of a key.
pub(super) fn wrong<T>(key: &'static str, message: impl Into<String>) -> Result<T, ConfigError> {
    Err(ConfigError::Value { key, message: message.into() })
}

/// Parses a duration into `slot`, which keeps its value if the key is missing.
pub(super) fn time(slot: &mut Duration, text: Option<String>, key: &'static str) -> Result<(), ConfigError> {
    if let Some(text) = text {
        let bad = |message: String| ConfigError::Value { key, message };
        *slot = duration::parse(&text).map_err(|e| bad(e.to_string()))?;
        if !slot.subsec_nanos().is_multiple_of(1_000_000) {
            return Err(bad(format!("{text:?} is not a whole number of milliseconds")));
        }
    }
    Ok(())
}

/// Parses a size, bytes.
pub(super) fn size(text: &str, key: &'static str) -> Result<u64, ConfigError> {
    size::parse(text).map_err(|e| ConfigError::Value { key, message: e.to_string() })
}

/// Checks a name that is used for directories and metrics.
pub(super) fn check_name(key: &'static str, name: &str) -> Result<(), ConfigError> {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '_';
    if name.is_empty() || name.len() > 64 || !name.chars().all(plain) {
        let rule = "1 to 64 of a-z, 0-9, - and _; it names its directory and its metrics";
        return wrong(key, format!("{name:?} is not a valid name: {rule}"));
    }
    Ok(())
}

/// Collects checked tables whose names must differ; `key` is the config key of the name.
pub(super) fn unique<T>(
    key: &'static str,
    all: impl Iterator<Item = Result<T, ConfigError>>,
    name: impl Fn(&T) -> &String,
) -> Result<Vec<T>, ConfigError> {
    let mut found: Vec<T> = Vec::new();
    for one in all {
        let one = one?;
        if found.iter().any(|other| name(other) == name(&one)) {
            return wrong(key, format!("{:?} occurs twice; names must differ", name(&one)));
        }
        found.push(one);
    }
    Ok(found)
}
