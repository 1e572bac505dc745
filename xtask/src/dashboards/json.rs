//! Writes dashboards as Grafana's JSON, schema 39 (Grafana 11.0; later versions migrate it when they load it).

use super::panel::{ColorStep, Dashboard, Link, Panel, Unit, Var, View};
use serde_json::{Value, json};

/// Prefix of every dashboard's `uid`, and the tag by which dashboards link to each other.
pub const TAG: &str = "fabriclens";
/// Columns of Grafana's grid.
const COLUMNS: u32 = 24;

/// The data source variable.
fn source() -> Value {
    json!({"type": "prometheus", "uid": "${datasource}"})
}

/// JSON of a dashboard.
pub fn dashboard(one: &Dashboard) -> Value {
    let mut panels = Vec::new();
    let (mut y, mut id) = (0, 0);
    let mut next = || {
        id += 1;
        id
    };
    for row in &one.rows {
        panels.push(json!({
            "type": "row", "id": next(), "title": row.title, "collapsed": false, "panels": [],
            "gridPos": {"x": 0, "y": y, "w": COLUMNS, "h": 1},
        }));
        y += 1;
        let (mut x, mut highest) = (0, 0);
        for p in &row.panels {
            if x + p.width > COLUMNS {
                (x, y, highest) = (0, y + highest, 0);
            }
            let at = json!({"x": x, "y": y, "w": p.width, "h": p.height});
            panels.push(panel(p, next(), &at));
            x += p.width;
            highest = highest.max(p.height);
        }
        y += highest;
    }
    let data_source = json!({
        "name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus", "regex": "",
        "current": {"text": "default", "value": "default"}, "options": [], "hide": 0, "includeAll": false,
        "multi": false, "refresh": 1,
        "skipUrlSync": false,
    });
    let vars: Vec<Value> = std::iter::once(data_source).chain(one.vars.iter().map(|v| var(*v, &one.vars))).collect();
    json!({
        "uid": format!("{TAG}-{}", one.name),
        "title": one.title,
        "description": one.description,
        "tags": [TAG],
        "schemaVersion": 39,
        "version": 1,
        "editable": true,
        "graphTooltip": 1,
        "timezone": "browser",
        "refresh": "10s",
        "time": {"from": one.since, "to": "now"},
        "timepicker": {"refresh_intervals": ["5s", "10s", "30s", "1m", "5m"]},
        "fiscalYearStartMonth": 0,
        "weekStart": "",
        "templating": {"list": vars},
        "annotations": {"list": [annotations_of_grafana(), incidents()]},
        "links": [{
            "type": "dashboards", "tags": [TAG], "title": "Fabriclens", "asDropdown": true, "icon": "external link",
            "includeVars": true, "keepTime": true, "targetBlank": false, "tooltip": "", "url": "",
        }],
        "panels": panels,
    })
}

/// Annotations created in Grafana.
fn annotations_of_grafana() -> Value {
    json!({
        "builtIn": 1, "datasource": {"type": "grafana", "uid": "-- Grafana --"}, "enable": true, "hide": true,
        "iconColor": "rgba(0, 211, 255, 1)", "name": "Annotations & Alerts", "type": "dashboard",
    })
}

/// Incidents as regions from begin to end.
fn incidents() -> Value {
    json!({
        "name": "Incidents", "datasource": source(), "enable": true, "hide": false, "iconColor": "red",
        "expr": INCIDENTS, "step": "10s", "titleFormat": "{{kind}} ({{severity}})",
        "textFormat": "{{node}} {{port}} {{peer}} {{job_id}}", "tagKeys": "severity", "useValueForTime": false,
    })
}

/// Query of the annotations.
pub const INCIDENTS: &str = "fabric_incident_info";

/// Name, label and values query of a variable.
pub fn variable(var: Var, all: &[Var]) -> (&'static str, &'static str, String) {
    let below = if all.contains(&Var::Leaf) { "{switch=~\"$leaf\"}" } else { "" };
    match var {
        Var::Leaf => ("leaf", "Leaf", "label_values(fabric_port_info, switch)".to_owned()),
        Var::Host => ("host", "Host", format!("label_values(fabric_port_info{below}, host)")),
        Var::OneHost => ("host", "Host", "label_values(fabric_host_info, host)".to_owned()),
        Var::Device => ("device", "Device", "label_values(fabric_port_info{host=~\"$host\"}, device)".to_owned()),
        Var::Job => ("job", "Job", "label_values(fabric_job_info, job_id)".to_owned()),
        // Ports of hosts have a device.
        Var::Switch => {
            let ports = r#"fabric_port_io_bytes_total{device="",port!=""}"#;
            ("switch", "Switch", format!("label_values({ports}, host)"))
        }
        Var::Incident => ("incident", "Incident", "label_values(fabric_incident_info, id)".to_owned()),
    }
}

fn var(which: Var, all: &[Var]) -> Value {
    let (name, label, query) = variable(which, all);
    let one = matches!(which, Var::OneHost | Var::Job);
    let mut out = json!({
        "name": name, "label": label, "type": "query", "datasource": source(),
        "query": {"qryType": 1, "query": query, "refId": "PrometheusVariableQueryEditor-VariableQuery"},
        // Refreshed with the time range; natural order, so that gpu-9 is before gpu-10.
        "refresh": 2, "sort": 7, "regex": "", "multi": !one, "includeAll": !one, "options": [],
        "hide": 0, "skipUrlSync": false,
    });
    if !one {
        // `.*` also matches series without the label, and is shorter than a list of thousands.
        out["allValue"] = json!(".*");
        out["current"] = json!({"text": ["All"], "value": ["$__all"]});
    }
    out
}

fn unit(unit: Unit) -> &'static str {
    match unit {
        Unit::Share => "percentunit",
        Unit::BitsPerSecond => "bps",
        Unit::Bytes => "bytes",
        Unit::PerSecond => "cps",
        Unit::Packets => "pps",
        Unit::Seconds => "s",
        Unit::Celsius => "celsius",
        Unit::Dbm => "dBm",
        Unit::Count => "short",
    }
}

/// Title and URL of a link; `label` makes Grafana's expression for a label of the clicked series.
fn link(link: Link, label: impl Fn(&str) -> String) -> Value {
    let to = |title: &str, name: &str, vars: &[(&str, &str)]| {
        let vars: String = vars.iter().map(|(var, of)| format!("var-{var}={}&", label(of))).collect();
        let url = format!("/d/{TAG}-{name}?{vars}var-datasource=${{datasource}}&${{__url_time_range}}");
        json!({"title": title, "url": url, "targetBlank": false})
    };
    match link {
        Link::Leaf => to("Congestion below this switch", "congestion", &[("leaf", "switch")]),
        Link::Host => to("This host", "host", &[("host", "host")]),
        Link::Port => to("This port", "host", &[("host", "host"), ("device", "device")]),
        Link::Job => to("This job", "job", &[("job", "job_id")]),
        Link::Incident => to("Timeline of this incident", "storm", &[("incident", "id")]),
        Link::Switch => to("This switch", "switch", &[("switch", "host")]),
    }
}

/// Table column with the link.
fn column(of: Link) -> &'static str {
    match of {
        Link::Leaf => "switch",
        Link::Host | Link::Switch => "host",
        Link::Port => "device",
        Link::Job => "job_id",
        Link::Incident => "id",
    }
}

fn steps(steps: &[ColorStep]) -> Value {
    // If the first threshold is green, values below it are bad.
    let base = match steps.first() {
        None => "blue",
        Some(first) if first.color == "green" => "red",
        Some(_) => "green",
    };
    let base = std::iter::once(json!({"color": base, "value": null}));
    let all: Vec<Value> = base.chain(steps.iter().map(|s| json!({"color": s.color, "value": s.at}))).collect();
    json!({"mode": "absolute", "steps": all})
}

fn panel(p: &Panel, id: u32, at: &Value) -> Value {
    let (kind, options, custom) = look(p);
    let table = p.view == View::Table;
    let over_time = !matches!(p.view, View::Table | View::Bars);
    let targets: Vec<Value> = p
        .queries
        .iter()
        .zip('A'..)
        .map(|(q, name)| {
            json!({
                "refId": name.to_string(), "datasource": source(), "expr": q.expr,
                "legendFormat": if table { "__auto" } else { q.legend }, "editorMode": "code",
                "format": if table { "table" } else { "time_series" }, "instant": !over_time, "range": over_time,
            })
        })
        .collect();
    let mut mappings: Vec<Value> = Vec::new();
    if !p.mappings.is_empty() {
        let word =
            |(value, text, color): &(&str, &str, &str)| ((*value).to_owned(), json!({"text": text, "color": color}));
        let all: serde_json::Map<String, Value> = p.mappings.iter().map(word).collect();
        mappings.push(json!({"type": "value", "options": all}));
    }
    if let (View::Stat, Some(text)) = (p.view, p.no_data) {
        mappings.push(json!({
            "type": "special", "options": {"match": "null+nan", "result": {"text": text, "color": "green"}},
        }));
    }
    let mut defaults = json!({
        "unit": unit(p.unit), "color": {"mode": if matches!(p.view, View::Lines | View::Stacked) { "palette-classic" } else { "thresholds" }},
        "thresholds": steps(&p.thresholds), "mappings": mappings, "custom": custom, "min": 0,
        "links": [],
    });
    if let Some(max) = p.max {
        defaults["max"] = json!(max);
    }
    if matches!(p.unit, Unit::Dbm | Unit::Celsius) || p.mirrored.is_some() || p.view == View::Table {
        defaults.as_object_mut().map(|d| d.remove("min"));
    }
    if let Some(text) = p.no_data {
        defaults["noValue"] = json!(text);
    }
    let mut overrides = Vec::new();
    if table && !p.thresholds.is_empty() {
        // Colors only the values, not the labels.
        overrides.extend(p.queries.iter().map(|q| {
            let color = json!({"id": "custom.cellOptions", "value": {"type": "color-text"}});
            json!({"matcher": {"id": "byName", "options": q.legend}, "properties": [color]})
        }));
    }
    if let Some(word) = p.mirrored {
        overrides.push(json!({
            "matcher": {"id": "byRegexp", "options": format!("/.*{word}.*/")},
            "properties": [{"id": "custom.transform", "value": "negative-Y"}],
        }));
    }
    for l in &p.links {
        if table {
            let found = link(*l, |label| format!("${{__data.fields[\"{label}\"]}}"));
            overrides.push(json!({
                "matcher": {"id": "byName", "options": column(*l)}, "properties": [{"id": "links", "value": [found]}],
            }));
        } else if let Some(links) = defaults["links"].as_array_mut() {
            links.push(link(*l, |label| format!("${{__field.labels.{label}}}")));
        }
    }
    let mut out = json!({
        "type": kind, "id": id, "title": p.title, "description": p.description, "gridPos": at, "datasource": source(),
        "targets": targets, "fieldConfig": {"defaults": defaults, "overrides": overrides}, "options": options,
        "transparent": false,
    });
    if table {
        out["transformations"] = transformations(p);
    }
    out
}

/// Merges the queries into columns, removes the time and names the values.
fn transformations(p: &Panel) -> Value {
    let several = p.queries.len() > 1;
    let value = |at: char| if several { format!("Value #{at}") } else { "Value".to_owned() };
    let named = p.queries.iter().zip('A'..).map(|(q, at)| (value(at), json!(q.legend)));
    let titles: serde_json::Map<String, Value> = named.collect();
    let organize = json!({"id": "organize", "options": {
        "excludeByName": {"Time": true, "__name__": true, "instance": true}, "indexByName": {}, "renameByName": titles,
    }});
    if several { json!([{"id": "merge", "options": {}}, organize]) } else { json!([organize]) }
}

/// Plugin, its options and its custom field configuration.
fn look(p: &Panel) -> (&'static str, Value, Value) {
    let last = json!({"calcs": ["lastNotNull"], "fields": "", "values": false});
    let tooltip = json!({"mode": "multi", "sort": "desc"});
    match p.view {
        View::Lines | View::Stacked => {
            let stacked = p.view == View::Stacked;
            let custom = json!({
                "drawStyle": "line", "lineInterpolation": "linear", "lineWidth": 1,
                "fillOpacity": if stacked { 40 } else { 8 }, "showPoints": "never", "spanNulls": false,
                "stacking": {"mode": if stacked { "normal" } else { "none" }, "group": "A"},
                "thresholdsStyle": {"mode": if p.thresholds.is_empty() { "off" } else { "dashed" }},
                "axisPlacement": "auto", "axisLabel": "", "scaleDistribution": {"type": "linear"},
            });
            let legend = json!({"displayMode": "list", "placement": "bottom", "showLegend": true, "calcs": []});
            ("timeseries", json!({"legend": legend, "tooltip": tooltip}), custom)
        }
        View::Stat => {
            let options = json!({
                "reduceOptions": last, "colorMode": "value", "graphMode": "area", "justifyMode": "auto",
                "orientation": "auto", "textMode": "auto", "wideLayout": true, "percentChangeColorMode": "standard",
                "showPercentChange": false,
            });
            ("stat", options, json!({}))
        }
        View::Bars => {
            let options = json!({
                "reduceOptions": last, "displayMode": "basic", "orientation": "horizontal", "showUnfilled": true,
                "valueMode": "color", "namePlacement": "left", "sizing": "auto", "minVizWidth": 8,
                "minVizHeight": 16, "maxVizHeight": 32,
                "legend": {"showLegend": false, "displayMode": "list", "placement": "bottom", "calcs": []},
            });
            ("bargauge", options, json!({}))
        }
        View::Table => {
            let custom =
                json!({"align": "auto", "cellOptions": {"type": "auto"}, "inspect": false, "filterable": true});
            let footer = json!({"show": false, "reducer": ["sum"], "countRows": false, "fields": []});
            ("table", json!({"showHeader": true, "cellHeight": "sm", "frameIndex": 0, "footer": footer}), custom)
        }
        View::Heat => {
            let options = json!({
                "calculate": false, "cellGap": 1, "showValue": "never", "rowsFrame": {"layout": "auto"},
                "color": {
                    "mode": "scheme", "scheme": "Oranges", "fill": "dark-orange", "reverse": false, "exponent": 0.5,
                    "steps": 64, "min": 0,
                },
                "cellValues": {"unit": unit(p.unit)}, "filterValues": {"le": 1e-9},
                "yAxis": {"axisPlacement": "left", "reverse": true},
                "legend": {"show": true}, "tooltip": {"mode": "single", "yHistogram": false, "showColorScale": true},
                "exemplars": {"color": "rgba(255,0,255,0.7)"},
            });
            let hide = json!({"legend": false, "tooltip": false, "viz": false});
            ("heatmap", options, json!({"scaleDistribution": {"type": "linear"}, "hideFrom": hide}))
        }
        View::States => {
            let options = json!({
                "mergeValues": true, "showValue": "auto", "alignValue": "left", "rowHeight": 0.9, "tooltip": tooltip,
                "legend": {"displayMode": "list", "placement": "bottom", "showLegend": true, "calcs": []},
            });
            ("state-timeline", options, json!({"fillOpacity": 80, "lineWidth": 0}))
        }
    }
}
