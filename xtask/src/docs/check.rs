//! A page as a script: what each of its blocks is held to, in the order in which a reader meets them.

use super::page::{Block, Page};
use anyhow::{Context, Result, bail, ensure};
use std::fmt::Write as _;

/// What a block of one language becomes in the script of its page.
struct Language {
    name: &'static str,
    lines: fn(&Block) -> Result<String>,
}

const LANGUAGES: &[Language] = &[
    // Runs and ends well; `sh service`: runs on; `sh not run: WHY`: it is only read by bash.
    Language { name: "sh", lines: shell },
    // `toml agent` and `toml collector`, and where the reader is told to put it.
    Language { name: "toml", lines: toml },
    Language { name: "promql", lines: promql },
    Language { name: "json", lines: json },
    // What is printed, and formats of others.
    Language { name: "text", lines: nothing },
    Language { name: "yaml", lines: nothing },
    Language { name: "rust", lines: nothing },
];

/// Commands that hold a page to what it says; each `begin` line names the block that comes.
pub fn script(page: &Page) -> Result<String> {
    let mut script = "set -euo pipefail\n".to_owned();
    for block in &page.blocks {
        let place = format!("{}:{}", page.path.display(), block.line);
        let Some(language) = LANGUAGES.iter().find(|l| l.name == block.language()) else {
            let known: Vec<_> = LANGUAGES.iter().map(|l| l.name).collect();
            bail!("{place}: a block must say behind its fence what it is: {}", known.join(", "));
        };
        let lines = (language.lines)(block).with_context(|| place.clone())?;
        if !lines.is_empty() {
            writeln!(script, "echo '--- {place}'\n{lines}")?;
        }
    }
    Ok(script)
}

fn shell(block: &Block) -> Result<String> {
    Ok(match block.says() {
        "" => block.text.clone(),
        "service" => format!("{{\n{}\n}} &\nservice=$!; sleep 2; kill -0 $service\n", block.text),
        why if why.starts_with("not run: ") => format!("not_run() {{\n{}\n}}\n", block.text),
        other => bail!("`sh {other}`: say nothing, `service` or `not run: WHY`"),
    })
}

fn toml(block: &Block) -> Result<String> {
    let (whose, path) = block.says().split_once(' ').unwrap_or((block.says(), ""));
    let check = match whose {
        "agent" => "fabriclens-agent run",
        "collector" => "fabriclens serve",
        _ => bail!("say whose it is: `toml agent` or `toml collector`"),
    };
    ensure!(path.is_empty() || path.starts_with('/'), "`{path}`: say where it belongs by a path from /");
    let file = if path.is_empty() { "$(mktemp)" } else { path };
    Ok(format!("file={file}; install -D /dev/stdin $file {}{check} --config $file --check-config\n", here(&block.text)))
}

fn promql(block: &Block) -> Result<String> {
    Ok(format!("question=$(cat {})\nfabriclens query \"$question\"\n", here(&block.text).trim_end()))
}

fn json(block: &Block) -> Result<String> {
    // What an example leaves out.
    let whole = block.text.replace("{…}", "{}").replace("[…]", "[]");
    serde_json::from_str::<serde_json::Value>(&whole).context("this is not JSON")?;
    Ok(String::new())
}

fn nothing(_: &Block) -> Result<String> {
    Ok(String::new())
}

/// `text` as what a command reads.
fn here(text: &str) -> String {
    format!("<<'END_OF_BLOCK'\n{text}END_OF_BLOCK\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;
    use std::process::{Command, Stdio};

    fn run(text: &str) -> Result<bool> {
        let dir = tempfile::tempdir()?;
        std::fs::write(dir.path().join("a.md"), text)?;
        let script = script(&Page::read(dir.path(), Path::new("a.md"))?)?;
        let mut bash = Command::new("bash");
        bash.args(["-c", &script]).current_dir(dir.path()).stdout(Stdio::null()).stderr(Stdio::null());
        Ok(bash.status()?.success())
    }

    #[test]
    fn commands_run_in_order_and_in_one_shell() {
        assert!(
            run("```sh\nx=1\n```\n\n```sh not run: no such thing\nno-such-program\n```\n\n```sh\ntest $x = 1\n```\n")
                .unwrap()
        );
        assert!(!run("```sh\nx=1\n```\n\n```sh\ntest $x = 2\n```\n").unwrap());
        assert!(!run("```sh not run: bash does not even read it\nif\n```\n").unwrap());
    }

    #[test]
    fn services_must_stay() {
        assert!(run("```sh service\nsleep 60\n```\n\n```sh\nkill $service\n```\n").unwrap());
        assert!(!run("```sh service\ntrue\n```\n").unwrap());
    }

    #[test]
    fn blocks_that_do_not_say_what_they_are_are_errors() {
        for (text, says) in [
            ("    ls\n", "a.md:1: a block must say"),
            ("```\nls\n```\n", "behind its fence"),
            ("```sh later\nls\n```\n", "not run: WHY"),
            ("```toml\na = 1\n```\n", "toml agent"),
            ("```json\n{\"a\": 1, …}\n```\n", "not JSON"),
        ] {
            let told = format!("{:#}", run(text).unwrap_err());
            assert!(told.contains(says), "{told}");
        }
    }
}
