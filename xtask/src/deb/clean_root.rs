//! The packages in a clean root: what a person does with them, and what must be true after each.

use super::inside::Root;
use super::{PACKAGES, is_symbols};
use crate::docs::page::Page;
use crate::steps::{VERSION, copy, must, output};
use anyhow::{Context, Result, ensure};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where the packages are in the root.
const AT: &str = "/packages";
/// The most that `systemd-analyze security` may find open, in tenths; docs/releasing.md has what it is.
const EXPOSURE: &[(&str, u32)] = &[("fabriclens", 13), ("fabriclens-agent", 29)];
/// What the newer packages are called.
const NEWER: &str = "999.0";

/// Installs, uses, upgrades, removes and purges them: first where no systemd runs, then under one.
///
/// # Errors
/// What is not as it should be.
pub fn test(packages: &[PathBuf]) -> Result<()> {
    let Some(mut root) = Root::new()? else { return Ok(()) };
    for package in packages.iter().filter(|package| !is_symbols(package)) {
        for (folder, change) in [("now", false), ("newer", true)] {
            let to = root.path(AT).join(folder);
            fs::create_dir_all(&to)?;
            if change { newer(package, &to)? } else { copy(package, &to)? }
        }
    }
    let before = files(&root)?;
    without_systemd(&root)?;
    nothing_left(&root, &before)?;
    if root.boot()? {
        let done = booted(&root);
        if done.is_err() {
            println!("{}", root.sh("journalctl --no-pager --lines 60 --unit 'fabriclens*'").unwrap_or_default());
        }
        done?;
        nothing_left(&root, &before)?;
    }
    Ok(())
}

/// Where systemd runs, in the order of a host's life.
fn booted(root: &Root) -> Result<()> {
    installed(root)?;
    confined(root)?;
    let begin = root.sh("date +%s")?;
    upgraded(root).and_then(|()| remembers(root, &begin)).context("upgraded")?;
    restored(root).and_then(|()| remembers(root, &begin)).context("restored")?;
    secured(root).context("with certificates and tokens")?;
    removed(root)
}

/// The same package with a higher version and a configuration that is not the same, as a release may bring.
fn newer(package: &Path, to: &Path) -> Result<()> {
    let tree = to.join("tree");
    let mut unpack = Command::new("dpkg-deb");
    unpack.arg("-R").args([package, &tree]);
    must(unpack)?;
    let control = tree.join("DEBIAN/control");
    let text = fs::read_to_string(&control)?.replace(&format!("\nVersion: {VERSION}"), &format!("\nVersion: {NEWER}"));
    ensure!(text.contains(NEWER), "{} is not of version {VERSION}", package.display());
    fs::write(&control, text)?;
    for file in fs::read_dir(tree.join("etc/fabriclens"))? {
        let file = file?.path();
        fs::write(&file, fs::read_to_string(&file)? + "# A newer release says more.\n")?;
    }
    let mut pack = Command::new("dpkg-deb");
    pack.args(["--root-owner-group", "-Znone", "-b"]).args([&tree, &to.to_path_buf()]);
    output(pack)?;
    fs::remove_dir_all(&tree).context("removing a tree")
}

fn apt(action: &str) -> String {
    format!(
        "apt-get -q -y --no-install-recommends -o Dpkg::Use-Pty=0 -o Dpkg::Options::=--force-confdef \
         -o Dpkg::Options::=--force-confold {action} </dev/null"
    )
}

fn install(folder: &str) -> String {
    apt(&format!("install {AT}/{folder}/*.deb"))
}

fn purge() -> String {
    apt(&format!("purge {}", PACKAGES.join(" ")))
}

/// A chroot, an image that is being made: nothing is started, nothing fails.
fn without_systemd(root: &Root) -> Result<()> {
    root.sh(&install("now"))?;
    let once = root.sh("fabriclens-agent once")?;
    ensure!(once.contains("\nfabric_tcp_segments_total{"), "the agent's sample has no TCP: {once}");
    let doctor = root.sh("fabriclens-agent doctor")?;
    ensure!(doctor.contains("tcpip"), "doctor lists no tcpip: {doctor}");
    for config in [
        "fabriclens serve --config /etc/fabriclens/collector.toml",
        "fabriclens-agent run --config /etc/fabriclens/agent.toml",
    ] {
        ensure!(root.sh(&format!("{config} --check-config"))? == "config is valid", "{config}");
    }
    root.sh(&purge()).map(|_| ())
}

/// Both run as nobody in particular, and the collector answers for what the agent sent.
fn installed(root: &Root) -> Result<()> {
    root.sh(&install("now"))?;
    for unit in PACKAGES {
        root.until(&format!("systemctl is-active {unit}; systemctl is-enabled {unit}"), |a| a == "active\nenabled")?;
        let user = root.sh(&format!("stat -c %u /proc/$(systemctl show -P MainPID {unit})"))?;
        ensure!(user.parse::<u32>().is_ok_and(|u| u > 60_000), "{unit} runs as user {user}");
        root.sh(&format!("systemd-analyze verify --man=no {unit}.service"))?;
    }
    answers(root)?;
    let open = root.sh("cat /proc/net/tcp /proc/net/tcp6")?;
    let listens = open.lines().filter(|l| l.split_ascii_whitespace().nth(3) == Some("0A"));
    let beyond: Vec<&str> = listens.filter(|l| !l.contains(": 0100007F:")).collect();
    ensure!(beyond.is_empty(), "listens beyond this host: {beyond:?}");
    Ok(())
}

fn answers(root: &Root) -> Result<()> {
    asked(root, "", "")
}

/// The collector, asked with these options, has what agents of this selector send.
fn asked(root: &Root, options: &str, of: &str) -> Result<()> {
    let query = format!("fabriclens query {options} --format csv 'count(rate(fabric_tcp_segments_total{of}[10s]))'");
    root.until(&query, |a| a.lines().nth(1).is_some_and(|l| !l.ends_with(",0"))).map(|_| ())
}

/// What has data for root has it in the sandbox too.
fn confined(root: &Root) -> Result<()> {
    let doctor = root.sh("fabriclens-agent doctor --format json || true")?;
    let doctor: serde_json::Value = serde_json::from_str(&doctor).context("reading doctor's JSON")?;
    let sources = doctor["sources"].as_array().context("doctor lists no sources")?;
    let data = sources.iter().filter(|s| s["outcome"] == "data");
    let want: BTreeSet<&str> = data.filter_map(|s| s["sampler"].as_str()).collect();
    ensure!(want.contains("tcpip"), "doctor's JSON is not what it was: {doctor}");
    let query = "fabriclens query --format csv 'sum by (sampler) (fabriclens_agent_sampler_state{state=\"data\"}) > 0'";
    let has = |answer: &str| want.iter().all(|s| answer.lines().any(|l| l.split(',').any(|field| field == *s)));
    root.until(query, has).with_context(|| format!("root has data of {want:?}, the unit has not"))?;
    println!("  the unit has data of all that root has: {want:?}");
    for (unit, limit) in EXPOSURE {
        root.sh(&format!("systemd-analyze security --no-pager --threshold={limit} {unit}.service"))?;
    }
    Ok(())
}

/// An edited configuration is kept, both are new processes, samples of before are still there.
fn upgraded(root: &Root) -> Result<()> {
    let pids = || root.sh(&format!("for u in {}; do systemctl show -P MainPID $u; done", PACKAGES.join(" ")));
    let old = pids()?;
    root.sh("sed -i '0,/^# age = .*/s//age = \"31d\"/' /etc/fabriclens/collector.toml")?;
    root.sh(&install("newer"))?;
    let kept = root.sh("grep ^age /etc/fabriclens/collector.toml; ls /etc/fabriclens")?;
    ensure!(
        kept == "age = \"31d\"\nagent.toml\ncollector.toml\ncollector.toml.dpkg-dist",
        "the edited configuration was not kept, or the other not replaced: {kept}"
    );
    let new = pids()?;
    ensure!(!old.lines().any(|pid| new.lines().any(|n| n == pid)), "not restarted: {old:?}, then {new:?}");
    for unit in PACKAGES {
        root.until(&format!("systemctl is-active {unit}"), |a| a == "active")?;
    }
    answers(root)
}

fn remembers(root: &Root, time: &str) -> Result<()> {
    let past = format!("fabriclens query --format csv --time {time} 'count(fabric_tcp_segments_total)'");
    root.until(&past, |a| a.lines().count() == 2).map(|_| ())
}

/// A copy that root made takes the place of the data, as docs/redundancy.md says.
fn restored(root: &Root) -> Result<()> {
    root.sh(
        "systemctl stop fabriclens; cd /var/lib/private; mv fabriclens fabriclens.before; cp -r fabriclens.before fabriclens
         rm -r fabriclens.before; test \"$(stat -c %U fabriclens)\" = root; systemctl start fabriclens",
    )?;
    answers(root)?;
    root.sh("test -L /var/lib/fabriclens; ! find /var/lib/private/fabriclens -user root | grep .").map(|_| ())
}

/// Certificates, tokens and both configurations as docs/install.md has them: both units read them and show who they are.
fn secured(root: &Root) -> Result<()> {
    let page = Page::read(&crate::steps::root(), Path::new("docs/install.md"))?;
    let mut done = Vec::new();
    for block in &page.blocks {
        match (block.language(), block.says().split_once(' ')) {
            ("sh", None) if ["openssl", "token new"].iter().any(|word| block.text.contains(word)) => {
                root.sh(&block.text)?;
                done.push("sh");
            }
            ("toml", Some((whose, path))) => {
                fs::write(root.path(path), &block.text)?;
                done.push(whose);
            }
            _ => {}
        }
    }
    ensure!(done == ["sh", "sh", "collector", "agent"], "docs/install.md is not what it was: {done:?}");
    root.sh("echo 127.0.0.1 collector.example >> /etc/hosts")?;
    for unit in PACKAGES.iter().rev() {
        root.sh(&format!("systemctl restart {unit}"))?;
        root.until(&format!("systemctl is-active {unit}"), |a| a == "active")?;
    }
    let url = "--url https://collector.example:7470 --ca /etc/fabriclens/ca.crt";
    root.until(&format!("fabriclens query {url} up 2>&1 || true"), |a| a.contains("wants to know who asks"))?;
    asked(root, &format!("{url} --token-file /etc/fabriclens/ann.token"), "{host=\"gpu-01.example\"}")
}

/// Removed, what people wrote and what was stored stays.
fn removed(root: &Root) -> Result<()> {
    root.sh(&apt(&format!("remove {}", PACKAGES.join(" "))))?;
    root.sh("! pidof fabriclens fabriclens-agent; test -e /etc/fabriclens/collector.toml; test -e /var/lib/fabriclens/FABRICLENS")?;
    root.sh(&purge())?;
    // Keys are whoever's who made them.
    let kept = root.sh("ls /etc/fabriclens; getent group fabriclens-secrets")?;
    ensure!(kept.contains("collector.example.key") && kept.contains("fabriclens-secrets:"), "keys are gone: {kept}");
    root.sh("rm -r /etc/fabriclens /pki").map(|_| ())
}

/// All files, but of what writes as it pleases: apt, dpkg, logs, systemd's own.
fn files(root: &Root) -> Result<BTreeSet<String>> {
    let mut find = Command::new("find");
    let all =
        [".", "-xdev", "(", "-path", "./var/lib/dpkg", "-o", "-path", "./var/lib/apt", "-o", "-path", "./var/cache"];
    let own = ["-o", "-path", "./var/log", "-o", "-path", "./packages", "-o", "-path", "./tmp", "-o", "-path", "./run"];
    let systemd =
        ["-o", "-path", "./var/lib/systemd/random-seed", "-o", "-path", "./var/tmp", ")", "-prune", "-o", "-print"];
    find.args(all).args(own).args(systemd).current_dir(root.path("/"));
    Ok(output(find)?.lines().map(str::to_owned).collect())
}

fn nothing_left(root: &Root, before: &BTreeSet<String>) -> Result<()> {
    let left = files(root)?;
    let left: Vec<_> = left.difference(before).filter(|f| f.contains("fabriclens")).collect();
    ensure!(left.is_empty(), "purged, and these are left: {left:?}");
    Ok(())
}
