//! Programs that are not to be had where pages are run, or must not do there what they do elsewhere. A stand-in holds its
//! arguments to the files of this repository that the real one would read, and does what can be done without it.

mod cargo;
mod containers;
mod kubernetes;
pub mod services;

use crate::steps::{command, must, root};
use anyhow::{Context, Result, bail, ensure};
use std::path::Path;

/// Name, and what it does with its arguments.
type StandIn = (&'static str, fn(&[&str]) -> Result<()>);

const ALL: &[StandIn] = &[
    ("cargo", cargo::cargo),
    ("systemctl", services::systemctl),
    ("journalctl", services::journalctl),
    ("kubectl", kubernetes::kubectl),
    ("oc", kubernetes::oc),
    ("helm", kubernetes::helm),
    ("docker", containers::docker),
    ("podman", containers::docker),
    ("buildah", containers::docker),
    ("ansible-playbook", ansible),
    ("apt", apt),
    ("rsync", rsync),
    ("scontrol", scontrol),
    ("sysctl", sysctl),
];

/// Between the words of one command line: nobody types it.
const BETWEEN: &str = "\u{1f}";

/// Puts all of them into a directory, as programs.
pub fn put(dir: &Path) -> Result<()> {
    for (name, _) in ALL {
        let at = dir.join(name);
        let text = format!("#!/bin/bash\nexec \"$XTASK\" docs --stand-in=\"$(printf '%s{BETWEEN}' {name} \"$@\")\"\n");
        std::fs::write(&at, text).with_context(|| format!("write {}", at.display()))?;
        must(command("chmod", &["755", &at.display().to_string()]))?;
    }
    Ok(())
}

/// Does what the program that `line` names does with the words after it.
pub fn run(line: &str) -> Result<()> {
    let words: Vec<&str> = line.trim_end_matches(BETWEEN).split(BETWEEN).collect();
    let (name, args) = words.split_first().context("no program is named")?;
    let (_, does) = ALL.iter().find(|(n, _)| n == name).with_context(|| format!("{name} has no stand-in"))?;
    does(args).with_context(|| format!("the stand-in of {}", words.join(" ")))
}

/// Takes a word out of the arguments, with what follows it.
fn take<'a>(args: &mut Vec<&'a str>, word: &str) -> Option<&'a str> {
    let at = args.iter().position(|a| *a == word)?;
    args.remove(at);
    (at < args.len()).then(|| args.remove(at))
}

/// An error if there is no such file here.
fn there(path: &str) -> Result<()> {
    ensure!(Path::new(path).exists(), "{path} is not there");
    Ok(())
}

/// A file of the repository.
fn text(path: &str) -> Result<String> {
    std::fs::read_to_string(root().join(path)).with_context(|| format!("read {path}"))
}

/// The real one, where it is, as far as it goes without hosts.
fn ansible(args: &[&str]) -> Result<()> {
    const REAL: &str = "/usr/bin/ansible-playbook";
    args.iter().filter(|a| a.contains('.')).try_for_each(|file| there(file))?;
    if !Path::new(REAL).exists() {
        println!("SKIPPED: ansible-core is not installed, so {} was not read", args.join(" "));
        return Ok(());
    }
    let mut real = command(REAL, &["--syntax-check"]);
    // Not in the home of whoever runs the pages.
    real.args(args).env("ANSIBLE_HOME", "/mnt/ansible");
    must(real)
}

/// Packages have the names that are built here.
fn apt(args: &[&str]) -> Result<()> {
    let (verb, packages) = args.split_first().context("what is apt to do?")?;
    ensure!(["install", "remove", "purge"].contains(verb), "apt {verb}?");
    let control = text("deploy/debian/control")?;
    for file in packages {
        let name = file.trim_start_matches("./").split('_').next().unwrap_or_default();
        ensure!(control.lines().any(|l| l == format!("Package: {name}")), "no package is called {name}");
    }
    Ok(())
}

/// Copies; what is on another machine is below /mnt.
fn rsync(args: &[&str]) -> Result<()> {
    let [from, to] = args.iter().copied().filter(|a| !a.starts_with('-')).collect::<Vec<_>>()[..] else {
        bail!("from where, and to where?");
    };
    let here = |path: &str| path.split_once(':').map_or(path.to_owned(), |(host, path)| format!("/mnt/{host}{path}"));
    ensure!(from.ends_with('/') && to.ends_with('/'), "without / at both ends the one lands within the other");
    std::fs::create_dir_all(here(to))?;
    must(command("cp", &["--archive", &format!("{}.", here(from)), &here(to)]))
}

fn scontrol(args: &[&str]) -> Result<()> {
    ensure!(args == ["show", "topology"], "scontrol {}?", args.join(" "));
    println!(
        "SwitchName=leaf1 Level=0 LinkSpeed=1 Nodes=gpu-[00-07]\nSwitchName=leaf2 Level=0 LinkSpeed=1 Nodes=gpu-[08-15]"
    );
    println!("SwitchName=spine1 Level=1 LinkSpeed=1 Nodes=gpu-[00-15] Switches=leaf[1-2]");
    Ok(())
}

/// There is such a setting; it is the whole machine's, so it stays as it is.
fn sysctl(args: &[&str]) -> Result<()> {
    args.iter().try_for_each(|arg| {
        let name = arg.split('=').next().unwrap_or_default();
        there(&format!("/proc/sys/{}", name.replace('.', "/")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(line: &str) -> Result<(), String> {
        run(&line.replace(' ', BETWEEN)).map_err(|e| format!("{e:#}"))
    }

    #[test]
    fn what_is_wrong_is_seen() {
        std::env::set_current_dir(root()).unwrap();
        for (right, wrong, says) in [
            ("cargo build --release", "cargo build --fast", "--fast"),
            (
                "cargo test -p fabriclens --test integration -- restore",
                "cargo test -p fabriclens --test restored",
                "restored",
            ),
            ("cargo test -p fabriclens-fuzz", "cargo test -p fabriclens-fuss", "fuss"),
            (
                "cargo run --release -p fabriclens-store --example sled_index -- 3",
                "cargo run -p fabriclens-model --example sled_index",
                "sled_index",
            ),
            ("systemctl enable --now fabriclens", "systemctl enable fabriclensd", "fabriclensd"),
            ("systemctl kill -s HUP fabriclens", "systemctl reload fabriclens", "reload"),
            ("journalctl -u fabriclens-agent -n 50", "journalctl -u fabriclens-agents", "agents"),
            (
                "kubectl -n fabriclens rollout status daemonset/fabriclens-agent",
                "kubectl -n fabriclens rollout status daemonset/fabriclens",
                "daemonset/fabriclens",
            ),
            (
                "kubectl -n fabriclens delete pvc data-fabriclens-0",
                "kubectl -n fabriclens delete pvc store-fabriclens-0",
                "store-fabriclens-0",
            ),
            (
                "kubectl apply -f deploy/kubernetes/fabriclens.yaml",
                "kubectl apply -f deploy/kubernetes/all.yaml",
                "all.yaml",
            ),
            (
                "kubectl -n fabriclens port-forward service/fabriclens 7470",
                "kubectl -n fabriclens port-forward service/fabriclens 7474",
                "7474",
            ),
            ("kubectl -n fabriclens describe daemonset fabriclens-agent", "kubectl -n lens get pods", "lens"),
            (
                "helm install fabriclens deploy/helm/fabriclens -n fabriclens --set image.registry=R,tokens.secret=t",
                "helm install fabriclens deploy/helm/fabriclens -n fabriclens --set image.host=R",
                "image.host",
            ),
            (
                "buildah build -f deploy/container/Containerfile --target fabriclens -t R/fabriclens:1 .",
                "buildah build -f deploy/container/Containerfile --target collector -t R/fabriclens:1 .",
                "collector",
            ),
            (
                "apt install ./fabriclens-agent_*_amd64.deb",
                "apt install ./fabriclens-collector_*_amd64.deb",
                "collector",
            ),
            (
                "oc adm policy add-scc-to-user privileged -z fabriclens-agent -n fabriclens",
                "oc adm policy add-scc-to-user privileged -z agent -n fabriclens",
                "serviceaccount/agent",
            ),
            ("sysctl kernel.perf_event_paranoid=2", "sysctl kernel.perf_paranoid=2", "perf_paranoid"),
        ] {
            of(right).unwrap();
            let told = of(wrong).expect_err(wrong);
            assert!(told.contains(says), "{wrong}: {told}");
        }
    }
}
