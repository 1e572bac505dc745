//! Runs every query of every panel on a server, with all variables set to everything, and lists those without a result.

use super::json::{INCIDENTS, variable};
use super::panel::{Dashboard, Panel, Query, Var};
use anyhow::{Context, Result};
use serde_json::Value;
use std::time::{SystemTime, UNIX_EPOCH};

/// Time range and step in seconds.
const BACK: u64 = 1800;
const STEP: u64 = 10;
/// Largest number of jobs that are tried for a query.
const JOBS: usize = 20;

/// Replaces Grafana's variables.
pub fn filled(expr: &str, job: &str) -> String {
    expr.replace("$__rate_interval", "1m")
        .replace("$__range", "30m")
        .replace("$job", job)
        .replace("$leaf", ".*")
        .replace("$host", ".*")
        .replace("$device", ".*")
        .replace("$incident", ".*")
        .replace("$switch", ".*")
}

fn get(url: &str, path: &str, query: &[(&str, String)]) -> Result<Value> {
    let mut request = ureq::get(format!("{url}{path}")).config().http_status_as_error(false).build();
    for (name, value) in query {
        request = request.query(*name, value);
    }
    let text = request.call().with_context(|| format!("ask {url}{path}"))?.body_mut().read_to_string()?;
    serde_json::from_str(&text).with_context(|| format!("read the answer of {path}: {text:.200}"))
}

/// Runs `label_values(selector, label)` as Grafana does.
fn label_values(url: &str, question: &str, job: &str) -> Result<Value> {
    let inner = question.trim_start_matches("label_values(").trim_end_matches(')');
    let (selector, label) = inner.rsplit_once(", ").context("label_values(selector, label)")?;
    get(url, &format!("/api/v1/label/{label}/values"), &[("match[]", filled(selector, job))])
}

/// Identity of a query: dashboard, panel title and legend.
pub type QueryId = (&'static str, &'static str, &'static str);

/// Every query of every panel.
pub fn queries(all: &[Dashboard]) -> impl Iterator<Item = (QueryId, &Panel, &Query)> {
    let panels =
        all.iter().flat_map(|one| one.rows.iter().flat_map(move |r| r.panels.iter().map(move |p| (one.name, p))));
    panels.flat_map(|(name, p)| p.queries.iter().map(move |q| ((name, p.title, q.legend), p, q)))
}

/// Queries without a result in the last half hour. Prints a summary per variable and dashboard, and with `each` these queries.
///
/// # Errors
/// When a query fails.
pub fn run(url: &str, all: &[Dashboard], each: bool) -> Result<Vec<QueryId>> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
    let answer = label_values(url, &variable(Var::Job, &[]).2, "")?;
    let jobs: Vec<&str> = answer["data"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let job = jobs.first().copied().unwrap_or_default();
    let time = [("start", (now - BACK).to_string()), ("end", now.to_string()), ("step", STEP.to_string())];
    // Some panels are empty for a healthy job: one job with a result is enough.
    let some = if jobs.is_empty() { &[""][..] } else { jobs.get(..JOBS).unwrap_or(&jobs) };
    let rows = |expr: &str| -> Result<Result<usize, String>> {
        let candidates = if expr.contains("$job") { some } else { &some[..1] };
        for job in candidates {
            let answer = get(url, "/api/v1/query_range", &[&[("query", filled(expr, job))], &time[..]].concat())?;
            match answer["data"]["result"].as_array().map(Vec::len) {
                Some(0) => {}
                Some(found) => return Ok(Ok(found)),
                None => return Ok(Err(format!("{}\n    {expr}", answer["error"]))),
            }
        }
        Ok(Ok(0))
    };
    let (mut empty, mut failed) = (Vec::new(), Vec::new());
    for one in all {
        for var in &one.vars {
            let (name, _, question) = variable(*var, &one.vars);
            let n = label_values(url, &question, job)?["data"].as_array().map_or(0, Vec::len);
            println!("{:<10} ${name}: {n} values", one.name);
        }
        let (mut count, mut none) = (0, Vec::new());
        for (place, panel, query) in queries(std::slice::from_ref(one)) {
            count += 1;
            match rows(&query.expr)? {
                Ok(0) => none.push((place, panel.empty_is_good)),
                Ok(_) => {}
                Err(error) => failed.push(format!("{place:?}: {error}")),
            }
        }
        println!("{:<10} {count} queries, {} without a result", one.name, none.len());
        for ((_, panel, series), good) in none.iter().filter(|_| each) {
            println!("             none: {panel}: {series}{}", if *good { " (empty on a healthy fabric)" } else { "" });
        }
        empty.extend(none.into_iter().map(|(place, _)| place));
    }
    if rows(INCIDENTS)? == Ok(0) {
        println!("no incident to annotate");
    }
    anyhow::ensure!(failed.is_empty(), "{} queries failed:\n{}", failed.len(), failed.join("\n"));
    Ok(empty)
}
