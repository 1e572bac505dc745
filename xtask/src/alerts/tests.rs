//! Tests that rules parse, name existing series, have a runbook and test cases, and pass promtool.

use super::{files, groups, runbook};
use crate::dashboards::tests::{exists, names};
use crate::steps::root;
use fabriclens_correlate::IncidentKind;
use std::process::Command;

#[test]
fn every_rule_parses_and_has_a_runbook_and_cases() {
    let mut seen = Vec::new();
    for a in groups().into_iter().flat_map(|g| g.2) {
        if let Err(error) = fabriclens_promql::check(&a.expr) {
            panic!("{}: {error}\n{}", a.name, a.expr);
        }
        for name in names(&a.expr) {
            assert!(exists(&name), "{}: unknown series {name}", a.name);
        }
        let page = root().join(format!("docs/runbooks/{}.md", runbook(a.name)));
        let text = std::fs::read_to_string(&page).unwrap_or_else(|e| panic!("{}: {e}", page.display()));
        assert!(text.contains(a.name), "{} does not name {}", page.display(), a.name);
        for part in ["## Look", "## Do", "## Over when"] {
            assert!(text.contains(part), "{} has no {part}", page.display());
        }
        assert!(a.cases.iter().any(|c| c.fires.is_empty()), "{}: no silent case", a.name);
        assert!(a.cases.iter().any(|c| !c.fires.is_empty()), "{}: no firing case", a.name);
        assert!(!seen.contains(&a.name));
        seen.push(a.name);
    }
    for entry in std::fs::read_dir(root().join("docs/runbooks")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let verdict = IncidentKind::ALL.iter().any(|kind| kind.spec().docs == format!("runbooks/{name}"));
        let known = name == "README.md" || verdict || seen.iter().any(|a| format!("{}.md", runbook(a)) == name);
        assert!(known, "docs/runbooks/{name} belongs to no alert");
    }
}

#[test]
#[ignore = "needs: prometheus"]
fn promtool_checks_the_rules_and_their_cases() {
    let dir = std::env::temp_dir().join(format!("fabriclens-rules-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    for (path, text) in files() {
        std::fs::write(dir.join(path.file_name().unwrap()), text).unwrap();
    }
    // Mimir's file has one key that promtool does not know.
    let mimir = std::fs::read_to_string(dir.join("mimir.rules.yml")).unwrap();
    let groups = mimir.replacen("\nnamespace: fabriclens\n", "\n", 1);
    assert_ne!(groups, mimir);
    std::fs::write(dir.join("mimir.rules.yml"), groups).unwrap();
    let promtool = |args: &[&str]| Command::new("promtool").args(args).current_dir(&dir).output();
    for args in [
        ["check", "rules", "fabriclens.rules.yml"],
        ["check", "rules", "mimir.rules.yml"],
        ["test", "rules", "fast.test.yml"],
        ["test", "rules", "slow.test.yml"],
    ] {
        let out = promtool(&args).expect("promtool is installed");
        let printed = String::from_utf8_lossy(&out.stdout).into_owned() + &String::from_utf8_lossy(&out.stderr);
        assert!(out.status.success(), "promtool {args:?}\n{printed:.4000}");
    }
    std::fs::remove_dir_all(&dir).unwrap();
}
