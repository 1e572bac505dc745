//! `bench verdicts`: accuracy of the detectors on simulations with known ground truth, with complete and with degraded input.
//!
//! The input of a back-test is copied to a directory with a neutral name and without the ground truth.

mod broken_counters;
mod degrade;
mod ground_truth;
mod score;
mod sensitivity;
mod table;
mod unrelated;

use crate::steps::{cargo, must, root, target};
use anyhow::{Context, Result, bail};
use degrade::Mode;
use ground_truth::{STRETCH, Truth};
use score::Tally;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Options of `bench verdicts`.
#[derive(clap::Args)]
pub struct Args {
    /// Directories with truth.json [default: all in $FABRICLENS_SCENARIOS, or in ../shared/scenarios]
    dirs: Vec<PathBuf>,
    /// Measures this collector instead of building one
    #[arg(long)]
    collector: Option<PathBuf>,
    /// Prints the answer for each run
    #[arg(long)]
    each: bool,
    /// Varies the main threshold of each detector by a quarter instead; takes minutes of CPU
    #[arg(long)]
    sensitivity: bool,
}

/// Runs all simulations in all modes and prints the tables.
///
/// # Errors
/// When a simulation cannot be read or the back-test fails.
pub fn run(args: &Args) -> Result<()> {
    let dirs = if args.dirs.is_empty() { all()? } else { args.dirs.clone() };
    let Some(dirs) = Some(dirs).filter(|d| !d.is_empty()) else { return Ok(()) };
    let program = match &args.collector {
        Some(program) => program.clone(),
        None => {
            must(cargo(&["build", "--release", "--locked", "-p", "fabriclens"]))?;
            target()?.join("release/fabriclens")
        }
    };
    let work = std::env::temp_dir().join(format!("fabriclens-verdicts-{}", std::process::id()));
    if args.sensitivity {
        return sensitivity::run(&program, &dirs, &work);
    }
    let mut tallies = Vec::new();
    for mode in &degrade::ALL {
        let mut tally = Tally::default();
        for (at, dir) in dirs.iter().enumerate() {
            let other = mode.unrelated.then(|| next_fault(&dirs, at)).transpose()?.flatten();
            let answer = judge(&program, dir, other, mode, &work, &mut tally);
            std::fs::remove_dir_all(&work).ok();
            let line = answer.with_context(|| format!("{} ({})", dir.display(), mode.name))?;
            if args.each {
                println!("{:<22} {:<18} {line}", mode.name, dir.file_name().unwrap_or_default().to_string_lossy());
            }
        }
        tallies.push((mode.name, tally));
    }
    table::print(&tallies);
    Ok(())
}

/// All simulations; empty with a message if there are none.
fn all() -> Result<Vec<PathBuf>> {
    let dir =
        std::env::var_os("FABRICLENS_SCENARIOS").map_or_else(|| root().join("../shared/scenarios"), PathBuf::from);
    let Ok(entries) = std::fs::read_dir(&dir) else {
        eprintln!("SKIPPED: no simulations at {}; set FABRICLENS_SCENARIOS", dir.display());
        return Ok(Vec::new());
    };
    let mut dirs = entries.map(|e| Ok(e?.path())).collect::<Result<Vec<_>>>()?;
    dirs.retain(|d| d.join("truth.json").is_file());
    dirs.sort();
    Ok(dirs)
}

/// The next simulation with a fault, after this one.
fn next_fault(dirs: &[PathBuf], at: usize) -> Result<Option<&Path>> {
    for dir in dirs.iter().cycle().skip(at + 1).take(dirs.len() - 1) {
        if Truth::read(dir)?.fault.is_some() {
            return Ok(Some(dir));
        }
    }
    Ok(None)
}

/// Judges one simulation in one mode, together with an unrelated one if given; describes the answer.
fn judge(
    program: &Path,
    dir: &Path,
    other: Option<&Path>,
    mode: &Mode,
    work: &Path,
    tally: &mut Tally,
) -> Result<String> {
    let truth = Truth::read(dir)?;
    let port_seconds = degrade::prepare(dir, work, mode, &truth)?;
    if let Some(other) = other {
        let apart = work.join("unrelated");
        degrade::prepare(other, &apart, mode, &Truth::read(other)?)?;
        unrelated::merge(work, &apart)?;
        std::fs::remove_dir_all(&apart)?;
    }
    let mut answer = ask(program, work, &[])?;
    answer.incidents.retain(|incident| !incident.is_unrelated());
    Ok(tally.add(&truth, &answer.incidents, mode.every, port_seconds))
}

/// Runs a back-test of a directory.
fn ask(program: &Path, dir: &Path, flags: &[String]) -> Result<score::Answer> {
    let stretch = STRETCH.to_string();
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
