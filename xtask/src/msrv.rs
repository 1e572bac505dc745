//! Minimum supported Rust version: `rust-version` in the workspace's `Cargo.toml`.
//!
//! Two checks hold it without a second toolchain: clippy's `incompatible_msrv` (denied in `Cargo.toml`) refuses library
//! functions that are newer, and this step refuses dependencies that ask for a newer compiler.

use crate::steps::{cargo, output};
use anyhow::{Context, Result, ensure};
use serde_json::Value;

/// Compares the `rust-version` of every dependency with ours.
///
/// # Errors
/// When a dependency asks for a newer Rust.
pub fn check() -> Result<()> {
    let metadata: Value = serde_json::from_str(&output(cargo(&[
        "metadata",
        "--format-version",
        "1",
        "--locked",
        "--filter-platform",
        "x86_64-unknown-linux-gnu",
    ]))?)?;
    let packages = metadata["packages"].as_array().context("cargo metadata lists no packages")?;
    let (ours, others): (Vec<&Value>, Vec<&Value>) = packages.iter().partition(|p| p["source"].is_null());
    let minimum = ours.iter().filter_map(|p| p["rust_version"].as_str()).max_by_key(|v| version(v));
    let minimum = minimum.context("Cargo.toml has no rust-version")?;
    let newer = others.iter().filter(|p| p["rust_version"].as_str().is_some_and(|v| version(v) > version(minimum)));
    let newer: Vec<String> =
        newer.map(|p| format!("{} {} needs {}", p["name"], p["version"], p["rust_version"])).collect();
    ensure!(newer.is_empty(), "rust-version is {minimum}, but {}", newer.join(", "));
    println!("{} dependencies build with Rust {minimum}", others.len());
    Ok(())
}

/// `1.90` and `1.90.0` compare equal.
fn version(text: &str) -> [u32; 3] {
    let mut parts = text.split('.').map(|part| part.parse().unwrap_or(0));
    [(); 3].map(|()| parts.next().unwrap_or(0))
}
