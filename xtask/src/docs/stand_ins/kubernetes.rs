//! `kubectl`, `oc` and `helm`: names are those of the rendered manifests, values those of the chart's schema, and what
//! `kubectl exec` runs in a pod runs here.

use super::{take, text, there};
use crate::steps::{command, must};
use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

const MANIFEST: &str = "deploy/kubernetes/fabriclens.yaml";

/// `kind/name` of every object, in lower case.
fn objects() -> Result<Vec<String>> {
    let mut kind = String::new();
    let mut found = Vec::new();
    for line in text(MANIFEST)?.lines() {
        if let Some(is) = line.strip_prefix("kind: ") {
            kind = is.to_lowercase();
        } else if let Some(name) = line.strip_prefix("  name: ").filter(|_| !kind.is_empty()) {
            found.push(format!("{kind}/{name}"));
            kind.clear();
        }
    }
    Ok(found)
}

fn known(object: &str) -> Result<()> {
    let all = objects()?;
    // Its pods are numbered.
    let set = object.strip_suffix("-0").map(|name| format!("statefulset/{}", name.trim_start_matches("pod/")));
    ensure!(all.iter().any(|o| o == object || Some(o) == set.as_ref()), "there is no {object}, but {}", all.join(", "));
    Ok(())
}

pub fn kubectl(args: &[&str]) -> Result<()> {
    let (before, within) = match args.iter().position(|a| *a == "--") {
        Some(at) => (&args[..at], &args[at + 1..]),
        None => (args, &[][..]),
    };
    let mut args = before.to_vec();
    if let Some(namespace) = take(&mut args, "-n") {
        known(&format!("namespace/{namespace}"))?;
    }
    match args[..] {
        ["create", "namespace", name] | ["label", "namespace", name, _] => known(&format!("namespace/{name}")),
        ["create", "secret", "generic", _, file] => {
            there(file.strip_prefix("--from-file=").with_context(|| format!("{file}?"))?)
        }
        ["apply", "-f", file] => there(file),
        ["cordon" | "uncordon", _] | ["drain", _, "--ignore-daemonsets"] => Ok(()),
        ["rollout", "status", object] => known(object),
        ["describe", kind, name] => known(&format!("{kind}/{name}")),
        ["delete", "pvc", claim] => {
            let (volume, pod) = claim.split_once('-').context("VOLUME-POD")?;
            known(pod)?;
            ensure!(text(MANIFEST)?.contains(&format!("\n        name: {volume}\n")), "{claim}: no volume is {volume}");
            Ok(())
        }
        ["port-forward", object, port] => {
            known(object)?;
            ensure!(text(MANIFEST)?.contains(&format!("port: {port}, ")), "nothing has port {port}");
            Ok(())
        }
        ["auth", "can-i", "list", "pods", account, "-A"] => {
            let name = account.strip_prefix("--as=system:serviceaccount:fabriclens:").context("as whom?")?;
            known(&format!("serviceaccount/{name}"))
        }
        ["exec", object] => {
            known(object)?;
            run(within)
        }
        _ => bail!("kubectl {}?", args.join(" ")),
    }
}

/// What runs in a container runs here: the program of the same name, with this machine as the host that is mounted there.
pub fn run(words: &[&str]) -> Result<()> {
    let (program, args) = words.split_first().context("nothing is run")?;
    let name = program.strip_prefix("/usr/bin/").context("images have nothing but /usr/bin")?;
    let args: Vec<&str> = args.iter().map(|a| if *a == "/host" { "/" } else { a }).collect();
    must(command(name, &args))
}

pub fn oc(args: &[&str]) -> Result<()> {
    let ["adm", "policy", "add-scc-to-user", "privileged", "-z", account, "-n", namespace] = args else {
        bail!("oc {}?", args.join(" "));
    };
    known(&format!("namespace/{namespace}"))?;
    known(&format!("serviceaccount/{account}"))
}

pub fn helm(args: &[&str]) -> Result<()> {
    let mut args = args.to_vec();
    let namespace = take(&mut args, "-n").context("in which namespace?")?;
    known(&format!("namespace/{namespace}"))?;
    while let Some(values) = take(&mut args, "--set") {
        for value in values.split(',') {
            may_be_set(value.split('=').next().unwrap_or_default())?;
        }
    }
    args.retain(|a| *a != "--reset-then-reuse-values");
    match args[..] {
        ["install" | "upgrade", "fabriclens", chart] => there(&format!("{chart}/Chart.yaml")),
        ["uninstall", "fabriclens"] => Ok(()),
        _ => bail!("helm {}?", args.join(" ")),
    }
}

/// `a.b` is in the schema of the chart's values.
fn may_be_set(key: &str) -> Result<()> {
    let schema: Value = serde_json::from_str(&text("deploy/helm/fabriclens/values.schema.json")?)?;
    key.split('.')
        .try_fold(&schema, |at, part| at["properties"].get(part))
        .map(drop)
        .with_context(|| format!("the chart has no value {key}"))
}
