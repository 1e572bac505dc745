//! Turns a page into one shell script that checks its code blocks, in their order.

use super::page::{Block, Page};
use anyhow::{Context, Result, bail, ensure};
use std::fmt::Write as _;

/// How the blocks of one language are checked.
struct Language {
    name: &'static str,
    lines: fn(&Block) -> Result<String>,
}

const LANGUAGES: &[Language] = &[
    // Must succeed; `sh service`: must keep running; `sh not run: WHY`: is only parsed by bash.
    Language { name: "sh", lines: shell },
    // `toml agent [PATH]` or `toml collector [PATH]`: is checked by the program and written to PATH.
    Language { name: "toml", lines: toml },
    Language { name: "promql", lines: promql },
    Language { name: "json", lines: json },
    // Output, and formats of other projects.
    Language { name: "text", lines: nothing },
    Language { name: "yaml", lines: nothing },
    Language { name: "rust", lines: nothing },
];

/// Script that checks a page; it prints the place of each block first.
///
/// # Errors
/// When a block has no language, or one that is not known.
pub fn script(page: &Page) -> Result<String> {
    let mut script = "set -euo pipefail\n".to_owned();
    for block in &page.blocks {
        let place = format!("{}:{}", page.path.display(), block.line);
        let Some(language) = LANGUAGES.iter().find(|l| l.name == block.language()) else {
            let known: Vec<_> = LANGUAGES.iter().map(|l| l.name).collect();
            bail!("{place}: a code block needs a language behind its fence: {}", known.join(", "));
        };
        let lines = (language.lines)(block).with_context(|| place.clone())?;
        if !lines.is_empty() {
            writeln!(script, "echo '--- {place}'\n{lines}")?;
        }
    }
    Ok(script)
}

fn shell(block: &Block) -> Result<String> {
    Ok(match block.options() {
        "" => block.text.clone(),
        "service" => format!("{{\n{}\n}} &\nservice=$!; sleep 2; kill -0 $service\n", block.text),
        why if why.starts_with("not run: ") => format!("not_run() {{\n{}\n}}\n", block.text),
        other => bail!("`sh {other}`: use `sh`, `sh service` or `sh not run: WHY`"),
    })
}

fn toml(block: &Block) -> Result<String> {
    let (program, path) = block.options().split_once(' ').unwrap_or((block.options(), ""));
    let check = match program {
        "agent" => "fabriclens-agent run",
        "collector" => "fabriclens serve",
        _ => bail!("use `toml agent` or `toml collector`"),
    };
    ensure!(path.is_empty() || path.starts_with('/'), "`{path}`: the path must start with /");
    let file = if path.is_empty() { "$(mktemp)" } else { path };
    Ok(format!("file={file}; install -D /dev/stdin $file {}{check} --config $file --check-config\n", here(&block.text)))
}

fn promql(block: &Block) -> Result<String> {
    Ok(format!("query=$(cat {})\nfabriclens query \"$query\"\n", here(&block.text).trim_end()))
}

fn json(block: &Block) -> Result<String> {
    // Left out in an example.
    let whole = block.text.replace("{…}", "{}").replace("[…]", "[]");
    serde_json::from_str::<serde_json::Value>(&whole).context("this is not JSON")?;
    Ok(String::new())
}

fn nothing(_: &Block) -> Result<String> {
    Ok(String::new())
}

/// `text` as a here-document.
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
    fn commands_run_in_order_in_one_shell() {
        assert!(
            run("```sh\nx=1\n```\n\n```sh not run: no such thing\nno-such-program\n```\n\n```sh\ntest $x = 1\n```\n")
                .unwrap()
        );
        assert!(!run("```sh\nx=1\n```\n\n```sh\ntest $x = 2\n```\n").unwrap());
        assert!(!run("```sh not run: bash does not even read it\nif\n```\n").unwrap());
    }

    #[test]
    fn services_must_keep_running() {
        assert!(run("```sh service\nsleep 60\n```\n\n```sh\nkill $service\n```\n").unwrap());
        assert!(!run("```sh service\ntrue\n```\n").unwrap());
    }

    #[test]
    fn unknown_blocks_are_errors() {
        for (text, says) in [
            ("    ls\n", "a.md:1: a code block needs"),
            ("```\nls\n```\n", "behind its fence"),
            ("```sh later\nls\n```\n", "not run: WHY"),
            ("```toml\na = 1\n```\n", "toml agent"),
            ("```json\n{\"a\": 1, …}\n```\n", "not JSON"),
        ] {
            let error = format!("{:#}", run(text).unwrap_err());
            assert!(error.contains(says), "{error}");
        }
    }
}
