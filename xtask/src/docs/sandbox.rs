//! Where commands of pages run: a network, processes, an /etc and a /var of their own, on this machine.

use super::check::script;
use super::page::Page;
use super::stand_ins::services::OWN;
use super::{inline, recording, stand_ins};
use crate::demo::FIRST_JOB;
use crate::setup;
use crate::steps::{command, copy, may_unshare, must, root, unshare};
use anyhow::{Context, Result, bail};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

/// What is there when a page begins.
#[derive(Clone, Copy, PartialEq)]
enum Stage {
    /// Nothing: the page starts all itself, in a sandbox of its own.
    Bare,
    /// What the packages install, started as they start it; the same.
    Installed,
    /// The demo's fleet, which all such pages share.
    Fleet,
}

/// Pages that are not about a fleet that is there.
const STAGES: &[(&str, Stage)] = &[
    ("README.md", Stage::Bare),
    ("docs/quickstart.md", Stage::Bare),
    ("docs/install.md", Stage::Bare),
    ("docs/redundancy.md", Stage::Installed),
];
/// Says that the demo fills the dashboards: its fleet is asked when its story has been told, which takes so long.
const ABOUT_PANELS: &str = "docs/dashboards.md";
const TOLD: Duration = Duration::from_secs(125);
/// What readers are told to change on their machines: written in memory here.
const WRITTEN: &[&str] = &["/etc", "/usr", "/var", "/run", "/srv"];
/// How long a page may take.
const PATIENCE: Duration = Duration::from_secs(120);

fn stage(page: &Path) -> Stage {
    STAGES.iter().find(|(path, _)| page == Path::new(path)).map_or(Stage::Fleet, |s| s.1)
}

/// Runs the pages, each kind in a sandbox; says so loudly where this machine makes none.
pub fn enter(programs: &Path, pages: &[PathBuf]) -> Result<()> {
    for need in [&setup::PROMETHEUS, &setup::ALERTMANAGER, &setup::NETWORK, &setup::CURL, &setup::ANSIBLE] {
        setup::ensure(need)?;
    }
    if !may_unshare() {
        println!("SKIPPED: this user may make no namespaces, so no command of the pages was run. Run it as root.");
        return Ok(());
    }
    let (alone, together): (Vec<_>, Vec<_>) = pages.iter().partition(|page| stage(page) != Stage::Fleet);
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
    stand_ins::put(&bin)?;
    let path = format!("{}:{}:{}", bin.display(), programs.display(), std::env::var("PATH").unwrap_or_default());
    reader(scratch, &clone)?;

    let stage = pages.first().map_or(Stage::Fleet, |page| stage(&page.path));
    let begin = Instant::now();
    let mut running = Vec::new();
    let mut incident = String::new();
    match stage {
        Stage::Bare => {}
        Stage::Installed => installed(programs, &path)?,
        Stage::Fleet => {
            running.push(alertmanager(&clone)?);
            let (demo, id) = fleet(programs, scratch)?;
            running.push(demo);
            incident = id;
        }
    }
    let (mut failed, mut sentences, mut not) = (0, 0, Vec::new());
    let asked = stage == Stage::Fleet && pages.iter().any(|page| page.path == Path::new(ABOUT_PANELS));
    // What panels and alerts advise is a page too.
    let advice = asked.then(|| Page::parse(&root(), Path::new("dashboards, alerts"), &crate::dashboards::advice()));
    for page in pages.iter().chain(&advice) {
        let (after, runs, never) = inline::script(page);
        sentences += runs;
        not.extend(never);
        // The id of an incident is of the day on which it was written.
        let script = (script(page)? + &after).replace("1769860931000-1", &incident);
        failed += usize::from(!run(&page.path, &script, &clone, &path, stage)?);
    }
    if asked {
        std::thread::sleep(TOLD.saturating_sub(begin.elapsed()));
        crate::dashboards::ask_demo("http://127.0.0.1:7470")?;
    }
    println!("{sentences} commands in sentences were run; not: {}", not.len());
    not.iter().for_each(|line| println!("    {line}"));
    if failed > 0 {
        bail!("{failed} of {} pages do not do what they say", pages.len());
    }
    Ok(())
}

/// What readers have beside the programs: a recording, a certificate, a token, Slurm's user.
fn reader(scratch: &Path, clone: &Path) -> Result<()> {
    recording::write(&clone.join("recording"))?;
    let (key, certificate) = (scratch.join("key.pem"), scratch.join("certificate.pem"));
    let mut openssl = command("openssl", &["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=a host"]);
    must({
        openssl.arg("-keyout").arg(key).arg("-out").arg(certificate).stderr(Stdio::null());
        openssl
    })?;
    std::fs::write(scratch.join("token"), "a token of somebody\n")?;
    must(command("useradd", &["--system", "--key", "MAIL_DIR=/dev/null", "slurm"]))
}

/// Programs, configuration and units where packages have them, and both services started.
fn installed(programs: &Path, path: &str) -> Result<()> {
    for name in ["fabriclens", "fabriclens-agent"] {
        std::os::unix::fs::symlink(programs.join(name), Path::new("/usr/bin").join(name))?;
        copy(&root().join(format!("deploy/systemd/{name}.service")), Path::new("/etc/systemd/system"))?;
    }
    for name in ["agent.toml", "collector.toml"] {
        copy(&root().join("deploy/config").join(name), Path::new("/etc/fabriclens"))?;
    }
    let mut start = command("systemctl", &["start", "fabriclens", "fabriclens-agent"]);
    start.env("PATH", path).env("XTASK", std::env::current_exe()?).env(OWN, "1");
    must(start)?;
    let mut ready = command("curl", &["--fail", "--silent", "--show-error", "--retry", "20", "--retry-all-errors"]);
    must({
        ready.arg("http://127.0.0.1:7470/readyz");
        ready
    })
}

/// Who is told, with the configuration that compose has.
fn alertmanager(clone: &Path) -> Result<Child> {
    let mut server = command("setpriv", &["--pdeathsig", "KILL", "--", "prometheus-alertmanager"]);
    server.arg(format!("--config.file={}", clone.join("deploy/compose/alertmanager.yml").display()));
    server.args(["--storage.path=/mnt/alertmanager", "--cluster.listen-address=", "--log.level=error"]);
    server.stdout(Stdio::null()).spawn().context("start Alertmanager")
}

/// Hosts that URLs of the pages name are this one.
fn names(pages: &[Page]) -> Result<()> {
    let blocks = pages.iter().flat_map(|page| page.blocks.iter().chain(&page.code));
    let urls = blocks.flat_map(|block| block.text.split("://").skip(1));
    let hosts: BTreeSet<&str> = urls
        .map(|rest| rest.split(|c: char| !(c.is_ascii_alphanumeric() || ".-".contains(c))).next().unwrap_or_default())
        .filter(|host| host.starts_with(|c: char| c.is_ascii_lowercase()))
        .collect();
    let mut known = std::fs::read_to_string("/etc/hosts").unwrap_or_default();
    // The last two stand for others in sentences (`inline.rs`).
    let hosts = hosts.into_iter().chain(["alertmanager", "collector"]);
    hosts.for_each(|host| known.push_str(&format!("127.0.0.1 {host}\n")));
    std::fs::write("/etc/hosts", known).context("write /etc/hosts of the sandbox")
}

/// The demo, as far as its storm: what pages without a collector of their own ask. With it, an incident's id.
fn fleet(programs: &Path, scratch: &Path) -> Result<(Child, String)> {
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
            return Ok((demo, id.to_owned()));
        }
    }
    bail!("the demo's fleet told no incident within {} s", PATIENCE.as_secs())
}

/// Runs one page; what it printed is shown when it fails.
fn run(page: &Path, script: &str, clone: &Path, path: &str, stage: Stage) -> Result<bool> {
    let begin = Instant::now();
    let mut bash = command("timeout", &["--kill-after=5", &PATIENCE.as_secs().to_string(), "bash", "-c", script]);
    let out = Path::new("/mnt/page.log");
    let log = std::fs::File::create(out)?;
    bash.current_dir(clone).env("PATH", path).env("XTASK", std::env::current_exe()?).stdin(Stdio::null());
    if stage != Stage::Fleet {
        bash.env(OWN, "1");
    }
    let well = bash.stdout(log.try_clone()?).stderr(log).status()?.success();
    let (held, took) = (script.matches("\necho '--- ").count(), begin.elapsed().as_secs_f64());
    let verdict = if well { "as it says" } else { "NOT as it says" };
    if held > 0 {
        println!("{:<40} {held:>3} blocks, commands  {took:5.1} s  {verdict}", page.display());
    }
    if !well {
        let printed = String::from_utf8_lossy(&std::fs::read(out)?).into_owned();
        let lines: Vec<&str> = printed.lines().collect();
        println!("    {}", lines.get(lines.len().saturating_sub(25)..).unwrap_or_default().join("\n    "));
    }
    Ok(well)
}
