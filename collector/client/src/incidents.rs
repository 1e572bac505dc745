//! `fabriclens incidents`: lists incidents, shows one in full, and sends operator actions.

use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};

use super::layout::{printable, rows};
use super::{ClientError, Form, ask, parse, print, report::segment, seconds, show, time_of, url, width};
use crate::args::{Action, IncidentsArgs, IncidentsFormat, Server};
use fabriclens_base::duration;
use fabriclens_core::time::{format_time, now_ms};

#[derive(Deserialize)]
pub(super) struct Listed {
    total: usize,
    pub(super) incidents: Vec<Incident>,
}

#[derive(Deserialize)]
pub(super) struct One {
    pub(super) incident: Incident,
}

/// The fields of an incident that are shown.
#[derive(Deserialize)]
pub(super) struct Incident {
    pub(super) id: String,
    kind: String,
    pub(super) severity: String,
    pub(super) start_ns: i64,
    pub(super) end_ns: Option<i64>,
    pub(super) confidence: f64,
    pub(super) root: Value,
    pub(super) culprit_jobs: Vec<String>,
    pub(super) victim_jobs: Vec<String>,
    victim_ports: Vec<Value>,
    #[serde(default)]
    priorities: Vec<u64>,
    #[serde(default)]
    senders: Vec<Value>,
    path: Option<FlowPath>,
    evidence: Vec<Evidence>,
    #[serde(default)]
    settings: Vec<WrongSetting>,
    #[serde(default)]
    kernel_log: Vec<KernelEvent>,
    explanation: String,
    action: String,
    #[serde(default)]
    recurrences: u32,
    acknowledged: Option<OperatorNote>,
    reclassified: Option<OperatorNote>,
    silenced: Option<OperatorNote>,
    #[serde(default)]
    history: Vec<HistoryEntry>,
}

/// Path of the flows that show it.
#[derive(Deserialize)]
struct FlowPath {
    ports: Vec<Value>,
    known: String,
}

/// A setting of the place that is not as expected.
#[derive(Deserialize)]
struct WrongSetting {
    node: String,
    port: String,
    title: String,
    value: String,
    expected: String,
    changed: Option<(i64, String)>,
}

impl WrongSetting {
    fn words(&self) -> String {
        let Self { node, port, title, value, expected, changed } = self;
        let since = changed.as_ref().map(|(ms, before)| format!(" since {}, before: {before}", clock(ms * 1_000_000)));
        format!("{node} {port}: {title}: {value}, expected {expected}{}", since.unwrap_or_default())
    }
}

/// A fault that the kernel log of the place names.
#[derive(Deserialize)]
struct KernelEvent {
    node: String,
    #[serde(default)]
    device: String,
    #[serde(default)]
    pci_address: String,
    class: String,
    title: String,
    #[serde(default)]
    code: String,
    #[serde(default)]
    job: String,
    at_ms: i64,
    may_be_reason: bool,
}

impl KernelEvent {
    fn words(&self) -> String {
        let Self { node, device, pci_address, class, title, code, job, at_ms, may_be_reason } = self;
        let place = [node, device, pci_address].map(String::as_str).into_iter().filter(|part| !part.is_empty());
        let place = place.collect::<Vec<_>>().join(" ");
        let code = if code.is_empty() { String::new() } else { format!(" {code}") };
        let job = if job.is_empty() { String::new() } else { format!(", of job {job}") };
        let reason = if *may_be_reason { "; may be the reason" } else { "" };
        format!("{place} at {}: {title}{job} ({class}{code}){reason}", clock(at_ms * 1_000_000))
    }
}

#[derive(Deserialize)]
struct Evidence {
    metric: String,
    at: String,
    value: f64,
    threshold: f64,
}

#[derive(Deserialize)]
struct OperatorNote {
    /// ID of a silence.
    id: Option<String>,
    kind: Option<String>,
    until_ns: Option<i64>,
    by: String,
    note: String,
}

#[derive(Deserialize)]
struct HistoryEntry {
    at_ns: i64,
    state: String,
    #[serde(default)]
    detail: String,
}

/// Runs the command.
///
/// # Errors
/// [`ClientError`].
pub fn incidents(args: &IncidentsArgs) -> Result<(), ClientError> {
    if let Some(action) = &args.action {
        return act(action);
    }
    let server = &args.server;
    let json = args.format == IncidentsFormat::Json;
    let Some(id) = &args.id else {
        return show(server, "api/v1/incidents", &request(args)?, json, |all| table(all, now_ms()));
    };
    let (path, form) = (format!("api/v1/incidents/{}", segment(id)), vec![("series", series(args).to_owned())]);
    show(server, &path, &form, json, |one: &One| in_full(&one.incident, now_ms(), width::columns()))
}

/// Text output shows no series; JSON includes them.
fn series(args: &IncidentsArgs) -> &'static str {
    if args.format == IncidentsFormat::Json { "true" } else { "false" }
}

fn request(args: &IncidentsArgs) -> Result<Form, ClientError> {
    let since = args.since.as_ref().map(|text| {
        let ago = duration::parse(text).is_ok();
        time_of("since", &if ago { format!("-{text}") } else { text.clone() }).map(seconds)
    });
    let all = [
        ("state", args.open.then(|| "open".to_owned())),
        ("from", since.transpose()?),
        ("kind", args.kind.clone()),
        ("node", args.node.clone()),
        ("job", args.job.clone()),
        ("severity", args.severity.clone()),
    ];
    Ok(all.into_iter().filter_map(|(name, value)| Some((name, value?))).collect())
}

/// Sends an action and prints the result.
fn act(action: &Action) -> Result<(), ClientError> {
    let post = |server: &Server, path: &str, body: &Value| {
        let text = body.to_string();
        ask(server, |agent| agent.post(url(server, path)).header("content-type", "application/json").send(&text))
    };
    let of = |id: &str, action: &str| format!("api/v1/incidents/{}/{action}", segment(id));
    let line = match action {
        Action::Ack { id, author, server } => {
            post(server, &of(id, "acknowledge"), &json!({"by": author.by, "note": author.note}))?;
            format!("{id} is acknowledged")
        }
        Action::Note { id, author, server } => {
            post(server, &of(id, "note"), &json!({"by": author.by, "note": author.note}))?;
            format!("{id} has the note")
        }
        Action::Reclassify { id, kind, author, server } => {
            post(server, &of(id, "reclassify"), &json!({"kind": kind, "by": author.by, "note": author.note}))?;
            format!("{id} is {kind}")
        }
        Action::Silence { id, kind, node, job, duration, author, server } => {
            let mut of = json!({});
            for (name, value) in [("incident", id), ("kind", kind), ("node", node), ("job", job)] {
                if let Some(value) = value {
                    of[name] = json!(value);
                }
            }
            let body = json!({"match": of, "for": duration, "by": author.by, "note": author.note});
            let body = post(server, "api/v1/silences", &body)?;
            let silence: Value = parse(server, &body)?;
            let until = clock(silence["until_ns"].as_i64().unwrap_or_default());
            format!("silence {} until {until}", silence["id"].as_str().unwrap_or_default())
        }
        Action::Unsilence { id, server } => {
            let path = format!("api/v1/silences/{}", segment(id));
            ask(server, |agent| agent.delete(url(server, &path)).call())?;
            format!("silence {id} is over")
        }
    };
    print(&mut std::io::stdout().lock(), &format!("{}\n", printable(&line)))
}

/// Formats incidents, one per line.
fn table(answer: &Listed, now_ms: i64) -> String {
    if answer.incidents.is_empty() {
        return "no incidents\n".to_owned();
    }
    let head = ["ID", "STATE", "WHAT", "WHERE", "SINCE", "TOOK", "SURE", "VICTIMS", "CAUSED BY"];
    let mut lines = vec![head.map(str::to_owned).to_vec()];
    lines.extend(answer.incidents.iter().map(|i| row(i, now_ms)));
    let mut out = rows(&lines).join("\n") + "\n";
    let more = answer.total - answer.incidents.len().min(answer.total);
    if more > 0 {
        out.push_str(&format!("and {more} more; narrow the list, for instance with --since 1h\n"));
    }
    out
}

/// Severity, and what operators did.
pub(super) fn state(i: &Incident) -> String {
    let mut state = vec![i.severity.as_str()];
    state.extend(i.acknowledged.as_ref().map(|_| "acknowledged"));
    state.extend(i.silenced.as_ref().map(|_| "silenced"));
    state.join(", ")
}

/// Kind, as operators have corrected it.
pub(super) fn what(i: &Incident) -> &str {
    i.reclassified.as_ref().and_then(|r| r.kind.as_deref()).unwrap_or(&i.kind)
}

fn row(i: &Incident, now_ms: i64) -> Vec<String> {
    let cells = [
        i.id.clone(),
        state(i),
        what(i).to_owned(),
        place(&i.root),
        clock(i.start_ns),
        took(i, now_ms),
        percent(i.confidence),
        short(&i.victim_jobs),
        short(&i.culprit_jobs),
    ];
    cells.iter().map(|cell| printable(cell)).collect()
}

pub(super) fn in_full(i: &Incident, now_ms: i64, columns: usize) -> String {
    let mut out = String::new();
    let mut line = |name: &str, text: String| {
        if !text.is_empty() {
            out.push_str(&wrapped(&format!("{name:<13}"), &printable(&text), columns));
        }
    };
    line("incident", i.id.clone());
    line("what", format!("{}, {}, {} sure", i.kind, i.severity, percent(i.confidence)));
    line("where", place(&i.root));
    line("since", format!("{} ({})", clock(i.start_ns), took(i, now_ms)));
    line("priority", i.priorities.iter().map(u64::to_string).collect::<Vec<_>>().join(", "));
    line("caused by", i.culprit_jobs.join(", "));
    line("senders", i.senders.iter().map(sender).collect::<Vec<_>>().join(", "));
    line("victims", i.victim_jobs.join(", "));
    line("held back", i.victim_ports.iter().map(place).collect::<Vec<_>>().join(", "));
    let hops = |path: &FlowPath| path.ports.iter().map(place).collect::<Vec<_>>().join(" > ");
    let path = i.path.as_ref().map(|path| format!("{} ({})", hops(path), path.known.replace('_', " ")));
    line("path", path.unwrap_or_default());
    for (n, setting) in i.settings.iter().enumerate() {
        line(if n == 0 { "set wrong" } else { "" }, setting.words());
    }
    for (n, event) in i.kernel_log.iter().enumerate() {
        line(if n == 0 { "kernel log" } else { "" }, event.words());
    }
    line("explanation", i.explanation.clone());
    line("do", i.action.clone());
    let again = format!("{} times before, in close succession", i.recurrences);
    line("recurs", if i.recurrences > 0 { again } else { String::new() });
    for (name, note) in
        [("acknowledged", &i.acknowledged), ("reclassified", &i.reclassified), ("silenced", &i.silenced)]
    {
        line(name, note.as_ref().map(words).unwrap_or_default());
    }
    for (n, e) in i.evidence.iter().enumerate() {
        let text = format!("{} at {}: {:.4}, threshold {:.4}", e.metric, e.at, e.value, e.threshold);
        line(if n == 0 { "evidence" } else { "" }, text);
    }
    for (n, m) in i.history.iter().enumerate() {
        let detail = if m.detail.is_empty() { String::new() } else { format!(": {}", m.detail) };
        line(if n == 0 { "history" } else { "" }, format!("{} {}{detail}", clock(m.at_ns), m.state));
    }
    out
}

fn words(action: &OperatorNote) -> String {
    let id = action.id.as_ref().map(|id| format!("silence {id}"));
    let until = action.until_ns.map(|ns| format!("until {}", clock(ns)));
    let by = Some(&action.by).filter(|by| !by.is_empty()).map(|by| format!("by {by}"));
    let note = Some(action.note.clone()).filter(|note| !note.is_empty());
    let all = [action.kind.clone(), until, by, note, id].into_iter().flatten().collect::<Vec<_>>().join(", ");
    if all.is_empty() { "yes".to_owned() } else { all }
}

/// Wraps text at words to the width of the screen, after its name.
fn wrapped(name: &str, text: &str, columns: usize) -> String {
    let (mut out, mut at) = (name.to_owned(), name.chars().count());
    let indent = at;
    for word in text.split(' ') {
        let long = word.chars().count();
        if at > indent && at + 1 + long > columns {
            out = format!("{}\n{:indent$}", out.trim_end(), "");
            at = indent;
        }
        if at > indent {
            out.push(' ');
            at += 1;
        }
        out.push_str(word);
        at += long;
    }
    out.trim_end().to_owned() + "\n"
}

/// Formats a location as the collector does.
pub(super) fn place(root: &Value) -> String {
    let text = |name: &str| root[name].as_str().map_or_else(|| root[name].to_string(), str::to_owned);
    match root["type"].as_str() {
        Some("port") => format!("{} port {}", text("node"), text("port")),
        Some("link") => {
            let end = |node: &str, port: &str| {
                let port = root[port].as_str().map(|port| format!(" port {port}")).unwrap_or_default();
                format!("{}{port}", text(node))
            };
            format!("link {} - {}", end("a", "a_port"), end("b", "b_port"))
        }
        Some("job") => format!("job {}", text("job")),
        Some("fabric") | None => "fabric".to_owned(),
        Some(other) => format!("{other} {}", text("node")),
    }
}

/// Formats a port with its job.
fn sender(port: &Value) -> String {
    port["job"].as_str().map_or_else(|| place(port), |job| format!("{} ({job})", place(port)))
}

pub(super) fn took(i: &Incident, now_ms: i64) -> String {
    let ms = i.end_ns.map_or(now_ms, |end| end / 1_000_000) - i.start_ns / 1_000_000;
    let took = duration::format(Duration::from_secs((ms.max(0) / 1000).unsigned_abs()));
    if i.end_ns.is_none() { format!("{took}, open") } else { took }
}

pub(super) fn short(jobs: &[String]) -> String {
    match jobs {
        [] => String::new(),
        [a, b, c, rest @ ..] if !rest.is_empty() => format!("{a} {b} {c} and {} more", rest.len()),
        all => all.join(" "),
    }
}

pub(super) fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

fn clock(ns: i64) -> String {
    format!("{}Z", format_time(ns / 1_000_000).split('.').next().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: &str = r#"{"id": "1-1", "kind": "pfc_storm", "severity": "critical", "start_ns": 1000000000, "end_ns": null,
        "confidence": 0.934, "root": {"type": "port", "node": "h3", "port": "1"}, "culprit_jobs": [],
        "victim_jobs": ["a", "b", "c", "d"], "victim_ports": [{"type": "port", "node": "h7", "port": "1"}],
        "priorities": [3, 4], "senders": [{"type": "port", "node": "h7", "port": "1", "job": "a"},
        {"type": "port", "node": "h8", "port": "2"}],
        "path": {"known": "one_of", "ports": [{"type": "port", "node": "h7", "port": "1"}, {"type": "port", "node": "leaf1", "port": "5"}]},
        "evidence": [{"metric": "m", "at": "h3 port 1", "value": 0.97, "threshold": 0.01, "window_ns": [0, 1]}],
        "explanation": "h3 port 1 pauses\u001b its switch.", "action": "Reset it.", "recurrences": 0,
        "acknowledged": {"at_ns": 0, "by": "ann", "note": "on it"}, "reclassified": null, "silenced": null,
        "history": [{"at_ns": 0, "state": "opened", "detail": "pfc_storm at h3 port 1"}]}"#;

    #[test]
    fn incidents_are_listed_and_shown() {
        let listed: Listed = serde_json::from_str(&format!("{{\"total\": 3, \"incidents\": [{ONE}]}}")).unwrap();
        assert_eq!(
            table(&listed, 66_000),
            "ID   STATE                   WHAT       WHERE      SINCE                 TOOK        SURE  VICTIMS           CAUSED BY\n\
             1-1  critical, acknowledged  pfc_storm  h3 port 1  1970-01-01T00:00:01Z  1m5s, open  93 %  a b c and 1 more\n\
             and 2 more; narrow the list, for instance with --since 1h\n"
        );
        let full = in_full(&listed.incidents[0], 66_000, 60);
        let want = "\
incident     1-1
what         pfc_storm, critical, 93 % sure
where        h3 port 1
since        1970-01-01T00:00:01Z (1m5s, open)
priority     3, 4
senders      h7 port 1 (a), h8 port 2
victims      a, b, c, d
held back    h7 port 1
path         h7 port 1 > leaf1 port 5 (one of)
explanation  h3 port 1 pauses\u{fffd} its switch.
do           Reset it.
acknowledged by ann, on it
evidence     m at h3 port 1: 0.9700, threshold 0.0100
history      1970-01-01T00:00:00Z opened: pfc_storm at h3
             port 1
";
        assert_eq!(full, want);
    }
}
