//! `cargo xtask docs`: checks the documentation by doing what it says.
//!
//! Each code block of a page says its language behind the fence (`check.rs`). Shell blocks run in order, in a sandbox with
//! its own network, /etc and /var next to the demo's fleet, so that the addresses, ports and job names are those on the page.
//! Configuration goes through the programs' own `--check-config`, PromQL is evaluated, links and `cargo` commands are
//! resolved. Commands within sentences run too (`inline.rs`). Programs that are not installed there are fakes (`fakes.rs`).

mod cargo;
mod check;
mod fakes;
mod inline;
pub mod page;
mod recording;
mod sandbox;

use crate::steps::root;
use anyhow::{Context, Result, bail, ensure};
use page::Page;
use std::path::{Path, PathBuf};

/// Options of `docs`.
#[derive(clap::Args, Default)]
pub struct Args {
    /// Pages to check, by their path in the repository; all if none is named
    pages: Vec<PathBuf>,
    /// Takes the programs from this directory instead of building them
    #[arg(long, value_name = "DIR")]
    programs: Option<PathBuf>,
    /// This process runs inside the sandbox
    #[arg(long, hide = true)]
    inside: bool,
}

/// Directories with pages; README, ARCHITECTURE and CONTRIBUTING come first.
const PAGES: &[&str] = &["docs", "docs/design", "docs/runbooks", "deploy"];

/// Checks the pages.
///
/// # Errors
/// When a link is dead, a command fails, or a configuration is refused.
pub fn run(args: Args) -> Result<()> {
    let programs = match &args.programs {
        Some(dir) => dir.canonicalize().with_context(|| format!("find {}", dir.display()))?,
        None => crate::programs::of_tests()?,
    };
    let named = if args.pages.is_empty() { pages()? } else { args.pages };
    if args.inside {
        return sandbox::inside(&programs, &read(&named)?);
    }
    let all = read(&pages()?)?;
    links(&all)?;
    let wrong = cargo::wrong_commands(&all);
    ensure!(wrong.is_empty(), "cargo commands that cannot work:\n  {}", wrong.join("\n  "));
    sandbox::enter(&programs, &named)
}

/// Every page, by its path in the repository.
fn pages() -> Result<Vec<PathBuf>> {
    let mut found: Vec<PathBuf> =
        ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"].iter().map(PathBuf::from).collect();
    let is_page = |path: &Path| path.extension().is_some_and(|e| e == "md");
    for dir in PAGES {
        let mut here = Vec::new();
        for entry in std::fs::read_dir(root().join(dir)).with_context(|| format!("list {dir}"))? {
            let name = entry?.file_name();
            let path = Path::new(dir).join(&name);
            // Below deploy, each directory may have one page of its own.
            here.extend([path.clone(), path.join("README.md")].into_iter().filter(|p| is_page(p)));
        }
        here.retain(|p| root().join(p).is_file() && !found.contains(p));
        here.sort();
        found.extend(here);
    }
    Ok(found)
}

fn read(paths: &[PathBuf]) -> Result<Vec<Page>> {
    paths.iter().map(|path| Page::read(&root(), path)).collect()
}

/// Fails with all links to a missing file or headline.
fn links(pages: &[Page]) -> Result<()> {
    let dead: Vec<String> = pages.iter().flat_map(|page| page.dead_links(pages)).collect();
    if !dead.is_empty() {
        bail!("dead links:\n  {}", dead.join("\n  "));
    }
    println!("{} pages, no dead link between them", pages.len());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dashboards::tests::{exists, names};

    /// Not a series although it looks like one: an incident kind, a file name, a variable of the Ansible role.
    fn other(page: &Page, name: &str) -> bool {
        name == "fabric_congestion" || name.contains(char::is_uppercase) || page.path.starts_with("deploy/ansible")
    }

    #[test]
    fn every_query_in_a_sentence_parses() {
        let (mut queries, mut wrong) = (0, Vec::new());
        for page in read(&pages().unwrap()).unwrap() {
            // `…_total` and `fabric_job_*` are patterns, `name{label}` lists labels, a path is no query.
            let lists = |text: &str| text.contains('{') && !text.contains('=');
            let is_query = |text: &str| !text.contains(['…', '*', '/']) && !text.ends_with('_') && !lists(text);
            for code in page.code.iter().filter(|code| is_query(&code.text)) {
                if names(&code.text).iter().any(|name| !other(&page, name)) && !code.text.starts_with("fabriclens ") {
                    queries += 1;
                    let error = fabriclens_promql::check(&code.text).err();
                    wrong.extend(error.map(|e| format!("{}:{}: `{}`: {e}", page.path.display(), code.line, code.text)));
                }
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
        assert!(queries > 100, "{queries}");
        assert!(fabriclens_promql::check("rate(fabric_port_up[5m)").is_err());
    }

    #[test]
    fn every_series_named_in_a_page_exists() {
        let mut unknown = Vec::new();
        for page in read(&pages().unwrap()).unwrap() {
            let code = page.code.iter().chain(&page.blocks).map(|b| &b.text);
            // `fabric_job_*` and `fabric_job_…` are patterns.
            let named = code
                .flat_map(|text| names(text))
                .filter(|name| !name.ends_with('_') && !other(&page, name) && !exists(name));
            unknown.extend(named.map(|name| format!("{}: {name}", page.path.display())));
        }
        assert!(unknown.is_empty(), "unknown series:\n{}", unknown.join("\n"));
    }
}
