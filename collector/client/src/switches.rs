//! `fabriclens switches`: lists the switches that push their counters or are read by gNMI, or the names of theirs that are
//! not understood.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::layout::{printable, rows};
use super::{ClientError, Form, show};
use crate::args::SwitchesArgs;
use fabriclens_core::time::now_ms;

#[derive(Deserialize)]
struct Answer {
    data: Data,
}

#[derive(Deserialize)]
struct Data {
    switches: Vec<Switch>,
}

#[derive(Deserialize)]
struct Switch {
    switch: String,
    source: String,
    last_ms: Option<i64>,
    silent: bool,
    streams: Vec<Stream>,
    unknown: Vec<Unknown>,
    more_unknown: bool,
}

#[derive(Deserialize)]
struct Stream {
    stream: String,
    failed: Option<String>,
}

impl Switch {
    /// `ok`, `silent`, and for gNMI how many streams work and why the others do not.
    fn state(&self) -> String {
        let word = if self.silent { "silent" } else { "ok" };
        let working = self.streams.iter().filter(|stream| stream.failed.is_none()).count();
        let mut failed: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for stream in &self.streams {
            if let Some(reason) = &stream.failed {
                failed.entry(reason).or_default().push(&stream.stream);
            }
        }
        let reasons: String = failed.iter().map(|(why, streams)| format!("; {why}: {}", streams.join(", "))).collect();
        match self.streams.len() {
            0 => word.to_owned(),
            all => format!("{word}, {working}/{all} streams{reasons}"),
        }
    }
}

#[derive(Deserialize)]
struct Unknown {
    name: String,
    last_ms: i64,
}

/// Runs the command.
///
/// # Errors
/// [`ClientError`].
pub fn switches(args: &SwitchesArgs) -> Result<(), ClientError> {
    let words = |answer: &Answer| text(&answer.data.switches, args.unknown, now_ms());
    show(&args.server, "api/v1/switches", &Form::new(), args.json, words)
}

fn text(switches: &[Switch], unknown: bool, now_ms: i64) -> String {
    if switches.is_empty() {
        return "no switch has sent anything since the collector started (docs/switches.md)\n".to_owned();
    }
    let age = |last_ms: i64| format!("{}s", (now_ms - last_ms).max(0) / 1000);
    let mut lines: Vec<Vec<String>> = Vec::new();
    let mut row = |cells: &[&str]| lines.push(cells.iter().map(|cell| printable(cell)).collect());
    if unknown {
        row(&["SWITCH", "SOURCE", "AGE", "NAME"]);
        for one in switches {
            one.unknown.iter().for_each(|u| row(&[&one.switch, &one.source, &age(u.last_ms), &u.name]));
            if one.more_unknown {
                row(&[&one.switch, &one.source, "", "(and further names)"]);
            }
        }
        if lines.len() == 1 {
            return "all names that switches send are understood\n".to_owned();
        }
    } else {
        row(&["SWITCH", "SOURCE", "AGE", "UNKNOWN", "STATE"]);
        for one in switches {
            let count = format!("{}{}", one.unknown.len(), if one.more_unknown { "+" } else { "" });
            row(&[&one.switch, &one.source, &one.last_ms.map_or_else(|| "-".to_owned(), age), &count, &one.state()]);
        }
    }
    rows(&lines).iter().map(|line| format!("{line}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn switches_are_listed_with_their_age() {
        let json = r#"{"data": {"switches": [
            {"switch": "leaf1", "source": "cumulus", "last_ms": 9000, "silent": false, "streams": [], "more_unknown": true,
             "unknown": [{"name": "nvswitch_\u001bnew", "last_ms": 8000}]},
            {"switch": "spine1", "source": "sonic_hft", "last_ms": 12000, "silent": true, "streams": [],
             "more_unknown": false, "unknown": []},
            {"switch": "spine2", "source": "gnmi", "last_ms": null, "silent": true, "more_unknown": false, "unknown": [],
             "streams": [{"stream": "lldp", "failed": "refused"}, {"stream": "ports", "failed": "refused"}]}]}}"#;
        let answer: Answer = serde_json::from_str(json).unwrap();
        let listed = "SWITCH  SOURCE     AGE  UNKNOWN  STATE\n\
                      leaf1   cumulus    1s   1+       ok\n\
                      spine1  sonic_hft  0s   0        silent\n\
                      spine2  gnmi       -    0        silent, 0/2 streams; refused: lldp, ports\n";
        assert_eq!(text(&answer.data.switches, false, 10_000), listed, "a clock that is ahead has no negative age");
        let named = "SWITCH  SOURCE   AGE  NAME\n\
                     leaf1   cumulus  2s   nvswitch_\u{fffd}new\n\
                     leaf1   cumulus       (and further names)\n";
        assert_eq!(text(&answer.data.switches, true, 10_000), named);
        assert_eq!(text(&answer.data.switches[1..], true, 10_000), "all names that switches send are understood\n");
        assert!(text(&[], false, 0).contains("docs/switches.md"));
    }
}
