//! Tells open incidents what the kernel log of their hosts named at the same time. Reads the agents' counts of a few hosts at a
//! time, and only while incidents are open.

use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use fabriclens_catalog::kernel_log::LogClass;
use fabriclens_core::periodic::{Trigger, periodic};
use fabriclens_core::time::now_ns;
use fabriclens_data::Data;
use fabriclens_incidents::{IncidentStore, KernelLogCount};
use fabriclens_model::{Matcher, Read, ReadError, Series};
use tokio::sync::watch;

/// Interval of readings.
const INTERVAL: Duration = Duration::from_secs(5);
/// How far each reading looks back, ms: longer than events are told before an incident, as an incident opens after it began.
const LOOK_BACK_MS: i64 = 1_200_000;
/// Most hosts of a reading; the others follow in the next ones.
const HOSTS: usize = 32;
/// Series of the agents.
const EVENTS: &str = "fabric_kernel_log_events_total";

/// Reads the kernel log of hosts with open incidents until `stop` becomes true.
pub async fn run(incidents: Arc<IncidentStore>, data: Arc<Data>, stop: watch::Receiver<bool>) {
    let mut after = String::new();
    let work = move |trigger| {
        let hosts = next(&incidents.hosts_of_open_incidents(), &mut after);
        if trigger == Trigger::Stop || hosts.is_empty() {
            return;
        }
        let now_ns = now_ns();
        match counts(data.reader(), &hosts, now_ns / 1_000_000) {
            Ok(counts) => incidents.add_kernel_events(&counts, now_ns),
            Err(error) => tracing::debug!(hosts = hosts.len(), %error, "cannot read the kernel log of hosts"),
        }
    };
    periodic(INTERVAL, Arc::default(), stop, "incidents are not explained by the kernel log", work).await;
}

/// The next hosts by name after the last one that was read, and the first ones after all.
fn next(hosts: &BTreeSet<String>, after: &mut String) -> Vec<String> {
    let later = hosts.range::<str, _>((Bound::Excluded(after.as_str()), Bound::Unbounded));
    let chosen: Vec<String> = later.chain(hosts).take(HOSTS.min(hosts.len())).cloned().collect();
    *after = chosen.last().cloned().unwrap_or_default();
    chosen
}

/// What the agents of these hosts counted lately.
fn counts(read: &dyn Read, hosts: &[String], now_ms: i64) -> Result<Vec<KernelLogCount>, ReadError> {
    let of_hosts = Matcher::one_of("host", hosts.iter().map(String::as_str));
    let of_hosts = of_hosts.map_err(|e| ReadError::Storage(e.to_string()))?;
    let series = read.select(&[Matcher::equal("__name__", EVENTS), of_hosts], now_ms - LOOK_BACK_MS, now_ms)?;
    let of = |series: &Series| {
        let label = |name: &str| series.labels.get(name).to_owned();
        Some(KernelLogCount {
            node: label("host"),
            device: label("device"),
            pci: label("pci_address"),
            class: LogClass::by_name(series.labels.get("class"))?,
            code: label("code"),
            job: label("job"),
            grew_ms: grew(series),
        })
    };
    Ok(series.iter().filter_map(of).filter(|count| !count.grew_ms.is_empty()).collect())
}

/// Times at which a counter grew. Its first sample is no growth: agents begin a series with 0.
fn grew(series: &Series) -> Vec<i64> {
    let (mut grew, mut before) = (Vec::new(), None);
    for (at, value) in series.times.iter().zip(&series.values) {
        // The agent was started again: its counts begin anew.
        let base = before.map(|before: f64| if *value < before { 0.0 } else { before });
        if base.is_some_and(|base| *value > base) {
            grew.push(*at);
        }
        before = value.is_finite().then_some(*value);
    }
    grew
}

#[cfg(test)]
mod tests {
    use super::*;
    use fabriclens_model::{Labels, Memory, stale};

    const NOW: i64 = 10_000_000;

    fn series(host: &str, class: &str, samples: &[(i64, f64)]) -> Series {
        let labels = [("__name__", EVENTS), ("host", host), ("class", class), ("device", "mlx5_0"), ("code", "3")];
        let (times, values) = samples.iter().map(|(ago, value)| (NOW - ago, *value)).unzip();
        Series { labels: Labels::new(labels), times, values }
    }

    #[test]
    fn growth_of_a_counter_is_an_event() {
        let grew = |values: &[f64]| {
            let samples: Vec<(i64, f64)> = values.iter().enumerate().map(|(at, v)| (NOW - at as i64, *v)).collect();
            grew(&series("h", "gpu_lost", &samples))
        };
        assert_eq!(grew(&[0.0, 0.0, 1.0, 1.0, 3.0]), [2, 4]);
        assert_eq!(grew(&[7.0, 7.0]), [0_i64; 0], "what was counted before is not known");
        assert_eq!(grew(&[7.0, 0.0, 2.0]), [2], "the agent was started again");
        assert_eq!(grew(&[7.0, 2.0]), [1]);
        assert_eq!(grew(&[1.0, stale(), 0.0, 1.0]), [3]);
    }

    #[test]
    fn counts_of_chosen_hosts_are_read() {
        let read = Memory(vec![
            series("h1.example", "mlx5_fatal_error", &[(3000, 0.0), (2000, 1.0)]),
            series("h1xexample", "mlx5_fatal_error", &[(3000, 0.0), (2000, 1.0)]),
            series("h2", "a_class_of_a_newer_agent", &[(3000, 0.0), (2000, 1.0)]),
            series("h2", "gpu_lost", &[(LOOK_BACK_MS + 2, 0.0), (LOOK_BACK_MS + 1, 1.0), (1000, 1.0)]),
        ]);
        let found = counts(&read, &["h1.example".to_owned(), "h2".to_owned()], NOW).unwrap();
        let [one] = &*found else { panic!("{found:?}") };
        assert_eq!(
            (&*one.node, &*one.device, one.class.name, &*one.code),
            ("h1.example", "mlx5_0", "mlx5_fatal_error", "3")
        );
        assert_eq!(one.grew_ms, [NOW - 2000]);
    }

    #[test]
    fn hosts_take_turns() {
        let hosts: BTreeSet<String> = (0..HOSTS + 2).map(|n| format!("h{n:03}")).collect();
        let mut after = String::new();
        let first = next(&hosts, &mut after);
        assert_eq!((first.len(), &*first[0]), (HOSTS, "h000"));
        assert_eq!(next(&hosts, &mut after)[..3], ["h032", "h033", "h000"]);
        assert_eq!(next(&BTreeSet::from(["h1".to_owned()]), &mut after), ["h1"]);
        assert_eq!(next(&BTreeSet::new(), &mut after), Vec::<String>::new());
    }
}
