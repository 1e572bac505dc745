//! Alert rules for Prometheus, vmalert and Mimir, with the cases that prove them; a row each in
//! `congestion`, `links` and `own`.
//!
//! The conditions are those of the detectors, as far as PromQL can say them. `cargo xtask dashboards` writes the files.

mod congestion;
mod links;
mod own;
#[cfg(test)]
mod tests;

use crate::dashboards::common::{BY, errors_grown, grown, of_port_over as rate, paused_over, rdma_sent_over};
use std::fmt::Write as _;
use std::path::PathBuf;

/// Where runbooks are read, until somebody puts the own address in (`cargo xtask dashboards --runbooks`).
pub const RUNBOOKS: &str = "https://fabriclens.example/runbooks";
/// Who wrote the files.
const HEAD: &str = "# Written by `cargo xtask dashboards`; change xtask/src/alerts, not this file.\n";

/// That port in the cases.
const PORT: &str = r#"host="h1",device="mlx5_0",port="1""#;

/// How bad.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Severity {
    /// Somebody should look today.
    Warning,
    /// Somebody should look now: jobs suffer, or data is lost.
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
    /// How long it must hold.
    pub hold: &'static str,
    pub expr: String,
    /// One line, with the labels that say where.
    pub summary: &'static str,
    /// What it means and the first thing to do.
    pub says: &'static str,
    pub cases: Vec<Case>,
}

/// Series, and what comes of them.
pub struct Case {
    /// Time between values.
    pub every: &'static str,
    /// In promtool's notation.
    pub series: Vec<(&'static str, &'static str)>,
    pub at: &'static str,
    /// Labels of the alerts that fire; none: it is silent.
    pub fires: Vec<&'static str>,
    /// Judged each five minutes and not each 15 s: for those that last hours.
    pub seldom: bool,
}

fn fires(at: &'static str, labels: &[&'static str], series: &[(&'static str, &'static str)]) -> Case {
    Case { every: "15s", series: series.to_vec(), at, fires: labels.to_vec(), seldom: false }
}

fn silent(at: &'static str, series: &[(&'static str, &'static str)]) -> Case {
    fires(at, &[], series)
}

impl Case {
    fn every(self, every: &'static str) -> Self {
        Self { every, seldom: true, ..self }
    }

    fn seldom(self) -> Self {
        Self { seldom: true, ..self }
    }
}

/// Highest of a gauge, by port.
fn port(gauge: &str) -> String {
    format!("max by ({BY}) ({gauge})")
}

/// Share of time paused by the priority that was paused longest.
fn paused(direction: &str, window: &str) -> String {
    paused_over(&format!("direction=\"{direction}\""), window)
}

/// Line rate.
fn line() -> String {
    port("fabric_port_rate_bytes_per_second")
}

/// `FabricPfcStorm` to `pfc-storm`: the name of its runbook.
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

/// Groups of rules: name, how often, rules.
pub fn groups() -> Vec<(&'static str, &'static str, Vec<Alert>)> {
    vec![
        ("fabriclens-congestion", "15s", congestion::rules()),
        ("fabriclens-links", "30s", links::rules()),
        ("fabriclens-own", "30s", own::rules()),
    ]
}

/// Every file and what is in it.
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
        (at("fast.test.yml"), format!("{HEAD}# `promtool test rules fast.test.yml`.\n{}", tests("15s", |c| !c.seldom))),
        // Rules over hours: judged seldom, so that it does not take minutes.
        (at("slow.test.yml"), format!("{HEAD}# `promtool test rules slow.test.yml`.\n{}", tests("5m", |c| c.seldom))),
    ]
}

/// A text as YAML has it in double quotes, which is as JSON has it.
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
                quoted(a.says),
                runbook(a.name),
            );
        }
    }
    out
}

/// For the Prometheus operator, beside the manifests that the chart gives.
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
