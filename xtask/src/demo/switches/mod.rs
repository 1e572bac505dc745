//! The switches of the demo: leaves push OTLP as Cumulus Linux does, spines answer gNMI as SONiC does. Both tell the
//! counters of the simulator's links.

mod cumulus;
mod sonic;

use crate::sim::fabric::Fabric;
use crate::sim::link::Link;
use crate::sim::switch::{self, Switch};
use anyhow::{Context, Result, bail};
use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader};
use std::ops::Range;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Interval of both kinds of switches.
const INTERVAL: Duration = Duration::from_secs(1);
/// Requests in a row that may fail. Like a switch, the demo does not repeat them.
const FAILURES: u32 = 10;

/// The process that answers gNMI for all spines.
pub struct Spines {
    pub process: Child,
    pub values: Values,
    /// Configuration of the collector that reads them.
    pub config: String,
}

/// Where the process reads the values that its switches tell. It ends when this is dropped.
pub struct Values {
    input: ChildStdin,
    spines: Vec<Switch>,
}

impl Values {
    /// Sets the counters of these switches, by their index.
    ///
    /// # Errors
    /// When the process has ended.
    pub fn write(&mut self, which: Range<usize>, links: &[Link]) -> Result<()> {
        sonic::write_counters(&mut self.input, &self.spines[which], links)
    }

    /// Number of switches.
    pub fn len(&self) -> usize {
        self.spines.len()
    }
}

impl Spines {
    /// Starts the process for these switches, with the values of `links`.
    ///
    /// # Errors
    /// When it does not start or ends early.
    pub fn start(program: &Path, spines: Vec<Switch>, links: &[Link]) -> Result<Self> {
        // setpriv (util-linux): the kernel ends the child when this process ends.
        let mut process = Command::new("setpriv")
            .args(["--pdeathsig", "TERM", "--"])
            .arg(program)
            .args(spines.iter().map(|spine| &spine.name))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("start {}", program.display()))?;
        let input = process.stdin.take().context("standard input of the spines")?;
        let mut lines = BufReader::new(process.stdout.take().context("standard output of the spines")?).lines();
        let mut config = String::new();
        for _ in &spines {
            let line = lines.next().context("the spines ended early")??;
            let Some((name, address)) = line.split_once(' ') else { bail!("the spines printed {line:?}") };
            writeln!(
                config,
                "[[gnmi.targets]]\nname = \"{name}\"\naddress = \"{address}\"\nkind = \"sonic\"\ntls = false\n"
            )?;
        }
        let mut values = Values { input, spines };
        sonic::write_state(&mut values.input, &values.spines)?;
        values.write(0..values.len(), links)?;
        Ok(Self { process, values, config })
    }
}

/// Present counters of all links.
///
/// # Errors
/// When the simulator has panicked.
pub fn links(fabric: &Mutex<Fabric>) -> Result<Vec<Link>> {
    Ok(fabric.lock().map_err(|_| anyhow::anyhow!("the simulator panicked"))?.links.clone())
}

/// Sends the counters of all switches each second until `stop`.
///
/// # Errors
/// When the collector takes none of them, or the spines ended.
pub fn run(otlp: &str, values: &mut Values, fabric: &Mutex<Fabric>, stop: &AtomicBool) -> Result<()> {
    let leaves = switch::leaves();
    let (mut next, mut failures) = (Instant::now(), 0);
    while !stop.load(Ordering::SeqCst) {
        std::thread::sleep(next.saturating_duration_since(Instant::now()).min(Duration::from_millis(100)));
        if Instant::now() < next {
            continue;
        }
        next += INTERVAL;
        let (now, links) = (SystemTime::now().duration_since(UNIX_EPOCH)?, links(fabric)?);
        values.write(0..values.len(), &links)?;
        for leaf in &leaves {
            match cumulus::push(otlp, leaf, &links, now) {
                Ok(()) => failures = 0,
                Err(e) if failures >= FAILURES => return Err(e),
                Err(_) => failures += 1,
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use fabriclens_foreign::sources::{cumulus, gnmi_sonic};
    use fabriclens_foreign::{Meaning, meaning};
    use serde_json::Value;

    fn named(meaning: Meaning, name: &str) -> String {
        match meaning {
            Meaning::Series(series) => series.metric.prometheus_name(),
            other => panic!("{name}: {other:?}"),
        }
    }

    #[test]
    fn the_collector_understands_every_counter_of_a_leaf() {
        let leaf = &switch::leaves()[0];
        let request = super::cumulus::request(leaf, &Fabric::new().links, INTERVAL);
        let metrics = request["resourceMetrics"][0]["scopeMetrics"][0]["metrics"].as_array().unwrap().clone();
        for metric in &metrics {
            let (name, points) = (metric["name"].as_str().unwrap(), &metric["gauge"]["dataPoints"]);
            assert_eq!(points.as_array().unwrap().len(), leaf.ports.len());
            // Attributes become labels.
            let labels: Vec<(String, &str)> = points[0]["attributes"]
                .as_array()
                .unwrap()
                .iter()
                .map(|a| {
                    let value = a["value"]["stringValue"].as_str().unwrap();
                    (a["key"].as_str().unwrap().replace('-', "_"), value)
                })
                .collect();
            let labels: Vec<(&str, &str)> = labels.iter().map(|(key, value)| (key.as_str(), *value)).collect();
            match meaning(&cumulus::SOURCE, name, &labels[..]) {
                Meaning::Unknown => panic!("{name} is unknown"),
                Meaning::LeftOut(why) => assert!(name.starts_with("nvswitch_lldp"), "{name}: {why}"),
                Meaning::Series(series) => assert_eq!(series.port.as_deref(), Some("swp1"), "{name}"),
            }
        }
    }

    #[test]
    fn the_collector_understands_every_counter_of_a_spine() {
        let (spines, mut lines) = (switch::spines(), Vec::new());
        sonic::write_counters(&mut lines, &spines, &Fabric::new().links).unwrap();
        let mut metrics = std::collections::BTreeSet::new();
        for line in String::from_utf8(lines).unwrap().lines() {
            let (_, _, table): (String, String, Value) = serde_json::from_str(line).unwrap();
            for (object, fields) in table.as_object().unwrap() {
                for field in fields.as_object().unwrap().keys() {
                    let name = format!("COUNTERS/{field}");
                    metrics.insert(named(
                        meaning(&gnmi_sonic::SOURCE, &name, &[("object_name", object.as_str())][..]),
                        &name,
                    ));
                }
            }
        }
        for wanted in ["fabric_port_io_bytes_total", "fabric_pfc_pause_seconds_total", "fabric_ecn_marks_total"] {
            assert!(metrics.contains(wanted), "{metrics:?}");
        }
    }
}
