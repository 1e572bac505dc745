//! Slurm's `topology.yaml` (25.05 and later), also as topograph writes it: trees of switches and lists of blocks.
//!
//! A line-based reader for the block style that both document. It supports quotes and bracketed lists, but no anchors
//! or braces.

use super::slurm;
use super::source::{FormatError, TopologySource};
use fabriclens_model::hostlist;

/// A switch or block that is being read.
struct Item {
    line: usize,
    block: bool,
    name: String,
    children: Vec<String>,
    nodes: Vec<String>,
}

pub(super) fn fits(text: &str) -> bool {
    text.lines().any(|line| matches!(pair(line), Some(("switch" | "block", _))) && line.trim_start().starts_with('-'))
}

/// Key and value of a line, with or without a leading list dash.
fn pair(line: &str) -> Option<(&str, &str)> {
    let line = line.trim().trim_start_matches("- ").trim();
    let (key, value) = line.split_once(':')?;
    (value.is_empty() || value.starts_with(' ')).then_some((key.trim(), value.trim()))
}

pub(super) fn read(text: &str, out: &mut TopologySource) -> Result<(), FormatError> {
    let mut item: Option<Item> = None;
    // Key of the list that continues on the next lines.
    let mut list = "";
    for (n, line) in text.lines().enumerate() {
        let line = line.split(" #").next().unwrap_or_default();
        if line.trim().is_empty() || line.trim_start().starts_with('#') {
            continue;
        }
        let Some((key, value)) = pair(line) else {
            if let (Some(item), Some(value)) = (&mut item, line.trim().strip_prefix("- ")) {
                add(item, list, value, n + 1, out);
            }
            continue;
        };
        list = if value.is_empty() { key } else { "" };
        match (key, &mut item) {
            ("switch" | "block", _) => {
                let new = Item {
                    line: n + 1,
                    block: key == "block",
                    name: plain(value).to_owned(),
                    children: Vec::new(),
                    nodes: Vec::new(),
                };
                // `block:` without a name starts the list of blocks.
                done(item.take(), out);
                item = (!value.is_empty()).then_some(new);
            }
            (_, Some(item)) => add(item, key, value, n + 1, out),
            _ => {}
        }
    }
    done(item, out);
    Ok(())
}

fn add(item: &mut Item, key: &str, value: &str, n: usize, out: &mut TopologySource) {
    let to = match key {
        "children" => &mut item.children,
        "nodes" => &mut item.nodes,
        _ => return,
    };
    // A bracketed list, as opposed to a host list with brackets in it.
    let value = value.strip_prefix('[').and_then(|v| v.strip_suffix(']')).unwrap_or(value);
    let value: String = value.chars().filter(|c| !matches!(c, '"' | '\'')).collect();
    match hostlist::expand(&value) {
        Ok(names) => to.extend(names),
        Err(error) => out.complain(n, error),
    }
}

fn plain(value: &str) -> &str {
    value.trim_matches(['"', '\''])
}

fn done(item: Option<Item>, out: &mut TopologySource) {
    match item {
        Some(Item { line, block: true, name, nodes, .. }) => slurm::block(&name, nodes, line, out),
        Some(Item { line, name, children, nodes, .. }) => slurm::switch(&name, children, nodes, line, out),
        None => {}
    }
}
