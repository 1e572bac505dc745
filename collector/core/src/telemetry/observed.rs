//! Sets the metrics that are read from other parts when they are asked for, and gives all metrics as text and as series.

use super::Telemetry;
use super::declared::OwnSample;
use fabriclens_store::Stats;
use prometheus::TextEncoder;
use std::collections::BTreeMap;
use std::time::Instant;

impl Telemetry {
    /// Replaces the ports with implausible counters: node, port, reason.
    pub fn doubted_counters<'a>(&self, all: impl Iterator<Item = [&'a str; 3]>) {
        self.doubted_counters.reset();
        all.for_each(|labels| self.doubted_counters.with_label_values(&labels).set(1));
    }

    /// Sets the number of open incidents by kind; kinds that had some stay, at zero.
    pub fn incidents_open(&self, kinds: &BTreeMap<String, i64>) {
        let mut all: BTreeMap<&str, i64> = kinds.iter().map(|(kind, n)| (kind.as_str(), *n)).collect();
        let known = self.kinds.lock().iter().cloned().collect::<Vec<_>>();
        known.iter().for_each(|kind| _ = all.entry(kind).or_insert(0));
        for (kind, n) in all {
            self.incidents_open.with_label_values(&[kind]).set(n);
        }
        self.kinds.lock().extend(kinds.keys().cloned());
    }

    /// Copies the statistics of the store into their gauges; call before reading metrics.
    pub fn observe_store(&self, stats: &Stats) {
        for (gauge, read) in &self.store {
            gauge.set(i64::try_from(read(stats)).unwrap_or(i64::MAX));
        }
        for (counter, read) in &self.store_seconds {
            // Two callers at once may add it twice; then nothing is added until the sum is reached.
            counter.inc_by((read(stats).as_secs_f64() - counter.get()).max(0.0));
        }
        self.clock_off.set(stats.clock_off_ms / 1000);
    }

    fn gather(&self) -> Vec<prometheus::proto::MetricFamily> {
        let now = Instant::now();
        self.reader_leases.observe(now);
        self.subnet_tables.reset();
        for subnet in self.subnet_paths.summaries(now) {
            let bytes = i64::try_from(subnet.bytes).unwrap_or(i64::MAX);
            self.subnet_tables.with_label_values(&[&*subnet.reader]).set(bytes);
        }
        self.registry.gather()
    }

    /// Encodes all metrics in the Prometheus text format.
    ///
    /// # Errors
    /// If a metric cannot be encoded.
    pub fn text(&self) -> Result<String, prometheus::Error> {
        TextEncoder::new().encode_to_string(&self.gather())
    }

    /// Returns all series; histograms as `_bucket`, `_sum` and `_count`.
    pub fn samples(&self) -> Vec<OwnSample> {
        let mut out = Vec::new();
        for family in self.gather() {
            for metric in family.get_metric() {
                let labels: Vec<(String, String)> =
                    metric.get_label().iter().map(|l| (l.name().to_owned(), l.value().to_owned())).collect();
                let mut put = |suffix: &str, extra: Option<String>, value: f64| {
                    let mut labels = labels.clone();
                    labels.extend(extra.map(|le| ("le".to_owned(), le)));
                    out.push((format!("{}{suffix}", family.name()), labels, value));
                };
                match family.get_field_type() {
                    prometheus::proto::MetricType::HISTOGRAM => {
                        let h = metric.get_histogram();
                        for b in h.get_bucket() {
                            put("_bucket", Some(b.upper_bound().to_string()), b.cumulative_count() as f64);
                        }
                        put("_bucket", Some("+Inf".to_owned()), h.get_sample_count() as f64);
                        put("_sum", None, h.get_sample_sum());
                        put("_count", None, h.get_sample_count() as f64);
                    }
                    prometheus::proto::MetricType::COUNTER => put("", None, metric.get_counter().get_value()),
                    _ => put("", None, metric.get_gauge().get_value()),
                }
            }
        }
        out
    }

    /// Returns name, type (`counter` …) and help of each metric.
    pub fn metadata(&self) -> Vec<(String, String, String)> {
        let kind = |f: &prometheus::proto::MetricFamily| format!("{:?}", f.get_field_type()).to_lowercase();
        self.registry.gather().iter().map(|f| (f.name().to_owned(), kind(f), f.help().to_owned())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn declared_once_and_named_as_prometheus_wants() {
        let t = Telemetry::new().unwrap();
        t.samples.with_label_values(&["self"]).inc_by(3);
        t.append_seconds.observe(0.003);
        let names: Vec<String> = t.samples().into_iter().map(|s| s.0).collect();
        assert!(names.iter().all(|n| fabriclens_model::names::is_reserved(n)), "{names:?}");
        assert!(t.samples().contains(&(
            "fabriclens_ingest_samples_total".to_owned(),
            vec![("source".to_owned(), "self".to_owned())],
            3.0
        )));
        let bucket = |le: &str| {
            let labels = vec![("le".to_owned(), le.to_owned())];
            t.samples()
                .into_iter()
                .find(|s| s.0 == "fabriclens_ingest_append_seconds_bucket" && s.1 == labels)
                .unwrap()
                .2
        };
        assert_eq!((bucket("0.002"), bucket("0.005"), bucket("+Inf")), (0.0, 1.0, 1.0));
        assert!(t.text().unwrap().contains("# TYPE fabriclens_ingest_samples_total counter"));
        t.query_seconds.with_label_values(&["query"]).observe(0.1);
        let of = |name: &str| t.metadata().into_iter().find(|m| m.0 == name).map(|m| m.1);
        assert_eq!(of("fabriclens_query_seconds").as_deref(), Some("histogram"));
        assert_eq!(of("fabriclens_build_info").as_deref(), Some("gauge"));
    }
}
