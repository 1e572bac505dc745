//! Where commands of pages run: a network, processes, an /etc and a /var of their own, on this machine.

use super::check::script;
use super::page::Page;
use crate::demo::FIRST_JOB;
use crate::setup;
use crate::steps::{command, copy, may_unshare, must, root, unshare};
use anyhow::{Context, Result, bail};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

/// Pages that start a collector themselves: each has a sandbox of its own. All others share one with the demo's fleet.
const ALONE: &[&str] = &["README.md", "docs/quickstart.md", "docs/install.md"];
/// What readers are told to change on their machines: written in memory here.
const WRITTEN: &[&str] = &["/etc", "/usr", "/var", "/run", "/srv"];
/// How long a page may take.
const PATIENCE: Duration = Duration::from_secs(120);

fn is_alone(page: &Path) -> bool {
    ALONE.iter().any(|alone| page == Path::new(alone))
}

/// Runs the pages, each kind in a sandbox; says so loudly where this machine makes none.
pub fn enter(programs: &Path, pages: &[PathBuf]) -> Result<()> {
    for need in [&setup::PROMETHEUS, &setup::NETWORK, &setup::CURL] {
        setup::ensure(need)?;
    }
    if !may_unshare() {
        println!("SKIPPED: this user may make no namespaces, so no command of the pages was run. Run it as root.");
        return Ok(());
    }
    let (alone, together): (Vec<_>, Vec<_>) = pages.iter().partition(|page| is_alone(page));
    let kinds = alone.into_iter().map(|page| vec![page]).chain([together]);
    for pages in kinds.filter(|pages| !pages.is_empty()) {
        let mut inside = unshare();
        inside.arg(std::env::current_exe()?).args(["docs", "--inside", "--programs"]).arg(programs).args(pages);
        must(inside)?;
    }
    Ok(())
}

/// Makes the sandbox complete and runs the pages.
pub fn inside(programs: &Path, pages: &[Page]) -> Result<()> {
    let scratch = Path::new("/mnt");
    must(command("mount", &["-t", "tmpfs", "tmpfs", "/mnt"]))?;
    // The devices of this network alone, so that an agent finds what it reads about.
    must(command("mount", &["-t", "sysfs", "sysfs", "/sys"]))?;
    must(command("ip", &["link", "add", "eth0", "type", "veth", "peer", "name", "eth1"]))?;
    for device in ["lo", "eth0", "eth1"] {
        must(command("ip", &["link", "set", device, "up"]))?;
    }
    for at in WRITTEN {
        let (upper, work) = (format!("/mnt/.changed{at}"), format!("/mnt/.work{at}"));
        [&upper, &work].iter().try_for_each(std::fs::create_dir_all)?;
        let layers = format!("lowerdir={at},upperdir={upper},workdir={work}");
        must(command("mount", &["-t", "overlay", "overlay", "-o", &layers, at]))?;
    }
    names(pages)?;
    let clone = scratch.join("fabriclens");
    std::fs::create_dir_all(clone.join("target"))?;
    for part in ["dashboards", "deploy", "docs"] {
        copy(&root().join(part), &clone)?;
    }
    std::os::unix::fs::symlink(programs, clone.join("target/release"))?;
    let bin = scratch.join("bin");
    std::fs::create_dir_all(&bin)?;
    // CI is cargo at work on this very tree: here its commands are only read.
    executable(&bin.join("cargo"), CARGO)?;
    let path = format!("{}:{}:{}", bin.display(), programs.display(), std::env::var("PATH").unwrap_or_default());

    let (_fleet, incident) =
        if pages.iter().all(|page| is_alone(&page.path)) { (None, String::new()) } else { fleet(programs, scratch)? };
    let mut failed = 0;
    for page in pages {
        // The id of an incident is of the day on which it was written.
        let script = script(page)?.replace("1769860931000-1", &incident);
        failed += usize::from(!run(&page.path, &script, &clone, &path)?);
    }
    if failed > 0 {
        bail!("{failed} of {} pages do not do what they say", pages.len());
    }
    Ok(())
}

const CARGO: &str = r#"#!/bin/sh
case "$1" in
    xtask) shift; exec "$XTASK" "$@" --help > /dev/null ;;
    build) test "$*" = "build --release" ;;
    *) echo "cargo $*: not known to the test of pages" >&2; exit 1 ;;
esac
"#;

fn executable(path: &Path, text: &str) -> Result<()> {
    std::fs::write(path, text)?;
    must(command("chmod", &["755", &path.display().to_string()]))
}

/// Hosts that URLs of the pages name are this one.
fn names(pages: &[Page]) -> Result<()> {
    let blocks = pages.iter().flat_map(|page| &page.blocks);
    let urls = blocks.flat_map(|block| block.text.split("://").skip(1));
    let hosts: BTreeSet<&str> = urls
        .map(|rest| rest.split(|c: char| !(c.is_ascii_alphanumeric() || ".-".contains(c))).next().unwrap_or_default())
        .filter(|host| host.starts_with(|c: char| c.is_ascii_lowercase()))
        .collect();
    let mut known = std::fs::read_to_string("/etc/hosts").unwrap_or_default();
    hosts.iter().for_each(|host| known.push_str(&format!("127.0.0.1 {host}\n")));
    std::fs::write("/etc/hosts", known).context("write /etc/hosts of the sandbox")
}

/// The demo, as far as its storm: what pages without a collector of their own ask. With it, an incident's id.
fn fleet(programs: &Path, scratch: &Path) -> Result<(Option<Child>, String)> {
    println!("starting the demo's fleet and waiting for its first incident");
    let mut demo = command("setpriv", &["--pdeathsig", "KILL", "--"]);
    demo.arg(std::env::current_exe()?).args(["demo", "--programs"]).arg(programs);
    demo.arg("--dir").arg(scratch.join("demo")).stdout(Stdio::null());
    let mut demo = demo.spawn().context("start the demo")?;
    let begin = Instant::now();
    while begin.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_secs(1));
        if let Some(status) = demo.try_wait()? {
            bail!("the demo ended with {status}");
        }
        let Ok(answer) = ureq::get("http://127.0.0.1:7470/api/v1/incidents").call() else { continue };
        let told: serde_json::Value = serde_json::from_str(&answer.into_body().read_to_string()?)?;
        if let Some(id) = told["incidents"][0]["id"].as_str() {
            println!("job {FIRST_JOB}, incident {id}");
            return Ok((Some(demo), id.to_owned()));
        }
    }
    bail!("the demo's fleet told no incident within {} s", PATIENCE.as_secs())
}

/// Runs one page; what it printed is shown when it fails.
fn run(page: &Path, script: &str, clone: &Path, path: &str) -> Result<bool> {
    let begin = Instant::now();
    let mut bash = command("timeout", &["--kill-after=5", &PATIENCE.as_secs().to_string(), "bash", "-c", script]);
    let out = Path::new("/mnt/page.log");
    let log = std::fs::File::create(out)?;
    bash.current_dir(clone).env("PATH", path).env("XTASK", std::env::current_exe()?).stdin(Stdio::null());
    let well = bash.stdout(log.try_clone()?).stderr(log).status()?.success();
    let (blocks, took) = (script.matches("\necho '--- ").count(), begin.elapsed().as_secs_f64());
    let verdict = if well { "as it says" } else { "NOT as it says" };
    if blocks > 0 {
        println!("{:<40} {blocks:>3} blocks  {took:5.1} s  {verdict}", page.display());
    }
    if !well {
        let printed = String::from_utf8_lossy(&std::fs::read(out)?).into_owned();
        let lines: Vec<&str> = printed.lines().collect();
        println!("    {}", lines.get(lines.len().saturating_sub(25)..).unwrap_or_default().join("\n    "));
    }
    Ok(well)
}
