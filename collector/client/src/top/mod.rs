//! `fabriclens top`: incidents, ports, jobs and silent senders of a running collector, refreshed.

mod incidents;
mod jobs;
mod overview;
mod ports;
mod silent;

use super::report::segment;
use super::{ClientError, Form, ask, get, pairs, parse, print, seconds, url, width};
use crate::answer::Answer;
use crate::args::{Server, TopArgs};
use fabriclens_core::time::now_ms;
use fabriclens_top::{Curves, Snapshot, Source, Table};
use overview::Overview;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::time::Duration;

/// An ended incident is listed so long.
const RECENT: Duration = Duration::from_secs(900);

/// Readings of a port's load that are shown.
const CURVE: usize = 12;

/// A row of the table of tables.
struct View {
    table: fn(&mut Top) -> Result<Table, ClientError>,
    detail: fn(&Top, &str) -> Result<String, ClientError>,
}

/// The tables, in the order of their tabs.
const VIEWS: [View; 4] = [
    View { table: Top::incidents, detail: Top::incident },
    View { table: Top::ports, detail: Top::port },
    View { table: Top::jobs, detail: Top::job },
    View { table: |top| Ok(silent::table(&top.overview)), detail: |top, name| Ok(silent::detail(&top.overview, name)) },
];

/// The member `data` of an answer.
#[derive(Deserialize)]
struct Enveloped<T> {
    data: T,
}

/// Reads a collector.
struct Top {
    server: Server,
    overview: Overview,
    loads: Curves,
}

/// Runs the command.
///
/// # Errors
/// [`ClientError`].
pub fn top(args: &TopArgs) -> Result<(), ClientError> {
    let mut top = Top { server: args.server.clone(), overview: Overview::default(), loads: Curves::new(CURVE) };
    if args.once {
        return print(&mut std::io::stdout().lock(), &fabriclens_top::print(&top.snapshot()?));
    }
    fabriclens_top::run(&format!("fabriclens top  {}", args.server.url), top, args.interval).map_err(|error| {
        ClientError::Refused(format!("{error}; `top` needs a terminal; --once prints the tables without one"))
    })
}

impl Source for Top {
    fn read(&mut self) -> Result<Snapshot, String> {
        self.snapshot().map_err(|error| error.to_string())
    }

    fn detail(&mut self, table: usize, id: &str) -> Result<String, String> {
        let Some(view) = VIEWS.get(table) else { return Err("there is no such table".to_owned()) };
        (view.detail)(self, id).map_err(|error| error.to_string())
    }
}

impl Top {
    fn snapshot(&mut self) -> Result<Snapshot, ClientError> {
        self.overview = self.data("api/v1/overview", &Form::new())?;
        let tables = VIEWS.iter().map(|view| (view.table)(self)).collect::<Result<_, _>>()?;
        Ok(Snapshot { summary: self.overview.summary(), tables })
    }

    fn answer<T: DeserializeOwned>(&self, path: &str, form: &Form) -> Result<T, ClientError> {
        parse(&self.server, &get(&self.server, path, form)?)
    }

    fn data<T: DeserializeOwned>(&self, path: &str, form: &Form) -> Result<T, ClientError> {
        self.answer(path, form).map(|answer: Enveloped<T>| answer.data)
    }

    fn incidents(&mut self) -> Result<Table, ClientError> {
        let now = now_ms();
        let from = now - i64::try_from(RECENT.as_millis()).unwrap_or(0);
        let listed = self.answer("api/v1/incidents", &vec![("from", seconds(from))])?;
        Ok(incidents::table(&listed, now))
    }

    fn incident(&self, id: &str) -> Result<String, ClientError> {
        let path = format!("api/v1/incidents/{}", segment(id));
        let one = self.answer(&path, &vec![("series", "false".to_owned())])?;
        Ok(incidents::in_full(&one, now_ms(), width::columns()))
    }

    fn ports(&mut self) -> Result<Table, ClientError> {
        let form = vec![("signals", ports::signals())];
        let signals = self.data("api/v1/topology/signals", &form)?;
        Ok(ports::table(&signals, &mut self.loads))
    }

    fn port(&self, id: &str) -> Result<String, ClientError> {
        let form = vec![("query", ports::query(id))];
        let answer: Answer = parse(
            &self.server,
            &ask(&self.server, |a| a.post(url(&self.server, "api/v1/query")).send_form(pairs(&form)))?,
        )?;
        Ok(print::people(&answer, width::columns()))
    }

    fn jobs(&mut self) -> Result<Table, ClientError> {
        let page = self.answer("api/v1/jobs", &vec![("state", "running".to_owned())])?;
        Ok(jobs::table(&page, &self.overview, now_ms()))
    }

    fn job(&self, id: &str) -> Result<String, ClientError> {
        let (cluster, job) = jobs::parse_id(id);
        let path = format!("api/v1/jobs/{}/report", segment(job));
        get(&self.server, &path, &vec![("format", "md".to_owned()), ("cluster", cluster.to_owned())])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn of<T: DeserializeOwned>(value: serde_json::Value) -> T {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn incidents_jobs_and_silent_senders_are_listed() {
        let overview: Overview = of(json!({
            "incidents": {"critical": 1, "warning": 2, "info": 0, "list": []},
            "switches": {"known": 4, "silent": 1, "names": ["leaf2"]},
            "measured": {"time": 1, "hosts": {"reporting": 15, "silent": 1, "names": [{"host": "gpu-3", "silent_s": 90.4}]},
                "ports": {"known": 130, "up": {"up": 127, "of": 128}, "hottest": []},
                "suffering": [{"cluster": "", "id": "4703", "bytes_per_second": 3e9, "bytes_per_second_before": 4e9}]},
        }));
        let incident = |id: &str, severity: &str, end: Option<i64>| {
            json!({"id": id, "kind": "pfc_storm", "severity": severity, "start_ns": 1_000_000_000, "end_ns": end,
                "confidence": 0.934, "root": {"type": "port", "node": "h3", "port": "1"}, "culprit_jobs": [],
                "victim_jobs": ["4703"], "victim_ports": [], "evidence": [], "explanation": "", "action": ""})
        };
        let listed = of(json!({"total": 1, "incidents": [incident("1-1", "critical", None)]}));
        let job = |id: &str| {
            json!({"cluster": "", "id": id, "run": 1, "user": "ann", "name": "bert", "start_ns": 0, "end_ns": null,
                "hosts": {"h1": {}, "h2": {}}, "disagreements": []})
        };
        let page = of(json!({"data": [job("4702"), job("4703")], "next": null}));
        let tables =
            vec![incidents::table(&listed, 61_000), jobs::table(&page, &overview, 61_000), silent::table(&overview)];
        let text = fabriclens_top::print(&Snapshot { summary: overview.summary(), tables });
        assert_eq!(
            text,
            "\
1 critical and 2 other incidents; 15 of 16 agents report; 127 of 128 ports are up; 1 of 4 switches are silent

Incidents
WHAT       WHERE      SURE     SINCE  VICTIMS  CAUSED BY  STATE
pfc_storm  h3 port 1  93 %  1m, open  4703                critical

Jobs
JOB   LOSES  HOSTS  RUNS FOR  USER  NAME
4703   25 %      2      1m1s  ann   bert
4702             2      1m1s  ann   bert

Silent
NAME   SENDER  SILENT FOR
gpu-3  agent        1m30s
leaf2  switch           -
"
        );
        assert!(silent::detail(&overview, "agent gpu-3").contains("fabriclens-agent doctor"));
        assert!(silent::detail(&overview, "switch leaf2").contains("fabriclens switches"));
        assert_eq!(jobs::parse_id("west\n12_3"), ("west", "12_3"));
    }
}
