//! Reads the modules of one crate with `syn`: the items that each defines and the names that each imports.

use anyhow::{Context, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use syn::visit::{self, Visit};
use syn::{Attribute, Item, UseTree, Visibility};

/// Module path below the crate root; the root is empty.
pub type ModulePath = Vec<String>;

/// One imported name of a `use` declaration.
#[derive(Debug, Clone)]
pub struct Import {
    /// Path as written, for example `super`, `frames`, `Frame`.
    pub path: Vec<String>,
    /// Name that it has in the importing module; `*` for a glob.
    pub name: String,
    /// `pub`, `pub(crate)` or `pub(super)`.
    pub reexported: bool,
}

/// A module of a crate.
#[derive(Debug, Default)]
pub struct Module {
    /// Source file, relative to the crate's `src`.
    pub file: PathBuf,
    pub imports: Vec<Import>,
    /// Items that the module defines, without its child modules.
    pub items: BTreeSet<String>,
}

/// Modules of a crate by path; those behind `#[cfg(test)]` are left out.
pub type Modules = BTreeMap<ModulePath, Module>;

/// Reads all modules below `src`.
///
/// # Errors
/// When a file cannot be read or parsed.
pub fn read(src: &Path) -> Result<Modules> {
    let mut reader = Reader::default();
    // A package with a library and a program has two root modules; the program's main file imports the library by name.
    let root = if src.join("lib.rs").exists() { "lib.rs" } else { "main.rs" };
    for file in crate::steps::files(src)? {
        let name = file.strip_prefix(src).unwrap_or(&file).to_owned();
        let is_program = name.starts_with("bin") || name == Path::new("main.rs") && root != "main.rs";
        if name.extension().is_none_or(|e| e != "rs") || is_program {
            continue;
        }
        let text = std::fs::read_to_string(&file).with_context(|| format!("reading {}", file.display()))?;
        let syntax = syn::parse_file(&text).with_context(|| format!("parsing {}", file.display()))?;
        reader.path = module_path(&name);
        reader.file = name;
        reader.module();
        reader.visit_file(&syntax);
    }
    let Reader { mut modules, tests, .. } = reader;
    modules.retain(|path, _| !tests.iter().any(|test| path.starts_with(test)));
    Ok(modules)
}

/// `watch/mod.rs` and `watch.rs` are the module `watch`, `lib.rs` and `main.rs` are the root.
fn module_path(file: &Path) -> ModulePath {
    let mut path: ModulePath = file.with_extension("").iter().map(|part| part.to_string_lossy().into_owned()).collect();
    path.pop_if(|last| ["mod", "lib", "main"].contains(&last.as_str()));
    path
}

#[derive(Default)]
struct Reader {
    modules: Modules,
    /// Modules that are compiled for tests only.
    tests: Vec<ModulePath>,
    file: PathBuf,
    path: ModulePath,
}

impl Reader {
    fn module(&mut self) -> &mut Module {
        let file = self.file.clone();
        self.modules.entry(self.path.clone()).or_insert_with(|| Module { file, ..Module::default() })
    }

    fn import(&mut self, tree: &UseTree, path: &mut Vec<String>, reexported: bool) {
        let (last, name) = match tree {
            UseTree::Path(part) => {
                path.push(part.ident.to_string());
                self.import(&part.tree, path, reexported);
                path.pop();
                return;
            }
            UseTree::Group(group) => {
                group.items.iter().for_each(|tree| self.import(tree, path, reexported));
                return;
            }
            UseTree::Name(name) => (name.ident.to_string(), name.ident.to_string()),
            UseTree::Rename(name) => (name.ident.to_string(), name.rename.to_string()),
            UseTree::Glob(_) => ("*".to_owned(), "*".to_owned()),
        };
        let mut path = path.clone();
        // `use a::{self, B}` imports the module `a` under its own name.
        let name = if last == "self" { path.last().cloned().unwrap_or_default() } else { name };
        if last != "self" && last != "*" {
            path.push(last);
        }
        self.module().imports.push(Import { path, name, reexported });
    }
}

impl<'ast> Visit<'ast> for Reader {
    fn visit_item(&mut self, item: &'ast Item) {
        let (attributes, name) = match item {
            Item::Mod(i) => (&i.attrs, None),
            Item::Use(i) => (&i.attrs, None),
            Item::Impl(i) => (&i.attrs, None),
            Item::Fn(i) => (&i.attrs, Some(&i.sig.ident)),
            Item::Const(i) => (&i.attrs, Some(&i.ident)),
            Item::Static(i) => (&i.attrs, Some(&i.ident)),
            Item::Struct(i) => (&i.attrs, Some(&i.ident)),
            Item::Enum(i) => (&i.attrs, Some(&i.ident)),
            Item::Trait(i) => (&i.attrs, Some(&i.ident)),
            Item::Type(i) => (&i.attrs, Some(&i.ident)),
            _ => return,
        };
        let for_tests = attributes.iter().any(is_test);
        match item {
            Item::Mod(module) => {
                self.path.push(module.ident.to_string());
                if for_tests {
                    self.tests.push(self.path.clone());
                } else if module.content.is_some() {
                    self.module();
                    visit::visit_item(self, item);
                }
                self.path.pop();
            }
            _ if for_tests => {}
            Item::Use(i) => self.import(&i.tree, &mut Vec::new(), !matches!(i.vis, Visibility::Inherited)),
            _ => {
                if let Some(name) = name {
                    self.module().items.insert(name.to_string());
                }
                visit::visit_item(self, item);
            }
        }
    }
}

/// `#[cfg(test)]` or `#[cfg(any(test, …))]`.
fn is_test(attribute: &Attribute) -> bool {
    let condition = attribute.meta.require_list().map(|list| list.tokens.to_string()).unwrap_or_default();
    attribute.path().is_ident("cfg") && (condition == "test" || condition.starts_with("any (test"))
}
