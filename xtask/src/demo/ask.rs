//! Queries the collector and prints the answers, PromQL as a bar chart.

use anyhow::{Context, Result};
use serde_json::Value;

/// One row of an instant vector.
pub struct Row {
    pub labels: Value,
    pub value: f64,
}

/// Runs an instant query.
pub fn query(url: &str, promql: &str) -> Result<Vec<Row>> {
    let mut answer = ureq::get(format!("{url}/api/v1/query"))
        .query("query", promql)
        .call()
        .with_context(|| format!("ask {promql}"))?;
    let body: Value = serde_json::from_str(&answer.body_mut().read_to_string()?)?;
    let rows = body["data"]["result"].as_array().cloned().unwrap_or_default();
    Ok(rows
        .into_iter()
        .filter_map(|r| {
            let value = r["value"][1].as_str()?.parse().ok()?;
            Some(Row { labels: r["metric"].clone(), value })
        })
        .collect())
}

/// Link to the console with this query.
pub fn link(url: &str, promql: &str) -> String {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-_.~()*,:".contains(&b);
    let byte = |b: u8| if plain(b) { char::from(b).to_string() } else { format!("%{b:02X}") };
    format!("{url}/explore?q={}", promql.bytes().map(byte).collect::<String>())
}

/// Prints the five largest rows with bars, values scaled to `unit`.
pub fn show(url: &str, promql: &str, scale: f64, unit: &str) -> Result<Vec<Row>> {
    let mut rows = query(url, promql)?;
    rows.sort_by(|a, b| b.value.total_cmp(&a.value));
    println!("     {promql}");
    if rows.is_empty() {
        println!("       (no series)");
    }
    let top = rows.first().map_or(1.0, |r| r.value.max(1e-9));
    for row in rows.iter().take(5) {
        let text = |label: &str| row.labels[label].as_str().unwrap_or("").to_owned();
        let bar = "█".repeat(((row.value / top) * 24.0).round().max(0.0) as usize);
        // Ports of switches have no device.
        let port = if row.labels["device"].is_null() { "port" } else { "device" };
        let who = ["host", port, "job_name"].map(text).join(" ");
        println!("       {:<20} {:>9.1} {unit:<6} {bar}", who.trim(), row.value * scale);
    }
    Ok(rows)
}

/// Prints the open incidents, or all.
pub fn verdicts(url: &str, open: bool) -> Result<()> {
    let state = if open { "?state=open" } else { "" };
    let mut answer = ureq::get(format!("{url}/api/v1/incidents{state}")).call().context("ask for incidents")?;
    let body: Value = serde_json::from_str(&answer.body_mut().read_to_string()?)?;
    let incidents = body["incidents"].as_array().cloned().unwrap_or_default();
    println!("   incidents ({url}/incidents):");
    if incidents.is_empty() {
        println!("       no incident");
    }
    for one in incidents.iter().rev() {
        let text = |key: &str| one[key].as_str().unwrap_or_default().to_owned();
        let jobs = |key: &str| {
            let ids: Vec<&str> = one[key].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
            if ids.is_empty() { "no job".to_owned() } else { ids.join(", ") }
        };
        let seconds =
            |to: &str| one[to].as_i64().zip(one["start_ns"].as_i64()).map(|(to, from)| (to - from) / 100_000_000);
        let tenths = |t: Option<i64>| t.map_or("?".to_owned(), |t| format!("{}.{} s", t / 10, t % 10));
        let end = seconds("end_ns").map_or("still open".to_owned(), |t| format!("ended after {}", tenths(Some(t))));
        let sure = one["confidence"].as_f64().unwrap_or(f64::NAN) * 100.0;
        println!(
            "       {} (confidence {sure:.0} %), detected after {}, {end}",
            text("kind"),
            tenths(seconds("detected_ns"))
        );
        println!("         {}", text("explanation"));
        println!("         culprits: {}; victims: {}", jobs("culprit_jobs"), jobs("victim_jobs"));
        println!("         action: {}", text("action"));
    }
    Ok(())
}
