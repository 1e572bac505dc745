//! `fabriclens compare`: two runs by their reports, first what differs beyond noise, then a table.

mod facts;
mod quantities;
mod report;
mod sentences;
#[cfg(test)]
mod tests;
mod words;

use serde::Serialize;

use self::facts::Fact;
use self::quantities::{Row, Verdict};
use self::report::{Report, VERSION, Version};
use super::layout::{printable, rows};
use super::report::segment;
use super::{ClientError, Form, get, parse, print, print_json};
use crate::args::{CompareArgs, CompareFormat};

/// The comparison of two runs; serialized as the JSON of the command.
#[derive(Serialize)]
struct Comparison {
    a: RunName,
    b: RunName,
    /// What differs, the most important first.
    sentences: Vec<String>,
    /// What cannot be compared, and why.
    notes: Vec<String>,
    facts: Vec<Fact>,
    quantities: Vec<Row>,
    rails: Vec<Row>,
    /// Facts below the numbers.
    places: Vec<Fact>,
}

/// A run, and what its report says of it.
#[derive(Serialize)]
struct RunName {
    cluster: String,
    id: String,
    run: u32,
    /// Name for people.
    name: String,
    cause: String,
    /// Why a host stands out; absent if none does.
    stands_out: Option<String>,
}

/// Runs the command.
///
/// # Errors
/// [`ClientError`].
pub fn compare(args: &CompareArgs) -> Result<(), ClientError> {
    let cluster_b = args.cluster_b.as_ref().or(args.cluster.as_ref());
    let a = read(args, &args.job_a, args.cluster.as_ref(), args.run_a)?;
    let b = read(args, &args.job_b, cluster_b, args.run_b)?;
    if (&a.job.cluster, &a.job.id, a.job.run) == (&b.job.cluster, &b.job.id, b.job.run) {
        return Err(ClientError::SameRun { job: a.job.id, run: a.job.run });
    }
    let comparison = Comparison::of(&a, &b);
    let mut out = std::io::stdout().lock();
    match args.format {
        CompareFormat::Json => print_json(&mut out, &serde_json::to_string(&comparison).unwrap_or_default()),
        CompareFormat::Text => print(&mut out, &comparison.text()),
    }
}

/// Reads the report of a run.
fn read(args: &CompareArgs, job: &str, cluster: Option<&String>, run: Option<u32>) -> Result<Report, ClientError> {
    let mut form: Form = vec![("format", "json".to_owned())];
    form.extend(cluster.map(|cluster| ("cluster", cluster.clone())));
    form.extend(run.map(|run| ("run", run.to_string())));
    let body = get(&args.server, &format!("api/v1/jobs/{}/report", segment(job)), &form)?;
    let Version { version } = parse(&args.server, &body)?;
    if version != VERSION {
        return Err(ClientError::ReportVersion { url: args.server.url.clone(), version, known: VERSION });
    }
    parse(&args.server, &body)
}

impl Comparison {
    fn of(a: &Report, b: &Report) -> Self {
        let (quantities, rails) = (quantities::rows(a, b), quantities::rails(a, b));
        let [first, second] = sentences::names(a, b);
        Self {
            a: RunName::of(a, first),
            b: RunName::of(b, second),
            sentences: sentences::sentences(a, b, &quantities, &rails),
            notes: sentences::notes(a, b),
            facts: facts::first(a, b),
            quantities,
            rails,
            places: facts::last(a, b),
        }
    }

    /// The comparison for people.
    fn text(&self) -> String {
        let mut out = String::new();
        let mut line = |text: &str| out.extend([&printable(text), "\n"]);
        self.sentences.iter().for_each(|sentence| line(sentence));
        self.notes.iter().for_each(|note| line(&format!("Note: {note}")));
        line("");
        rows(&self.table()).iter().for_each(|row| line(row));
        line("");
        for run in [&self.a, &self.b] {
            line(&format!("Cause, {}: {}", run.name, run.cause));
            if let Some(text) = &run.stands_out {
                line(&format!("Stands out, {}: {text}", run.name));
            }
        }
        out
    }

    fn table(&self) -> Vec<Vec<String>> {
        let head = ["", &self.a.name, &self.b.name, "CHANGE", "SECOND IS"];
        let fact = |fact: &Fact| [fact.name, &fact.a, &fact.b].map(printable).to_vec();
        let mut table = vec![head.map(printable).to_vec()];
        table.extend(self.facts.iter().map(fact));
        let rows = || self.quantities.iter().chain(&self.rails);
        // Grades are named only where there are several.
        let first_grade = rows().find_map(|row| row.grade);
        let is_mixed = rows().any(|row| row.grade.is_some() && row.grade != first_grade);
        table.extend(rows().map(|row| cells(row, is_mixed)));
        table.extend(self.places.iter().map(fact));
        table
    }
}

impl RunName {
    fn of(report: &Report, name: String) -> Self {
        let straggler = report.traffic.straggler.as_ref();
        Self {
            cluster: report.job.cluster.clone(),
            id: report.job.id.clone(),
            run: report.job.run,
            name,
            cause: report.summary.cause.text.clone(),
            stands_out: straggler.map(|s| format!("{} {}", s.host, s.text)),
        }
    }
}

fn cells(row: &Row, with_grade: bool) -> Vec<String> {
    let value = |value: Option<f64>| value.map_or_else(|| "not measured".to_owned(), |v| words::value(v, row.unit));
    let name = match row.grade.filter(|_| with_grade) {
        Some(grade) => format!("{} ({})", row.name, grade.text()),
        None => row.name.clone(),
    };
    let change = match (row.change, row.verdict) {
        (_, Verdict::NotCompared) => String::new(),
        (Some(share), _) => words::change(share),
        (None, _) => "from nothing".to_owned(),
    };
    let verdict = match row.verdict {
        Verdict::Alike => "alike",
        Verdict::Better => "better",
        Verdict::Worse => "worse",
        Verdict::Differs => "different",
        Verdict::NotCompared => "",
    };
    [name, value(row.a), value(row.b), change, verdict.to_owned()].map(|cell| printable(&cell)).to_vec()
}
