//! The sandbox in which the commands of pages run: own network, processes, /etc and /var.

use super::check::script;
use super::page::Page;
use super::{fakes, inline, recording};
use crate::demo::FIRST_JOB;
use crate::setup;
use crate::steps::{command, copy, may_unshare, must, root, tied, unshare};
use crate::summary::skipped;
use anyhow::{Context, Result, bail};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

/// State of the sandbox when a page begins.
#[derive(Clone, Copy, PartialEq)]
enum Setting {
    /// Nothing runs; the page has a sandbox for itself.
    Bare,
    /// Both programs installed and started as by the packages; the page has a sandbox for itself.
    Installed,
    /// The demo's fleet runs; all such pages share one sandbox.
    Fleet,
}

/// Pages that do not use the demo's fleet.
const SETTINGS: &[(&str, Setting)] = &[
    ("README.md", Setting::Bare),
    ("docs/quickstart.md", Setting::Bare),
    ("docs/install.md", Setting::Bare),
    ("docs/redundancy.md", Setting::Installed),
];
/// Promises that the demo fills every dashboard, which is checked at the end of the demo's story.
const DASHBOARDS_PAGE: &str = "docs/dashboards.md";
/// Duration of the demo's story.
const STORY: Duration = Duration::from_secs(125);
/// Directories that the pages change; overlays in memory.
const WRITABLE: &[&str] = &["/etc", "/usr", "/var", "/run", "/srv"];
/// Timeout of a page.
const TIMEOUT: Duration = Duration::from_secs(120);

fn setting(page: &Path) -> Setting {
    SETTINGS.iter().find(|(path, _)| page == Path::new(path)).map_or(Setting::Fleet, |s| s.1)
}

/// Runs the pages in sandboxes; skips them if this user cannot create namespaces.
///
/// # Errors
/// When a page fails.
pub fn enter(programs: &Path, pages: &[PathBuf]) -> Result<()> {
    for need in [&setup::PROMETHEUS, &setup::ALERTMANAGER, &setup::NETWORK, &setup::CURL] {
        setup::ensure(need)?;
    }
    if !may_unshare() {
        skipped("the commands of the pages, which need root. Run: sudo cargo xtask docs");
        return Ok(());
    }
    let (alone, together): (Vec<_>, Vec<_>) = pages.iter().partition(|page| setting(page) != Setting::Fleet);
    let groups = alone.into_iter().map(|page| vec![page]).chain([together]);
    for pages in groups.filter(|pages| !pages.is_empty()) {
        let mut inside = unshare();
        inside.arg(std::env::current_exe()?).args(["docs", "--inside", "--programs"]).arg(programs).args(pages);
        must(inside)?;
    }
    Ok(())
}

/// Sets up the sandbox, of which this process is the first, and runs the pages.
///
/// # Errors
/// When a page fails.
pub fn inside(programs: &Path, pages: &[Page]) -> Result<()> {
    let scratch = Path::new("/mnt");
    must(command("mount", &["-t", "tmpfs", "tmpfs", "/mnt"]))?;
    // Shows only the devices of this network namespace.
    must(command("mount", &["-t", "sysfs", "sysfs", "/sys"]))?;
    must(command("ip", &["link", "add", "eth0", "type", "veth", "peer", "name", "eth1"]))?;
    for device in ["lo", "eth0", "eth1"] {
        must(command("ip", &["link", "set", device, "up"]))?;
    }
    for at in WRITABLE {
        let (upper, work) = (format!("/mnt/.changed{at}"), format!("/mnt/.work{at}"));
        [&upper, &work].iter().try_for_each(std::fs::create_dir_all)?;
        let layers = format!("lowerdir={at},upperdir={upper},workdir={work}");
        must(command("mount", &["-t", "overlay", "overlay", "-o", &layers, at]))?;
    }
    resolve_hosts(pages)?;
    let clone = scratch.join("fabriclens");
    std::fs::create_dir_all(clone.join("target"))?;
    for part in ["dashboards", "deploy", "docs"] {
        copy(&root().join(part), &clone)?;
    }
    std::os::unix::fs::symlink(programs, clone.join("target/release"))?;
    let bin = scratch.join("bin");
    std::fs::create_dir_all(&bin)?;
    fakes::install(&bin)?;
    let path = format!("{}:{}:{}", bin.display(), programs.display(), std::env::var("PATH").unwrap_or_default());
    prepare_reader(scratch, &clone)?;

    let setting = pages.first().map_or(Setting::Fleet, |page| setting(&page.path));
    let begin = Instant::now();
    let mut running = Vec::new();
    let mut incident = String::new();
    match setting {
        Setting::Bare => {}
        Setting::Installed => install(programs, &path)?,
        Setting::Fleet => {
            running.push(alertmanager(&clone)?);
            let (demo, id) = fleet(programs, scratch)?;
            running.push(demo);
            incident = id;
        }
    }
    let (mut failed, mut sentences, mut skipped) = (0, 0, Vec::new());
    let dashboards = setting == Setting::Fleet && pages.iter().any(|page| page.path == Path::new(DASHBOARDS_PAGE));
    // The advice of panels and alerts is checked like a page.
    let advice =
        dashboards.then(|| Page::parse(&root(), Path::new("dashboards, alerts"), &crate::dashboards::advice()));
    for page in pages.iter().chain(&advice) {
        let inline = inline::commands(page);
        sentences += inline.count;
        skipped.extend(inline.skipped);
        // The incident id on the pages stands for one of this fleet.
        let script = (script(page)? + &inline.script).replace("1769860931000-1", &incident);
        failed += usize::from(!run(&page.path, &script, &clone, &path)?);
    }
    if dashboards {
        std::thread::sleep(STORY.saturating_sub(begin.elapsed()));
        crate::dashboards::check_demo("http://127.0.0.1:7470")?;
    }
    println!("{sentences} commands in sentences ran, {} did not:", skipped.len());
    skipped.iter().for_each(|line| println!("    {line}"));
    if failed > 0 {
        bail!("{failed} of {} pages failed", pages.len());
    }
    Ok(())
}

/// Creates what the pages expect: a recording, a certificate, a token, Slurm's user.
fn prepare_reader(scratch: &Path, clone: &Path) -> Result<()> {
    recording::write(&clone.join("recording"))?;
    let (key, certificate) = (scratch.join("key.pem"), scratch.join("certificate.pem"));
    let mut openssl = command("openssl", &["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=a host"]);
    must({
        openssl.arg("-keyout").arg(key).arg("-out").arg(certificate).stderr(Stdio::null());
        openssl
    })?;
    std::fs::write(scratch.join("token"), "an example token\n")?;
    // A machine with Slurm has it.
    match command("id", &["slurm"]).output() {
        Ok(found) if found.status.success() => Ok(()),
        _ => must(command("useradd", &["--system", "--key", "MAIL_DIR=/dev/null", "slurm"])),
    }
}

/// Puts programs, configuration and units where the packages put them, and starts both services.
fn install(programs: &Path, path: &str) -> Result<()> {
    for name in ["fabriclens", "fabriclens-agent"] {
        std::os::unix::fs::symlink(programs.join(name), Path::new("/usr/bin").join(name))?;
        copy(&root().join(format!("deploy/systemd/{name}.service")), Path::new("/etc/systemd/system"))?;
    }
    for name in ["agent.toml", "collector.toml"] {
        copy(&root().join("deploy/config").join(name), Path::new("/etc/fabriclens"))?;
    }
    let mut start = command("systemctl", &["start", "fabriclens", "fabriclens-agent"]);
    start.env("PATH", path).env("XTASK", std::env::current_exe()?);
    must(start)?;
    let mut ready = command("curl", &["--fail", "--silent", "--show-error", "--retry", "20", "--retry-all-errors"]);
    must({
        ready.arg("http://127.0.0.1:7470/readyz");
        ready
    })
}

/// Starts an Alertmanager with the configuration of deploy/compose.
fn alertmanager(clone: &Path) -> Result<Child> {
    let mut server = tied("KILL", Path::new("prometheus-alertmanager"));
    server.arg(format!("--config.file={}", clone.join("deploy/compose/alertmanager.yml").display()));
    server.args(["--storage.path=/mnt/alertmanager", "--cluster.listen-address=", "--log.level=error"]);
    server.stdout(Stdio::null()).spawn().context("start Alertmanager")
}

/// Resolves the host names in the pages' URLs to this machine.
fn resolve_hosts(pages: &[Page]) -> Result<()> {
    let blocks = pages.iter().flat_map(|page| page.blocks.iter().chain(&page.code));
    let urls = blocks.flat_map(|block| block.text.split("://").skip(1));
    let hosts: BTreeSet<&str> = urls
        .map(|rest| rest.split(|c: char| !(c.is_ascii_alphanumeric() || ".-".contains(c))).next().unwrap_or_default())
        .filter(|host| host.starts_with(|c: char| c.is_ascii_lowercase()))
        .collect();
    let mut known = std::fs::read_to_string("/etc/hosts").unwrap_or_default();
    // The last two are values of placeholders (`inline.rs`).
    let hosts = hosts.into_iter().chain(["alertmanager", "collector"]);
    hosts.for_each(|host| known.push_str(&format!("127.0.0.1 {host}\n")));
    std::fs::write("/etc/hosts", known).context("write /etc/hosts of the sandbox")
}

/// Starts the demo and waits for its first incident; gives the process and the incident's id.
fn fleet(programs: &Path, scratch: &Path) -> Result<(Child, String)> {
    println!("starting the demo's fleet and waiting for its first incident");
    let mut demo = tied("KILL", &std::env::current_exe()?);
    demo.args(["demo", "--programs"]).arg(programs);
    demo.arg("--dir").arg(scratch.join("demo")).stdout(Stdio::null());
    let mut demo = demo.spawn().context("start the demo")?;
    let begin = Instant::now();
    while begin.elapsed() < TIMEOUT {
        std::thread::sleep(Duration::from_secs(1));
        if let Some(status) = demo.try_wait()? {
            bail!("the demo ended with {status}");
        }
        let Ok(answer) = ureq::get("http://127.0.0.1:7470/api/v1/incidents").call() else { continue };
        let answer: serde_json::Value = serde_json::from_str(&answer.into_body().read_to_string()?)?;
        if let Some(id) = answer["incidents"][0]["id"].as_str() {
            println!("job {FIRST_JOB}, incident {id}");
            return Ok((demo, id.to_owned()));
        }
    }
    bail!("the demo had no incident within {} s", TIMEOUT.as_secs())
}

/// Runs one page; prints the end of its output if it fails.
fn run(page: &Path, script: &str, clone: &Path, path: &str) -> Result<bool> {
    let begin = Instant::now();
    let mut bash = command("timeout", &["--kill-after=5", &TIMEOUT.as_secs().to_string(), "bash", "-c", script]);
    let out = Path::new("/mnt/page.log");
    let log = std::fs::File::create(out)?;
    bash.current_dir(clone).env("PATH", path).env("XTASK", std::env::current_exe()?).stdin(Stdio::null());
    let well = bash.stdout(log.try_clone()?).stderr(log).status()?.success();
    let (held, took) = (script.matches("\necho '--- ").count(), begin.elapsed().as_secs_f64());
    let result = if well { "ok" } else { "FAILED" };
    if held > 0 {
        println!("{:<40} {held:>3} blocks, commands  {took:5.1} s  {result}", page.display());
    }
    if !well {
        let printed = String::from_utf8_lossy(&std::fs::read(out)?).into_owned();
        let lines: Vec<&str> = printed.lines().collect();
        println!("    {}", lines.get(lines.len().saturating_sub(25)..).unwrap_or_default().join("\n    "));
    }
    Ok(well)
}
