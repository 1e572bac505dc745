//! `bench verdicts`: how right the detectors are on simulations whose truth is known, with all that could be read and with
//! less than that. What a run of the back-test is given is written to a directory of its own under a neutral name, with
//! nothing of the truth in it.

mod beside;
mod degrade;
mod score;
mod sensitivity;
mod table;
mod truth;
mod wrong;

use crate::steps::{cargo, must, root, target};
use anyhow::{Context, Result, bail};
use degrade::Mode;
use score::Tally;
use std::path::{Path, PathBuf};
use std::process::Command;
use truth::Truth;

/// One simulated millisecond stands for a second.
const STRETCH: i64 = 1000;

/// Options of `bench verdicts`.
#[derive(clap::Args)]
pub struct Args {
    /// Runs with truth.json; all in $FABRICLENS_SCENARIOS, or ../shared/scenarios, when none is named
    dirs: Vec<PathBuf>,
    /// Judges with this program instead of building one
    #[arg(long)]
    collector: Option<PathBuf>,
    /// Tells what was answered for each run
    #[arg(long)]
    each: bool,
    /// Judges with a quarter less and a quarter more of each detector's main number instead; takes minutes of a core
    #[arg(long)]
    sensitivity: bool,
}

/// Judges all runs in all ways and prints the tables.
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
            let other = mode.beside.then(|| next_fault(&dirs, at)).transpose()?.flatten();
            let told = judge(&program, dir, other, mode, &work, &mut tally);
            std::fs::remove_dir_all(&work).ok();
            let line = told.with_context(|| format!("{} ({})", dir.display(), mode.name))?;
            if args.each {
                println!("{:<22} {:<18} {line}", mode.name, dir.file_name().unwrap_or_default().to_string_lossy());
            }
        }
        tallies.push((mode.name, tally));
    }
    table::print(&tallies);
    Ok(())
}

/// Every run that there is; none, loudly, where there are none.
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

/// The next run with a fault, after this one.
fn next_fault(dirs: &[PathBuf], at: usize) -> Result<Option<&Path>> {
    for dir in dirs.iter().cycle().skip(at + 1).take(dirs.len() - 1) {
        if Truth::read(dir)?.fault.is_some() {
            return Ok(Some(dir));
        }
    }
    Ok(None)
}

/// One run in one way, beside another if there is one; what was answered, in words.
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
        let apart = work.join("beside");
        degrade::prepare(other, &apart, mode, &Truth::read(other)?)?;
        beside::put(work, &apart)?;
        std::fs::remove_dir_all(&apart)?;
    }
    let mut answer = ask(program, work, &[])?;
    answer.incidents.retain(|incident| !incident.is_beside());
    Ok(tally.add(&truth, &answer.incidents, mode.every, port_seconds))
}

/// What the program says of a directory.
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
    serde_json::from_slice(&output.stdout).context("reading what the program printed")
}
