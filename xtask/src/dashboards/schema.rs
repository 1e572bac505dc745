//! Tests the JSON against Grafana's published schema (`grafana.txt`, written by tests/lab/dashboards/schema): known names,
//! allowed values, required fields. The schema lacks the fields of data source plugins: see [`PROMETHEUS_FIELDS`].

use super::all;
use super::json::dashboard;
use serde_json::Value;
use std::collections::BTreeMap;

/// Fields of Prometheus annotations.
const PROMETHEUS_FIELDS: &[&str] = &["expr", "step", "titleFormat", "textFormat", "tagKeys", "useValueForTime"];

/// Panel kinds that share the paths below `panel`.
const KINDS: &[&str] = &["timeseries", "stat", "bargauge", "table", "heatmap", "state-timeline"];

/// Allowed types and values of each path, and whether the path is required.
struct Types(BTreeMap<String, (Vec<String>, bool)>);

impl Types {
    fn read() -> Self {
        let given = std::env::var("GRAFANA_TYPES").map(|path| std::fs::read_to_string(path).unwrap());
        let text = given.unwrap_or_else(|_| include_str!("grafana.txt").to_owned());
        let line = |line: &str| {
            let (path, what) = line.split_once(": ").unwrap();
            let what = what.split(" | ").map(str::to_owned).collect();
            (path.trim_end_matches('?').to_owned(), (what, !path.ends_with('?')))
        };
        Self(text.lines().filter(|l| !l.starts_with('#')).map(line).collect())
    }

    /// Entry of a path, also of one that all panel kinds share.
    fn at(&self, path: &str) -> Option<&(Vec<String>, bool)> {
        let (kind, rest) = path.split_once('.')?;
        self.0.get(path).or_else(|| self.0.get(&format!("panel.{rest}")).filter(|_| KINDS.contains(&kind)))
    }

    /// Collects the errors of a value.
    fn check(&self, path: &str, value: &Value, wrong: &mut Vec<String>) {
        let Some((what, _)) = self.0.get(path).or_else(|| self.at(path)) else {
            return wrong.push(format!("{path} is not known"));
        };
        let word = match value {
            Value::Null => "null",
            Value::Bool(_) => "boolean",
            Value::Number(_) => "number",
            Value::String(_) => "string",
            Value::Array(_) => "array",
            Value::Object(_) => "object",
        };
        let literal = value.to_string();
        let any = what.iter().any(|w| w == "any");
        if !any && !what.iter().any(|w| w == word || *w == literal) {
            wrong.push(format!("{path} is {value}, and may be {}", what.join(", ")));
        }
        match value {
            Value::Array(list) if self.at(&format!("{path}[]")).is_some() || !any => {
                let each = format!("{path}[]");
                let known = self.0.contains_key(&each) || self.at(&each).is_some();
                list.iter().filter(|_| known).for_each(|one| self.check(&each, one, wrong));
            }
            Value::Object(map) if !any => {
                for (key, one) in map {
                    let (own, some) = (format!("{path}.{key}"), format!("{path}.*"));
                    let known = self.0.contains_key(&own) || self.at(&own).is_some();
                    let plugin = path == "annotations.list[]" && PROMETHEUS_FIELDS.contains(&key.as_str());
                    if !plugin {
                        let free = !known && (self.0.contains_key(&some) || self.at(&some).is_some());
                        self.check(if free { &some } else { &own }, one, wrong);
                    }
                }
                for must in self.required(path).filter(|m| !map.contains_key(*m)) {
                    wrong.push(format!("{path} has no {must}"));
                }
            }
            _ => {}
        }
    }

    /// Required fields of an object.
    fn required<'a>(&'a self, path: &'a str) -> impl Iterator<Item = &'a str> {
        let (kind, rest) = path.split_once('.').map_or((path, None), |(kind, rest)| (kind, Some(rest)));
        let shared = rest.map_or("panel.".to_owned(), |rest| format!("panel.{rest}."));
        let is_panel = KINDS.contains(&kind);
        let below = self.0.iter().filter(|(_, (_, must))| *must).filter_map(move |(at, _)| {
            at.strip_prefix(path)
                .and_then(|r| r.strip_prefix('.'))
                .or_else(|| at.strip_prefix(&shared).filter(|_| is_panel))
        });
        below.filter(|name| !name.contains(['.', '[']) && *name != "*")
    }

    fn dashboard(&self, json: &Value) -> Vec<String> {
        let mut wrong = Vec::new();
        for (key, value) in json.as_object().unwrap() {
            match key.as_str() {
                "panels" => {
                    for panel in value.as_array().unwrap() {
                        self.check(panel["type"].as_str().unwrap(), panel, &mut wrong);
                    }
                }
                key => self.check(key, value, &mut wrong),
            }
        }
        wrong.extend(["schemaVersion"].iter().filter(|k| json[**k].is_null()).map(|k| format!("no {k}")));
        wrong
    }
}

#[test]
fn dashboards_match_the_schema() {
    let types = Types::read();
    for one in all() {
        let wrong = types.dashboard(&dashboard(&one));
        assert!(wrong.is_empty(), "{}:\n{}", one.name, wrong.join("\n"));
    }
}

#[test]
fn unknown_names_and_values_are_found() {
    let types = Types::read();
    for (at, value, says) in [
        ("/graphTooltip", Value::from(3), "graphTooltip is 3"),
        ("/timepicker/interval", Value::from("5s"), "timepicker.interval is not known"),
        ("/panels/0/gridPos", Value::from("left"), "row.gridPos"),
        ("/panels/1/options/colourMode", Value::from("value"), "options.colourMode is not known"),
        ("/panels/1/options/graphMode", Value::from("lines"), "graphMode is \"lines\""),
        ("/panels/1/options/reduceOptions", Value::Object(Default::default()), "reduceOptions has no calcs"),
        ("/panels/1/fieldConfig/defaults/thresholds/steps/0", Value::Object(Default::default()), "has no color"),
        ("/templating/list/0/hide", Value::from(true), "hide is true"),
        ("/annotations/list/1/expression", Value::from("up"), "expression is not known"),
    ] {
        let mut json = dashboard(&all()[0]);
        let (parent, name) = at.rsplit_once('/').unwrap();
        match json.pointer_mut(parent).unwrap() {
            Value::Array(list) => list[name.parse::<usize>().unwrap()] = value,
            parent => parent[name] = value,
        }
        let wrong = types.dashboard(&json).join("\n");
        assert!(wrong.contains(says), "{at}: {wrong}");
    }
}
