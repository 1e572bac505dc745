//! The console in a real browser: three collectors (the demo's, an empty one, one with tokens), Debian's chromium, and the tests of
//! `console/tests/browser`.

use super::{install, npm};
use crate::process::Process;
use crate::programs;
use crate::setup;
use crate::steps::{call, command, local_port, must, output, root, target};
use crate::summary::{note, skipped};
use anyhow::{Context, Result, bail};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// Oldest Node that the console's tools run on.
const NODE: (u32, u32) = (20, 19);
/// Time for a collector to listen and for the demo to print its address.
const START: Duration = Duration::from_secs(120);
const COLLECTOR: &str = "fabriclens";

/// Builds the programs unless `programs` has them, and runs the tests; what is missing is reported.
///
/// # Errors
/// When a program does not start, or a test fails.
pub fn run(programs: Option<PathBuf>) -> Result<()> {
    let dir = root().join("console");
    if !has_node() {
        skipped(format!(
            "the console's own tests, for want of Node {}.{} or later with npm (https://nodejs.org)",
            NODE.0, NODE.1
        ));
        return Ok(());
    }
    if let Err(error) = install(&dir) {
        skipped(format!("the console's own tests, because its libraries cannot be installed: {error}"));
        return Ok(());
    }
    must(npm(&dir, &["test", "--silent"]))?;
    if !setup::ensure(&setup::CHROMIUM)? {
        return Ok(());
    }
    let programs = programs.map_or_else(programs::of_tests, Ok)?;
    if let Err(error) = attempt(&dir, &programs) {
        // A busy machine can draw too late: a second try separates a slow machine from a defect.
        note(format!("the console's own tests passed only in the second try: {error:#}"));
        attempt(&dir, &programs)?;
    }
    Ok(())
}

/// Starts the three collectors and runs the tests.
fn attempt(dir: &Path, programs: &Path) -> Result<()> {
    let at = target()?.join("console-browser");
    fs::remove_dir_all(&at).ok();
    fs::create_dir_all(&at)?;
    let demo = start_demo(programs, &at)?;
    let empty = Collector::start(&programs.join(COLLECTOR), &at.join("empty"), "")?;
    let (with_tokens, tokens) = start_with_tokens(&programs.join(COLLECTOR), &at.join("tokens"))?;
    let mut tests = npm(dir, &["run", "--silent", "browser"]);
    tests.env("FABRICLENS_URL", &demo.url).env("FABRICLENS_EMPTY_URL", &empty.url);
    tests.env("FABRICLENS_TOKENS_URL", &with_tokens.url).envs(tokens);
    must(tests)
}

/// Whether Node is new enough and npm is there.
fn has_node() -> bool {
    let version = output(command("node", &["--version"])).unwrap_or_default();
    super::has_npm() && is_new_enough(&version)
}

fn is_new_enough(version: &str) -> bool {
    let mut numbers = version.trim_start_matches('v').split('.').map(|part| part.parse().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) >= NODE
}

/// A running collector, killed on drop.
struct Collector {
    url: String,
    _process: Process,
}

impl Collector {
    /// Starts a collector with its data in `dir`.
    fn start(program: &Path, dir: &Path, config: &str) -> Result<Self> {
        fs::create_dir_all(dir)?;
        let file = dir.join("collector.toml");
        fs::write(&file, config)?;
        let [http, grpc, otlp] = [local_port()?, local_port()?, local_port()?].map(|port| format!("127.0.0.1:{port}"));
        let url = format!("http://{http}");
        let data = dir.join("data").display().to_string();
        let file = file.display().to_string();
        let args = ["serve", "--config", &file, "--data", &data, "--http", &http, "--otlp-grpc", &grpc, "--otlp-http"];
        let args: Vec<String> = args.into_iter().map(str::to_owned).chain([otlp]).collect();
        let process = Process::start_tied(program, &args, &dir.join("log"))?;
        let ready = || ureq::get(format!("{url}/healthz")).call().is_ok().then_some(());
        wait("the collector", &dir.join("log"), ready)?;
        Ok(Self { url, _process: process })
    }
}

/// Starts the demo, which tells its story until it is killed; its processes end with it.
fn start_demo(programs: &Path, at: &Path) -> Result<Collector> {
    let (dir, log) = (at.join("demo"), at.join("demo.log"));
    let args = ["demo", "--programs", &programs.display().to_string(), "--dir", &dir.display().to_string()];
    let args: Vec<String> = args.map(str::to_owned).to_vec();
    let process = Process::start_tied(&std::env::current_exe()?, &args, &log)?;
    let url = wait("the demo", &log, || address(&fs::read_to_string(&log).unwrap_or_default()))?;
    Ok(Collector { url, _process: process })
}

/// Address of the console in the welcome of the demo.
fn address(welcome: &str) -> Option<String> {
    let line = welcome.lines().find_map(|line| line.trim().strip_prefix("console "))?;
    Some(line.trim().trim_end_matches('/').to_owned())
}

/// A collector with authentication, and its tokens as environment variables.
fn start_with_tokens(program: &Path, dir: &Path) -> Result<(Collector, Vec<(String, String)>)> {
    fs::create_dir_all(dir)?;
    let file = dir.join("tokens.txt");
    let mut tokens = Vec::new();
    for (name, roles) in [("read", "read"), ("ingest", "ingest"), ("operator", "read,write")] {
        let mut new = Command::new(program);
        new.args(["token", "new", name, "--role", roles, "--file"]).arg(&file);
        tokens.push((format!("FABRICLENS_TOKEN_{}", name.to_uppercase()), output(new)?));
    }
    call("chmod", &["600", &file.display().to_string()])?;
    let config = format!("[auth]\ntokens = \"{}\"\n", file.display());
    Ok((Collector::start(program, dir, &config)?, tokens))
}

/// Waits until `found` finds something.
fn wait<T>(what: &str, log: &Path, mut found: impl FnMut() -> Option<T>) -> Result<T> {
    let begin = Instant::now();
    loop {
        if let Some(found) = found() {
            return Ok(found);
        }
        if begin.elapsed() > START {
            let text = fs::read_to_string(log).context("read the log")?;
            bail!("{what} did not start within {} s; its output: {text}", START.as_secs());
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn node_is_compared_by_number() {
        assert!(["v20.19.0", "v22.1.0", "v100.0.0"].iter().all(|version| is_new_enough(version)));
        assert!(["v20.9.1", "v18.20.4", "", "node"].iter().all(|version| !is_new_enough(version)));
    }

    #[test]
    fn the_address_is_in_the_welcome() {
        let welcome =
            "\nrunning: 1 collector, 1 agent\n  console              http://127.0.0.1:7470/\n  any PromQL  x\n";
        assert_eq!(address(welcome).unwrap(), "http://127.0.0.1:7470");
        assert_eq!(address("building the collector and the agent"), None);
    }
}
