//! Tests that generated files are current, queries parse and name existing series, and links and thresholds are valid.

use super::json::{INCIDENTS, TAG, dashboard, variable};
use super::panel::View;
use super::{address, all, coverage, files};
use crate::alerts::RUNBOOKS;
use crate::steps::root;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

#[test]
fn committed_files_are_current() {
    let files = files(RUNBOOKS).unwrap();
    for (path, text) in &files {
        let is = std::fs::read_to_string(root().join(path)).unwrap_or_default();
        assert!(is == *text, "{} is not current; run cargo xtask dashboards", path.display());
    }
    // A renamed dashboard leaves no old file behind.
    let known: BTreeSet<_> = files.iter().map(|(path, _)| root().join(path)).collect();
    for dir in ["dashboards/grafana", "dashboards/alerts"] {
        for entry in std::fs::read_dir(root().join(dir)).unwrap() {
            let path = entry.unwrap().path();
            assert!(path.is_dir() || known.contains(&path), "{} has no source", path.display());
        }
    }
}

#[test]
fn runbook_links_use_the_given_address() {
    let own = address("https://wiki.example/fabric/").unwrap();
    let mut found = 0;
    for (path, text) in files(&own).unwrap() {
        assert!(!text.contains(RUNBOOKS), "{}", path.display());
        for link in text.lines().filter_map(|l| l.trim().strip_prefix("runbook_url: ")) {
            let page = link.strip_prefix("https://wiki.example/fabric/").unwrap();
            assert!(root().join("docs/runbooks").join(page).is_file(), "{link}");
            found += 1;
        }
    }
    let alerts = crate::alerts::groups().iter().map(|g| g.2.len()).sum::<usize>();
    assert_eq!(found, 3 * alerts, "for Prometheus, for Mimir, for its operator");
    assert!(address("wiki.example").is_err() && address("https://wiki .example").is_err());
}

/// Every query: its place and PromQL.
fn queries() -> Vec<(String, String)> {
    let mut out = vec![("annotations".to_owned(), INCIDENTS.to_owned())];
    for one in all() {
        for panel in one.rows.iter().flat_map(|r| &r.panels) {
            let of =
                |q: &super::panel::Query| (format!("{}: {}", one.name, panel.title), coverage::filled(&q.expr, "4711"));
            out.extend(panel.queries.iter().map(of));
        }
        for var in &one.vars {
            let question = variable(*var, &one.vars).2;
            let selector = question.trim_start_matches("label_values(").rsplit_once(", ").unwrap().0.to_owned();
            out.push((format!("{}: {var:?}", one.name), coverage::filled(&selector, "4711")));
        }
    }
    out
}

/// Series names in a text: words with our prefixes.
pub fn names(text: &str) -> BTreeSet<String> {
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let all = text.split(|c| !word(c)).filter(|w| w.starts_with("fabric_") || w.starts_with("fabriclens_"));
    all.map(str::to_owned).collect()
}

/// Whether agents (by the catalog) or the collector write a series of this name.
pub fn exists(name: &str) -> bool {
    let base = ["_bucket", "_sum", "_count"].iter().find_map(|s| name.strip_suffix(s)).unwrap_or(name);
    let catalog = fabriclens_catalog::metrics::all().any(|m| [name, base].contains(&m.prometheus_name().as_str()));
    catalog || collector_series().contains(base) || collector_series().contains(name)
}

/// Series that the collector writes: names in quotes in its sources.
fn collector_series() -> &'static BTreeSet<String> {
    static NAMES: std::sync::OnceLock<BTreeSet<String>> = std::sync::OnceLock::new();
    NAMES.get_or_init(|| {
        let sources = [
            "audit/src/series.rs",
            "core/src/forward_telemetry.rs",
            "core/src/gnmi_telemetry.rs",
            "core/src/judge_telemetry.rs",
            "core/src/probe_telemetry.rs",
            "core/src/reader_leases/mod.rs",
            "core/src/switch_list.rs",
            "core/src/telemetry.rs",
            "core/src/telemetry/declared.rs",
            "core/src/telemetry/observed.rs",
            "incidents/src/series.rs",
            "job-sources/src/series.rs",
            "job-sources/src/rollup/table.rs",
        ]
        .map(|f| root().join("collector").join(f));
        let text: String = sources.map(|f| std::fs::read_to_string(f).unwrap()).concat();
        let quoted = text.split('"').skip(1).step_by(2);
        quoted.filter(|w| w.starts_with("fabric") && names(w).contains(*w)).map(str::to_owned).collect()
    })
}

#[test]
fn every_query_parses_and_names_existing_series() {
    for (place, promql) in queries() {
        if let Err(error) = fabriclens_promql::check(&promql) {
            panic!("{place}: {error}\n{promql}");
        }
        assert!(!promql.replace("\"$1\"", "").contains('$'), "{place}: a variable is left in {promql}");
        let named = names(&promql);
        assert!(!named.is_empty(), "{place}: {promql}");
        for name in named {
            assert!(exists(&name), "{place}: unknown series {name}");
        }
    }
    assert!(!exists("fabric_no_such_thing_total"));
}

#[test]
fn legend_labels_survive_aggregation() {
    for one in all() {
        for p in one.rows.iter().flat_map(|r| &r.panels).filter(|p| p.view != View::Table) {
            for q in &p.queries {
                for label in q.legend.split("{{").skip(1).filter_map(|l| l.split("}}").next()) {
                    // An outermost aggregation keeps only the labels that it names.
                    let last = q
                        .expr
                        .trim_start_matches("8 * ")
                        .trim_start_matches("topk(")
                        .trim_start_matches(|c: char| c.is_ascii_digit() || ", ".contains(c));
                    if let Some(by) =
                        last.split_once(" by (").filter(|(f, _)| ["sum", "max", "avg", "count"].contains(f))
                    {
                        let kept = by.1.split(')').next().unwrap();
                        assert!(
                            kept.split(", ").any(|k| k == label),
                            "{}: {} shows {label}, kept is {kept}",
                            one.name,
                            p.title
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn panels_have_descriptions_and_fit_the_grid() {
    let mut uids = BTreeMap::new();
    for one in all() {
        let json = dashboard(&one);
        let uid = json["uid"].as_str().unwrap().to_owned();
        // Grafana requires unique uids of at most 40 characters.
        assert!(uid.len() <= 40 && uids.insert(uid.clone(), one.title).is_none(), "{uid}");
        let mut ids = BTreeSet::new();
        let mut cells = BTreeSet::new();
        for p in json["panels"].as_array().unwrap() {
            let title = p["title"].as_str().unwrap();
            assert!(ids.insert(p["id"].as_u64().unwrap()), "{uid}: {title}: its id is another's");
            let at = |k: &str| p["gridPos"][k].as_u64().unwrap();
            for x in at("x")..at("x") + at("w") {
                for y in at("y")..at("y") + at("h") {
                    assert!(x < 24 && cells.insert((x, y)), "{uid}: {title} covers another, or leaves the grid");
                }
            }
            if p["type"] != "row" {
                let description = p["description"].as_str().unwrap();
                assert!(description.len() > 20 && description.ends_with(['.', '?']), "{uid}: {title}: {description}");
                assert!(!p["targets"].as_array().unwrap().is_empty());
            }
        }
    }
}

#[test]
fn links_lead_to_existing_dashboards_and_variables() {
    let mut vars: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for json in all().iter().map(dashboard) {
        let list = json["templating"]["list"].as_array().unwrap();
        let names = list.iter().map(|v| v["name"].as_str().unwrap().to_owned()).collect();
        vars.insert(json["uid"].as_str().unwrap().to_owned(), names);
    }
    let mut found = BTreeSet::new();
    for one in all() {
        let json = dashboard(&one);
        walk(&json, &mut |key, value| {
            let Some(url) = value.as_str().filter(|u| key == "url" && !u.is_empty()) else { return };
            let (uid, query) = url.strip_prefix("/d/").unwrap().split_once('?').unwrap();
            for var in query.split('&').filter_map(|q| q.strip_prefix("var-")?.split_once('=')) {
                assert!(vars[uid].contains(var.0), "{}: {url}: {uid} has no variable {}", one.name, var.0);
            }
            found.insert((one.name, uid.trim_start_matches(TAG).trim_start_matches('-').to_owned()));
        });
    }
    // From the fleet to a port, and from a job to its incident.
    for (from, to) in [
        ("overview", "congestion"),
        ("overview", "storm"),
        ("overview", "job"),
        ("congestion", "host"),
        ("host", "job"),
        ("host", "congestion"),
        ("links", "host"),
        ("job", "storm"),
        ("job", "host"),
        ("storm", "host"),
        ("storm", "job"),
    ] {
        assert!(found.contains(&(from, to.to_owned())), "no link from {from} to {to}");
    }
}

fn walk(value: &Value, see: &mut impl FnMut(&str, &Value)) {
    match value {
        Value::Object(map) => map.iter().for_each(|(k, v)| {
            see(k, v);
            walk(v, see);
        }),
        Value::Array(list) => list.iter().for_each(|v| walk(v, see)),
        _ => {}
    }
}

#[test]
fn thresholds_ascend_and_data_sources_are_variables() {
    for one in all() {
        let json = dashboard(&one);
        walk(&json, &mut |key, value| match key {
            "steps" if value.is_array() => {
                let at: Vec<Option<f64>> = value.as_array().unwrap().iter().map(|s| s["value"].as_f64()).collect();
                assert!(at[0].is_none() && at.windows(2).all(|w| w[0] < w[1]), "{}: {value}", one.name);
            }
            "datasource" => {
                let uid = value["uid"].as_str().unwrap();
                assert!(["${datasource}", "-- Grafana --"].contains(&uid), "{}: {value}", one.name);
            }
            _ => {}
        });
    }
    let named: BTreeSet<&str> = all()
        .iter()
        .flat_map(|d| &d.rows)
        .flat_map(|r| &r.panels)
        .flat_map(|p| &p.thresholds)
        .filter_map(|s| s.threshold)
        .collect();
    assert!(named.len() >= 10, "panels show detector thresholds: {named:?}");
}
