//! The test programs of the workspace.

use crate::steps::{cargo, root, tied};
use anyhow::{Context as _, Result, ensure};
use serde::Deserialize;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// A test program that cargo has built.
pub struct Program {
    path: PathBuf,
    /// Directory of its package, in which cargo runs it.
    package: PathBuf,
    /// Its package and target: `collector/store --test integration`.
    pub name: String,
}

/// What cargo prints of each thing that it has built.
#[derive(Deserialize)]
struct Message {
    executable: Option<PathBuf>,
    manifest_path: Option<PathBuf>,
    target: Option<Target>,
    profile: Option<Profile>,
}

#[derive(Deserialize)]
struct Target {
    kind: Vec<String>,
    name: String,
}

#[derive(Deserialize)]
struct Profile {
    test: bool,
}

impl Program {
    /// Builds all, and gives the largest first: it takes longest.
    ///
    /// # Errors
    /// When they do not build.
    pub fn all() -> Result<Vec<Self>> {
        let build = ["test", "--workspace", "--locked", "--no-run", "--message-format=json-render-diagnostics"];
        let built = cargo(&build).stderr(Stdio::inherit()).output().context("start cargo test")?;
        ensure!(built.status.success(), "the tests do not build: {}", built.status);
        let printed = String::from_utf8(built.stdout).context("cargo's messages")?;
        let mut programs: Vec<Self> = printed.lines().filter_map(Self::from_message).collect();
        programs.sort_by_key(|program| std::cmp::Reverse(program.path.metadata().map_or(0, |file| file.len())));
        Ok(programs)
    }

    /// None for what is no test program.
    fn from_message(line: &str) -> Option<Self> {
        let message: Message = serde_json::from_str(line).ok()?;
        let (target, path) = (message.target?, message.executable?);
        let package = message.manifest_path?.parent()?.to_owned();
        let kind = match target.kind.first()?.as_str() {
            _ if !message.profile?.test => return None,
            "lib" => "--lib".to_owned(),
            kind => format!("--{kind} {}", target.name),
        };
        let name = format!("{} {kind}", package.strip_prefix(root()).unwrap_or(&package).display());
        Some(Self { path, package, name })
    }

    /// Runs it with these arguments, as cargo would.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = tied("KILL", &self.path);
        command.args(args).current_dir(&self.package).env("CARGO_MANIFEST_DIR", &self.package);
        command
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_test_programs_are_taken() {
        let line = |kind: &str, test: bool| {
            let package = root().join("collector/store");
            serde_json::json!({
                "executable": "/t/integration-1",
                "manifest_path": package.join("Cargo.toml"),
                "target": {"kind": [kind], "name": "integration"},
                "profile": {"test": test},
            })
            .to_string()
        };
        let name = |line: &str| Program::from_message(line).map(|program| program.name);
        assert_eq!(name(&line("test", true)).as_deref(), Some("collector/store --test integration"));
        assert_eq!(name(&line("lib", true)).as_deref(), Some("collector/store --lib"));
        assert_eq!(name(&line("bin", false)), None);
        assert_eq!(name("{\"reason\":\"build-finished\",\"success\":true}"), None);
    }
}
