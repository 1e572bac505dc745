//! Tests the packages in a clean root: install, use, upgrade, restore, secure, remove and purge.

use super::inside::Root;
use super::{PACKAGES, is_symbols};
use crate::docs::page::Page;
use crate::steps::{VERSION, copy, must, output};
use anyhow::{Context, Result, ensure};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Directory of the packages in the root.
const AT: &str = "/packages";
/// Highest accepted exposure of `systemd-analyze security`, in tenths; docs/releasing.md explains it.
const EXPOSURE: &[(&str, u32)] = &[("fabriclens", 13), ("fabriclens-agent", 30)];
/// Version of the newer packages.
const NEWER: &str = "999.0";

/// Tests the packages first without systemd, then with it.
///
/// # Errors
/// When a check fails.
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

/// Checks under systemd, in the order of a host's life.
fn booted(root: &Root) -> Result<()> {
    installed(root)?;
    confined(root)?;
    let begin = root.sh("date +%s")?;
    upgraded(root).and_then(|()| remembers(root, &begin)).context("upgraded")?;
    restored(root).and_then(|()| remembers(root, &begin)).context("restored")?;
    secured(root).context("with certificates and tokens")?;
    removed(root)
}

/// Repacks a package with a higher version and a changed configuration, like a new release.
fn newer(package: &Path, to: &Path) -> Result<()> {
    let tree = to.join("tree");
    let mut unpack = Command::new("dpkg-deb");
    unpack.arg("-R").args([package, &tree]);
    must(unpack)?;
    let control = tree.join("DEBIAN/control");
    let text = fs::read_to_string(&control)?.replace(&format!("\nVersion: {VERSION}"), &format!("\nVersion: {NEWER}"));
    ensure!(text.contains(NEWER), "{} does not have version {VERSION}", package.display());
    fs::write(&control, text)?;
    for file in fs::read_dir(tree.join("etc/fabriclens"))? {
        let file = file?.path();
        fs::write(&file, fs::read_to_string(&file)? + "# Added by a newer release.\n")?;
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

/// Without systemd, as in a chroot or an image build: nothing starts, nothing fails.
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

/// Both units run as dynamic users, listen on loopback only, and the collector has the agent's samples.
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
    has_samples(root, "", "")
}

/// Waits until a query with these options finds fresh samples for a selector.
fn has_samples(root: &Root, options: &str, of: &str) -> Result<()> {
    let query = format!("fabriclens query {options} --format csv 'count(rate(fabric_tcp_segments_total{of}[10s]))'");
    root.until(&query, |a| a.lines().nth(1).is_some_and(|l| !l.ends_with(",0"))).map(|_| ())
}

/// Every sampler with data for root also has data in the unit's sandbox.
fn confined(root: &Root) -> Result<()> {
    let doctor = root.sh("fabriclens-agent doctor --format json || true")?;
    let doctor: serde_json::Value = serde_json::from_str(&doctor).context("reading doctor's JSON")?;
    let sources = doctor["sources"].as_array().context("doctor lists no sources")?;
    let data = sources.iter().filter(|s| s["outcome"] == "data");
    let want: BTreeSet<&str> = data.filter_map(|s| s["sampler"].as_str()).collect();
    ensure!(want.contains("tcpip"), "doctor's JSON lacks tcpip: {doctor}");
    let query = "fabriclens query --format csv 'sum by (sampler) (fabriclens_agent_sampler_state{state=\"data\"}) > 0'";
    let has = |answer: &str| want.iter().all(|s| answer.lines().any(|l| l.split(',').any(|field| field == *s)));
    root.until(query, has).with_context(|| format!("root has data of {want:?}, the unit does not"))?;
    println!("  the unit has data of all samplers of root: {want:?}");
    for (unit, limit) in EXPOSURE {
        root.sh(&format!("systemd-analyze security --no-pager --threshold={limit} {unit}.service"))?;
    }
    Ok(())
}

/// An upgrade keeps an edited configuration and the samples, and restarts both units.
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

/// A copy made by root replaces the data directory, as docs/redundancy.md describes.
fn restored(root: &Root) -> Result<()> {
    root.sh(
        "systemctl stop fabriclens; cd /var/lib/private; mv fabriclens fabriclens.before; cp -r fabriclens.before fabriclens
         rm -r fabriclens.before; test \"$(stat -c %U fabriclens)\" = root; systemctl start fabriclens",
    )?;
    answers(root)?;
    root.sh("test -L /var/lib/fabriclens; ! find /var/lib/private/fabriclens -user root | grep .").map(|_| ())
}

/// Both units work with the certificates, tokens and configurations of docs/install.md.
fn secured(root: &Root) -> Result<()> {
    let page = Page::read(&crate::steps::root(), Path::new("docs/install.md"))?;
    let mut done = Vec::new();
    for block in &page.blocks {
        match (block.language(), block.options().split_once(' ')) {
            ("sh", None) if ["openssl", "token new"].iter().any(|word| block.text.contains(word)) => {
                root.sh(&block.text)?;
                done.push("sh");
            }
            ("toml", Some((program, path))) => {
                fs::write(root.path(path), &block.text)?;
                done.push(program);
            }
            _ => {}
        }
    }
    ensure!(done == ["sh", "sh", "collector", "agent"], "docs/install.md lacks a block: {done:?}");
    root.sh("echo 127.0.0.1 collector.example >> /etc/hosts")?;
    for unit in PACKAGES.iter().rev() {
        root.sh(&format!("systemctl restart {unit}"))?;
        root.until(&format!("systemctl is-active {unit}"), |a| a == "active")?;
    }
    let url = "--url https://collector.example:7470 --ca /etc/fabriclens/ca.crt";
    root.until(&format!("fabriclens query {url} up 2>&1 || true"), |a| a.contains("authentication required"))?;
    has_samples(root, &format!("{url} --token-file /etc/fabriclens/ann.token"), "{host=\"gpu-01.example\"}")
}

/// Removal keeps configuration and data; purge removes them, but not keys.
fn removed(root: &Root) -> Result<()> {
    root.sh(&apt(&format!("remove {}", PACKAGES.join(" "))))?;
    root.sh("! pidof fabriclens fabriclens-agent; test -e /etc/fabriclens/collector.toml; test -e /var/lib/fabriclens/FABRICLENS")?;
    root.sh(&purge())?;
    // Keys were created by the administrator.
    let kept = root.sh("ls /etc/fabriclens; getent group fabriclens-secrets")?;
    ensure!(kept.contains("collector.example.key") && kept.contains("fabriclens-secrets:"), "keys are gone: {kept}");
    root.sh("rm -r /etc/fabriclens /pki").map(|_| ())
}

/// All files except those that apt, dpkg, logs and systemd write.
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
    ensure!(left.is_empty(), "left over after purge: {left:?}");
    Ok(())
}
