//! The read trait over the series of a few hosts alone.

use fabriclens_model::{Budget, Matcher, Read, ReadError, Series};

/// Shows of another reader what these hosts told (label `host`).
pub struct Near<'a> {
    read: &'a dyn Read,
    hosts: Vec<String>,
}

impl<'a> Near<'a> {
    /// Of these hosts, each named once.
    pub fn new(read: &'a dyn Read, hosts: Vec<String>) -> Self {
        Self { read, hosts }
    }

    /// What a question becomes: one for each host.
    fn matchers(&self, matchers: &[Matcher]) -> impl Iterator<Item = Vec<Matcher>> {
        let of = |host: &String| matchers.iter().cloned().chain([Matcher::equal("host", host)]).collect();
        self.hosts.iter().map(of)
    }
}

impl Read for Near<'_> {
    fn select_within(
        &self,
        matchers: &[Matcher],
        start_ms: i64,
        end_ms: i64,
        budget: &dyn Budget,
    ) -> Result<Vec<Series>, ReadError> {
        let mut all = Vec::new();
        for matchers in self.matchers(matchers) {
            all.extend(self.read.select_within(&matchers, start_ms, end_ms, budget)?);
        }
        Ok(all)
    }
}
