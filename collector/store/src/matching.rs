//! Finds the series that match, on the thread of the query and outside the lock of the head: appends wait for that lock,
//! and one pattern may take milliseconds for one value.

use fabriclens_model::names::COMPONENT;
use fabriclens_model::{Budget, Labels, MatchOp, Matcher, ReadError, is_component};
use foldhash::{HashMap, HashMapExt as _};
use std::borrow::Cow;
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
    /// Whether components of histograms are among the series and do not match.
    pub without_components: bool,
    budget: &'a dyn Budget,
}

impl<'a> LabelTests<'a> {
    /// Tests with these matchers, within `budget`.
    pub fn new(matchers: &'a [Matcher], budget: &'a dyn Budget) -> Self {
        Self { matchers, known: matchers.iter().map(|_| HashMap::new()).collect(), without_components: false, budget }
    }

    /// Whether every label set passes.
    pub fn pass_all(&self) -> bool {
        self.matchers.is_empty() && !self.without_components
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
        if self.without_components && is_component(labels) {
            return Ok(false);
        }
        for (matcher, known) in self.matchers.iter().zip(&mut self.known) {
            let fits = if is_pattern(matcher) {
                let value = labels.pairs().find(|(name, _)| ***name == *matcher.name).map(|(_, value)| value);
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

/// Whether these are the store's own matchers for components of histograms; otherwise no component matches.
pub fn asks_for_components(matchers: &[Matcher]) -> bool {
    matchers.iter().any(|matcher| matcher.name == COMPONENT)
}

/// The matchers of a caller, for whom no series has the label of components; `None` if nothing can match.
pub fn of_caller(matchers: &[Matcher]) -> Option<Cow<'_, [Matcher]>> {
    if !asks_for_components(matchers) {
        return Some(Cow::Borrowed(matchers));
    }
    let (own, others): (Vec<&Matcher>, Vec<&Matcher>) = matchers.iter().partition(|m| m.name == COMPONENT);
    own.iter().all(|matcher| matcher.matches_value("")).then(|| others.into_iter().cloned().collect())
}

/// Whether a test of the matcher may take long.
pub fn is_pattern(matcher: &Matcher) -> bool {
    matches!(matcher.op, MatchOp::Regex | MatchOp::NotRegex)
}
