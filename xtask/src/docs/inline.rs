//! Commands within sentences (`fabriclens topology --node HOST`), which run after the blocks of their page.
//!
//! A code span whose first word is a row of [`PROGRAMS`] is a command. A program with the name of a subcommand only is checked
//! by `--help`; with more words it runs, with [`PLACEHOLDERS`] replaced.

use super::page::{Block, Page};
use std::fmt::Write as _;

/// Treatment of the commands of one program.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Treatment {
    Run,
    /// Runs; a bare subcommand name runs with `--help`.
    HasSubcommands,
    /// Does not run, with the reason.
    Skip(&'static str),
}

const OTHER_PROJECT: Treatment = Treatment::Skip("a program of another project");

const PROGRAMS: &[(&str, Treatment)] = &[
    ("fabriclens", Treatment::HasSubcommands),
    ("fabriclens-agent", Treatment::HasSubcommands),
    ("cargo", Treatment::HasSubcommands),
    ("amtool", Treatment::Run),
    ("curl", Treatment::Run),
    ("df", Treatment::Run),
    ("ethtool", Treatment::Run),
    ("ip", Treatment::Run),
    ("mount", Treatment::Run),
    ("openssl", Treatment::Run),
    ("ulimit", Treatment::Run),
    ("apt", OTHER_PROJECT),
    ("docker", OTHER_PROJECT),
    ("helm", OTHER_PROJECT),
    ("journalctl", OTHER_PROJECT),
    ("kubectl", OTHER_PROJECT),
    ("oc", OTHER_PROJECT),
    ("otelcol", OTHER_PROJECT),
    ("mimirtool", OTHER_PROJECT),
    ("podman", OTHER_PROJECT),
    ("scontrol", OTHER_PROJECT),
    ("systemctl", OTHER_PROJECT),
    ("systemd-analyze", OTHER_PROJECT),
    ("sysctl", Treatment::Skip("changes the whole machine")),
    ("chronyc", Treatment::Skip("no time daemon here")),
    ("ntpq", Treatment::Skip("no time daemon here")),
    ("ibnetdiscover", Treatment::Skip("names a file format")),
    ("iblinkinfo", Treatment::Skip("names a file format")),
    ("lspci", Treatment::Skip("no PCI devices here")),
    ("rdma", Treatment::Skip("no RDMA devices here")),
    ("mlxfwreset", Treatment::Skip("no such NIC here")),
];

/// Fragments that start like a command.
const FRAGMENTS: &[&str] = &["ethtool -S", "ip link set down"];

/// Words that the reader replaces: program (empty: any), word, and its value here.
const PLACEHOLDERS: &[(&str, &str, &str)] = &[
    ("openssl", "FILE", "/mnt/certificate.pem"),
    ("", "FILE", "/mnt/token"),
    ("fabriclens", "NAME", "example"),
    ("", "HOST", "gpu-12"),
    ("", "NETDEV", "eth1"),
    ("", "JOB", "4711"),
    // The sandbox replaces it: each fleet has its own incident ids.
    ("", "ID", "1769860931000-1"),
    ("", "DIR", "$(mktemp -d)/new"),
    ("", "YOU", "ann"),
    ("", "ALERTMANAGER", "alertmanager"),
    ("", "COLLECTOR", "collector"),
];

/// Commands of a page's sentences.
pub struct Commands {
    /// Runs all of them.
    pub script: String,
    pub count: usize,
    /// One line for each command that does not run.
    pub skipped: Vec<String>,
}

/// Collects the commands of a page.
pub fn commands(page: &Page) -> Commands {
    let mut commands = Commands { script: String::new(), count: 0, skipped: Vec::new() };
    for code in &page.code {
        let place = format!("{}:{}", page.path.display(), code.line);
        match command(code) {
            None => {}
            Some(Err(why)) => commands.skipped.push(format!("{place}: `{}`: {why}", code.text)),
            Some(Ok(line)) => {
                commands.count += 1;
                // In a subshell: variables do not reach the next command.
                let _ = writeln!(
                    commands.script,
                    "echo '--- {place}: a command in a sentence'\n({line}) > /mnt/output 2>&1 || {{ cat /mnt/output; false; }}"
                );
            }
        }
    }
    commands
}

/// Shell command for a code span; none if it is no command, an error with the reason if it does not run.
fn command(code: &Block) -> Option<Result<String, &'static str>> {
    let words: Vec<&str> = code.text.split(' ').collect();
    let (program, rest) = words.split_first()?;
    let (_, treatment) = PROGRAMS.iter().find(|(name, _)| name == program)?;
    if rest.is_empty() {
        return None;
    }
    let is_name = |word: &&str| word.bytes().all(|b| b.is_ascii_lowercase() || b == b'-') && !word.starts_with('-');
    Some(match treatment {
        Treatment::Skip(why) => Err(why),
        _ if FRAGMENTS.contains(&&*code.text) || code.text.contains('…') => Err("a fragment"),
        Treatment::HasSubcommands if rest.iter().all(is_name) => Ok(format!("{} --help", code.text)),
        _ => Ok(fill_in(program, &code.text)),
    })
}

/// Replaces the placeholders in `text`.
fn fill_in(program: &str, text: &str) -> String {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut out = String::new();
    for part in text.split_inclusive(|c| !is_word(c)) {
        let (word, end) = part.split_at(part.trim_end_matches(|c| !is_word(c)).len());
        let value = PLACEHOLDERS.iter().find(|(owner, name, _)| *name == word && ["", program].contains(owner));
        out.push_str(value.map_or(word, |(.., value)| value));
        out.push_str(end);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Option<Result<String, &'static str>> {
        command(&Block { info: String::new(), text: text.to_owned(), line: 1 })
    }

    #[test]
    fn commands_are_recognized() {
        for other in ["fabric_port_up", "not offered", "fabriclens", "insecure = true"] {
            assert_eq!(parse(other), None, "{other}");
        }
        let runs = |text: &str| parse(text).unwrap().unwrap();
        assert_eq!(runs("fabriclens topology"), "fabriclens topology --help");
        assert_eq!(runs("fabriclens topology --node HOST"), "fabriclens topology --node gpu-12");
        assert_eq!(runs("curl http://COLLECTOR:7470/readyz"), "curl http://collector:7470/readyz");
        assert_eq!(runs("openssl x509 -in FILE -noout"), "openssl x509 -in /mnt/certificate.pem -noout");
        assert!(parse("systemctl restart fabriclens").unwrap().is_err());
        assert!(parse("chronyc tracking").unwrap().is_err());
        assert!(parse("curl -H \"Authorization: …\"").unwrap().is_err());
    }
}
