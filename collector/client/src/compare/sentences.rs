//! What differs between two runs, as sentences: first the time that the network cost them.

use super::quantities::{BYTES, LOST_SHARE, Row, Verdict};
use super::report::{GRADES, Grade, Report};
use super::words::{Unit, percent, seconds};

/// Relative difference of run times up to which they are alike.
const NOISE: f64 = 0.05;
/// Share of its time from which a job's loss is worth a word, as in the report's summary.
const NOTICED: f64 = 0.01;

/// Names of both runs for people; with the number of the run where it is needed to tell them apart.
pub(super) fn names(a: &Report, b: &Report) -> [String; 2] {
    let id = |report: &Report| match report.job.cluster.as_str() {
        "" => report.job.id.clone(),
        cluster => format!("{cluster}/{}", report.job.id),
    };
    let is_same = id(a) == id(b);
    [a, b].map(|report| match report.job.run {
        run if run > 1 || is_same => format!("{} (run {run})", id(report)),
        _ => id(report),
    })
}

/// The main differences, the most important first.
pub(super) fn sentences(a: &Report, b: &Report, rows: &[Row], rails: &[Row]) -> Vec<String> {
    let [first, second] = &names(a, b);
    let mut said = vec![lost(a, b, rows, [first, second])];
    said.extend(run_times(a, b, rows, [first, second]));
    let all = || rows.iter().chain(rails).filter(|row| row.key != LOST_SHARE);
    let named = |verdict: Verdict| {
        let mut names: Vec<&str> = all().filter(|row| row.verdict == verdict).map(|row| row.name.as_str()).collect();
        names.dedup();
        names.join(", ")
    };
    let (worse, better) = (named(Verdict::Worse), named(Verdict::Better));
    match (worse.as_str(), better.as_str()) {
        ("", "") => said.push("Nothing else that was measured in both differs beyond noise.".to_owned()),
        (worse, "") => said.push(format!("Worse in {second}: {worse}.")),
        ("", better) => said.push(format!("Better in {second}: {better}.")),
        (worse, better) => said.push(format!("Worse in {second}: {worse}. Better: {better}.")),
    }
    said
}

/// Bounds of the share of its time that a job lost.
struct Bounds {
    /// `None`: the job has no baseline.
    least: Option<f64>,
    most: f64,
}

impl Bounds {
    fn of(report: &Report, grade: Grade) -> Option<Self> {
        let cost = &report.summary.cost;
        let most = cost.at_most_share.at(grade)?.value;
        let least = cost.at_least.at(grade).map(|least| least.value / report.seconds().max(1e-3));
        Some(Self { least, most })
    }

    fn text(&self) -> String {
        match self.least.filter(|least| *least > 0.0) {
            Some(least) => format!("{} to {}", percent(least), percent(self.most)),
            None => format!("at most {}", percent(self.most)),
        }
    }
}

/// Sentence about the time that the network cost.
fn lost(a: &Report, b: &Report, rows: &[Row], [first, second]: [&String; 2]) -> String {
    let common = GRADES.into_iter().find_map(|grade| Some((grade, Bounds::of(a, grade)?, Bounds::of(b, grade)?)));
    let Some((grade, x, y)) = common else { return not_compared(a, b, [first, second]) };
    let verdict = rows.iter().find(|row| row.key == LOST_SHARE && row.grade == Some(grade)).map(|row| row.verdict);
    let bounds = format!("{}, {first} {}", y.text(), x.text());
    let certain = |low: &Bounds, high: &Bounds| low.least.filter(|least| *least > high.most).map(|l| l - high.most);
    match verdict {
        Some(Verdict::Worse) => match certain(&y, &x) {
            Some(more) => {
                format!("{second} lost at least {} more of its time to the network: {bounds}.", percent(more))
            }
            None => format!(
                "{second} may have lost more of its time to the network: {bounds}. These bounds overlap, so this is not certain."
            ),
        },
        Some(Verdict::Better) => match certain(&x, &y) {
            Some(less) => {
                format!("{second} lost at least {} less of its time to the network: {bounds}.", percent(less))
            }
            None => format!(
                "{second} may have lost less of its time to the network: {bounds}. These bounds overlap, so this is not certain."
            ),
        },
        _ if x.most.max(y.most) < NOTICED => {
            format!("The network cost neither of them {} of its time.", percent(NOTICED))
        }
        _ => format!("Both lost about as much of their time to the network: {second} {bounds}."),
    }
}

/// Why lost time is not compared.
fn not_compared(a: &Report, b: &Report, names: [&String; 2]) -> String {
    let unknown = [a, b].into_iter().zip(names);
    let unknown = unknown.filter(|(report, _)| report.summary.cost.at_most_share.grades().is_empty());
    let unknown: Vec<&str> = unknown.map(|(_, name)| name.as_str()).collect();
    match unknown.as_slice() {
        [] => "Lost time is not compared: only one of them shared its ports with other jobs.".to_owned(),
        unknown => format!("Lost time is not compared: it was not measured in {}.", unknown.join(" and ")),
    }
}

/// Sentence about run times, and whether as much was sent in them.
fn run_times(a: &Report, b: &Report, rows: &[Row], [first, second]: [&String; 2]) -> Option<String> {
    if !a.has_ended() || !b.has_ended() || a.job.hosts != b.job.hosts || a.seconds() <= 0.0 {
        return None;
    }
    let change = (b.seconds() - a.seconds()) / a.seconds();
    if change.abs() <= NOISE {
        return None;
    }
    let word = if change > 0.0 { "longer" } else { "shorter" };
    let ran = format!(
        "{second} ran {} {word} than {first} ({} against {})",
        percent(change.abs()),
        seconds(b.seconds()),
        seconds(a.seconds())
    );
    let mut bytes = rows.iter().filter(|row| row.key == BYTES && row.unit == Unit::Bytes);
    let only = bytes.next().filter(|_| bytes.next().is_none());
    Some(match only.map(|row| (row.verdict, row.change)) {
        Some((Verdict::Alike, _)) => format!("{ran} and sent as many bytes."),
        Some((Verdict::Differs, Some(sent))) => {
            let word = if sent > 0.0 { "more" } else { "fewer" };
            format!("{ran} and sent {} {word} bytes.", percent(sent.abs()))
        }
        _ => format!("{ran}."),
    })
}

/// What cannot be compared, and why.
pub(super) fn notes(a: &Report, b: &Report) -> Vec<String> {
    let [first, second] = names(a, b);
    let both = [(a, &first), (b, &second)];
    let mut notes = Vec::new();
    if a.job.hosts != b.job.hosts {
        notes.push(format!(
            "{first} has {} and {second} has {}: run times and bytes are not compared; rates and events are those of one port.",
            hosts(a.job.hosts),
            hosts(b.job.hosts)
        ));
    }
    for (report, name) in both {
        if !report.has_ended() {
            notes.push(format!(
                "{name} is still running; its numbers are those of the first {}.",
                seconds(report.seconds())
            ));
        }
        let missing = report.job.hosts.saturating_sub(report.quality.measured);
        if missing > 0 {
            notes.push(format!("{missing} of the {} of {name} were not measured.", hosts(report.job.hosts)));
        }
    }
    if a.traffic.mean_rate.grades() != b.traffic.mean_rate.grades()
        && both.iter().all(|(report, _)| !report.traffic.mean_rate.grades().is_empty())
    {
        notes.push(
            "Ports of one run were shared with other jobs, those of the other were not, or not in the same way; only numbers of the same \
             grade are compared."
                .to_owned(),
        );
    }
    if a.range.method != b.range.method {
        notes.push(
            "One report read every sample, the other checkpoints only: short events may be missing in one.".to_owned(),
        );
    }
    notes
}

fn hosts(count: usize) -> String {
    if count == 1 { "1 host".to_owned() } else { format!("{count} hosts") }
}
