//! A reader restricted to the series of a few hosts.

use fabriclens_model::{Budget, Hint, Matcher, Read, ReadError, Selected, Series};

/// Restricts another reader to series with these values of the label `host`.
pub struct HostReader<'a> {
    read: &'a dyn Read,
    hosts: Vec<String>,
}

impl<'a> HostReader<'a> {
    /// Restricts `read` to `hosts`, which must be unique.
    pub fn new(read: &'a dyn Read, hosts: Vec<String>) -> Self {
        Self { read, hosts }
    }

    /// Reads the series of each host.
    fn of_hosts<T>(
        &self,
        matchers: &[Matcher],
        read: impl Fn(&[Matcher]) -> Result<T, ReadError>,
    ) -> Result<Vec<T>, ReadError> {
        let of = |host: &String| matchers.iter().cloned().chain([Matcher::equal("host", host)]).collect::<Vec<_>>();
        self.hosts.iter().map(|host| read(&of(host))).collect()
    }
}

impl Read for HostReader<'_> {
    fn select_within(
        &self,
        matchers: &[Matcher],
        start_ms: i64,
        end_ms: i64,
        budget: &dyn Budget,
    ) -> Result<Vec<Series>, ReadError> {
        let all = self.of_hosts(matchers, |matchers| self.read.select_within(matchers, start_ms, end_ms, budget))?;
        Ok(all.concat())
    }

    fn select_for(
        &self,
        matchers: &[Matcher],
        start_ms: i64,
        end_ms: i64,
        hint: Hint,
        budget: &dyn Budget,
    ) -> Result<Selected, ReadError> {
        let read = |matchers: &[Matcher]| self.read.select_for(matchers, start_ms, end_ms, hint, budget);
        let mut all = Selected::default();
        for of_host in self.of_hosts(matchers, read)? {
            all.series.extend(of_host.series);
            all.histograms.extend(of_host.histograms);
            all.resolution_ms = all.resolution_ms.max(of_host.resolution_ms);
        }
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fabriclens_model::{Histogram, HistogramSeries, Labels, MemoryWithHistograms, Unlimited};
    use std::sync::Arc;

    #[test]
    fn histograms_are_those_of_the_hosts() {
        let of = |host: &str| HistogramSeries {
            labels: Labels::new([("__name__", "h"), ("host", host)]),
            times: vec![5],
            values: vec![Arc::new(Histogram::stale())],
        };
        let all = MemoryWithHistograms { histograms: ["a", "b", "c"].map(of).into(), ..Default::default() };
        let near = HostReader::new(&all, vec!["c".to_owned(), "a".to_owned()]);
        let found = near.select_histograms(&[Matcher::equal("__name__", "h")], 0, 9, &Unlimited);
        let hosts = |found: Vec<HistogramSeries>| found.iter().map(|s| s.labels.get("host").to_owned()).collect();
        assert_eq!(found.map(hosts), Ok::<Vec<String>, ReadError>(vec!["c".to_owned(), "a".to_owned()]));
    }
}
