//! docs/audit.md lists every setting.

use fabriclens_audit::{FarEnd, KEYS, Key};
use std::path::Path;

/// Head of the table of settings.
const HEAD: &str = "| setting | is | severity | where it differs |\n|---|---|---|---|\n";

fn row(key: &Key) -> String {
    let far_end = match key.far_end {
        FarEnd::Any => "",
        FarEnd::Equal => " Compared with the switch's port, where that is read.",
        FarEnd::AtLeast => " The switch's port must have at least that, where it is read.",
    };
    format!("| `{}` | {} | {} | {}.{far_end} |\n", key.name, key.title, key.severity.name(), key.consequence)
}

#[test]
fn every_setting_is_documented() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/audit.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let table: String = KEYS.iter().map(row).collect();
    let begin = page.find(HEAD).unwrap() + HEAD.len();
    let end = begin + page[begin..].find("\n\n").unwrap() + 1;
    if fabriclens_testing::blesses() {
        std::fs::write(path, format!("{}{table}{}", &page[..begin], &page[end..])).unwrap();
    } else {
        assert_eq!(page[begin..end], table, "the table of docs/audit.md; FABRICLENS_BLESS=1 writes it");
    }
}
