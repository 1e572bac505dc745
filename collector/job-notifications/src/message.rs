//! What a message may say of a run, by the names of template variables.

use std::time::Duration;

use fabriclens_jobs::EndedRun;

use crate::shared::Digest;

/// Longest value of a variable, bytes; texts of reports name hosts and jobs.
const VALUE_BYTES: usize = 4096;

/// A run and its digest.
pub(crate) struct Message {
    pub(crate) run: EndedRun,
    pub(crate) digest: Digest,
    /// Link to the report.
    pub(crate) url: String,
    /// The same whenever the message is sent again.
    pub(crate) key: String,
}

impl Message {
    pub(crate) fn new(run: EndedRun, digest: Digest, base: &str, receiver: &str) -> Self {
        let id = segment(&run.key.id);
        let cluster = match run.key.cluster.as_str() {
            "" => String::new(),
            cluster => format!("&cluster={}", segment(cluster)),
        };
        let url = format!("{}/api/v1/jobs/{id}/report?run={}{cluster}", base.trim_end_matches('/'), run.run);
        let key = format!("{receiver}-{}-{id}-{}-{}", segment(&run.key.cluster), run.run, run.end_ns / 1_000_000_000);
        Self { run, digest, url, key }
    }

    /// Value of a variable of [`fabriclens_config::JOB_VARIABLES`].
    pub(crate) fn value(&self, name: &str) -> String {
        let (run, digest) = (&self.run, &self.digest);
        let value = match name {
            "id" => run.key.id.clone(),
            "cluster" => run.key.cluster.clone(),
            "run" => run.run.to_string(),
            "user" => run.user.clone(),
            "name" => run.name.clone(),
            "hosts" => digest.hosts.to_string(),
            "run_time" => run_time(run),
            "url" => self.url.clone(),
            "cost" => digest.cost.clone(),
            "cause" => digest.cause.clone(),
            "earlier" => digest.earlier.clone(),
            "key" => self.key.clone(),
            _ => String::new(),
        };
        clean(&value)
    }
}

/// Run time in words, as `fabriclens jobs` has it.
fn run_time(run: &EndedRun) -> String {
    let seconds = (run.end_ns - run.start_ns).max(0) / 1_000_000_000;
    fabriclens_base::duration::format(Duration::from_secs(seconds.unsigned_abs()))
}

/// One line of bounded length without control characters.
fn clean(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars().map(|c| if c.is_control() { ' ' } else { c }) {
        if out.len() + c.len_utf8() > VALUE_BYTES {
            break;
        }
        out.push(c);
    }
    out
}

/// Encodes a text as one segment of a URL's path.
pub(crate) fn segment(text: &str) -> String {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-._~".contains(&b);
    let byte = |b: u8| if plain(b) { char::from(b).to_string() } else { format!("%{b:02X}") };
    // Dots alone would mean another path.
    if text.bytes().all(|b| b == b'.') { "%2E".repeat(text.len()) } else { text.bytes().map(byte).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fabriclens_config::JOB_VARIABLES;
    use fabriclens_jobs::JobKey;

    fn message(id: &str) -> Message {
        let run = EndedRun {
            key: JobKey { cluster: "west".into(), id: id.into() },
            run: 2,
            user: "ann".into(),
            name: "bert".into(),
            start_ns: 0,
            end_ns: 3_661_000_000_000,
        };
        let digest = Digest {
            cost: "It cost\u{1b}[2J 5 %.".into(),
            cause: "Fabric.".into(),
            earlier: "More.".into(),
            has_lost: Some(true),
            is_complete: true,
            hosts: 8,
        };
        Message::new(run, digest, "https://fabric.example/", "chat")
    }

    #[test]
    fn every_variable_has_a_value() {
        for name in JOB_VARIABLES {
            assert!(!message("4711").value(name).is_empty(), "{name}");
        }
        assert_eq!(message("4711").value("run_time"), "1h1m1s");
        assert_eq!(message("4711").value("cost"), "It cost [2J 5 %.");
    }

    #[test]
    fn links_hold_any_id() {
        let url = message("ml/a b").url;
        assert_eq!(url, "https://fabric.example/api/v1/jobs/ml%2Fa%20b/report?run=2&cluster=west");
        assert_eq!(segment(".."), "%2E%2E");
        assert!(clean(&"ü".repeat(VALUE_BYTES)).len() <= VALUE_BYTES);
    }
}
