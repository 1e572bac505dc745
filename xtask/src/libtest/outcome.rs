//! What libtest prints.

use anyhow::{Context as _, Result};

/// What a run of a test program printed of its tests.
#[derive(Default)]
pub struct Outcome {
    pub passed: usize,
    /// Name and needs of each test that was ignored for a need.
    pub ignored: Vec<(String, String)>,
    /// Ignored functions without a need: tools and helper processes.
    pub helpers: usize,
}

impl Outcome {
    /// Reads what a program printed.
    ///
    /// # Errors
    /// When it names more ignored tests than its summary counts.
    pub fn of(printed: &str) -> Result<Self> {
        let (mut outcome, mut all) = (Self::default(), 0);
        for line in printed.lines() {
            outcome.ignored.extend(ignored(line));
            outcome.passed += counted(line, " passed;");
            all += counted(line, " ignored;");
        }
        let by_reason = outcome.ignored.len();
        let helpers = all.checked_sub(by_reason);
        outcome.helpers = helpers
            .with_context(|| format!("{by_reason} tests were ignored by their reasons, but {all} by the summary"))?;
        Ok(outcome)
    }
}

/// Name and needs of the ignored test of this line.
fn ignored(line: &str) -> Option<(String, String)> {
    let (test, needs) = line.strip_prefix("test ")?.split_once(" ... ignored, needs: ")?;
    Some((test.trim_end_matches(" - should panic").to_owned(), needs.trim().to_owned()))
}

/// The number before `word` in a summary line.
fn counted(line: &str, word: &str) -> usize {
    let number = || line.strip_prefix("test result: ")?.split_once(word)?.0.rsplit(' ').next()?.parse().ok();
    number().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_of_libtest_is_understood() {
        let outcome = Outcome::of(
            "test a::b ... ignored, needs: prometheus, curl\n\
             test kill::child ... ignored, helper process of survives_kills\n\
             test c ... ok\n\
             test result: ok. 12 passed; 0 failed; 2 ignored; 0 measured; 3 filtered out; finished in 0.02s\n",
        )
        .unwrap();
        assert_eq!(outcome.passed, 12);
        assert_eq!(outcome.ignored, [("a::b".to_owned(), "prometheus, curl".to_owned())]);
        assert_eq!(outcome.helpers, 1);
        assert!(Outcome::of("test a::b ... ignored, needs: curl\n").is_err(), "a reason without a summary");
    }
}
