//! Asks a server every panel's question, with everything chosen: which panels have something to show there?

use super::json::asks;
use super::panel::{Dashboard, Var, View};
use anyhow::{Context, Result};
use serde_json::Value;
use std::time::{SystemTime, UNIX_EPOCH};

/// How far back is looked, and in which steps; seconds.
const BACK: u64 = 1800;
const STEP: u64 = 15;

/// Puts values in the place of Grafana's variables.
pub fn filled(expr: &str, job: &str) -> String {
    expr.replace("$__rate_interval", "1m")
        .replace("$__range", "30m")
        .replace("$job", job)
        .replace("$leaf", ".*")
        .replace("$host", ".*")
        .replace("$device", ".*")
        .replace("$incident", ".*")
}

fn get(url: &str, path: &str, query: &[(&str, String)]) -> Result<Value> {
    let mut request = ureq::get(format!("{url}{path}")).config().http_status_as_error(false).build();
    for (name, value) in query {
        request = request.query(*name, value);
    }
    let text = request.call().with_context(|| format!("ask {url}{path}"))?.body_mut().read_to_string()?;
    serde_json::from_str(&text).with_context(|| format!("read the answer of {path}: {text:.200}"))
}

/// `label_values(selector, label)` as Grafana asks it.
fn label_values(url: &str, question: &str, job: &str) -> Result<Value> {
    let inner = question.trim_start_matches("label_values(").trim_end_matches(')');
    let (selector, label) = inner.rsplit_once(", ").context("label_values(selector, label)")?;
    get(url, &format!("/api/v1/label/{label}/values"), &[("match[]", filled(selector, job))])
}

/// Prints a line for each panel without an answer; an error if a question fails.
pub fn run(url: &str, all: &[Dashboard]) -> Result<()> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
    let jobs = label_values(url, &asks(Var::Job, &[]).2, "")?;
    let job = jobs["data"][0].as_str().unwrap_or_default().to_owned();
    let (mut asked, mut failed) = (0, Vec::new());
    for one in all {
        let (mut full, mut empty) = (0, Vec::new());
        for var in &one.vars {
            let (name, _, question) = asks(*var, &one.vars);
            let n = label_values(url, &question, &job)?["data"].as_array().map_or(0, Vec::len);
            println!("{:<10} ${name}: {n} values", one.name);
        }
        for p in one.rows.iter().flat_map(|r| &r.panels) {
            let mut rows = 0;
            for q in &p.queries {
                let expr = filled(&q.expr, &job);
                let answer = if matches!(p.view, View::Table | View::Bars) {
                    get(url, "/api/v1/query", &[("query", expr.clone()), ("time", now.to_string())])?
                } else {
                    let time =
                        [("start", (now - BACK).to_string()), ("end", now.to_string()), ("step", STEP.to_string())];
                    get(url, "/api/v1/query_range", &[&[("query", expr.clone())], &time[..]].concat())?
                };
                asked += 1;
                if answer["status"] != "success" {
                    failed.push(format!("{} / {}: {}\n    {expr}", one.name, p.title, answer["error"]));
                }
                rows += answer["data"]["result"].as_array().map_or(0, Vec::len);
            }
            if rows > 0 {
                full += 1;
            } else {
                empty.push(format!("{}{}", p.title, if p.quiet { " (quiet when all is well)" } else { "" }));
            }
        }
        println!("{:<10} {full} panels with data, {} without", one.name, empty.len());
        empty.iter().for_each(|title| println!("             none: {title}"));
    }
    println!("{asked} questions asked, {} failed", failed.len());
    anyhow::ensure!(failed.is_empty(), "{}", failed.join("\n"));
    Ok(())
}
