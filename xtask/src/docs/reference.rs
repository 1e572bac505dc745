//! docs/configuration.md: every key of both programs, from the files in deploy/config, which are all that explains them.

use crate::steps::root;
use anyhow::{Context, Result, bail};
use std::fmt::Write as _;

const PAGE: &str = "docs/configuration.md";
const HEAD: &str = "\
# Configuration

Every key of both programs. This page is made by `cargo xtask docs --write` from the files that are installed,
[agent.toml](../deploy/config/agent.toml) and [collector.toml](../deploy/config/collector.toml); where it and they differ,
`cargo xtask test` fails.

No key is needed for a sensible start. Flags beat variables of the environment, which beat the file; a list in a variable has
commas. Durations are written as `500ms`, `2s`, `5m`, `30d`, sizes as `512MiB` or `100GB`. A wrong key or value is an error
that names it and the nearest right one, and the program does not start; check a file without starting:

```sh
fabriclens-agent run --config deploy/config/agent.toml --check-config
fabriclens serve --config deploy/config/collector.toml --check-config
```
";

struct Source {
    title: &'static str,
    file: &'static str,
    /// Variables of the environment begin so.
    prefix: &'static str,
}

const SOURCES: &[Source] = &[
    Source { title: "Agent", file: "deploy/config/agent.toml", prefix: "FABRICLENS_AGENT_" },
    Source { title: "Collector", file: "deploy/config/collector.toml", prefix: "FABRICLENS_" },
];

/// Writes the page.
pub fn write() -> Result<()> {
    let at = root().join(PAGE);
    std::fs::write(&at, page()?).with_context(|| format!("write {}", at.display()))?;
    println!("wrote {PAGE}");
    Ok(())
}

/// An error if the page is not what the files make.
pub fn check() -> Result<()> {
    if std::fs::read_to_string(root().join(PAGE)).unwrap_or_default() != page()? {
        bail!("{PAGE} is not what deploy/config makes: run cargo xtask docs --write");
    }
    Ok(())
}

fn page() -> Result<String> {
    let mut page = HEAD.to_owned();
    for source in SOURCES {
        let text =
            std::fs::read_to_string(root().join(source.file)).with_context(|| format!("read {}", source.file))?;
        // The first lines of a file are about the file.
        let (_, keys) = text.split_once("\n\n").context("a config file begins with lines about itself")?;
        section(&mut page, source, keys)?;
    }
    Ok(page)
}

/// `key = value` of a line, also where it is only shown as a comment.
fn key(line: &str) -> Option<(&str, &str)> {
    let (key, value) = line.trim_start_matches("# ").split_once(" = ")?;
    let named =
        !key.is_empty() && key.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"_.".contains(&b));
    named.then_some((key, value))
}

/// The name of a table that a line begins, also where it is only shown.
fn table(line: &str) -> Option<&str> {
    let line = line.trim_start_matches("# ");
    let name =
        line.strip_prefix("[[").and_then(|l| l.strip_suffix("]]")).or(line.strip_prefix('[')?.strip_suffix(']'))?;
    name.bytes().all(|b| b.is_ascii_lowercase() || b"_.".contains(&b)).then_some(name)
}

fn section(page: &mut String, source: &Source, text: &str) -> Result<()> {
    writeln!(page, "\n## {}\n", source.title)?;
    writeln!(page, "Variables begin with `{}`: the key in capitals, dots as underscores.", source.prefix)?;
    // What is said above a key or a table, until either comes; a blank line ends what it was about.
    let (mut said, mut rows) = (Vec::new(), String::new());
    let close = |page: &mut String, rows: &mut String| {
        if !rows.is_empty() {
            page.push_str("\n| key | example or default | |\n|---|---|---|\n");
            page.push_str(&std::mem::take(rows));
        }
    };
    for line in text.lines() {
        if let Some(name) = table(line) {
            close(page, &mut rows);
            write!(page, "\n### {} `{name}`\n", source.title)?;
            if !said.is_empty() {
                write!(page, "\n{}\n", said.join(" "))?;
            }
            said.clear();
        } else if let Some((key, value)) = key(line) {
            let told = said.join(" ").replace('|', "\\|");
            writeln!(rows, "| `{key}` | `{}` | {told} |", value.replace('|', "\\|"))?;
            said.clear();
        } else if let Some(words) = line.strip_prefix("# ") {
            said.push(words);
        } else if rows.is_empty() && !said.is_empty() {
            write!(page, "\n{}\n", said.join(" "))?;
            said.clear();
        }
    }
    close(page, &mut rows);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_what_the_files_make() {
        check().unwrap();
    }

    #[test]
    fn keys_and_tables_are_found_where_they_are_only_shown() {
        let source = Source { title: "Agent", file: "", prefix: "X_" };
        let mut page = String::new();
        section(&mut page, &source, "# Why.\na = 1\n\n# A table.\n# [b.c]\n# A = sentence.\n# d = \"x|y\"\n").unwrap();
        assert!(page.contains("| `a` | `1` | Why. |"), "{page}");
        assert!(page.contains("### Agent `b.c`\n\nA table.\n"), "{page}");
        assert!(page.contains("| `d` | `\"x\\|y\"` | A = sentence. |"), "{page}");
    }
}
