//! `bench verdicts`: accuracy of the detectors on recordings with known ground truth, with complete and with degraded input.
//!
//! The input of a back-test is copied to a directory with a neutral name and without the ground truth.

mod broken_counters;
mod degrade;
mod fleet;
mod ground_truth;
mod halves;
mod infiniband;
mod left_out;
mod life;
mod modes;
mod phases;
mod place;
mod reliability;
mod renaming;
pub mod row;
mod row_writer;
mod scale;
mod score;
mod sensitivity;
mod sets;
mod table;
mod trials;
mod unrelated;

use crate::steps::{cargo, must, target};
use anyhow::{Context, Result, bail};
use ground_truth::Truth;
use modes::Mode;
use score::{Answer, Tally};
use sets::{Judge, Set};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Options of `bench verdicts`.
#[derive(clap::Args)]
pub struct Args {
    /// Directories with truth.json [default: all of each set]
    dirs: Vec<PathBuf>,
    /// Only these sets: scenarios, scenarios-probed, scenarios-ib, scenarios-life (or the set to which DIR belongs)
    #[arg(long, value_name = "NAME")]
    set: Vec<String>,
    /// Only these rows of the tables, by name
    #[arg(long, value_name = "NAME")]
    mode: Vec<String>,
    /// Measures this collector instead of building one
    #[arg(long)]
    collector: Option<PathBuf>,
    /// Prints the answer for each run
    #[arg(long)]
    each: bool,
    /// Judges so many made-up fleets of nothing but ordinary life, every other one InfiniBand, instead of recordings
    #[arg(long, value_name = "COUNT")]
    fleets: Option<u64>,
    /// Varies the main threshold of each detector by a quarter instead; takes four minutes of CPU for a set
    #[arg(long)]
    sensitivity: bool,
    /// Chooses the main threshold of each detector on half of the runs and reports the other half; takes longer
    #[arg(long, conflicts_with = "sensitivity")]
    halves: bool,
}

/// Runs all recordings in all modes and prints the tables.
///
/// # Errors
/// When a recording cannot be read, a set is unknown, or the back-test fails.
pub fn run(args: &Args) -> Result<()> {
    only_known("set", &args.set, sets::ALL.iter().map(|set| set.name))?;
    only_known("mode", &args.mode, modes::all().map(|mode| mode.name))?;
    let program = match &args.collector {
        Some(program) => program.clone(),
        None => {
            must(cargo(&["build", "--release", "--locked", "-p", "fabriclens"]))?;
            target()?.join("release/fabriclens")
        }
    };
    let work = std::env::temp_dir().join(format!("fabriclens-verdicts-{}", std::process::id()));
    if let Some(count) = args.fleets {
        return judge_fleets(&program, count, &work, args);
    }
    for set in sets::ALL.iter().filter(|set| args.set.is_empty() || args.set.iter().any(|name| name == set.name)) {
        let dirs = match &args.dirs[..] {
            [] => set.dirs()?,
            _ if args.set.len() != 1 && set.name != sets::ALL[0].name => continue,
            dirs => dirs.to_vec(),
        };
        if dirs.is_empty() {
            continue;
        }
        println!("\n== {}: {}", set.name, set.what);
        if args.sensitivity {
            sensitivity::run(&program, set, &dirs, &work)?;
        } else if args.halves {
            halves::run(&program, set, &dirs, &work)?;
        } else {
            measure(&program, set, &dirs, &work, args)?;
        }
    }
    Ok(())
}

/// Judges made-up fleets. They stay in the target directory, to be looked at and judged again.
fn judge_fleets(program: &Path, count: u64, work: &Path, args: &Args) -> Result<()> {
    let fleets = target()?.join("fleets");
    let dirs: Vec<PathBuf> = (0..count).map(|seed| fleets.join(seed.to_string())).collect();
    for (dir, seed) in dirs.iter().zip(0..) {
        std::fs::create_dir_all(dir)?;
        fleet::write(seed, dir)?;
    }
    println!("\n== {}: {}, in {}", sets::FLEETS.name, sets::FLEETS.what, fleets.display());
    measure(program, &sets::FLEETS, &dirs, work, args)
}

/// Fails with the names that there are if one of those wanted is none of them.
fn only_known(what: &str, wanted: &[String], known: impl Iterator<Item = &'static str>) -> Result<()> {
    let known: Vec<&str> = known.collect();
    match wanted.iter().find(|name| !known.contains(&name.as_str())) {
        Some(name) => bail!("there is no {what} {name}; there are {}", known.join(", ")),
        None => Ok(()),
    }
}

/// Judges all recordings of a set in its modes, and prints its tables.
fn measure(program: &Path, set: &Set, dirs: &[PathBuf], work: &Path, args: &Args) -> Result<()> {
    let mut tallies = Vec::new();
    for mode in set.modes().filter(|mode| args.mode.is_empty() || args.mode.iter().any(|name| name == mode.name)) {
        let mut tally = Tally::default();
        for (at, dir) in dirs.iter().enumerate() {
            let other = mode.unrelated.then(|| next_fault(set, dirs, at)).transpose()?.flatten();
            let answer = judge(program, set, dir, other, mode, work, &mut tally);
            std::fs::remove_dir_all(work).ok();
            let line = answer.with_context(|| format!("{} ({})", dir.display(), mode.name))?;
            if args.each {
                println!("{:<22} {:<18} {line}", mode.name, dir.file_name().unwrap_or_default().to_string_lossy());
            }
        }
        tallies.push((mode.name, tally));
    }
    table::print(set, &tallies);
    Ok(())
}

/// The next simulation with a fault, after this one.
fn next_fault<'a>(set: &Set, dirs: &'a [PathBuf], at: usize) -> Result<Option<&'a Path>> {
    for dir in dirs.iter().cycle().skip(at + 1).take(dirs.len() - 1) {
        if !Truth::read(dir, set.stretch())?.faults.is_empty() {
            return Ok(Some(dir));
        }
    }
    Ok(None)
}

/// Judges one simulation in one mode, together with an unrelated one if given; describes the answer.
fn judge(
    program: &Path,
    set: &Set,
    dir: &Path,
    other: Option<&Path>,
    mode: &Mode,
    work: &Path,
    tally: &mut Tally,
) -> Result<String> {
    let truth = Truth::read(dir, set.stretch())?;
    let prepared = degrade::prepare(dir, work, mode, &truth)?;
    if let Some(other) = other {
        let apart = work.join("unrelated");
        degrade::prepare(other, &apart, mode, &Truth::read(other, set.stretch())?)?;
        unrelated::merge(work, &apart)?;
        std::fs::remove_dir_all(&apart)?;
    }
    let mut answer = ask(program, set, work, &[])?;
    prepared.renaming.restore(&mut answer);
    let mut answer: Answer = serde_json::from_value(answer).context("understanding the answer of the back-test")?;
    answer.incidents.retain(|incident| !incident.is_unrelated());
    match set.judge {
        Judge::Faults => Ok(tally.add(&truth, &answer.incidents, mode.every, prepared.port_seconds)),
        Judge::Life => life::add(tally, dir, &truth, &answer.incidents, prepared.port_seconds),
    }
}

/// Runs a back-test of a directory; gives its JSON.
fn ask(program: &Path, set: &Set, dir: &Path, flags: &[String]) -> Result<serde_json::Value> {
    let stretch = set.stretch().to_string();
    let output = Command::new(program)
        .args(["backtest", "--format", "json", "--stretch", &stretch])
        .args(flags)
        .arg(dir)
        .output()
        .with_context(|| format!("start {}", program.display()))?;
    if !output.status.success() {
        bail!("{} failed: {}", program.display(), String::from_utf8_lossy(&output.stderr));
    }
    serde_json::from_slice(&output.stdout).context("reading the answer of the back-test")
}
