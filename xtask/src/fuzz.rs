//! `cargo xtask fuzz`: libFuzzer over the table of targets in `fuzz/src/targets.rs`, one program for all of them.
//!
//! Works on the stable compiler, which has LLVM's coverage pass. Address sanitizers need nightly, but the fuzzed code has no
//! `unsafe`. Inputs that add coverage are kept in the target directory, so each run continues the last one.

use crate::setup::{self, ensure};
use crate::steps::{cargo, must, output, target};
use anyhow::{Context, Result, bail};
use std::fs;
use std::io::{BufRead as _, BufReader, IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Compiler flags of `cargo fuzz` that work on stable.
const FLAGS: &str = "--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares";
/// Timeout of one input in seconds, and memory limit in MiB.
const BOUNDS: [&str; 2] = ["-timeout=10", "-rss_limit_mb=1024"];

/// Options of `fuzz`.
#[derive(clap::Args)]
pub struct Args {
    /// Seconds per target
    #[arg(long, value_name = "N", default_value_t = 60)]
    pub seconds: u64,
    /// Targets to run [default: all]
    #[arg(value_name = "TARGET")]
    pub targets: Vec<String>,
}

/// Result of one target.
#[derive(Default)]
struct Outcome {
    inputs: u64,
    coverage: u64,
    cpu: f64,
    /// Failing input, with its message.
    finding: Option<(PathBuf, String)>,
}

/// Builds and runs the targets.
///
/// # Errors
/// When the build fails, a target is unknown, or an input fails; lists all failing inputs.
pub fn run(args: &Args) -> Result<()> {
    if !ensure(&setup::COMPILER)? {
        return Ok(());
    }
    let (program, dir) = build()?;
    let all = output(Command::new(&program))?;
    let known = |name: &&str| args.targets.is_empty() || args.targets.iter().any(|t| t == name);
    let chosen: Vec<&str> = all.lines().filter(known).collect();
    if let Some(unknown) = args.targets.iter().find(|t| !all.lines().any(|name| name == *t)) {
        bail!("there is no target `{unknown}`; the targets are {}", all.replace('\n', ", "));
    }
    println!("{:<14} {:>8} {:>11} {:>9}  finding", "target", "cpu s", "inputs", "coverage");
    let mut found = Vec::new();
    for name in chosen {
        let done = fuzz(&program, &dir, name, args.seconds).with_context(|| format!("fuzzing {name}"))?;
        let finding = done.finding.as_ref().map_or("none", |(_, message)| message);
        println!("\r{name:<14} {:>8.1} {:>11} {:>9}  {finding}", done.cpu, done.inputs, done.coverage);
        found.extend(done.finding.map(|(path, _)| format!("{name}: {}", path.display())));
    }
    if !found.is_empty() {
        bail!("failing inputs; fix the cause and keep each input as fuzz/findings/TARGET/NAME:\n{}", found.join("\n"));
    }
    Ok(())
}

/// Builds the fuzzer; gives the program and the directory of corpora and findings.
fn build() -> Result<(PathBuf, PathBuf)> {
    let rustc = output({
        let mut rustc = Command::new("rustc");
        rustc.arg("-vV");
        rustc
    })?;
    let host = rustc.lines().find_map(|line| line.strip_prefix("host: ")).context("rustc -vV prints no host")?;
    // With `--target`, the flags do not apply to build scripts and macros, which cannot link the fuzzer.
    let mut build =
        cargo(&["build", "--locked", "--profile", "fuzz", "--package", "fabriclens-fuzz", "--target", host]);
    build.env("RUSTFLAGS", FLAGS);
    must(build)?;
    let target = target()?;
    Ok((target.join(host).join("fuzz/fabriclens-fuzz"), target.join("fuzzing")))
}

fn fuzz(program: &Path, dir: &Path, name: &str, seconds: u64) -> Result<Outcome> {
    let corpus = dir.join("corpus").join(name);
    let findings = dir.join("findings");
    fs::create_dir_all(&corpus)?;
    fs::create_dir_all(&findings)?;
    let before = children_seconds()?;
    let mut child = Command::new(program)
        .env("FABRICLENS_FUZZ", name)
        .env("FABRICLENS_FUZZ_SEEDS", &corpus)
        .arg(&corpus)
        .arg(format!("-max_total_time={seconds}"))
        .arg(format!("-artifact_prefix={}/{name}-", findings.display()))
        .args(BOUNDS)
        .args(["-print_final_stats=1", "-print_pcs=0"])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()?;
    let mut done = Outcome::default();
    let (mut message, mut artifact) = (String::new(), None);
    for line in BufReader::new(child.stderr.take().context("no stderr")?).split(b'\n') {
        let line = line?;
        let line = String::from_utf8_lossy(&line);
        let after = |key: &str| line.split_once(key).and_then(|(_, rest)| rest.split_whitespace().next()?.parse().ok());
        if line.starts_with('#') {
            done.coverage = after("cov: ").unwrap_or(done.coverage);
            if std::io::stdout().is_terminal() {
                print!("\r{name:<14} {:.60}", line.replace('\t', " "));
                std::io::stdout().flush()?;
            }
        } else if let Some(path) = line.split_once("Test unit written to ") {
            artifact = Some(PathBuf::from(path.1));
        } else if message.is_empty() && (line.contains("panicked at") || line.contains("ERROR: libFuzzer")) {
            message = line.trim().to_owned();
        }
        done.inputs = after("stat::number_of_executed_units:").unwrap_or(done.inputs);
    }
    let ended = child.wait()?;
    done.cpu = children_seconds()? - before;
    if !ended.success() {
        let path = artifact.with_context(|| format!("it ended with {ended} and no input: {message}"))?;
        done.finding = Some((path, message));
    }
    Ok(done)
}

/// CPU seconds of ended child processes.
fn children_seconds() -> Result<f64> {
    let stat = fs::read_to_string("/proc/self/stat")?;
    let after = stat.rsplit_once(')').context("/proc/self/stat has no name")?.1;
    // User and system time of children in hundredths of a second.
    let ticks = after.split_whitespace().skip(13).take(2).map(|t| t.parse::<f64>().unwrap_or(0.0));
    Ok(ticks.sum::<f64>() / 100.0)
}
