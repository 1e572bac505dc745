//! SBOM of a program as CycloneDX 1.5: every crate, and every library of the console, with version, license, checksum and dependencies.

use crate::console::BUNDLED;
use crate::steps::{output, root};
use crate::third_party::{Crate, contents};
use anyhow::{Context, Result};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::process::Command;

/// Crate that embeds the console's built files.
const CONSOLE: &str = "fabriclens-console";

/// SBOM of one program, reproducible for the same sources. `epoch` is its timestamp in Unix seconds.
///
/// # Errors
/// When cargo cannot resolve the dependencies.
pub fn sbom(package: &str, epoch: &str) -> Result<Value> {
    let contents = contents(package)?;
    let hashes = checksums()?;
    let mut own = Value::Null;
    let mut components = Vec::new();
    for c in contents.crates.values() {
        let main = c.source.is_none() && c.name == package;
        let component = component(c, if main { "application" } else { "library" }, &hashes);
        if main { own = component } else { components.push(component) }
    }
    let libraries = match contents.crates.values().any(|c| c.name == CONSOLE) {
        true => console_libraries()?,
        false => Vec::new(),
    };
    components.extend(libraries.iter().cloned());
    let embedded = |id: &String| contents.crates.get(id).filter(|c| c.name == CONSOLE).map_or(&[][..], |_| &libraries);
    let name = |id: &String| contents.crates.get(id).map(reference);
    let needs = contents.needs.iter().filter_map(|(id, needs)| {
        let mut on: Vec<String> = needs.iter().filter_map(name).collect();
        on.extend(embedded(id).iter().filter_map(|library| library["purl"].as_str().map(str::to_owned)));
        on.sort();
        on.dedup();
        Some(json!({ "ref": name(id)?, "dependsOn": on }))
    });
    let mut date = Command::new("date");
    date.args(["-u", "-d", &format!("@{epoch}"), "+%Y-%m-%dT%H:%M:%SZ"]);
    Ok(json!({
        "$schema": "http://cyclonedx.org/schema/bom-1.5.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": { "timestamp": output(date)?, "component": own },
        "components": components,
        "dependencies": needs.collect::<Vec<_>>(),
    }))
}

/// Package URL of a crate.
fn reference(c: &Crate) -> String {
    format!("pkg:cargo/{}@{}", c.name, c.version)
}

fn component(c: &Crate, kind: &str, hashes: &BTreeMap<(String, String), String>) -> Value {
    let mut component = json!({
        "type": kind,
        "bom-ref": reference(c),
        "name": c.name,
        "version": c.version,
        "licenses": [{ "expression": c.license() }],
        "purl": reference(c),
    });
    if let Some(hash) = hashes.get(&(c.name.clone(), c.version.clone())) {
        component["hashes"] = json!([{ "alg": "SHA-256", "content": hash }]);
    }
    if let Some(repository) = &c.repository {
        component["externalReferences"] = json!([{ "type": "vcs", "url": repository }]);
    }
    component
}

/// Libraries that are part of the console, from its lock file.
fn console_libraries() -> Result<Vec<Value>> {
    let lock = fs::read(root().join("console/package-lock.json")).context("console/package-lock.json")?;
    let lock: Value = serde_json::from_slice(&lock).context("console/package-lock.json")?;
    let library = |name: &&str| {
        let of = &lock["packages"][format!("node_modules/{name}")];
        let text =
            |key: &str| of[key].as_str().with_context(|| format!("console/package-lock.json: {name} has no {key}"));
        let purl = format!("pkg:npm/{name}@{}", text("version")?);
        let sum = text("integrity")?.strip_prefix("sha512-").context("the checksum of a library is no SHA-512")?;
        let hex = STANDARD.decode(sum)?.iter().fold(String::new(), |mut hex, byte| {
            // Writing to a string does not fail.
            _ = write!(hex, "{byte:02x}");
            hex
        });
        Ok(json!({
            "type": "library",
            "bom-ref": purl,
            "name": name,
            "version": text("version")?,
            "licenses": [{ "expression": text("license")? }],
            "purl": purl,
            "hashes": [{ "alg": "SHA-512", "content": hex }],
        }))
    };
    BUNDLED.iter().map(library).collect()
}

/// SHA-256 of crates by name and version, from the lock files.
fn checksums() -> Result<BTreeMap<(String, String), String>> {
    let mut all = BTreeMap::new();
    for file in ["Cargo.lock", "ebpf/probes/Cargo.lock"] {
        let lock: toml::Table = fs::read_to_string(root().join(file))?.parse().with_context(|| file.to_owned())?;
        for package in lock.get("package").and_then(toml::Value::as_array).into_iter().flatten() {
            let text = |key: &str| package.get(key).and_then(toml::Value::as_str).map(str::to_owned);
            if let (Some(name), Some(version), Some(sum)) = (text("name"), text("version"), text("checksum")) {
                all.insert((name, version), sum);
            }
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::deb::PACKAGES;
    use std::collections::BTreeSet;

    #[test]
    fn sbom_is_complete_and_references_resolve() {
        for package in PACKAGES {
            let bom = sbom(package, "0").unwrap();
            assert_eq!(bom["metadata"]["component"]["name"], *package);
            assert_eq!(bom["metadata"]["timestamp"], "1970-01-01T00:00:00Z");
            let components = bom["components"].as_array().unwrap();
            assert!(components.len() > 100, "{}", components.len());
            let mut known = BTreeSet::from([bom["metadata"]["component"]["bom-ref"].as_str().unwrap()]);
            for component in components {
                let own = component["name"].as_str().unwrap().starts_with("fabriclens");
                let hash = &component["hashes"][0];
                let digits = if hash["alg"] == "SHA-512" { 128 } else { 64 };
                assert!(own || hash["content"].as_str().unwrap().len() == digits, "{component}");
                assert!(!component["licenses"][0]["expression"].as_str().unwrap().contains('/'), "{component}");
                assert!(known.insert(component["bom-ref"].as_str().unwrap()), "twice: {component}");
            }
            let names: BTreeSet<_> = components.iter().map(|c| c["name"].as_str().unwrap()).collect();
            assert_eq!(names.contains("aya-ebpf"), *package == "fabriclens-agent");
            assert!(!names.contains("proptest"), "test dependencies are not shipped");
            let console: Vec<_> = BUNDLED.iter().map(|name| names.contains(name)).collect();
            assert_eq!(console, [*package == "fabriclens"; 2], "libraries of the console");
            let lines = bom["dependencies"].as_array().unwrap().iter();
            let embeds: Vec<_> = lines.filter(|line| line.to_string().contains("pkg:npm/")).collect();
            assert!(embeds.iter().all(|line| line["ref"].as_str().unwrap().contains(CONSOLE)), "{embeds:?}");
            assert_eq!(embeds.len(), usize::from(*package == "fabriclens"), "the console needs its libraries");
            for line in bom["dependencies"].as_array().unwrap() {
                let on = line["dependsOn"].as_array().unwrap().iter().chain([&line["ref"]]);
                assert!(on.into_iter().all(|r| known.contains(r.as_str().unwrap())), "{line}");
            }
        }
    }
}
