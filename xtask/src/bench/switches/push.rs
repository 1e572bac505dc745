//! Switches that push OTLP: the cost of a sample under the names of Cumulus Linux and under canonical names.

use super::Args;
use crate::bench::fleet::Sender;
use crate::bench::store::empty;
use crate::bench::store::server::{Kind, Server};
use crate::process::Process;
use anyhow::{Context, Result, ensure};
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

/// Seconds before the measurement: connections, new series, and the first samples of each.
const WARM_UP: u64 = 15;
/// Seconds between two reports of the sender.
const EVERY: u64 = 5;

/// Forms of the requests, as `fabriclens-load` calls them.
const FORMS: [&str; 2] = ["canonical", "cumulus"];

/// Totals of the sender, see `xtask/load/src/switches`.
#[derive(serde::Deserialize, Clone, Copy, Default)]
struct Sent {
    acked: u64,
    rejected: u64,
    refused: u64,
    late: u64,
    lag_ms: u64,
}

/// Cost of one form.
struct Figure {
    points_per_s: f64,
    /// Cores of the collector and of the sender.
    cores: f64,
    sender: f64,
}

impl Figure {
    fn us_per_point(&self) -> f64 {
        self.cores * 1e6 / self.points_per_s
    }
}

/// Measures both forms in turns, each with an empty collector.
///
/// # Errors
/// When a program does not start, or the sender fails.
pub(super) fn run(args: &Args, collector: &Path, load: &Path, dir: &Path) -> Result<()> {
    println!("\nOTLP: {} switches with {} ports and 18 counters each, each second", args.switches, args.ports);
    println!(
        "{:<12}{:>12}{:>11}{:>12}{:>11}{:>10}{:>9}{:>9}{:>9}",
        "names", "points/s", "collector", "per point", "sender", "RSS", "lag", "refused", "late"
    );
    let mut costs: [Vec<f64>; 2] = Default::default();
    for _ in 0..args.rounds {
        for (form, costs) in FORMS.iter().zip(&mut costs) {
            costs.push(measure(args, form, collector, load, dir)?.us_per_point());
        }
    }
    let least = |costs: &[f64]| costs.iter().copied().fold(f64::INFINITY, f64::min);
    println!("cost of a foreign point in canonical points: {:.2}", least(&costs[1]) / least(&costs[0]));
    Ok(())
}

fn measure(args: &Args, form: &str, collector: &Path, load: &Path, dir: &Path) -> Result<Figure> {
    empty(dir)?;
    let server = Server::start(Kind::Fabriclens, collector, dir)?;
    let mut command = Command::new(load);
    command.args(["switches", "--to", server.otlp(), "--form", form]);
    for (option, value) in [
        ("--switches", args.switches),
        ("--ports", args.ports),
        ("--seconds", WARM_UP + args.seconds + EVERY),
        ("--every", EVERY),
    ] {
        command.args([option, &value.to_string()]);
    }
    let mut sender = Sender(command.stdout(Stdio::piped()).stdin(Stdio::null()).spawn().context("start the sender")?);
    let lines = BufReader::new(sender.0.stdout.take().context("no output of the sender")?).lines();
    let started = Instant::now();
    let mut begin: Option<(Instant, [u64; 2], Sent)> = None;
    let mut lag_ms = 0;
    for line in lines {
        let sent: Sent = serde_json::from_str(&line?).context("read the report of the sender")?;
        let cpu = [server.process().cpu_total_ns()?, Process::cpu_total_of(sender.0.id())?];
        let Some((at, before, had)) = begin else {
            if started.elapsed().as_secs() >= WARM_UP {
                begin = Some((Instant::now(), cpu, sent));
            }
            continue;
        };
        lag_ms = lag_ms.max(sent.lag_ms);
        let took = at.elapsed().as_secs_f64();
        if took + 0.5 < args.seconds as f64 {
            continue;
        }
        let cores = [0, 1].map(|i| (cpu[i] - before[i]) as f64 / 1e9 / took);
        let figure = Figure { points_per_s: (sent.acked - had.acked) as f64 / took, cores: cores[0], sender: cores[1] };
        ensure!(figure.points_per_s > 0.0 && sent.rejected == 0, "the collector took nothing, or rejected points");
        println!(
            "{form:<12}{:>12.0}{:>9.1} %{:>9.3} us{:>9.1} %{:>7.0} MB{lag_ms:>6} ms{:>9}{:>9}",
            figure.points_per_s,
            figure.cores * 100.0,
            figure.us_per_point(),
            figure.sender * 100.0,
            server.process().size()?.rss as f64 / 1e6,
            sent.refused - had.refused,
            sent.late - had.late,
        );
        return Ok(figure);
    }
    anyhow::bail!("the sender ended early")
}
