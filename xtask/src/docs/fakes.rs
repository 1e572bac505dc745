//! Fakes of programs that are not installed where the pages are run: short shell scripts, put first into the path.
//!
//! They do not check the arguments of other projects' programs. `tests/tests/deploy.rs` checks the manifests, the chart, the
//! units and the container files themselves, `cargo xtask deb --test` runs the units under a real systemd.

use anyhow::{Context, Result};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

/// Script, and the names under which it is put.
const FAKES: &[(&str, &[&str])] = &[
    (include_str!("fakes/cargo"), &["cargo"]),
    (include_str!("fakes/systemctl"), &["systemctl"]),
    (include_str!("fakes/rsync"), &["rsync"]),
    (include_str!("fakes/scontrol"), &["scontrol"]),
    (include_str!("fakes/other"), &["ansible-playbook", "apt", "buildah", "docker", "helm", "kubectl"]),
];

/// Writes the fakes into a directory.
///
/// # Errors
/// When a file cannot be written.
pub fn install(dir: &Path) -> Result<()> {
    for (script, names) in FAKES {
        for name in *names {
            let path = dir.join(name);
            fs::write(&path, script).with_context(|| format!("write {}", path.display()))?;
            fs::set_permissions(&path, Permissions::from_mode(0o755))?;
        }
    }
    Ok(())
}
