//! Edges between the files of a crate, and the circles that they form.

use super::source::{Import, ModulePath, Modules};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

/// Each file with the files that it imports from.
pub type Graph = BTreeMap<PathBuf, BTreeSet<PathBuf>>;

/// How many re-exports are followed for one name.
const MAX_REEXPORTS: usize = 8;

/// Builds the graph from the `use` declarations of all modules.
///
/// A re-export (`pub use child::Name` in a parent) is no edge of the parent; an import of `Name` from the parent leads to the
/// file of the child. Modules named in `registries` list their own children, which is no edge either.
pub fn edges(modules: &Modules, registries: &[ModulePath]) -> Graph {
    let mut graph = Graph::new();
    for (path, module) in modules {
        let of_file = graph.entry(module.file.clone()).or_default();
        let own_children = |import: &Import| import.reexported || registries.contains(path);
        for import in &module.imports {
            let Some(target) = resolve(modules, path, &import.path, 0) else { continue };
            if target.starts_with(path) && own_children(import) {
                continue;
            }
            let file = &modules[&target].file;
            if *file != module.file {
                of_file.insert(file.clone());
            }
        }
    }
    graph
}

/// The module that defines what `path` names, as seen from the module `from`; none for another crate.
fn resolve(modules: &Modules, from: &ModulePath, path: &[String], depth: usize) -> Option<ModulePath> {
    let mut at = from.clone();
    let mut rest = path;
    match path.first()?.as_str() {
        "crate" => (at, rest) = (ModulePath::new(), &path[1..]),
        "self" => rest = &path[1..],
        "super" => {
            while let Some(("super", after)) = rest.split_first().map(|(first, after)| (first.as_str(), after)) {
                at.pop()?;
                rest = after;
            }
        }
        first => {
            let child = [from.as_slice(), &[first.to_owned()]].concat();
            modules.get(&child)?;
        }
    }
    while let Some((name, after)) = rest.split_first() {
        let child = [at.as_slice(), std::slice::from_ref(name)].concat();
        if modules.contains_key(&child) {
            at = child;
        } else {
            let module = modules.get(&at)?;
            if let Some(definition) = imported(modules, &at, name, depth) {
                at = definition;
            } else if !module.items.contains(name) {
                // A macro's item or another crate's name.
                return Some(at);
            } else {
                break;
            }
        }
        rest = after;
    }
    modules.contains_key(&at).then_some(at)
}

/// Where `name` is defined, if the module at `at` has it by an import.
fn imported(modules: &Modules, at: &ModulePath, name: &str, depth: usize) -> Option<ModulePath> {
    let module = modules.get(at)?;
    if depth >= MAX_REEXPORTS || module.items.contains(name) {
        return None;
    }
    let by_name = module.imports.iter().find(|import| import.name == name);
    if let Some(import) = by_name {
        return resolve(modules, at, &import.path, depth + 1);
    }
    let globs = module.imports.iter().filter(|import| import.name == "*");
    let targets = globs.filter_map(|import| resolve(modules, at, &import.path, depth + 1));
    targets.into_iter().find(|target| modules[target].items.contains(name))
}

/// Groups of files that reach each other, each sorted; the largest first.
pub fn circles(graph: &Graph) -> Vec<Vec<PathBuf>> {
    let reached: BTreeMap<&PathBuf, BTreeSet<&PathBuf>> = graph.keys().map(|file| (file, reach(graph, file))).collect();
    let mut found: Vec<Vec<PathBuf>> = Vec::new();
    for (file, reaches) in &reached {
        if reaches.contains(file) && !found.iter().any(|circle| circle.contains(file)) {
            let circle = reaches.iter().filter(|other| reached[**other].contains(file));
            found.push(circle.map(|other| (*other).clone()).collect());
        }
    }
    found.sort_by_key(|circle| std::cmp::Reverse(circle.len()));
    found
}

/// Files that `file` imports from, directly or through others.
fn reach<'a>(graph: &'a Graph, file: &PathBuf) -> BTreeSet<&'a PathBuf> {
    let mut found = BTreeSet::new();
    let mut waiting: Vec<&PathBuf> = graph.get(file).into_iter().flatten().collect();
    while let Some(next) = waiting.pop() {
        if found.insert(next) {
            waiting.extend(graph.get(next).into_iter().flatten());
        }
    }
    found
}
