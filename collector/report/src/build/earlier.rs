//! Earlier jobs to compare with: what the network cost them, and how fast their collectives were.

use super::collectives::{SLOWER, earlier_run};
use super::ports::{Aggregation, figure};
use super::{ReportContext, attributed, cost, rollup};
use crate::model::{Cost, Earlier, Grade, Operation, Point, Report, Severity, Summary, Unit};
use crate::render::words::{percent, value};
use fabriclens_jobs::Job;
use fabriclens_promql::QueryError;

/// Maximum number of earlier jobs to compare with.
const LISTED: usize = 5;

/// The latest jobs of this user with as many hosts that ended before this job began. `main` is the operation of this job with the
/// most time.
pub(super) fn earlier(
    context: &ReportContext<'_>,
    main: Option<&Operation>,
    others: &[Job],
    now_ns: i64,
) -> Result<Vec<Earlier>, QueryError> {
    let job = context.job;
    let fits = |o: &&Job| {
        let over = o.end_ns.is_some_and(|end| end <= job.start_ns.saturating_add(5_000_000_000) && end <= now_ns);
        over && !job.user.is_empty() && o.user == job.user && o.hosts.len() == job.hosts.len()
    };
    let mut before: Vec<&Job> = others.iter().filter(fits).collect();
    before.sort_by_key(|o| std::cmp::Reverse(o.start_ns));
    before.into_iter().take(LISTED).map(|o| one(context, main, o)).collect()
}

fn one(context: &ReportContext<'_>, main: Option<&Operation>, job: &Job) -> Result<Earlier, QueryError> {
    let (start, end) = (job.start_ns / 1_000_000, job.end_ns.unwrap_or(0) / 1_000_000);
    let range = format!("[{}ms]", (end - start).max(1000));
    let ask =
        |aggregate: &str, over: &str, metric: &str, direction: &str| -> Result<Vec<(Grade, Option<f64>)>, QueryError> {
            let selector = rollup(job, metric, &format!("direction=\"{direction}\""));
            let found =
                context.source.ask(&format!("{aggregate} by (attribution) ({over}({selector}{range}))"), end)?;
            Ok(found.iter().map(|s| (attributed(&s.labels), Some(s.value))).collect())
        };
    // Another program of the user may call the same operation for other data.
    let main = main.filter(|_| !job.name.is_empty() && job.name == context.job.name);
    Ok(Earlier {
        id: job.id.clone(),
        run: job.run,
        name: job.name.clone(),
        seconds: (end - start) as f64 / 1000.0,
        transmitted: figure(
            Unit::Bytes,
            Aggregation::Sum,
            ask("sum", "max_over_time", "fabric_job_io_bytes_total", "transmit")?,
        ),
        paused: figure(
            Unit::Ratio,
            Aggregation::Most,
            ask("max", "avg_over_time", "fabric_job_pause_share_ratio", "receive")?,
        ),
        at_most_share: cost::earlier(&context.source, job, (start, end.max(start + 1000)))?,
        operation: main.map(|main| earlier_run::mean(context, main, job, end)).transpose()?.flatten(),
    })
}

/// What differs from earlier jobs, or does not.
pub(super) fn comparisons(report: &Report) -> impl Iterator<Item = Point> {
    let Summary { cost, earlier, .. } = &report.summary;
    [lost_time(cost, earlier), bandwidth(report.collectives.operations.first(), earlier)].into_iter().flatten()
}

/// Comparison of lost time with earlier jobs; `None` if there are none, or nothing was measured.
fn lost_time(cost: &Cost, earlier: &[Earlier]) -> Option<Point> {
    let seen: Vec<f64> = earlier.iter().filter_map(|e| e.at_most_share.largest()).collect();
    let own = cost.at_most_share.largest().filter(|_| !seen.is_empty())?;
    let usual = seen.iter().sum::<f64>() / seen.len() as f64;
    let (severity, word) = match own {
        own if own > 2.0 * usual + 0.005 => (Severity::Warning, "more than"),
        own if own * 2.0 + 0.005 < usual => (Severity::Good, "less than"),
        _ => (Severity::Good, "about as much as"),
    };
    let text = format!(
        "That is at most {} of its time, {word} in the {} before it of this user and size (at most {}).",
        percent(own),
        jobs(seen.len()),
        percent(usual)
    );
    Some(Point { severity, text })
}

/// Comparison of the bus bandwidth of the operation with the most time; `None` if it is not known of both.
fn bandwidth(main: Option<&Operation>, earlier: &[Earlier]) -> Option<Point> {
    let main = main?;
    let mut seen: Vec<f64> = earlier.iter().filter_map(|e| e.operation.as_ref()?.bandwidth).collect();
    let own = main.bandwidth.filter(|_| !seen.is_empty())?;
    seen.sort_by(f64::total_cmp);
    let usual = seen[seen.len() / 2];
    let (severity, word) = match own / usual {
        ratio if ratio < SLOWER => (Severity::Warning, "slower than"),
        ratio if ratio * SLOWER > 1.0 => (Severity::Good, "faster than"),
        _ => (Severity::Good, "about as fast as"),
    };
    let [own, usual] = [own, usual].map(|bytes| value(bytes, Unit::BytesPerSecond));
    let (operation, size) = (&main.operation, &main.size);
    let jobs = jobs(seen.len());
    let text = format!(
        "{operation} from {size} reached a bus bandwidth of {own}, {word} in the {jobs} before it of this user, name and size \
         ({usual})."
    );
    Some(Point { severity, text })
}

fn jobs(count: usize) -> String {
    if count == 1 { "job".to_owned() } else { format!("{count} jobs") }
}
