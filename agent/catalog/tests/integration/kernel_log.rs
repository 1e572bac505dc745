//! The table of classes in `docs/kernel-log.md` is the one of the catalog.

use fabriclens_catalog::kernel_log::{LOG_CLASSES, LogClass, Printer};
use std::path::PathBuf;

const HEAD: &str = "| class | severity | what happened | messages |\n|---|---|---|---|\n";

fn path() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/kernel-log.md"))
}

/// Row of a class, from all its rows in the catalog.
fn row(class: &LogClass) -> String {
    let mut messages = Vec::new();
    for class in LOG_CLASSES.iter().filter(|other| other.name == class.name) {
        let codes: Vec<String> = class
            .codes
            .iter()
            .map(|(first, last)| if first == last { first.to_string() } else { format!("{first} to {last}") })
            .collect();
        let codes = if codes.is_empty() { String::new() } else { format!(" (code {})", codes.join(", ")) };
        let printer = match class.printer {
            Printer::Driver(drivers) => format!("{}: ", drivers.join(", ")),
            Printer::AnyDriver => "any driver: ".to_owned(),
            Printer::Kernel => String::new(),
        };
        let texts: Vec<String> = class.texts.iter().map(|text| format!("`{text}`")).collect();
        messages.push(format!("{printer}{}{codes}", texts.join(", ")));
    }
    let later = if class.normal_at_boot { "; not in the first five minutes after boot" } else { "" };
    let messages = messages.join("; ");
    format!("| `{}` | {} | {}{later} | {messages} |\n", class.name, class.severity.name(), class.meaning)
}

#[test]
fn every_class_is_documented() {
    let mut names: Vec<&str> = Vec::new();
    let mut table = String::new();
    for class in LOG_CLASSES {
        if !names.contains(&class.name) {
            names.push(class.name);
            table.push_str(&row(class));
        }
    }
    let page = std::fs::read_to_string(path()).unwrap();
    let begin = page.find(HEAD).unwrap() + HEAD.len();
    let end = begin + page[begin - 1..].find("\n\n").unwrap();
    if fabriclens_testing::blesses() {
        std::fs::write(path(), format!("{}{table}{}", &page[..begin], &page[end..])).unwrap();
    } else {
        assert_eq!(page[begin..end], table, "the table of docs/kernel-log.md; FABRICLENS_BLESS=1 writes it");
    }
}
