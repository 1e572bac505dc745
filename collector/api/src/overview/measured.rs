//! The part of the overview that is read from samples: hosts, ports, traffic of jobs that suffer.

use fabriclens_core::newest_signals::SignalTable;
use fabriclens_model::Budget as _;
use fabriclens_promql::{QueryError, Value as Values};
use serde_json::{Value, json};

use super::LISTED;
use super::incidents::SufferingJob;
use crate::encode::Json;
use crate::incidents::escape_pattern;
use crate::port_signals::{PortSignal, PortValues, SIGNALS, snapshot};
use crate::query::QueryContext;

/// Ports of each list.
const HOTTEST: usize = 5;
/// Hosts whose traffic stands for that of a job.
const HOSTS: usize = 256;
/// Memory of the answer, bytes.
const BYTES: usize = 64 << 10;
/// Series of every agent.
const HEARD: &str = "fabriclens_agent_start_time_seconds";
/// Age of the last sample of an agent that counts as silent, s; as in the alert `FabriclensAgentMissing`.
const SILENT_S: f64 = 60.0;
/// Time before an incident that shows the usual traffic of a job ends this long before the incident, ms: its start is known to some
/// seconds.
const BEFORE_MS: i64 = 20_000;

/// Reads everything at `now_ms`.
///
/// # Errors
/// [`QueryError`] of the first query that fails.
pub(super) fn read(
    context: &QueryContext<'_>,
    present: Option<&SignalTable>,
    suffering: &[SufferingJob],
    now_ms: i64,
) -> Result<Json, QueryError> {
    context.budget.request(BYTES)?;
    let asked: Vec<&PortSignal> = SIGNALS.iter().collect();
    let ports = snapshot(context, present, &asked, now_ms)?;
    let jobs = suffering.iter().map(|job| traffic(context, job, now_ms)).collect::<Result<Vec<_>, _>>()?;
    let measured = json!({
        "time": now_ms as f64 / 1000.0,
        "hosts": hosts(context, now_ms)?,
        "ports": { "known": ports.len(), "up": up(&ports), "hottest": hottest(&ports) },
        "suffering": jobs,
        "warnings": context.data.missing(),
    });
    Ok(Json(measured.to_string()))
}

/// The value of each series of a query, with its host.
fn by_host(context: &QueryContext<'_>, query: &str, at_ms: i64) -> Result<Vec<(String, f64)>, QueryError> {
    let outcome = context.engine.instant_cancellable(context.data.reader(), query, at_ms, context.budget.cancel)?;
    let Values::Vector(samples) = outcome.value else { return Ok(Vec::new()) };
    Ok(samples.iter().map(|sample| (sample.labels.get("host").to_owned(), sample.value)).collect())
}

/// Hosts with an agent, and those whose agent sent samples within six hours but none in the last minute.
fn hosts(context: &QueryContext<'_>, now_ms: i64) -> Result<Value, QueryError> {
    let recent = by_host(context, &format!("max by (host) (time() - timestamp({HEARD}))"), now_ms)?;
    let gone = format!("max by (host) (time() - max_over_time(timestamp({HEARD})[6h:5m])) unless on (host) {HEARD}");
    let gone = by_host(context, &gone, now_ms)?;
    let reporting = recent.iter().filter(|(_, age)| *age <= SILENT_S).count();
    let mut silent: Vec<&(String, f64)> = recent.iter().chain(&gone).filter(|(_, age)| *age > SILENT_S).collect();
    silent.sort_by(|a, b| a.1.total_cmp(&b.1).then_with(|| a.0.cmp(&b.0)));
    let names = silent.iter().take(LISTED).map(|(host, age)| json!({ "host": host, "silent_s": age.round() }));
    Ok(json!({ "reporting": reporting, "silent": silent.len(), "names": names.collect::<Vec<_>>() }))
}

/// Ports that are up, and all whose state is known.
fn up(ports: &PortValues) -> Value {
    let at = SIGNALS.iter().position(|signal| signal.name == "up").unwrap_or_default();
    let known = ports.values().map(|values| values[at]).filter(|value| value.is_finite());
    let (up, all) = known.fold((0, 0), |(up, all), value| (up + usize::from(value > 0.0), all + 1));
    json!({ "up": up, "of": all })
}

/// The highest values of each signal, without zeros.
fn hottest(ports: &PortValues) -> Value {
    let of = |(at, signal): (usize, &PortSignal)| {
        let mut all: Vec<_> = ports.iter().filter(|(_, values)| values[at] > 0.0).collect();
        let higher = |a: &(_, &Vec<f64>), b: &(_, &Vec<f64>)| b.1[at].total_cmp(&a.1[at]);
        if all.len() > HOTTEST {
            all.select_nth_unstable_by(HOTTEST, higher);
            all.truncate(HOTTEST);
        }
        all.sort_by(higher);
        let list = all.iter().map(|((node, port), values)| json!({ "node": node, "port": port, "value": values[at] }));
        json!({ "name": signal.name, "unit": signal.unit, "ports": list.collect::<Vec<_>>() })
    };
    SIGNALS.iter().enumerate().filter(|(_, signal)| signal.name != "up").map(of).collect()
}

/// What the hosts of a job send now, and what they sent before the job's first open incident.
fn traffic(context: &QueryContext<'_>, job: &SufferingJob, now_ms: i64) -> Result<Value, QueryError> {
    let hosts: Vec<String> = job.hosts.iter().take(HOSTS).map(|host| escape_pattern(host)).collect();
    let matcher = format!("direction=\"transmit\",host=~\"{}\"", hosts.join("|"));
    let sent = |window: &str, at_ms| -> Result<Option<f64>, QueryError> {
        let query = format!("sum(rate(fabric_port_io_bytes_total{{{matcher}}}[{window}]))");
        Ok(by_host(context, &query, at_ms)?.first().map(|(_, value)| *value))
    };
    let (now, before) = match hosts.is_empty() {
        true => (None, None),
        false => (sent("15s", now_ms)?, sent("1m", job.since_ms - BEFORE_MS)?),
    };
    Ok(json!({
        "cluster": job.cluster,
        "id": job.id,
        "name": job.name,
        "user": job.user,
        "hosts": job.hosts.len(),
        "measured_hosts": hosts.len(),
        "incidents": job.incidents,
        "since_ms": job.since_ms,
        "bytes_per_second": now,
        "bytes_per_second_before": before,
    }))
}
