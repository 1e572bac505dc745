//! Summary of the report: cost, most likely cause, comparison with earlier jobs.

use super::earlier;
use crate::model::{
    Cause, CauseKind, Cost, Earlier, Incident, Part, Point, Report, Severity, Slowed, StandsOut, Summary, WaitsFor, Why,
};
use crate::render::words::{between, clock, duration, of_figure, percent};
use serde::{Deserialize, Serialize};

/// Fractions of the job's time from which the cost is a warning, and from which it is critical.
const NOTICED: f64 = 0.01;
const HURTS: f64 = 0.1;

/// The part of the summary that does not depend on other sections.
pub(super) fn numbers(cost: Cost, earlier: Vec<Earlier>) -> Summary {
    let cause = Cause { kind: CauseKind::Unknown, text: String::new() };
    Summary { points: Vec::new(), cost, cause, earlier }
}

/// Adds the cause and the main points, which depend on all sections.
pub(super) fn judge(report: &mut Report) {
    report.summary.cause = cause(report);
    report.summary.points = points(report);
}

fn cause(report: &Report) -> Cause {
    let cost = &report.summary.cost;
    let of = |kind, text: String| Cause { kind, text };
    if let Some(flag) = &report.transport.red_flag {
        return of(CauseKind::Sockets, flag.clone());
    }
    if report.quality.measured == 0 {
        return of(CauseKind::Unknown, "No host of this job was measured.".into());
    }
    let share = cost.at_most_share.largest();
    if let Some(text) = incident(report) {
        return of(CauseKind::Incident, text);
    }
    let conclusion = report.collectives.conclusion.as_ref();
    if let Some(own) = conclusion.filter(|c| c.waits_for == WaitsFor::OwnWork && share.is_none_or(|s| s < NOTICED)) {
        return of(CauseKind::Application, own.text.clone());
    }
    let straggler = report.traffic.straggler.as_ref();
    let place =
        |s: &crate::model::Straggler| s.device.as_ref().map_or(s.host.clone(), |device| format!("{} {device}", s.host));
    match straggler.map(|s| (s.by, s)) {
        Some((StandsOut::Pausing, s)) => {
            let text = format!(
                "Most likely a receiver of the job itself: {} {}. Check its PCIe, its memory, and other processes on it first.",
                place(s),
                s.text
            );
            return of(CauseKind::SlowReceiver, text);
        }
        Some((StandsOut::LinkErrors, s)) => {
            return of(CauseKind::Link, format!("Most likely a link of the job: {} {}.", place(s), s.text));
        }
        Some((StandsOut::Incast, s)) if share.is_some_and(|share| share >= NOTICED) => {
            let text = format!("Most likely an incast of the job itself: {} {}.", place(s), s.text);
            return of(CauseKind::Incast, text);
        }
        _ => {}
    }
    match share {
        None => of(CauseKind::Unknown, "Whether ports were held back was not measured on these hosts.".into()),
        Some(share) if share < NOTICED => of(CauseKind::None, "Nothing that was measured held the job back.".into()),
        Some(_) => {
            let concurrent = match report.neighbours.len() {
                0 => "no other job is known to have shared its hosts or leaves".to_owned(),
                1 => "one other job shared its hosts or leaves".to_owned(),
                n => format!("{n} other jobs shared its hosts or leaves"),
            };
            let held = match cost.held.largest().is_some_and(|held| held > 0.0) {
                true => "the job's ports were paused or had no credits, and none of them paused its switch as much",
                false => "the job's senders got congestion notifications or retransmitted packets",
            };
            let text = format!(
                "Congestion in the fabric: {held}. Too much was sent to one place, by this job or by others; {concurrent}."
            );
            of(CauseKind::Fabric, text)
        }
    }
}

/// The incident that explains the most lost time of the job, as the collector judged it; it knows more than this job's ports.
fn incident(report: &Report) -> Option<String> {
    let slowed = &report.summary.cost.slowed;
    let lost = |incident: &Incident| -> f64 {
        let end = incident.end_ns.unwrap_or(i64::MAX);
        let overlap = |s: &&Slowed| incident.start_ns < s.end_ns && s.start_ns < end;
        slowed.iter().filter(overlap).map(|s| s.at_most).sum()
    };
    let concerns = |i: &&Incident| i.role != "bystander" && i.severity >= Severity::Warning;
    let all: Vec<&Incident> = report.incidents.iter().filter(concerns).collect();
    let rank = |i: &Incident| (lost(i), i.severity, std::cmp::Reverse(i.start_ns));
    let first = all.iter().copied().max_by(|a, b| {
        let (a, b) = (rank(a), rank(b));
        a.0.total_cmp(&b.0).then_with(|| (a.1, a.2).cmp(&(b.1, b.2)))
    })?;
    let role = if first.role == "culprit" { "This job caused an incident" } else { "An incident held this job back" };
    let more = match all.len() - 1 {
        0 => String::new(),
        1 => " One more incident concerns it.".to_owned(),
        n => format!(" {n} more incidents concern it."),
    };
    let kind = first.kind.replace('_', " ");
    Some(format!("{role} ({kind}, from {}): {}{more}", clock(first.start_ns, true), first.explanation))
}

fn points(report: &Report) -> Vec<Point> {
    let Summary { cost, cause, .. } = &report.summary;
    let seconds = (report.range.end_ns - report.range.start_ns) as f64 / 1e9;
    let mut points = Vec::new();
    let mut say = |severity, text: String| points.push(Point { severity, text });
    let span = duration(seconds);
    match cost.at_most_share.largest() {
        None if cost.mean.largest().is_some() => {
            say(Severity::Info, format!("Ports were held back for {} of {span} on average.", of_figure(&cost.mean)))
        }
        None => say(Severity::Info, format!("Whether the network held this job back in its {span} was not measured.")),
        Some(share) => {
            let lost =
                [&cost.timeouts, &report.health.retransmits].iter().any(|f| f.largest().is_some_and(|n| n > 0.0));
            let severity = match share {
                s if s >= HURTS => Severity::Critical,
                s if s >= NOTICED => Severity::Warning,
                _ if lost => Severity::Info,
                _ => Severity::Good,
            };
            let text = match share {
                0.0 => format!("Nothing that was counted held this job back in its {span}."),
                _ => format!("The network cost this job {} of its {span}.", bounds(cost, seconds)),
            };
            let few = lost && !cost.slowed.iter().any(|s| s.why.contains(&Why::SentAgain));
            let few = if few { " Packets were lost as well, too few at a time to estimate their cost." } else { "" };
            say(severity, text + &worst(cost, seconds) + few);
        }
    }
    let severity = match cause.kind {
        CauseKind::None => Severity::Good,
        CauseKind::Unknown => Severity::Info,
        CauseKind::Sockets => Severity::Critical,
        _ => Severity::Warning,
    };
    say(severity, cause.text.clone());
    let conclusion = report.collectives.conclusion.as_ref();
    if let Some(conclusion) = conclusion.filter(|c| c.agree.is_some() && c.text != cause.text) {
        let severity = match (conclusion.waits_for, conclusion.agree) {
            (WaitsFor::Nothing, Some(true)) => Severity::Good,
            (WaitsFor::Nothing, _) => Severity::Info,
            _ => Severity::Warning,
        };
        say(severity, format!("Collectives: {}", conclusion.text));
    }
    if let Some(expired) = cost.timeouts.largest().filter(|n| *n >= 1.0) {
        let text = format!(
            "{expired:.0} retransmission timers expired. Each stopped one connection, for 4 ms up to seconds depending on \
             the application's timeout. The time above does not include this."
        );
        say(Severity::Warning, text);
    }
    earlier::comparisons(report).for_each(|Point { severity, text }| say(severity, text));
    let found = report.health.findings.iter().filter(|f| f.severity >= Severity::Warning).count();
    if found > 0 {
        let findings = if found == 1 { "finding" } else { "findings" };
        let text = format!("{found} {findings} about links, PCIe and configuration of its hosts; see Health.");
        say(Severity::Warning, text);
    }
    if !report.quality.missing.is_empty() {
        let missing = report.quality.missing.len();
        let text =
            format!("{missing} of {} hosts were not measured; the numbers cover the others only.", report.job.hosts);
        say(Severity::Warning, text);
    }
    if report.quality.shared_ports > 0 {
        let text = format!(
            "{} of {} ports were shared with other jobs; their numbers are listed separately as \"shared\".",
            report.quality.shared_ports,
            report.quality.shared_ports + report.quality.exclusive_ports
        );
        say(Severity::Info, text);
    }
    points
}

/// The report in three sentences, for messages to the owner of a job.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
pub struct Digest {
    /// What the network cost.
    pub cost: String,
    /// The most likely cause.
    pub cause: String,
    /// Comparison with earlier jobs.
    pub earlier: String,
    /// Whether the network cost a noticeable part of its time; `None`: not measured.
    pub has_lost: Option<bool>,
    /// Whether all hosts were measured without gaps. Samples may still arrive otherwise.
    pub is_complete: bool,
    /// Number of hosts.
    pub hosts: usize,
}

/// The main points of a report in three sentences.
pub fn digest(report: &Report) -> Digest {
    let Summary { points, cost, cause, earlier: before } = &report.summary;
    let against: Vec<String> = earlier::comparisons(report).map(|point| point.text).collect();
    let not_compared = match before.as_slice() {
        [] => "There is no earlier job of this user and size to compare with.",
        _ => "It cannot be compared with earlier jobs: lost time was not measured in both.",
    };
    Digest {
        cost: points.first().map(|point| point.text.clone()).unwrap_or_default(),
        cause: cause.text.clone(),
        earlier: if against.is_empty() { not_compared.to_owned() } else { against.join(" ") },
        has_lost: cost.at_most_share.largest().map(|share| share >= NOTICED),
        is_complete: report.quality.missing.is_empty() && report.quality.gaps.is_empty(),
        hosts: report.job.hosts,
    }
}

/// `between 15 s and 20 s (5.0 % to 6.7 %, exclusive)`; without percentages if there are several grades.
fn bounds(cost: &Cost, seconds: f64) -> String {
    let one = |most: &Part| {
        let least = cost.at_least.part(most.grade).filter(|least| *least > 0.0);
        let shares = [least.unwrap_or(most.value), most.value].map(|s| percent(s / seconds));
        let share = match (cost.at_most.parts.len(), shares) {
            (2.., _) => String::new(),
            (_, [low, high]) if low == high => format!("{high}, "),
            (_, [low, high]) => format!("{low} to {high}, "),
        };
        format!("{} ({share}{})", between(least, most.value), most.grade.text())
    };
    cost.at_most.parts.iter().map(one).collect::<Vec<_>>().join(", and ")
}

/// Sentence about the most expensive period, if it cost a noticeable part of the time.
fn worst(cost: &Cost, seconds: f64) -> String {
    let most = cost.slowed.iter().max_by(|a, b| a.at_most.total_cmp(&b.at_most));
    let Some(s) = most.filter(|s| s.at_most >= NOTICED * seconds) else { return String::new() };
    let why: Vec<&str> = s.why.iter().map(|w| w.text()).collect();
    let of_usual = match s.usual {
        Some(usual) => format!("moved {} of its usual throughput", percent(s.moved / usual)),
        None => "had no undisturbed time nearby to compare with".to_owned(),
    };
    let [from, to] = [s.start_ns, s.end_ns].map(|ns| clock(ns, true));
    format!(" Most of that from {from} to {to}: it {of_usual} ({}).", why.join(", "))
}
