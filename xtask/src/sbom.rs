//! SBOM of a program as CycloneDX 1.5: every crate with version, license, checksum and dependencies.

use crate::steps::{output, root};
use crate::third_party::{Crate, contents};
use anyhow::{Context, Result};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::process::Command;

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
    let name = |id: &String| contents.crates.get(id).map(reference);
    let needs = contents.needs.iter().filter_map(|(id, needs)| {
        let mut on: Vec<String> = needs.iter().filter_map(name).collect();
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
                assert!(own || component["hashes"][0]["content"].as_str().unwrap().len() == 64, "{component}");
                assert!(!component["licenses"][0]["expression"].as_str().unwrap().contains('/'), "{component}");
                assert!(known.insert(component["bom-ref"].as_str().unwrap()), "twice: {component}");
            }
            let names: BTreeSet<_> = components.iter().map(|c| c["name"].as_str().unwrap()).collect();
            assert_eq!(names.contains("aya-ebpf"), *package == "fabriclens-agent");
            assert!(!names.contains("proptest"), "test dependencies are not shipped");
            for line in bom["dependencies"].as_array().unwrap() {
                let on = line["dependsOn"].as_array().unwrap().iter().chain([&line["ref"]]);
                assert!(on.into_iter().all(|r| known.contains(r.as_str().unwrap())), "{line}");
            }
        }
    }
}
