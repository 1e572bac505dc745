//! `cargo xtask manifests`: renders the chart of `deploy/helm` into `deploy/kubernetes`, for installations without Helm.
//!
//! The manifests are committed with checksums of their sources. `--check` compares the checksums, and with Helm also renders
//! the chart again and compares the manifests.

use crate::steps::{checksums, files, root};
use crate::summary::skipped;
use anyhow::{Context, Result, bail, ensure};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const CHART: &str = "deploy/helm/fabriclens";
/// Cluster version. Fixed, because the default of `helm template` depends on the Helm release.
const KUBERNETES: &str = "1.33.0";
/// Rendered files with Helm's arguments.
const RENDERED: &[(&str, &[&str])] = &[
    ("fabriclens.yaml", &["--set", "namespace.create=true"]),
    (
        "roles.yaml",
        &[
            "--set",
            "namespace.create=true,ingest.replicas=2,engine.url=http://victoria.example:8428,collector.persistence.claim=judges",
        ],
    ),
    (
        "service-monitor.yaml",
        &["--set", "prometheusOperator.serviceMonitor=true", "--show-only", "templates/prometheus-operator.yaml"],
    ),
];

/// Options of `manifests`.
#[derive(clap::Args)]
pub struct Args {
    /// Writes nothing; fails if the manifests are not current
    #[arg(long)]
    pub check: bool,
}

/// Renders or checks the manifests.
///
/// # Errors
/// When Helm is missing or refuses the chart, or a manifest is not current.
pub fn run(args: &Args) -> Result<()> {
    let dir = root().join("deploy/kubernetes");
    let helm = std::env::var_os("HELM").unwrap_or_else(|| "helm".into());
    let there = Command::new(&helm).arg("version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok();
    if args.check {
        let had = std::fs::read_to_string(dir.join("SOURCES")).unwrap_or_default();
        ensure!(
            had == list_of(&dir)?,
            "deploy/kubernetes is not current; run cargo xtask manifests (it needs Helm) and commit it"
        );
        if !there {
            skipped(
                "the chart is not rendered again to compare, for want of Helm. Install it, or set HELM to its path",
            );
            return Ok(());
        }
    }
    ensure!(there, "{} not found; install Helm, or set HELM to its path", helm.display());
    for (name, options) in RENDERED {
        let at = dir.join(name);
        let text = render(&helm, options)?;
        if args.check {
            ensure!(
                std::fs::read_to_string(&at)? == text,
                "{} is not current; run cargo xtask manifests",
                at.display()
            );
        } else {
            std::fs::write(&at, text).with_context(|| format!("writing {}", at.display()))?;
        }
    }
    if !args.check {
        std::fs::write(dir.join("SOURCES"), list_of(&dir)?).context("writing SOURCES")?;
    }
    Ok(())
}

fn render(helm: &OsString, options: &[&str]) -> Result<String> {
    let mut command = Command::new(helm);
    command
        .args(["template", "fabriclens", CHART, "--namespace", "fabriclens", "--kube-version", KUBERNETES])
        .args(options)
        .current_dir(root());
    let done = command.output().with_context(|| format!("start {command:?}"))?;
    if !done.status.success() {
        bail!("{command:?}: {}", String::from_utf8_lossy(&done.stderr));
    }
    // Helm does not manage these objects.
    let text = String::from_utf8(done.stdout)?;
    let lines = text.lines().filter(|line| !line.trim_start().starts_with("app.kubernetes.io/managed-by: "));
    let head = format!("# Rendered from {CHART} by `cargo xtask manifests`; change the chart, not this file.\n");
    Ok(lines.fold(head, |all, line| all + line.trim_end() + "\n"))
}

fn list_of(dir: &Path) -> Result<String> {
    let rendered = RENDERED.iter().map(|(name, _)| dir.join(name));
    let chart = files(&root().join(CHART))?.into_iter();
    // Without the generated dashboards and rules, which no manifest here uses.
    let own = chart.filter(|file| !file.starts_with(root().join(CHART).join("files")));
    checksums(&root(), &own.chain(rendered).collect::<Vec<PathBuf>>(), |file| std::fs::read(file))
}
