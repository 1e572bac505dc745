//! `fabriclens audit`: settings of ports that are not as expected, or the settings of a host as baselines.

use std::fmt::Write as _;

use serde::Deserialize;

use super::layout::printable;
use super::{ClientError, Form, get, parse, print, print_json};
use crate::args::AuditArgs;
use fabriclens_core::time::format_time;

#[derive(Deserialize)]
struct Answer<T> {
    data: T,
}

#[derive(Deserialize)]
struct LearnedBaseline {
    toml: String,
}

#[derive(Deserialize)]
struct Page {
    time_ms: i64,
    compared: usize,
    chosen: usize,
    more: usize,
    drifts: Vec<Drift>,
    next: Option<usize>,
    splits: Vec<Split>,
    files: Vec<File>,
    error: Option<String>,
}

#[derive(Deserialize)]
struct Drift {
    host: String,
    port: String,
    title: String,
    severity: String,
    value: String,
    expected: String,
    reason: Reason,
    consequence: String,
    changed: Option<Changed>,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Reason {
    Baseline { name: String },
    FarEnd { node: String, port: String },
    Majority { group: String, agree: usize, of: usize },
    Host,
}

#[derive(Deserialize)]
struct Changed {
    since_ms: i64,
    before: String,
}

#[derive(Deserialize)]
struct Split {
    group: String,
    title: String,
    values: Vec<SplitValue>,
}

#[derive(Deserialize)]
struct SplitValue {
    value: String,
    members: usize,
    example: String,
}

#[derive(Deserialize)]
struct File {
    path: String,
    baselines: usize,
    error: Option<String>,
}

/// Runs the command.
///
/// # Errors
/// [`ClientError`].
pub fn audit(args: &AuditArgs) -> Result<(), ClientError> {
    let mut out = std::io::stdout().lock();
    if let Some(host) = &args.learn {
        let body = get(&args.server, "api/v1/audit/baseline", &vec![("host", host.clone())])?;
        let answer: Answer<LearnedBaseline> = parse(&args.server, &body)?;
        return print(&mut out, &answer.data.toml);
    }
    let chosen = [("host", &args.host), ("setting", &args.setting), ("severity", &args.severity)];
    let form: Form = chosen.into_iter().filter_map(|(name, value)| Some((name, value.clone()?))).collect();
    let mut offset = 0;
    loop {
        let mut form = form.clone();
        form.extend((offset > 0).then(|| ("offset", offset.to_string())));
        let body = get(&args.server, "api/v1/audit", &form)?;
        let answer: Answer<Page> = parse(&args.server, &body)?;
        let is_last = answer.data.next.is_none_or(|next| next <= offset);
        match args.json {
            true => print_json(&mut out, &body)?,
            false => print(&mut out, &text(&answer.data, offset == 0, is_last))?,
        }
        if is_last {
            return Ok(());
        }
        offset = answer.data.next.unwrap_or(offset);
    }
}

fn text(page: &Page, is_first: bool, is_last: bool) -> String {
    let mut lines = Vec::new();
    if is_first {
        lines.extend(head(page));
    }
    for drift in &page.drifts {
        let Drift { host, port, title, severity, value, expected, consequence, .. } = drift;
        lines.push(format!("{severity}: {host} {port}: {title}: {value}, expected {expected}"));
        lines.push(format!("    because {}{}", because(&drift.reason), since(drift.changed.as_ref())));
        lines.push(format!("    {consequence}"));
    }
    if is_last && page.more > 0 {
        lines.push(format!("({} further drifts are not kept)", page.more));
    }
    let mut out = String::new();
    for line in lines {
        // Writing to a string does not fail.
        _ = writeln!(out, "{}", printable(&line));
    }
    out
}

fn head(page: &Page) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(error) = &page.error {
        lines.push(format!("the last audit failed: {error}"));
    }
    if page.time_ms == 0 {
        lines.push("no audit yet; the first one follows some seconds after the start of the collector".to_owned());
        return lines;
    }
    let what = match page.chosen {
        0 => "no setting differs".to_owned(),
        1 => "1 setting differs".to_owned(),
        many => format!("{many} settings differ"),
    };
    lines.push(format!("{what} ({} ports and devices compared at {})", page.compared, format_time(page.time_ms)));
    for file in &page.files {
        let state = file.error.clone().unwrap_or_else(|| format!("{} baselines", file.baselines));
        lines.push(format!("{}: {state}", file.path));
    }
    for split in &page.splits {
        let values = split.values.iter().map(|v| format!("{} on {} (as {})", v.value, v.members, v.example));
        let values = values.collect::<Vec<_>>().join("; ");
        lines.push(format!("no majority: {} of {}: {values}", split.title, split.group));
    }
    lines
}

fn because(reason: &Reason) -> String {
    match reason {
        Reason::Baseline { name } => format!("the baseline {name:?} says so"),
        Reason::FarEnd { node, port } => format!("{node} port {port} at the other end of the cable is set so"),
        Reason::Majority { group, agree, of } => format!("{agree} of {of} are set so ({group})"),
        Reason::Host => "other settings of the host demand it".to_owned(),
    }
}

fn since(changed: Option<&Changed>) -> String {
    changed.map_or_else(String::new, |Changed { since_ms, before }| {
        format!("; changed at {}, before: {before}", format_time(*since_ms))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_are_written_for_people() {
        let json = r#"{"data": {"time_ms": 60000, "compared": 64, "chosen": 2, "more": 3, "next": null, "error": null,
            "files": [{"path": "/etc/b.toml", "baselines": 0, "error": "there is no setting \"pfc\""}],
            "splits": [{"group": "rail 1", "key": "firmware", "title": "firmware", "values": [
                {"value": "28.41", "members": 4, "example": "h1 mlx5_1/1"}, {"value": "28.43", "members": 4, "example": "h5 mlx5_1/1"}]}],
            "drifts": [
                {"host": "h\u001b17", "port": "mlx5_0/1", "rail": "0", "key": "pfc_priorities", "title": "priorities with PFC",
                 "severity": "critical", "value": "none", "expected": "3", "consequence": "RoCE is dropped",
                 "reason": {"type": "majority", "group": "rail 0, MT4129, roce", "agree": 63, "of": 64},
                 "changed": {"since_ms": 30000, "before": "3"}},
                {"host": "h2", "port": "mlx5_0", "rail": "0", "key": "pcie_width", "title": "PCIe lanes of the adapter",
                 "severity": "critical", "value": "8", "expected": "16", "consequence": "slow",
                 "reason": {"type": "baseline", "name": "compute"}}]}}"#;
        let page: Answer<Page> = serde_json::from_str(json).unwrap();
        let expected = "\
2 settings differ (64 ports and devices compared at 1970-01-01T00:01:00.000Z)
/etc/b.toml: there is no setting \"pfc\"
no majority: firmware of rail 1: 28.41 on 4 (as h1 mlx5_1/1); 28.43 on 4 (as h5 mlx5_1/1)
critical: h\u{fffd}17 mlx5_0/1: priorities with PFC: none, expected 3
    because 63 of 64 are set so (rail 0, MT4129, roce); changed at 1970-01-01T00:00:30.000Z, before: 3
    RoCE is dropped
critical: h2 mlx5_0: PCIe lanes of the adapter: 8, expected 16
    because the baseline \"compute\" says so
    slow
(3 further drifts are not kept)
";
        assert_eq!(text(&page.data, true, true), expected);
        let nothing = Page { time_ms: 0, drifts: vec![], more: 0, ..page.data };
        assert!(text(&nothing, true, true).contains("no audit yet"));
    }
}
