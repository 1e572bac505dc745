//! Tables of `bench store`: a row per figure, a column per server, and the ratio of ours to the better of the others.

use super::{Figures, Kind};
use crate::bench::judged;
use anyhow::{Context, Result, ensure};
use serde_json::Value;

const MB: f64 = 1e6;

/// Goal of one of our figures.
enum Goal {
    None,
    /// At most this share of VictoriaMetrics' figure.
    OfVictoriaMetrics(f64),
    /// At most this value.
    Most(f64),
    /// Less than both others.
    Least,
}

/// Prints the costs of ingest, disk and start.
///
/// # Errors
/// When the servers got different samples.
pub fn print(figures: &[Figures]) -> Result<()> {
    let first = figures.first().context("nothing was measured")?;
    let same = |f: &Figures| (f.sent.checksum, f.sent.samples) == (first.sent.checksum, first.sent.samples);
    ensure!(figures.iter().all(same), "servers were not sent the same bytes");
    let sent = &first.sent;
    println!(
        "\n{} samples over {} s in {} requests of {:.0} kB (snappy), the same bytes to each (CRC-32 {:08x})",
        sent.samples,
        sent.ticks,
        sent.requests,
        sent.bytes as f64 / sent.requests as f64 / 1e3,
        sent.checksum
    );
    head("");
    let row = |name: &str, unit: &str, goal: Goal, of: &dyn Fn(&Figures) -> f64| {
        line(name, unit, goal, &figures.iter().map(|f| Some(of(f))).collect::<Vec<_>>());
    };
    let samples = sent.samples as f64;
    row("CPU per sample, ingest", "µs", Goal::OfVictoriaMetrics(0.25), &|f| {
        f.ingest_cpu.as_secs_f64() * 1e6 / samples
    });
    row("CPU per sample, with flush and merge", "µs", Goal::None, &|f| {
        (f.ingest_cpu + f.flush_cpu).as_secs_f64() * 1e6 / samples
    });
    row("wall time of ingest", "s", Goal::None, &|f| f.sent.seconds);
    row("requests refused at first", "", Goal::None, &|f| f.sent.retries as f64);
    row("disk after flush and merge, per sample", "B", Goal::Most(0.30), &|f| f.disk as f64 / samples);
    row("disk after ingest with logs, per sample", "B", Goal::None, &|f| f.disk_early as f64 / samples);
    row("RSS after ingest", "MB", Goal::None, &|f| f.size.rss as f64 / MB);
    row("RSS, most", "MB", Goal::None, &|f| f.size.peak as f64 / MB);
    row("start after kill -9, until it answers", "s", Goal::Most(2.0), &|f| f.start_s);
    Ok(())
}

/// Prints the costs of OTLP ingest, compared with remote write of the same number of samples.
///
/// # Errors
/// When the number of samples differs.
pub fn otlp(rivals: &[Figures], otlp: &Figures) -> Result<()> {
    let [_, victoria, prometheus] = rivals else { anyhow::bail!("three servers were expected") };
    let sent = &otlp.sent;
    ensure!(sent.samples == victoria.sent.samples, "OTLP carried another number of samples");
    println!(
        "\nthe same samples as agents send them: OTLP/gRPC, zstd, {} requests of {:.1} kB; rivals as above",
        sent.requests,
        sent.bytes as f64 / sent.requests as f64 / 1e3
    );
    head("");
    let samples = sent.samples as f64;
    let row = |name: &str, unit: &str, goal: Goal, of: &dyn Fn(&Figures) -> f64| {
        line(name, unit, goal, &[otlp, victoria, prometheus].map(|f| Some(of(f))));
    };
    row("CPU per sample, ingest", "µs", Goal::OfVictoriaMetrics(0.15), &|f| {
        f.ingest_cpu.as_secs_f64() * 1e6 / samples
    });
    row("wall time of ingest", "s", Goal::None, &|f| f.sent.seconds);
    row("disk after flush and merge, per sample", "B", Goal::Most(0.30), &|f| f.disk as f64 / samples);
    row("RSS, most", "MB", Goal::None, &|f| f.size.peak as f64 / MB);
    Ok(())
}

/// Prints the latency of each query, cold and warm.
///
/// # Errors
/// When the sender's report has no queries.
pub fn questions(cold: &[Value], warm: &Value) -> Result<()> {
    let list = |v: &Value| v["questions"].as_array().cloned().context("no questions");
    let colds = cold.iter().map(list).collect::<Result<Vec<_>>>()?;
    let questions = list(warm)?;
    let ms = |question: &Value, kind: Kind| question["servers"][kind.name()]["ms"].as_array().cloned();
    let median = |question: &Value, kind: Kind| {
        let mut ms: Vec<f64> = ms(question, kind)?.iter().filter_map(Value::as_f64).collect();
        ms.sort_by(f64::total_cmp);
        ms.get(ms.len() / 2).copied()
    };
    head("warm, median");
    for q in &questions {
        line(&label(q), "ms", Goal::Least, &Kind::ALL.map(|k| median(q, k)));
    }
    head("cold, once");
    for (i, q) in questions.iter().enumerate() {
        let once = |(k, cold): (Kind, &Vec<Value>)| median(cold.get(i)?, k);
        line(&label(q), "ms", Goal::Least, &Kind::ALL.into_iter().zip(&colds).map(once).collect::<Vec<_>>());
    }
    let same = warm["same"].as_f64().unwrap_or(0.0);
    println!("\nanswers, largest relative difference to ours (up to {same:e} is rounding):");
    for q in &questions {
        let off = |k: Kind| match q["servers"][k.name()]["difference"].as_f64() {
            Some(d) if d <= same => format!("{} the same", k.name()),
            Some(d) => format!("{} DIFFERS by {d:.1e}", k.name()),
            None => format!("{} DIFFERS in series or times", k.name()),
        };
        println!("{:<42}{}", label(q), Kind::ALL[1..].iter().map(|k| off(*k)).collect::<Vec<_>>().join(", "));
        println!("    {}", q["promql"].as_str().unwrap_or_default());
    }
    Ok(())
}

fn label(question: &Value) -> String {
    let kind = if question["range"].as_bool() == Some(true) { " (graph)" } else { "" };
    format!("{}{kind}", question["name"].as_str().unwrap_or_default())
}

fn head(what: &str) {
    let names = Kind::ALL.map(|k| format!("{:>20}", k.name())).concat();
    println!("\n{what:<42}{names}{:>16}  goal", "of better rival");
}

fn line(name: &str, unit: &str, goal: Goal, values: &[Option<f64>]) {
    let text = |v: &Option<f64>| match v {
        Some(v) => format!("{:>17} {unit:<2}", number(*v)),
        None => format!("{:>20}", "-"),
    };
    let cells: String = values.iter().map(text).collect();
    let [ours, rivals @ ..] = values else { return };
    let better = rivals.iter().flatten().copied().fold(f64::INFINITY, f64::min);
    let ratio = ours.filter(|_| better.is_finite() && better > 0.0).map(|o| o / better);
    let ratio = ratio.map_or("-".into(), |r| format!("{r:.2}"));
    let verdict = match (goal, ours, rivals.first().copied().flatten()) {
        (Goal::OfVictoriaMetrics(share), Some(o), Some(v)) => {
            format!("{share} of {}: {}", Kind::VictoriaMetrics.name(), judged(*o <= share * v))
        }
        (Goal::Most(most), Some(o), _) => format!("{most} {unit}: {}", judged(*o <= most)),
        (Goal::Least, Some(o), _) => format!("less than both: {}", judged(*o < better)),
        _ => String::new(),
    };
    println!("{name:<42}{cells}{ratio:>16}  {verdict}");
}

/// Three significant digits.
fn number(v: f64) -> String {
    match v.abs() {
        a if a >= 100.0 || v == 0.0 => format!("{v:.0}"),
        a if a >= 10.0 => format!("{v:.1}"),
        a if a >= 1.0 => format!("{v:.2}"),
        _ => format!("{v:.3}"),
    }
}
