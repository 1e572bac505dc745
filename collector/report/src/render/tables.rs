//! The tables of a report, shared by HTML and Markdown: headings, and cells of text or numbers.

use super::path_words;
use super::words::{self, NONE};
use crate::model::{EarlierOperation, Figure, Finding, Grade, OtherFlows, Paths, Report, Severity, Unit};

/// Maximum number of listed hosts.
const HOSTS: usize = 24;

/// Contents of a table cell.
pub(super) enum Cell {
    Text(String),
    /// A number without a grade.
    Fact(String),
    Number(Figure),
    Severity(Severity),
}

/// A table with headings.
pub(super) struct Table {
    pub heads: Vec<&'static str>,
    pub rows: Vec<Vec<Cell>>,
    /// Text below the table.
    pub note: Option<String>,
}

pub(super) fn text(t: impl Into<String>) -> Cell {
    Cell::Text(t.into())
}

pub(super) fn fact(t: impl std::fmt::Display) -> Cell {
    Cell::Fact(t.to_string())
}

fn number(f: &Figure) -> Cell {
    Cell::Number(f.clone())
}

fn graded(value: Option<f64>, unit: Unit, grade: Grade) -> Cell {
    let parts = value.map(|value| crate::model::Part { grade, value, of: 1 });
    Cell::Number(Figure { unit, parts: parts.into_iter().collect() })
}

fn named(cluster: &str, id: &str, name: &str) -> String {
    let id = if cluster.is_empty() { id.to_owned() } else { format!("{cluster}/{id}") };
    if name.is_empty() { id } else { format!("{id} {name}") }
}

impl Table {
    pub(super) fn new(heads: &[&'static str], rows: Vec<Vec<Cell>>) -> Self {
        Self { heads: heads.to_vec(), rows, note: None }
    }
}

/// Names and values of the key figures at the top.
pub(super) fn tiles(report: &Report) -> Vec<(&'static str, Figure)> {
    let (s, t) = (&report.summary, &report.traffic);
    vec![
        ("Time lost, at least", s.cost.at_least.clone()),
        ("Time lost, at most", s.cost.at_most.clone()),
        ("Sent", t.transmitted.clone()),
        ("Received", t.received.clone()),
        ("Mean rate, sent", t.mean_rate.clone()),
        ("Peak rate, sent", t.peak_rate.clone()),
    ]
}

pub(super) fn earlier(report: &Report) -> Table {
    let known = report.summary.earlier.iter().any(|e| e.operation.is_some());
    let main = report.collectives.operations.first().filter(|_| known);
    let rows = report.summary.earlier.iter().map(|e| {
        let (took, cost) = (fact(words::duration(e.seconds)), number(&e.at_most_share));
        let operation = |what: fn(&EarlierOperation) -> Option<f64>, unit| {
            fact(e.operation.as_ref().and_then(what).map_or(NONE.to_owned(), |v| words::value(v, unit)))
        };
        let (mean, bandwidth) =
            (operation(|o| Some(o.mean_seconds), Unit::Seconds), operation(|o| o.bandwidth, Unit::BytesPerSecond));
        let mut cells = vec![text(named("", &e.id, &e.name)), took, number(&e.transmitted), number(&e.paused), cost];
        if main.is_some() {
            cells.extend([mean, bandwidth]);
        }
        cells
    });
    let mut heads = vec!["Earlier job", "Took", "Sent", "Paused", "Time lost, at most"];
    if main.is_some() {
        heads.extend(["Mean time", "Bus bandwidth"]);
    }
    let mut table = Table::new(&heads, rows.collect());
    table.note =
        main.map(|main| format!("Mean time and bus bandwidth are those of {} from {}.", main.operation, main.size));
    table
}

/// Periods in which the network slowed the job down.
pub(super) fn slowed(report: &Report) -> Table {
    let rows = report.summary.cost.slowed.iter().map(|s| {
        let when = format!("{} to {}", words::clock(s.start_ns, true), words::clock(s.end_ns, true));
        let why: Vec<&str> = s.why.iter().map(|why| why.text()).collect();
        let rate = |bytes| graded(bytes, Unit::BytesPerSecond, s.grade);
        let seconds = |v| graded(v, Unit::Seconds, s.grade);
        vec![
            text(when),
            text(why.join(", ")),
            rate(Some(s.moved)),
            rate(s.usual),
            seconds(s.at_least),
            seconds(Some(s.at_most)),
        ]
    });
    let heads = ["When", "Evidence", "Sent and received", "Usual", "Lost, at least", "Lost, at most"];
    Table::new(&heads, rows.collect())
}

pub(super) fn rails(report: &Report) -> Table {
    let rows = report.traffic.rails.iter().map(|r| {
        let of_mean = r.of_mean.map_or(NONE.to_owned(), words::percent);
        let ports = fact(r.ports);
        vec![text(&r.rail), ports, number(&r.transmitted), number(&r.received), fact(of_mean), number(&r.paused)]
    });
    Table::new(&["Rail", "Ports", "Sent", "Received", "Of the mean rail", "Paused"], rows.collect())
}

/// Measured hosts; if there are many, those with the most congestion and errors.
pub(super) fn hosts(report: &Report) -> Table {
    let mut hosts: Vec<_> = report.traffic.hosts.iter().filter(|h| h.measured).collect();
    let many = hosts.len() > HOSTS;
    let all = hosts.len();
    if many {
        let rank = |h: &crate::model::Host| {
            let bad = [&h.paused, &h.pausing].iter().filter_map(|f| f.largest()).fold(0.0, f64::max);
            bad + h.link_errors.largest().map_or(0.0, |n| if n > 0.0 { 1.0 } else { 0.0 })
        };
        hosts.sort_by(|a, b| rank(b).total_cmp(&rank(a)));
        hosts.truncate(HOSTS);
        hosts.sort_by(|a, b| a.host.cmp(&b.host));
    }
    let rows = hosts.iter().map(|h| {
        let numbers = [&h.transmitted, &h.received, &h.paused, &h.pausing, &h.cnp_sent, &h.link_errors];
        std::iter::once(text(&h.host)).chain(numbers.into_iter().map(number)).collect()
    });
    let heads = ["Host", "Sent", "Received", "Paused", "Pausing others", "CNPs sent", "Link errors"];
    let mut table = Table::new(&heads, rows.collect());
    table.note = many.then(|| format!("{HOSTS} of {all} hosts, the most conspicuous ones. The JSON report has all."));
    table
}

pub(super) fn congestion(report: &Report) -> Table {
    let c = &report.congestion;
    let row = |what: &str, side: &str, f: &Figure| vec![text(what), text(side), number(f)];
    Table::new(
        &["Measure", "Direction", "Value"],
        vec![
            row("Could not send: paused (mean over ports)", "suffered", &c.paused),
            row("Could not send: no credits, XmitWait (mean over ports)", "suffered", &c.xmit_wait),
            row("Could not send, if all waited for the worst port", "suffered", &report.summary.cost.held),
            row("Slowed down: CNPs handled", "suffered", &c.cnp_received),
            row("Packets received with a congestion mark (ECN)", "suffered", &c.ecn_marked),
            row("Paused the switch: pause sent (mean over ports)", "caused", &c.pausing),
            row("Slowed others down: CNPs sent", "caused", &c.cnp_sent),
        ],
    )
}

pub(super) fn ports(report: &Report) -> Table {
    let rows = report.congestion.ports.iter().map(|p| {
        let share = |v| graded(v, Unit::Ratio, p.grade);
        let cnp = graded(p.cnp_sent, Unit::Count, p.grade);
        vec![text(format!("{} {}", p.host, p.device)), share(p.paused), share(p.pausing), cnp]
    });
    Table::new(&["Port", "Paused", "Pausing others", "CNPs sent"], rows.collect())
}

/// Links of the fabric that damaged, dropped or held back traffic.
pub(super) fn links(report: &Report) -> Table {
    let with_paths = report.links.paths.is_some();
    let rows = report.links.worst.iter().map(|l| {
        let count = |v| graded(v, Unit::Count, Grade::Shared);
        let share = |v| graded(v, Unit::Ratio, Grade::Shared);
        let flows = with_paths.then(|| fact(l.flows.map_or(NONE.to_owned(), path_words::link_flows)));
        let figures = [count(l.errors), count(l.drops), share(l.held), share(l.load), count(l.marks)];
        std::iter::once(text(&l.link)).chain(flows).chain(figures).collect()
    });
    let flows = with_paths.then_some("Flows of this job");
    let heads: Vec<&str> = std::iter::once("Link")
        .chain(flows)
        .chain(["Damaged", "Dropped", "Held back", "Load", "Marked (ECN)"])
        .collect();
    let mut table = Table::new(&heads, rows.collect());
    table.note = Some("The numbers are those of all traffic on a link, of other jobs too.".to_owned());
    table
}

/// Links between switches that several ports of the job, or other jobs too, send over.
pub(super) fn shared_links(paths: &Paths) -> Table {
    let rows = paths.shared.iter().map(|l| {
        let share = |v| graded(v, Unit::Ratio, Grade::Shared);
        let other = |o: &OtherFlows| format!("{}: {}", named(&o.cluster, &o.id, ""), path_words::link_flows(o.own));
        let others: Vec<String> = l.others.iter().map(other).collect();
        let others = if others.is_empty() { NONE.to_owned() } else { others.join(", ") };
        let own = [fact(l.senders), fact(path_words::link_flows(l.own)), text(others)];
        std::iter::once(text(&l.link)).chain(own).chain([share(l.load), share(l.held)]).collect()
    });
    let heads =
        ["Link, sending end first", "Sending ports", "Flows of this job", "Flows of other jobs", "Load", "Held back"];
    Table::new(&heads, rows.collect())
}

/// Listed flows with their paths.
pub(super) fn flows(paths: &Paths) -> Table {
    let rows = paths.list.iter().flat_map(|flow| {
        let source_port = flow.source_port.map_or(NONE.to_owned(), |port| port.to_string());
        flow.paths.iter().map(move |path| {
            let [from, to] = [&flow.from, &flow.to].map(|end| text(format!("{} {}", end.node, end.port)));
            vec![from, to, fact(&source_port), text(path_words::path(path)), text(&path.known)]
        })
    });
    Table::new(&["From", "To", "Source port", "Path", "Known"], rows.collect())
}

pub(super) fn incidents(report: &Report) -> Table {
    let rows = report.incidents.iter().map(|i| {
        let end = i.end_ns.map_or("open".to_owned(), |end| words::clock(end, true));
        let when = format!("{} to {end}", words::time(i.start_ns));
        vec![
            Cell::Severity(i.severity),
            text(i.kind.replace('_', " ")),
            text(when),
            text(&i.role),
            text(&i.explanation),
            text(&i.action),
        ]
    });
    Table::new(&["", "Kind", "When", "Role of this job", "Explanation", "Action"], rows.collect())
}

pub(super) fn neighbours(report: &Report) -> Table {
    let rows = report.neighbours.iter().map(|n| {
        vec![
            text(named(&n.cluster, &n.id, &n.name)),
            text(&n.user),
            text(n.shares.text()),
            fact(n.hosts),
            fact(words::duration(n.seconds as f64)),
        ]
    });
    Table::new(&["Job", "User", "Shared", "Hosts", "For"], rows.collect())
}

pub(super) fn health(report: &Report) -> Table {
    let h = &report.health;
    let row = |what: &str, f: &Figure| vec![text(what), number(f)];
    Table::new(
        &["Counter", "In the job's time"],
        vec![
            row("Link errors (symbol, CRC or receive, whichever counts most)", &h.link_errors),
            row("Links that went down", &h.link_downs),
            row("Blocks that forward error correction could not correct", &h.uncorrectable),
            row("Packets dropped at the port", &h.discards),
            row("RDMA packets retransmitted, or reported lost by peers", &h.retransmits),
            row("Retransmission timers that expired", &report.summary.cost.timeouts),
        ],
    )
}

pub(super) fn findings(report: &Report) -> Table {
    of_findings(&report.health.findings)
}

/// What is wrong inside the hosts.
pub(super) fn inside(report: &Report) -> Table {
    let mut table = of_findings(&report.inside.findings);
    table.note = (report.inside.gpus > 0).then(|| format!("Of {} GPUs, at the end of the job.", report.inside.gpus));
    table
}

fn of_findings(findings: &[Finding]) -> Table {
    let rows =
        findings.iter().map(|f| vec![Cell::Severity(f.severity), text(&f.place), text(&f.text), text(&f.action)]);
    Table::new(&["", "Where", "Finding", "Action"], rows.collect())
}

pub(super) fn transport(report: &Report) -> Table {
    let t = &report.transport;
    let share = t.tcp_share.map_or(NONE.to_owned(), words::percent);
    let row = |what: &str, f: &Figure| vec![text(what), number(f)];
    Table::new(
        &["Measure", "Value"],
        vec![
            row("RDMA bytes, both directions", &t.rdma),
            row("TCP bytes to and from other hosts, both directions", &t.tcp),
            vec![text("TCP's share of both"), fact(share)],
            row("TCP round-trip time, median", &t.rtt_median),
            row("TCP round-trip time, 99th percentile", &t.rtt_p99),
            row("TCP segments retransmitted, host-wide", &t.tcp_retransmits),
        ],
    )
}

/// Listed pairs of hosts.
pub(super) fn pairs(report: &Report) -> Table {
    let rows = report.peers.list.iter().map(|p| {
        let bytes = graded(p.bytes, Unit::Bytes, p.grade);
        let rtt = graded(p.rtt_seconds, Unit::Seconds, p.grade);
        vec![text(&p.a), text(&p.b), text(p.over.text()), text(p.grade.text()), bytes, rtt]
    });
    let mut table = Table::new(&["Host", "Host", "Over", "Grade", "Bytes, at least", "Round trip"], rows.collect());
    let more = report.peers.pairs.saturating_sub(report.peers.list.len());
    table.note = (more > 0).then(|| format!("and {more} more"));
    table
}

/// Completeness of the measurements, as sentences.
pub(super) fn quality(report: &Report) -> Vec<String> {
    let q = &report.quality;
    let mut lines = vec![format!(
        "{} of {} hosts were measured; {} ports served this job alone, {} were shared.",
        q.measured, report.job.hosts, q.exclusive_ports, q.shared_ports
    )];
    let list = |what: &str, all: &[String]| match all.len() {
        0 => None,
        n if n > HOSTS => Some(format!("{what}: {}, and {} more", all[..HOSTS].join(", "), n - HOSTS)),
        _ => Some(format!("{what}: {}", all.join(", "))),
    };
    let links = &report.links;
    if links.known > 0 {
        let none = if links.worst.is_empty() { "; none of them damaged, dropped or held back traffic" } else { "" };
        lines.push(match links.measured {
            0 => "No switch port on the way of this job was read: what happened between switches is not known."
                .to_owned(),
            n => format!("{n} of {} links on the way of this job were read at a switch{none}.", links.known),
        });
    }
    lines.extend(list("Hosts without an agent, or without RDMA ports", &q.missing));
    lines.extend(list("Gaps in the samples", &q.gaps));
    lines.extend(list("Saturated counters", &q.saturated));
    lines.extend(q.notes.iter().cloned());
    lines.extend(list("Contradictions between job sources", &report.job.disagreements));
    lines
}

/// Names and values of facts about the job.
pub(super) fn about(report: &Report) -> Vec<(&'static str, String)> {
    let (job, range) = (&report.job, &report.range);
    let end = if job.end_ns.is_some() {
        words::time(range.end_ns)
    } else {
        format!("{}, still running", words::time(range.end_ns))
    };
    let seconds = (range.end_ns - range.start_ns) as f64 / 1e9;
    let user = if job.user.is_empty() { "unknown".to_owned() } else { job.user.clone() };
    let mut lines = vec![
        ("User", user),
        ("Hosts", job.hosts.to_string()),
        ("From", words::time(range.start_ns)),
        ("To", end),
        ("Took", words::duration(seconds)),
    ];
    if job.run > 1 {
        lines.push(("Run", job.run.to_string()));
    }
    let labels: Vec<String> = job.labels.iter().map(|(n, v)| format!("{n} {v}")).collect();
    if !labels.is_empty() {
        lines.push(("Labels", labels.join(", ")));
    }
    lines
}

/// Title, such as `4711 bert-large`.
pub(super) fn title(report: &Report) -> String {
    named(&report.job.cluster, &report.job.id, &report.job.name)
}
