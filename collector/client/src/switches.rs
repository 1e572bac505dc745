//! `fabriclens switches`: lists the switches that push their counters, or the names of theirs that are not understood.

use serde::Deserialize;

use super::layout::printable;
use super::{ClientError, ask, print, print_json, url};
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
    last_ms: i64,
    unknown: Vec<Unknown>,
    more_unknown: bool,
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
    let of = url(&args.server, "api/v1/switches");
    let body = ask(&args.server, |agent| agent.get(of).call())?;
    let mut out = std::io::stdout().lock();
    if args.json {
        return print_json(&mut out, &body);
    }
    let answer: Answer = serde_json::from_str(&body)
        .map_err(|e| ClientError::Foreign { url: args.server.url.clone(), message: e.to_string() })?;
    print(&mut out, &text(&answer.data.switches, args.unknown, now_ms()))
}

fn text(switches: &[Switch], unknown: bool, now_ms: i64) -> String {
    if switches.is_empty() {
        return "no switch has sent anything since the collector started (docs/switches.md)\n".to_owned();
    }
    let age = |last_ms: i64| format!("{}s", (now_ms - last_ms).max(0) / 1000);
    let row = |cells: [&str; 4]| cells.map(printable);
    let mut rows: Vec<[String; 4]> = Vec::new();
    if unknown {
        for one in switches {
            let named = one.unknown.iter();
            rows.extend(named.map(|u| row([&one.switch, &one.source, &age(u.last_ms), &u.name])));
            if one.more_unknown {
                rows.push(row([&one.switch, &one.source, "", "(and further names)"]));
            }
        }
        if rows.is_empty() {
            return "all names that switches send are understood\n".to_owned();
        }
    } else {
        rows.extend(switches.iter().map(|one| {
            let count = format!("{}{}", one.unknown.len(), if one.more_unknown { "+" } else { "" });
            row([&one.switch, &one.source, &age(one.last_ms), &count])
        }));
    }
    rows.insert(0, ["SWITCH", "SOURCE", "AGE", if unknown { "NAME" } else { "UNKNOWN" }].map(str::to_owned));
    let width = |c: usize| rows.iter().map(|r| r[c].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..4).map(width).collect();
    let line = |row: &[String; 4]| {
        let cells: Vec<String> = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        format!("{}\n", cells.join("  ").trim_end())
    };
    rows.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn switches_are_listed_with_their_age() {
        let json = r#"{"data": {"switches": [
            {"switch": "leaf1", "source": "cumulus", "last_ms": 9000, "more_unknown": true,
             "unknown": [{"name": "nvswitch_\u001bnew", "last_ms": 8000}]},
            {"switch": "spine1", "source": "sonic_hft", "last_ms": 12000, "more_unknown": false, "unknown": []}]}}"#;
        let answer: Answer = serde_json::from_str(json).unwrap();
        let listed = "SWITCH  SOURCE     AGE  UNKNOWN\n\
                      leaf1   cumulus    1s   1+\n\
                      spine1  sonic_hft  0s   0\n";
        assert_eq!(text(&answer.data.switches, false, 10_000), listed, "a clock that is ahead has no negative age");
        let named = "SWITCH  SOURCE   AGE  NAME\n\
                     leaf1   cumulus  2s   nvswitch_\u{fffd}new\n\
                     leaf1   cumulus       (and further names)\n";
        assert_eq!(text(&answer.data.switches, true, 10_000), named);
        assert_eq!(text(&answer.data.switches[1..], true, 10_000), "all names that switches send are understood\n");
        assert!(text(&[], false, 0).contains("docs/switches.md"));
    }
}
