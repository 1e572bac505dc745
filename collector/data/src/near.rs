//! A reader restricted to the series of a few hosts.

use fabriclens_model::{Budget, HistogramSeries, Matcher, Read, ReadError, Series};

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
        read: impl Fn(&[Matcher]) -> Result<Vec<T>, ReadError>,
    ) -> Result<Vec<T>, ReadError> {
        let mut all = Vec::new();
        for host in &self.hosts {
            let matchers: Vec<Matcher> = matchers.iter().cloned().chain([Matcher::equal("host", host)]).collect();
            all.extend(read(&matchers)?);
        }
        Ok(all)
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
        self.of_hosts(matchers, |matchers| self.read.select_within(matchers, start_ms, end_ms, budget))
    }

    fn select_histograms(
        &self,
        matchers: &[Matcher],
        start_ms: i64,
        end_ms: i64,
        budget: &dyn Budget,
    ) -> Result<Vec<HistogramSeries>, ReadError> {
        self.of_hosts(matchers, |matchers| self.read.select_histograms(matchers, start_ms, end_ms, budget))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fabriclens_model::{Histogram, Labels, MemoryWithHistograms, Unlimited};
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
