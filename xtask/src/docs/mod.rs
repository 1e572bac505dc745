//! `cargo xtask docs`: what the pages for people say, done.
//!
//! Every block of every page says what it is, and is held to it (`check.rs`): commands run, in order, in a network
//! and under an /etc of their own, beside the demo's fleet, so that addresses, ports and names of jobs are those that the
//! reader types; configuration goes through the programs' own check; PromQL is asked; links lead somewhere. So are commands
//! within sentences (`inline.rs`). Programs that cannot be there have stand-ins, which read their command lines.

mod check;
mod inline;
pub mod page;
mod recording;
mod sandbox;
mod stand_ins;

use crate::steps::root;
use anyhow::{Context, Result, bail};
use page::Page;
use std::path::{Path, PathBuf};

/// Options of `docs`.
#[derive(clap::Args, Default)]
pub struct Args {
    /// Pages to check, by their path in the repository; all if none is named
    pages: Vec<PathBuf>,
    /// Uses the programs in this directory and builds none
    #[arg(long, value_name = "DIR")]
    programs: Option<PathBuf>,
    /// How the sandbox calls itself: this process is already inside
    #[arg(long, hide = true)]
    inside: bool,
    /// How programs that stand in for others call themselves: the command line
    #[arg(long, hide = true)]
    stand_in: Option<String>,
}

/// Directories whose pages people read; the README and its neighbours come first.
const PAGES: &[&str] = &["docs", "docs/runbooks", "deploy"];

/// Checks the pages.
pub fn run(args: Args) -> Result<()> {
    if let Some(line) = &args.stand_in {
        return stand_ins::run(line);
    }
    let programs = match &args.programs {
        Some(dir) => dir.canonicalize().with_context(|| format!("find {}", dir.display()))?,
        None => crate::demo::build()?,
    };
    let named = if args.pages.is_empty() { pages()? } else { args.pages };
    if args.inside {
        return sandbox::inside(&programs, &read(&named)?);
    }
    links(&read(&pages()?)?)?;
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

/// An error that names each link to a file or headline that is not there.
fn links(pages: &[Page]) -> Result<()> {
    let dead: Vec<String> = pages.iter().flat_map(|page| page.dead_links(pages)).collect();
    if !dead.is_empty() {
        bail!("links that lead nowhere:\n  {}", dead.join("\n  "));
    }
    println!("{} pages, every link between them leads somewhere", pages.len());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dashboards::tests::{exists, names};

    /// What looks like a series and is none: a kind of incident, names of files, variables of Ansible's role.
    fn other(page: &Page, name: &str) -> bool {
        name == "fabric_congestion" || name.contains(char::is_uppercase) || page.path.starts_with("deploy/ansible")
    }

    #[test]
    fn every_question_in_a_sentence_parses() {
        let (mut asked, mut wrong) = (0, Vec::new());
        for page in read(&pages().unwrap()).unwrap() {
            // `…_total` and `fabric_job_*` name many, `name{label}` tells which labels there are; a path asks nothing.
            let lists = |text: &str| text.contains('{') && !text.contains('=');
            let asks = |text: &str| !text.contains(['…', '*', '/']) && !text.ends_with('_') && !lists(text);
            let whole = |code: &&page::Block| asks(&code.text);
            for code in page.code.iter().filter(whole) {
                if names(&code.text).iter().any(|name| !other(&page, name)) && !code.text.starts_with("fabriclens ") {
                    asked += 1;
                    let error = fabriclens_promql::check(&code.text).err();
                    wrong.extend(error.map(|e| format!("{}:{}: `{}`: {e}", page.path.display(), code.line, code.text)));
                }
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
        assert!(asked > 100, "{asked}");
        assert!(fabriclens_promql::check("rate(fabric_port_up[5m)").is_err());
    }

    #[test]
    fn every_series_that_a_page_names_is_written_by_somebody() {
        let mut nobody = Vec::new();
        for page in read(&pages().unwrap()).unwrap() {
            let code = page.code.iter().chain(&page.blocks).map(|b| &b.text);
            // `fabric_job_*` and `fabric_job_…` name many.
            let named = code
                .flat_map(|text| names(text))
                .filter(|name| !name.ends_with('_') && !other(&page, name) && !exists(name));
            nobody.extend(named.map(|name| format!("{}: {name}", page.path.display())));
        }
        assert!(nobody.is_empty(), "nobody writes\n{}", nobody.join("\n"));
    }
}
