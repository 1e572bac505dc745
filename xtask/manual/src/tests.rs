//! Tests the generated files with man and the shells.
#![allow(clippy::unwrap_used, reason = "a test says no more by failing politely")]

use super::{PROGRAMS, write};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn written() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path()).unwrap();
    dir
}

fn run(command: &mut Command) -> Output {
    command.output().unwrap_or_else(|e| panic!("{command:?}: {e}"))
}

fn files(dir: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = fs::read_dir(dir).unwrap().map(|e| e.unwrap().path()).collect();
    files.sort();
    files
}

#[test]
#[ignore = "needs: manual"]
fn every_page_is_rendered_without_a_warning() {
    let dir = written();
    for program in PROGRAMS {
        let name = (program.command)().get_name().to_owned();
        let pages = files(&dir.path().join("man").join(&name));
        assert!(pages.len() > 4, "{pages:?}");
        for page in pages {
            let mut man = Command::new("man");
            man.args(["--warnings", "--local-file"]).arg(&page).env("LC_ALL", "C.UTF-8").env("MANWIDTH", "100");
            let done = run(&mut man);
            let (text, printed) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
            assert!(done.status.success() && printed.is_empty(), "{}: {printed}", page.display());
            assert!(text.contains("NAME") && text.contains("SEE ALSO"), "{}: {text}", page.display());
        }
    }
}

#[test]
fn configuration_pages_have_every_key() {
    let dir = written();
    for program in PROGRAMS {
        let name = (program.command)().get_name().to_owned();
        let page = fs::read_to_string(dir.path().join(format!("man/{name}/{}.5", program.page))).unwrap();
        let plain = page.replace('\\', "");
        let mut keys = 0;
        for line in program.config.lines().map(|l| l.trim_start_matches("# ")) {
            if let Some((key, _)) = line.split_once(" = ").filter(|(key, _)| !key.contains(' ')) {
                assert!(plain.contains(&format!("fB{key} = ")), "{name}: {key}");
                keys += 1;
            }
        }
        assert!(keys > 25, "{name}: {keys}");
        let sentence = "How long a shutdown may take to send queued samples.";
        assert_eq!(plain.contains(sentence), name == "fabriclens-agent", "{plain}");
    }
}

/// Completions that bash offers after these words.
fn offered(dir: &Path, program: &str, words: &[&str]) -> Vec<String> {
    let script = r#"
        source "$1"; shift
        COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
        read -ra how <<<"$(complete -p "$1")"
        for ((i = 0; i < ${#how[@]}; i++)); do [ "${how[i]}" = -F ] && function=${how[i+1]}; done
        "$function" "$1" "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD-1]}"
        printf '%s\n' "${COMPREPLY[@]}""#;
    let file = dir.join("completions/bash").join(program);
    let done = Command::new("bash").args(["-c", script, "bash"]).arg(file).arg(program).args(words).output().unwrap();
    assert!(done.stderr.is_empty(), "{}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8_lossy(&done.stdout).lines().map(str::to_owned).collect()
}

#[test]
fn bash_completes_subcommands_flags_and_values() {
    let dir = written();
    assert_eq!(offered(dir.path(), "fabriclens", &["inc"]), ["incidents"]);
    assert_eq!(offered(dir.path(), "fabriclens", &["incidents", "sil"]), ["silence"]);
    assert_eq!(offered(dir.path(), "fabriclens", &["serve", "--check"]), ["--check-config"]);
    assert_eq!(
        offered(dir.path(), "fabriclens-agent", &["once", "--format", ""]),
        ["prometheus", "openmetrics", "json"]
    );
}

#[test]
#[ignore = "needs: manual"]
fn shells_read_their_completions() {
    let dir = written();
    for shell in ["bash", "zsh", "fish"] {
        for file in files(&dir.path().join("completions").join(shell)) {
            let done = run(Command::new(shell).arg("-n").arg(&file));
            let printed = String::from_utf8_lossy(&done.stderr);
            assert!(done.status.success() && printed.is_empty(), "{}: {printed}", file.display());
        }
    }
}

#[test]
fn the_page_in_docs_is_what_the_files_make() {
    let at = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/configuration.md");
    let page = super::reference::page();
    fabriclens_testing::golden(at, &page);
}
