//! Alert rules for Prometheus, vmalert and Mimir, with test cases for promtool: a function each in `congestion`, `losses`,
//! `links`, `settings`, `kernel_log` and `own`.
//!
//! The conditions are those of the detectors, as far as PromQL can express them. `cargo xtask dashboards` writes the files.

mod congestion;
mod kernel_log;
mod links;
mod losses;
mod own;
mod settings;
#[cfg(test)]
mod tests;

use crate::dashboards::common::{BY, errors_grown, grown, of_port_over as rate, paused_over, rdma_sent_over};
use std::fmt::Write as _;
use std::path::PathBuf;

/// Default base URL of the runbooks; `cargo xtask dashboards --runbooks` replaces it.
pub const RUNBOOKS: &str = "https://fabriclens.example/runbooks";
/// Header of the generated files.
const HEAD: &str = "# Written by `cargo xtask dashboards`; change xtask/src/alerts, not this file.\n";

/// The port of the test cases.
const PORT: &str = r#"host="h1",device="mlx5_0",port="1""#;

/// Severity of an alert.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Severity {
    /// Needs attention today.
    Warning,
    /// Needs attention now: jobs suffer, or data is lost.
    Critical,
}

impl Severity {
    fn text(self) -> &'static str {
        match self {
            Self::Warning => "warning",
            Self::Critical => "critical",
        }
    }
}

/// One rule.
pub struct Alert {
    pub name: &'static str,
    pub severity: Severity,
    /// Duration for which the condition must hold (`for`).
    pub hold: &'static str,
    pub expr: String,
    /// One line, with the labels of the location.
    pub summary: &'static str,
    /// Meaning and first action.
    pub description: &'static str,
    pub cases: Vec<Case>,
}

/// A test case: series and the expected alerts.
pub struct Case {
    /// Interval of the values.
    pub every: &'static str,
    /// Series with values, in promtool's notation.
    pub series: Vec<(&'static str, &'static str)>,
    pub at: &'static str,
    /// Labels of the alerts that fire; empty if none does.
    pub fires: Vec<&'static str>,
    /// Evaluates every five minutes instead of 15 s, for cases that last hours.
    pub slow: bool,
}

fn fires(at: &'static str, labels: &[&'static str], series: &[(&'static str, &'static str)]) -> Case {
    Case { every: "15s", series: series.to_vec(), at, fires: labels.to_vec(), slow: false }
}

fn silent(at: &'static str, series: &[(&'static str, &'static str)]) -> Case {
    fires(at, &[], series)
}

impl Case {
    fn every(self, every: &'static str) -> Self {
        Self { every, slow: true, ..self }
    }

    fn slow(self) -> Self {
        Self { slow: true, ..self }
    }
}

/// Maximum of a gauge by port.
fn port(gauge: &str) -> String {
    format!("max by ({BY}) ({gauge})")
}

/// Share of time paused, of the priority that was paused longest.
fn paused(direction: &str, window: &str) -> String {
    paused_over(&format!("direction=\"{direction}\""), window)
}

/// Line rate.
fn line() -> String {
    port("fabric_port_rate_bytes_per_second")
}

/// Name of an alert's runbook: `pfc-storm` for `FabricPfcStorm`.
pub fn runbook(name: &str) -> String {
    let short = name.strip_prefix("Fabriclens").or_else(|| name.strip_prefix("Fabric")).unwrap_or(name);
    let mut out = String::new();
    for c in short.chars() {
        if c.is_ascii_uppercase() && !out.is_empty() {
            out.push('-');
        }
        out.push(c.to_ascii_lowercase());
    }
    out
}

/// Rule groups: name, interval, rules.
pub fn groups() -> Vec<(&'static str, &'static str, Vec<Alert>)> {
    vec![
        ("fabriclens-congestion", "15s", congestion::rules().into_iter().chain(losses::rules()).collect()),
        (
            "fabriclens-links",
            "30s",
            links::rules().into_iter().chain(settings::rules()).chain(kernel_log::rules()).collect(),
        ),
        ("fabriclens-own", "30s", own::rules()),
    ]
}

/// Every generated file: path and content.
pub fn files() -> Vec<(PathBuf, String)> {
    let at = |name: &str| PathBuf::from("dashboards/alerts").join(name);
    let rules = rules();
    vec![
        (at("fabriclens.rules.yml"), format!("{HEAD}# Prometheus and vmalert.\n{rules}")),
        (
            at("mimir.rules.yml"),
            format!("{HEAD}# Mimir: `mimirtool rules load mimir.rules.yml`.\nnamespace: fabriclens\n{rules}"),
        ),
        (PathBuf::from("deploy/kubernetes/prometheus-rule.yaml"), prometheus_rule(&rules)),
        (at("fast.test.yml"), format!("{HEAD}# `promtool test rules fast.test.yml`.\n{}", tests("15s", |c| !c.slow))),
        // Rules over hours are evaluated less often, so that the test does not take minutes.
        (at("slow.test.yml"), format!("{HEAD}# `promtool test rules slow.test.yml`.\n{}", tests("5m", |c| c.slow))),
    ]
}

/// A YAML string in double quotes, which has JSON's syntax.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

fn rules() -> String {
    let mut out = String::from("groups:\n");
    for (group, every, alerts) in groups() {
        let _ = write!(out, "  - name: {group}\n    interval: {every}\n    rules:\n");
        for a in alerts {
            let expr = a.expr.trim().replace('\n', "\n          ");
            let _ = write!(
                out,
                "      - alert: {}\n        expr: |-\n          {expr}\n        for: {}\n        labels:\n          severity: {}\n        \
                 annotations:\n          summary: {}\n          description: {}\n          runbook_url: {RUNBOOKS}/{}.md\n",
                a.name,
                a.hold,
                a.severity.text(),
                quoted(a.summary),
                quoted(a.description),
                runbook(a.name),
            );
        }
    }
    out
}

/// `PrometheusRule` for the Prometheus operator, in addition to the chart's manifests.
fn prometheus_rule(rules: &str) -> String {
    let rules: String = rules.lines().map(|line| format!("  {line}\n")).collect();
    format!(
        "{HEAD}# `kubectl apply -f prometheus-rule.yaml`; give it the labels by which your Prometheus finds rules.\n\
         apiVersion: monitoring.coreos.com/v1\nkind: PrometheusRule\nmetadata:\n  name: fabriclens\n  namespace: fabriclens\n\
         \x20 labels:\n    app.kubernetes.io/name: fabriclens\nspec:\n{rules}"
    )
}

fn tests(judged: &str, which: fn(&Case) -> bool) -> String {
    let mut out = format!("rule_files: [fabriclens.rules.yml]\nevaluation_interval: {judged}\ntests:\n");
    for a in groups().into_iter().flat_map(|g| g.2) {
        for case in a.cases.iter().filter(|c| which(c)) {
            let verb = if case.fires.is_empty() { "is silent" } else { "fires" };
            let _ = write!(out, "  - name: {} {verb}\n    interval: {}\n    input_series:\n", a.name, case.every);
            for (series, values) in &case.series {
                let _ = writeln!(out, "      - {{series: {}, values: {}}}", quoted(series), quoted(values));
            }
            let asked = format!("ALERTS{{alertname=\"{}\",alertstate=\"firing\"}}", a.name);
            let _ = write!(
                out,
                "    promql_expr_test:\n      - expr: {}\n        eval_time: {}\n        exp_samples:{}\n",
                quoted(&asked),
                case.at,
                if case.fires.is_empty() { " []" } else { "" },
            );
            for labels in &case.fires {
                let comma = if labels.is_empty() { "" } else { "," };
                let severity = a.severity.text();
                let all = format!(
                    "ALERTS{{alertname=\"{}\",alertstate=\"firing\",severity=\"{severity}\"{comma}{labels}}}",
                    a.name
                );
                let _ = writeln!(out, "          - {{labels: {}, value: 1}}", quoted(&all));
            }
        }
    }
    out
}
