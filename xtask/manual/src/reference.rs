//! Generates docs/configuration.md, the list of all keys of both programs, from the commented configuration files.

use crate::commented::{Entry, entries};
use crate::{PROGRAMS, Program};

const HEAD: &str = "\
# Configuration

Every key of both programs. This page is made (`FABRICLENS_BLESS=1 cargo test -p fabriclens-manual`) from the files that are
installed, [agent.toml](../deploy/config/agent.toml) and [collector.toml](../deploy/config/collector.toml), and so are the man
pages `fabriclens-agent.toml(5)` and `fabriclens-collector.toml(5)`.

No key is needed for a sensible start. Flags beat variables of the environment, which beat the file; a list in a variable has
commas. Durations are written as `500ms`, `2s`, `5m`, `30d`, sizes as `512MiB` or `100GB`. A wrong key or value is an error
that names it and the nearest right one, and the program does not start; check a file without starting:

```sh
fabriclens-agent run --config deploy/config/agent.toml --check-config
fabriclens serve --config deploy/config/collector.toml --check-config
```
";

/// Text of the page.
pub fn page() -> String {
    PROGRAMS.iter().rev().fold(HEAD.to_owned(), |page, program| page + &section(program))
}

fn section(program: &Program) -> String {
    let name = (program.command)().get_name().to_owned();
    let mut page = format!(
        "\n## {name}\n\nVariables begin with `{}_`: the key in capitals, dots as underscores.\n",
        name.to_uppercase().replace('-', "_")
    );
    // The first lines of a file are about the file itself.
    let mut table = false;
    for entry in entries(program.config).iter().skip(1) {
        if let Some(title) = entry.table {
            page += &format!("\n### {name}: `{title}`\n");
        }
        if entry.keys.is_empty() && !entry.comment.is_empty() {
            page += &format!("\n{}\n", entry.comment.join(" "));
        } else if !entry.keys.is_empty() {
            page += if table { "" } else { "\n| key | default, or an example | |\n|---|---|---|\n" };
            page += &rows(entry);
        }
        table = !entry.keys.is_empty();
    }
    page
}

/// A table row for each key; the first has the description.
fn rows(entry: &Entry<'_>) -> String {
    let cell = |text: &str| text.replace('|', "\\|");
    let comment = std::iter::once(entry.comment.join(" ")).chain(std::iter::repeat(String::new()));
    entry
        .keys
        .iter()
        .zip(comment)
        .map(|((key, value), comment)| format!("| `{key}` | `{}` | {} |\n", cell(value), cell(&comment)))
        .collect()
}
