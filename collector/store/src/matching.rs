//! Finds the series that match, on the thread of the query and outside the lock of the head: appends wait for that lock,
//! and one pattern may take milliseconds for one value.

use fabriclens_model::{Budget, Labels, MatchOp, Matcher, ReadError};
use foldhash::{HashMap, HashMapExt as _};
use std::sync::Arc;

/// Series that are tested between two checks of the budget.
pub const SERIES_PER_CHECK: usize = 1024;
/// Bytes of a known value: the reference to it and the entry of the table.
const KNOWN: usize = 64;

/// Tests label sets, each distinct value of a label once per pattern.
pub struct LabelTests<'a> {
    matchers: &'a [Matcher],
    /// Whether a value matches, by matcher and value.
    known: Vec<HashMap<Arc<str>, bool>>,
    budget: &'a dyn Budget,
}

impl<'a> LabelTests<'a> {
    /// Tests with these matchers, within `budget`.
    pub fn new(matchers: &'a [Matcher], budget: &'a dyn Budget) -> Self {
        Self { matchers, known: matchers.iter().map(|_| HashMap::new()).collect(), budget }
    }

    /// Keeps those of `series` whose labels match all matchers.
    pub fn matching<'l>(
        &mut self,
        series: impl Iterator<Item = (u32, &'l Labels)>,
        found: &mut Vec<u32>,
    ) -> Result<(), ReadError> {
        for (n, (series, labels)) in series.enumerate() {
            if n % SERIES_PER_CHECK == 0 {
                self.budget.check()?;
            }
            if self.fits(labels)? {
                found.push(series);
            }
        }
        Ok(())
    }

    fn fits(&mut self, labels: &Labels) -> Result<bool, ReadError> {
        for (matcher, known) in self.matchers.iter().zip(&mut self.known) {
            let fits = if is_pattern(matcher) {
                let value = labels.pairs().iter().find(|(name, _)| **name == *matcher.name).map(|(_, value)| value);
                match value.and_then(|value| known.get(value)) {
                    Some(fits) => *fits,
                    None => {
                        self.budget.check()?;
                        let fits = matcher.matches_value(value.map_or("", |value| value));
                        if let Some(value) = value {
                            self.budget.request(KNOWN)?;
                            known.insert(value.clone(), fits);
                        }
                        fits
                    }
                }
            } else {
                matcher.matches(labels)
            };
            if !fits {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// Whether a test of the matcher may take long.
pub fn is_pattern(matcher: &Matcher) -> bool {
    matches!(matcher.op, MatchOp::Regex | MatchOp::NotRegex)
}
