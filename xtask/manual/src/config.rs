//! Pages of section 5, from commented configuration files: what a comment says belongs to the keys below it.

use crate::Program;
use clap_mangen::roff::{Roff, bold, roman};

/// The page of a program's configuration file.
pub fn page(program: &Program) -> String {
    let command = (program.command)();
    let name = command.get_name();
    let version = format!("{name} {}", command.get_version().unwrap_or_default());
    let mut roff = Roff::new();
    roff.control("TH", [&*program.page.to_uppercase(), "5", "", &*version, "Fabriclens"]);
    roff.control("SH", ["NAME"]);
    roff.text([roman(format!("{} - configuration of {name}, in TOML", program.page))]);
    roff.control("SH", ["DESCRIPTION"]);
    let mut page = Page { roff, said: Vec::new(), keys: Vec::new() };
    for line in program.config.lines() {
        page.line(line);
    }
    page.flush();
    let mut roff = page.roff;
    roff.control("SH", ["FILES"]).text([bold(program.path)]);
    roff.control("SH", ["SEE ALSO"]).text([bold(name), roman("(1)")]);
    roff.to_roff()
}

struct Page {
    roff: Roff,
    /// Lines of the comment before what comes next.
    said: Vec<String>,
    /// Keys that share it, as they are written.
    keys: Vec<String>,
}

impl Page {
    fn line(&mut self, line: &str) {
        let bare = line.strip_prefix("# ").unwrap_or(line);
        if is_key(bare) {
            self.keys.push(bare.to_owned());
        } else if bare.starts_with('[') && bare.ends_with(']') {
            // What was said before a table is about the table.
            let said = std::mem::take(&mut self.said);
            self.flush();
            self.roff.control("SS", [bare]);
            self.said = said;
            self.flush();
        } else if line.is_empty() {
            self.flush();
        } else {
            if !self.keys.is_empty() {
                self.flush();
            }
            self.said.push(bare.to_owned());
        }
    }

    /// Writes what was said: of its keys if there are any, else by itself.
    fn flush(&mut self) {
        let said = std::mem::take(&mut self.said).join("\n");
        let keys = std::mem::take(&mut self.keys);
        for (i, key) in keys.iter().enumerate() {
            self.roff.control(if i == 0 { "TP" } else { "TQ" }, []).text([bold(key)]);
        }
        if said.is_empty() {
            return;
        }
        if keys.is_empty() {
            self.roff.control("PP", []);
        }
        self.roff.text([roman(said)]);
    }
}

/// `key = value`, and not a sentence.
fn is_key(line: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
    line.split_once(" = ").is_some_and(|(key, _)| !key.is_empty() && key.chars().all(plain))
}
