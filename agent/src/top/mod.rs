//! `top`: what the ports of this host do now. All of it comes from the agent that runs here; no device is read.

mod detail;
mod measures;
mod ports;
mod reading;
mod tables;

use crate::config::Http;
use crate::local_client::ask;
use fabriclens_top::{Curves, Snapshot, Source, print};
use reading::{Reading, Series};
use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

/// Readings of a port's load that are shown.
const CURVE: usize = 20;

/// Series and their rates.
type Rates = Vec<Option<f64>>;

/// Reads the agent on this host.
pub struct AgentSource {
    http: Option<Http>,
    now: Reading,
    rates: Rates,
    loads: Curves,
}

impl AgentSource {
    /// Reads the agent that has this listener.
    pub fn new(http: Option<Http>) -> Self {
        Self { http, now: Reading::default(), rates: Rates::new(), loads: Curves::new(CURVE) }
    }

    /// The tables after a new reading.
    fn take(&mut self, reading: Reading, health: &serde_json::Value) -> Snapshot {
        self.rates = rates(&reading, &self.now, &self.rates);
        self.now = reading;
        let summary = crate::status::text(health).lines().next().unwrap_or_default().to_owned();
        let ports = ports::table(&self.now, &self.rates, &mut self.loads);
        Snapshot { summary, tables: vec![ports, tables::jobs(&self.now), tables::sources(&self.now)] }
    }
}

impl Source for AgentSource {
    fn read(&mut self) -> Result<Snapshot, String> {
        let ask = |path| ask(self.http.as_ref(), path).map_err(|error| format!("{error:#}"));
        let (health, metrics) = (ask("/healthz")?, ask("/metrics")?);
        let reading =
            serde_json::from_value(metrics).map_err(|error| format!("another version of the agent: {error}"))?;
        Ok(self.take(reading, &health))
    }

    fn detail(&mut self, table: usize, id: &str) -> Result<String, String> {
        Ok(detail::text(table, id, &self.now, &self.rates))
    }
}

/// Growth per second of each counter. A series that was not read again keeps its rate.
fn rates(now: &Reading, before: &Reading, old: &Rates) -> Rates {
    type Key<'a> = (&'a str, &'a BTreeMap<String, String>);
    fn key(series: &Series) -> Key<'_> {
        (&series.name, &series.labels)
    }
    let earlier: HashMap<Key<'_>, usize> =
        before.series.iter().enumerate().map(|(place, series)| (key(series), place)).collect();
    let rate = |series: &Series| {
        let place = *earlier.get(&key(series)).filter(|_| series.is_counter())?;
        if series.is_as_old_as(&before.series[place]) {
            old.get(place).copied().flatten()
        } else {
            series.rate(&before.series[place])
        }
    };
    now.series.iter().map(rate).collect()
}

/// The tables as text: two readings so far apart.
///
/// # Errors
/// When the agent does not answer.
pub fn once(mut source: AgentSource, interval: Duration) -> anyhow::Result<String> {
    source.read().map_err(anyhow::Error::msg)?;
    // The agent renders a page once a second at most.
    std::thread::sleep(interval.max(Duration::from_millis(1100)));
    Ok(print(&source.read().map_err(anyhow::Error::msg)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn series(name: &str, labels: &[(&str, &str)], value: f64, second: u64) -> Value {
        let labels: BTreeMap<&str, &str> = labels.iter().copied().collect();
        let kind = if name.ends_with("_total") { "counter" } else { "gauge" };
        json!({"name": name, "type": kind, "labels": labels, "value": value, "time_ns": second * 1_000_000_000})
    }

    fn reading(second: u64) -> Reading {
        let (n, port) = (second as f64, [("device", "mlx5_0"), ("port", "1")]);
        let of = |more: &[(&'static str, &'static str)]| [&port[..], more].concat();
        let all = vec![
            series("fabric_port_up", &port, 1.0, second),
            series("fabric_port_rate_bytes_per_second", &port, 50e9, second),
            series("fabric_port_io_bytes_total", &of(&[("direction", "transmit")]), 25e9 * n, second),
            series("fabric_port_io_bytes_total", &of(&[("direction", "receive")]), 0.0, second),
            series(
                "fabric_pfc_pause_seconds_total",
                &of(&[("direction", "receive"), ("priority", "3")]),
                0.25 * n,
                second,
            ),
            series(
                "fabric_pfc_pause_seconds_total",
                &of(&[("direction", "receive"), ("priority", "4")]),
                0.1 * n,
                second,
            ),
            series("fabric_port_xmit_wait_bytes_total", &port, 5e9 * n, second),
            series("fabric_job_processes", &[("job", "4703"), ("scheduler", "slurm"), ("user", "ann")], 4.0, second),
        ];
        let sources = json!([{"sampler": "pfc", "target": "mlx5_0", "outcome": "error", "detail": "no permission",
            "counters": null, "read_seconds": 0.002}]);
        serde_json::from_value(json!({"series": all, "sources": sources})).unwrap()
    }

    fn snapshots() -> (AgentSource, String) {
        let health = json!({"status": "ok", "reasons": [], "sources": {"data": 3, "absent": 1}});
        let mut source = AgentSource::new(None);
        source.take(reading(10), &health);
        let text = print(&source.take(reading(12), &health));
        (source, text)
    }

    #[test]
    fn ports_have_the_rates_between_two_readings() {
        let (_, text) = snapshots();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "ok; 3 sources give data, 1 are not on this host");
        assert_eq!(
            lines[3..5],
            [
                "PORT      STATE  RATE  LOAD       SENT  RECEIVED  PAUSED  PAUSES  XMITWAIT  ERRORS  RETRANS  DISCARDS  CNP IN  CNP OUT  MARKED",
                "mlx5_0/1  up     400G  ▄     25.0 GB/s     0 B/s    25 %       -      10 %       -        -         -       -        -       -"
            ]
        );
    }

    #[test]
    fn a_page_that_was_not_rendered_again_keeps_its_rates() {
        let (mut source, text) = snapshots();
        let again = print(&source.take(reading(12), &json!({"status": "ok"})));
        let values = |text: &str| text.lines().nth(4).unwrap().split_whitespace().skip(4).collect::<String>();
        assert_eq!(values(&again), values(&text));
        assert!(values(&again).contains("25.0GB/s"), "{again}");
    }

    #[test]
    fn jobs_and_sources_are_listed_and_rows_are_told_in_full() {
        let (mut source, text) = snapshots();
        assert!(text.contains("\n4703  slurm      ann           4"), "{text}");
        assert!(text.contains("pfc     mlx5_0  error") && text.contains("no permission"), "{text}");
        let port = source.detail(0, "mlx5_0/1").unwrap();
        assert!(
            port.contains("300000000000.0   25.0 G/s  fabric_port_io_bytes_total{direction=\"transmit\"}\n"),
            "{port}"
        );
    }
}
