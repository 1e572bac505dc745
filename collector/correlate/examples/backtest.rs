//! `fabriclens backtest --format json` without the rest of the collector, which takes long to build: `cargo build --release
//! -p fabriclens-correlate --example backtest`, and the program is the one that `--collector` of `cargo xtask bench verdicts`
//! and `bench backtest` names. It also lists the thresholds that were read, so that `--sensitivity` and `--halves` need not vary
//! the others. Arguments: `backtest --format json [--stretch N] [--ports hosts] [--threshold NAME=VALUE]… DIR`.

use fabriclens_correlate::recording::{ReadAs, Recording};
use fabriclens_correlate::{Incident, Severity, Thresholds, backtest, detectors};
use std::error::Error;
use std::path::Path;

fn main() -> Result<(), Box<dyn Error>> {
    let (mut how, mut thresholds, mut dir) =
        (ReadAs { stretch: 1, hosts_only: false }, Thresholds::default(), String::new());
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or_else(|| format!("{argument} needs a value"));
        match argument.as_str() {
            "backtest" => {}
            "--format" => _ = value()?,
            "--stretch" => how.stretch = value()?.parse()?,
            "--ports" => how.hosts_only = value()? == "hosts",
            "--threshold" => {
                let flag = value()?;
                let (name, number) = flag.split_once('=').ok_or("--threshold is NAME=VALUE")?;
                thresholds.set(name, number.parse()?)?;
            }
            _ => dir = argument,
        }
    }
    let all = backtest(Recording::open(Path::new(&dir), how)?, thresholds)?;
    let (observations, incidents): (Vec<Incident>, Vec<Incident>) =
        all.into_iter().partition(|incident| incident.severity == Severity::Info);
    let read: Vec<&str> = detectors::thresholds().filter(|one| one.was_read()).map(|one| one.name).collect();
    println!(
        "{}",
        serde_json::json!({ "incidents": incidents, "observations": observations, "thresholds_read": read })
    );
    Ok(())
}
