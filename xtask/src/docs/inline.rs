//! Commands within sentences (`fabriclens topology --node HOST`): run after the blocks of their page, where those ran.
//!
//! Code whose first word is a row of [`PROGRAMS`] is a command. A program and the name of one of its commands alone is
//! that name, and there must be such a command; with more words it is run, with [`STANDS_FOR`] in place of capitals.

use super::page::{Block, Page};
use std::fmt::Write as _;

/// What is done with commands of a program.
#[derive(Clone, Copy, PartialEq, Debug)]
enum How {
    /// They are run.
    Runs,
    /// As above; with a name alone, its help.
    HasCommands,
    /// They are not, and why.
    Not(&'static str),
}

const PROGRAMS: &[(&str, How)] = &[
    ("fabriclens", How::HasCommands),
    ("fabriclens-agent", How::HasCommands),
    ("cargo", How::HasCommands),
    ("amtool", How::Runs),
    ("apt", How::Runs),
    ("curl", How::Runs),
    ("df", How::Runs),
    ("docker", How::Runs),
    ("ethtool", How::Runs),
    ("helm", How::Runs),
    ("ip", How::Runs),
    ("journalctl", How::Runs),
    ("kubectl", How::Runs),
    ("mount", How::Runs),
    ("oc", How::Runs),
    ("openssl", How::Runs),
    ("podman", How::Runs),
    ("sysctl", How::Runs),
    ("systemctl", How::Runs),
    ("ulimit", How::Runs),
    ("chronyc", How::Not("there is no time daemon")),
    ("ntpq", How::Not("there is no time daemon")),
    ("ibnetdiscover", How::Not("the name of what a file holds")),
    ("iblinkinfo", How::Not("the name of what a file holds")),
    ("lspci", How::Not("there are no PCI devices")),
    ("mimirtool", How::Not("there is no Mimir")),
    ("otelcol", How::Not("there is no OpenTelemetry Collector")),
    ("rdma", How::Not("there are no RDMA devices")),
    ("mlxfwreset", How::Not("there is no such NIC")),
    ("scontrol", How::Not("there is no Slurm")),
    ("systemd-analyze", How::Not("there is no systemd")),
];

/// Begins like a command and is only a part of one.
const PARTS: &[&str] = &["ethtool -S", "ip link set down"];

/// What stands for what the reader puts in: program (or any), word, and what it is here.
const STANDS_FOR: &[(&str, &str, &str)] = &[
    ("openssl", "FILE", "/mnt/certificate.pem"),
    ("", "FILE", "/mnt/token"),
    ("fabriclens", "NAME", "somebody"),
    ("", "HOST", "gpu-12"),
    ("", "NETDEV", "eth1"),
    ("", "JOB", "4711"),
    // Put in by the sandbox: each fleet has its own.
    ("", "ID", "1769860931000-1"),
    ("", "DIR", "$(mktemp -d)/new"),
    ("", "YOU", "ann"),
    ("", "ALERTMANAGER", "alertmanager"),
    ("", "COLLECTOR", "collector"),
];

/// The command lines of a page's sentences as a script, and how many they are; words for those that are not run.
pub fn script(page: &Page) -> (String, usize, Vec<String>) {
    let (mut script, mut runs, mut not) = (String::new(), 0, Vec::new());
    for code in &page.code {
        let place = format!("{}:{}", page.path.display(), code.line);
        match line(code) {
            None => {}
            Some(Err(why)) => not.push(format!("{place}: `{}`: {why}", code.text)),
            Some(Ok(line)) => {
                runs += 1;
                // Each alone: what it sets is not the next one's.
                let _ = writeln!(
                    script,
                    "echo '--- {place}: a command in a sentence'\n({line}) > /mnt/said 2>&1 || {{ cat /mnt/said; false; }}"
                );
            }
        }
    }
    (script, runs, not)
}

/// What to run for a piece of code; nothing if it is no command, an error if none is run.
fn line(code: &Block) -> Option<Result<String, &'static str>> {
    let words: Vec<&str> = code.text.split(' ').collect();
    let (program, rest) = words.split_first()?;
    let (_, how) = PROGRAMS.iter().find(|(name, _)| name == program)?;
    if rest.is_empty() {
        return None;
    }
    let is_name = |word: &&str| word.bytes().all(|b| b.is_ascii_lowercase() || b == b'-') && !word.starts_with('-');
    Some(match how {
        How::Not(why) => Err(why),
        _ if PARTS.contains(&&*code.text) || code.text.contains('…') => Err("a part of one"),
        How::HasCommands if rest.iter().all(is_name) => Ok(format!("{} --help", code.text)),
        _ => Ok(put_in(program, &code.text)),
    })
}

/// `text` with what stands for its capitals.
fn put_in(program: &str, text: &str) -> String {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut out = String::new();
    for part in text.split_inclusive(|c| !is_word(c)) {
        let (word, end) = part.split_at(part.trim_end_matches(|c| !is_word(c)).len());
        let stands = STANDS_FOR.iter().find(|(whose, name, _)| *name == word && ["", program].contains(whose));
        out.push_str(stands.map_or(word, |s| s.2));
        out.push_str(end);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(text: &str) -> Option<Result<String, &'static str>> {
        line(&Block { info: String::new(), text: text.to_owned(), line: 1 })
    }

    #[test]
    fn commands_are_told_from_other_code() {
        for other in ["fabric_port_up", "not offered", "fabriclens", "insecure = true"] {
            assert_eq!(told(other), None, "{other}");
        }
        let runs = |text: &str| told(text).unwrap().unwrap();
        assert_eq!(runs("fabriclens topology"), "fabriclens topology --help");
        assert_eq!(runs("fabriclens topology --node HOST"), "fabriclens topology --node gpu-12");
        assert_eq!(runs("curl http://COLLECTOR:7470/readyz"), "curl http://collector:7470/readyz");
        assert_eq!(runs("openssl x509 -in FILE -noout"), "openssl x509 -in /mnt/certificate.pem -noout");
        assert_eq!(runs("systemctl restart fabriclens"), "systemctl restart fabriclens");
        assert!(told("chronyc tracking").unwrap().is_err());
        assert!(told("curl -H \"Authorization: …\"").unwrap().is_err());
    }
}
