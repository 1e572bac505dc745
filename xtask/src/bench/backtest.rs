//! `bench backtest`: processor time and memory of a back-test by the length of the recording. The recording is ordinary
//! life of a fleet, repeated end to end.

use super::judged;
use super::verdicts::row::Columns;
use crate::process::Process;
use crate::steps::{cargo, must, root, target};
use anyhow::{Context, Result, bail, ensure};
use flate2::Compression;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;
use serde_json::Value;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Seconds of processor time a port-hour: 100,000 of them in ten minutes of one core.
const GOAL_S: f64 = 600.0 / 100_000.0;
/// Growth of memory up to which it does not depend on the length.
const STEADY: f64 = 1.2;
/// Columns that are no cumulative counters.
const GAUGES: [&str; 9] = ["node", "port", "speed_gbps", "q_bytes", "q_max_bytes", "up", "width", "temp_c", "rx_dbm"];

/// Options of `bench backtest`.
#[derive(clap::Args)]
pub struct Args {
    /// Recording that is repeated [default: life-1 of the recordings of ordinary life]
    dir: Option<PathBuf>,
    /// How often it is repeated
    #[arg(long, value_delimiter = ',', default_value = "1,4,12")]
    times: Vec<u32>,
    /// Measures this collector instead of building one
    #[arg(long)]
    collector: Option<PathBuf>,
}

/// Runs the back-tests and prints a row for each length.
///
/// # Errors
/// When the recording cannot be read or a back-test fails.
pub fn run(args: &Args) -> Result<()> {
    let default = || {
        let sets = std::env::var_os("FABRICLENS_SCENARIOS_LIFE");
        sets.map_or_else(|| root().join("../shared/scenarios-life"), PathBuf::from).join("life-1")
    };
    let dir = args.dir.clone().unwrap_or_else(default);
    let program = match &args.collector {
        Some(program) => program.clone(),
        None => {
            must(cargo(&["build", "--release", "--locked", "-p", "fabriclens"]))?;
            target()?.join("release/fabriclens")
        }
    };
    let work = std::env::temp_dir().join(format!("fabriclens-backtest-{}", std::process::id()));
    println!("| repeated | port-hours | CPU s | s a port-hour | peak MB |\n|---|---|---|---|---|");
    let rows: Result<Vec<[f64; 2]>> = args.times.iter().map(|times| one(&program, &dir, &work, *times)).collect();
    std::fs::remove_dir_all(&work).ok();
    let rows = rows?;
    let (Some([_, first_mb]), Some([last_s, last_mb])) = (rows.first(), rows.last()) else { return Ok(()) };
    println!("at most {GOAL_S} s a port-hour: {}", judged(*last_s <= GOAL_S));
    println!("memory does not depend on the length: {}", judged(*last_mb <= STEADY * first_mb));
    Ok(())
}

/// Seconds a port-hour, and peak of memory in MB.
fn one(program: &Path, dir: &Path, work: &Path, times: u32) -> Result<[f64; 2]> {
    std::fs::create_dir_all(work).with_context(|| format!("create {}", work.display()))?;
    let port_seconds = repeat(dir, work, times)?;
    let args = ["backtest", "--format", "json"].map(String::from);
    let log = work.join("answer.json");
    let mut process = Process::start(program, &[&args[..], &[work.display().to_string()]].concat(), &log)?;
    let (mut cpu_ns, mut peak) = (0, 0);
    while process.is_alive() {
        cpu_ns = process.cpu_total_ns().unwrap_or(cpu_ns);
        peak = process.size().map_or(peak, |size| size.peak);
        std::thread::sleep(Duration::from_millis(20));
    }
    let answer: Value = serde_json::from_slice(&std::fs::read(&log)?).context("the back-test gave no answer")?;
    ensure!(answer["incidents"].is_array(), "the back-test gave no incidents");
    let (hours, cpu_s, mb) = (port_seconds / 3600.0, cpu_ns as f64 / 1e9, peak as f64 / 1e6);
    println!("| {times} | {hours:.0} | {cpu_s:.1} | {:.4} | {mb:.0} |", cpu_s / hours);
    Ok([cpu_s / hours, mb])
}

/// Writes the recording end to end, sorted by port as it is; gives port-seconds. Counters go on where they ended, jobs
/// begin again under other names.
fn repeat(dir: &Path, to: &Path, times: u32) -> Result<f64> {
    std::fs::copy(dir.join("topology.json"), to.join("topology.json"))?;
    let (columns, rows) = open(dir)?;
    let mut length_ns = 0;
    for row in rows {
        length_ns = length_ns.max(row?[columns.tick].parse::<i64>()?);
    }
    let times = i64::from(times);
    repeat_jobs(dir, to, times, length_ns)?;
    let mut output = GzEncoder::new(File::create(to.join("ports.csv.gz"))?, Compression::fast());
    writeln!(output, "{}", columns.names.join(","))?;
    let (mut seconds, mut of_port): (usize, Vec<Vec<String>>) = (0, Vec::new());
    let mut rows = open(dir)?.1.peekable();
    while let Some(row) = rows.next() {
        of_port.push(row?);
        let same = |next: &Vec<String>| [columns.node, columns.port].iter().all(|at| next[*at] == of_port[0][*at]);
        if rows.peek().is_some_and(|next| next.as_ref().is_ok_and(same)) {
            continue;
        }
        seconds += of_port.len() * usize::try_from(times)?;
        for time in 0..times {
            for cells in &of_port {
                writeln!(output, "{}", later(&columns, cells, &of_port, time, length_ns))?;
            }
        }
        of_port.clear();
    }
    output.finish()?;
    Ok(seconds as f64)
}

/// A row of one of the repetitions.
fn later(columns: &Columns, cells: &[String], of_port: &[Vec<String>], time: i64, length_ns: i64) -> String {
    let number = |row: Option<&Vec<String>>, at: usize| row.and_then(|row| row[at].parse::<i64>().ok());
    let moved = |at: usize| {
        let now = cells[at].parse::<i64>().ok()?;
        let more = if at == columns.tick {
            length_ns
        } else if GAUGES.contains(&columns.names[at].as_str()) {
            return None;
        } else {
            // What restarted at zero may end below where it began.
            (number(of_port.last(), at)? - number(of_port.first(), at)?).max(0)
        };
        Some((now + time * more).to_string())
    };
    let cells = (0..cells.len()).map(|at| moved(at).unwrap_or_else(|| cells[at].clone()));
    cells.collect::<Vec<_>>().join(",")
}

/// Columns and rows of a recording.
fn open(dir: &Path) -> Result<(Columns, impl Iterator<Item = Result<Vec<String>>>)> {
    let path = dir.join("ports.csv.gz");
    let input = File::open(&path).with_context(|| format!("read {}", path.display()))?;
    let mut lines = BufReader::new(MultiGzDecoder::new(input)).lines();
    let head = lines.next().context("ports.csv.gz is empty")??;
    Ok((Columns::parse(&head)?, lines.map(|line| Ok(line?.split(',').map(str::to_owned).collect()))))
}

fn repeat_jobs(dir: &Path, to: &Path, times: i64, length_ns: i64) -> Result<()> {
    let mut jobs: Value = serde_json::from_slice(&std::fs::read(dir.join("jobs.json"))?)?;
    let Some(list) = jobs["jobs"].as_array_mut() else { bail!("jobs.json has no jobs") };
    let later = |time: i64| {
        list.iter().cloned().map(move |mut job| {
            job["id"] = format!("{}.{time}", job["id"].as_str().unwrap_or_default()).into();
            for key in ["start_ns", "end_ns"] {
                if let Some(at) = job[key].as_i64() {
                    job[key] = (at + time * length_ns).into();
                }
            }
            job
        })
    };
    let all: Vec<Value> = (0..times).flat_map(later).collect();
    jobs["jobs"] = all.into();
    std::fs::write(to.join("jobs.json"), jobs.to_string()).context("write jobs.json")
}
