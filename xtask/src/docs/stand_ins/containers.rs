//! `docker`, `podman` and `buildah`: files and targets are those of `deploy`, and what would run in a container runs here.

use super::{kubernetes, take, text, there};
use anyhow::{Context, Result, bail, ensure};

pub fn docker(args: &[&str]) -> Result<()> {
    match args {
        // Said of programs, not to them.
        ["build"] => Ok(()),
        ["build", rest @ ..] => build(rest),
        ["run", rest @ ..] => run(rest),
        ["exec", container, rest @ ..] => {
            ensure!(is_image(container)?, "nothing here is called {container}");
            kubernetes::run(rest)
        }
        ["compose", rest @ ..] => compose(rest),
        _ => bail!("{}?", args.join(" ")),
    }
}

/// An image that the Containerfile makes.
fn is_image(name: &str) -> Result<bool> {
    Ok(text("deploy/container/Containerfile")?
        .lines()
        .any(|l| l.starts_with("FROM ") && l.ends_with(&format!(" AS {name}"))))
}

/// `REGISTRY/fabriclens:0.1.0` is `fabriclens`.
fn image(tag: &str) -> Result<&str> {
    let name = tag.rsplit('/').next().and_then(|n| n.split(':').next()).unwrap_or_default();
    ensure!(is_image(name)?, "the Containerfile makes no {name}");
    Ok(name)
}

fn build(args: &[&str]) -> Result<()> {
    let mut args = args.to_vec();
    there(take(&mut args, "-f").context("of which file?")?)?;
    let target = take(&mut args, "--target").context("which target?")?;
    ensure!(is_image(target)?, "the Containerfile makes no {target}");
    ensure!(image(take(&mut args, "-t").context("which tag?")?)? == target, "the tag is of another image");
    ensure!(args == ["."], "{}?", args.join(" "));
    Ok(())
}

/// The command is well formed, what it mounts is there, and the program takes its arguments.
fn run(args: &[&str]) -> Result<()> {
    let mut args = args.to_vec();
    while let Some(mount) = take(&mut args, "-v") {
        let from = mount.split(':').next().unwrap_or_default();
        // Directories that the engine makes.
        ensure!(from.starts_with("/run/") || from.starts_with("/var/") || there(from).is_ok(), "{mount}?");
    }
    for option in ["--name", "--network", "--pid", "--cap-drop", "--security-opt"] {
        take(&mut args, option).with_context(|| format!("{option}?"))?;
    }
    let unit = text("deploy/systemd/fabriclens-agent.service")?;
    while let Some(capability) = take(&mut args, "--cap-add") {
        ensure!(unit.contains(&format!("CAP_{capability}")), "the unit has no {capability}");
    }
    args.retain(|a| !["-d", "--read-only"].contains(a));
    let (tag, rest) = args.split_first().context("which image?")?;
    let program = format!("/usr/bin/{}", image(tag)?);
    let line: Vec<&str> = [&*program].into_iter().chain(rest.iter().copied()).chain(["--check-config"]).collect();
    kubernetes::run(&line)
}

fn compose(args: &[&str]) -> Result<()> {
    let mut args = args.to_vec();
    let file = std::fs::read_to_string("compose.yaml").context("there is no compose.yaml here")?;
    if let Some(profile) = take(&mut args, "--profile") {
        ensure!(file.contains(&format!("profiles: [{profile}]")), "no profile is called {profile}");
    }
    ensure!(args == ["up", "-d"], "compose {}?", args.join(" "));
    Ok(())
}
