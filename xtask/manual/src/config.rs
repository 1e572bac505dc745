//! Man pages of section 5, from the commented configuration files.

use crate::Program;
use crate::commented::entries;
use clap_mangen::roff::{Roff, bold, roman};

/// Man page of a program's configuration file.
pub fn page(program: &Program) -> String {
    let command = (program.command)();
    let name = command.get_name();
    let version = format!("{name} {}", command.get_version().unwrap_or_default());
    let mut roff = Roff::new();
    roff.control("TH", [&*program.page.to_uppercase(), "5", "", &*version, "Fabriclens"]);
    roff.control("SH", ["NAME"]);
    roff.text([roman(format!("{} - configuration of {name}, in TOML", program.page))]);
    roff.control("SH", ["DESCRIPTION"]);
    for entry in entries(program.config) {
        if let Some(table) = entry.table {
            roff.control("SS", [table]);
        }
        for (i, (key, value)) in entry.keys.iter().enumerate() {
            roff.control(if i == 0 { "TP" } else { "TQ" }, []).text([bold(format!("{key} = {value}"))]);
        }
        if entry.comment.is_empty() {
            continue;
        }
        if entry.keys.is_empty() {
            roff.control("PP", []);
        }
        roff.text([roman(entry.comment.join("\n"))]);
    }
    roff.control("SH", ["FILES"]).text([bold(program.path)]);
    roff.control("SH", ["SEE ALSO"]).text([bold(name), roman("(1)")]);
    roff.to_roff()
}
