//! `/api/v1/jobs/{id}/report`: the communication report of a job, as HTML, Markdown or JSON.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::{HeaderValue, header};
use axum::response::Response;
use fabriclens_correlate::{IncidentPath, Location, Severity};
use fabriclens_jobs::{Filter, Job, JobKey, Registry};
use fabriclens_model::Budget as _;
use fabriclens_report::model::{self, Incident};
use fabriclens_report::{Input, Report};

use super::Api;
use super::blocking::blocking;
use super::encode::Json;
use super::jobs::refused;
use super::params::Params;
use super::query::QueryContext;
use super::report_topology::{leaves, links};
use fabriclens_core::time::now_ns;
use fabriclens_incidents::{Filter as Filters, IncidentStore, Record, kind_text};
use fabriclens_server::error::{ApiError, Kind};

/// How far back earlier jobs of the user are searched, ns.
const BEFORE_NS: i64 = 30 * 86_400_000_000_000;
/// Most incidents of a report.
const INCIDENTS: usize = 50;
/// Content security policy of the page: it loads nothing and runs nothing.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'";

/// Format of a report.
#[derive(Clone, Copy)]
struct ReportFormat {
    content_type: &'static str,
    write: fn(&Report) -> String,
}

fn form(params: &Params) -> Result<ReportFormat, ApiError> {
    let of = |content_type, write| Ok(ReportFormat { content_type, write });
    match params.get("format") {
        None | Some("html") => of("text/html; charset=utf-8", fabriclens_report::html),
        Some("md" | "markdown") => of("text/markdown; charset=utf-8", fabriclens_report::markdown),
        Some("json") => of("application/json", fabriclens_report::json),
        Some(other) => Err(ApiError::parameter("format", format!("{other:?} is not html, md or json"))),
    }
}

/// Returns the report of the last run of a job, or of the requested run.
pub(super) async fn report(State(api): State<Arc<Api>>, Path(id): Path<String>, params: Params) -> Response {
    let evaluate = async {
        let form = form(&params)?;
        let run = params.get("run").map(|text| text.parse::<u32>().ok().filter(|run| *run > 0).ok_or(text));
        let run = run.transpose().map_err(|text| {
            ApiError::parameter("run", format!("{text:?} is not the number of a run; runs are counted from 1"))
        })?;
        let key = JobKey { cluster: params.get("cluster").unwrap_or_default().to_owned(), id };
        let (jobs, incidents) = (api.jobs.clone(), api.incidents.clone());
        let (job, others) = blocking(move || look_up(&jobs.registry, &key, run)).await?;
        let topologies = api.topologies.clone();
        let write = move |context: &QueryContext<'_>| {
            let (incidents, now_ns) = (incidents_of(&incidents, &job), now_ns());
            let topology = topologies.at(job.end_ns.unwrap_or(now_ns));
            let (leaves, links) = (leaves(&topology), links(&topology, &job));
            let input = Input { job: &job, others: &others, now_ns, incidents, leaves, links };
            let report = fabriclens_report::build(context.engine, context.data.reader(), context.budget.cancel, input)?;
            let text = (form.write)(&report);
            context.budget.request(text.capacity())?;
            Ok(Json(text))
        };
        Ok(api.within_limits(&params, write).await?.of_type(form.content_type))
    };
    let mut response = api.measured("report", evaluate).await;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

/// Incidents during a run: first those with the job as culprit or victim, then those at its hosts, each by time.
fn incidents_of(incidents: &IncidentStore, job: &Job) -> Vec<Incident> {
    let name = job.key().to_string();
    let found = incidents.list(&Filters { from_ns: Some(job.start_ns), to_ns: job.end_ns, ..Filters::default() });
    let role = |record: &Record| {
        let bystander = || job.hosts.keys().any(|host| record.touches(host)).then_some("bystander");
        record.role(&name).or_else(bystander)
    };
    let mut of_job: Vec<Incident> = found
        .iter()
        .filter_map(|record| {
            let (kind, role, incident) = (record.kind()?, role(record)?, &record.incident);
            Some(Incident {
                id: incident.id.clone(),
                kind: kind_text(kind),
                severity: match incident.severity {
                    Severity::Info => model::Severity::Info,
                    Severity::Warning => model::Severity::Warning,
                    Severity::Critical => model::Severity::Critical,
                },
                start_ns: incident.start_ns,
                end_ns: incident.end_ns,
                explanation: incident.explanation.clone(),
                action: incident.action.clone(),
                role: role.to_owned(),
                path: incident.path.as_ref().and_then(path_of),
            })
        })
        .collect();
    of_job.sort_by(|a, b| {
        let key = |i: &Incident| (i.role == "bystander", i.start_ns);
        key(a).cmp(&key(b)).then_with(|| a.id.cmp(&b.id))
    });
    of_job.truncate(INCIDENTS);
    of_job
}

/// The run, all jobs that ran at the same time, and earlier jobs of the same user.
fn look_up(registry: &Registry, key: &JobKey, run: Option<u32>) -> Result<(Job, Vec<Job>), ApiError> {
    let last = registry.find(key).map_err(refused)?;
    let job = match run.filter(|run| *run != last.run) {
        None => last,
        Some(run) => {
            let filter = Filter { cluster: Some(last.cluster.clone()), ..Filter::default() };
            let of_run = |job: &Job| job.id == last.id && job.run == run;
            let text = || format!("job {key} has no run {run}; its last is run {}", last.run);
            let missing = || ApiError::new(Kind::NotFound, text());
            registry.list(&filter).into_iter().find(of_run).ok_or_else(missing)?
        }
    };
    let overlapping = Filter { from_ns: Some(job.start_ns), to_ns: job.end_ns, ..Filter::default() };
    let mut others = registry.list(&overlapping);
    if !job.user.is_empty() {
        let before = Filter {
            from_ns: Some(job.start_ns.saturating_sub(BEFORE_NS)),
            to_ns: Some(job.start_ns),
            running: Some(false),
            user: Some(job.user.clone()),
            ..Filter::default()
        };
        let mut before = registry.list(&before);
        before.retain(|o| o.end_ns.is_some_and(|end| end < job.start_ns) && o.hosts.len() == job.hosts.len());
        others.extend(before);
    }
    Ok((job, others))
}
/// The path of an incident; `None` if it has something other than ports.
fn path_of(path: &IncidentPath) -> Option<model::IncidentPath> {
    let port = |place: &Location| match place {
        Location::Port { node, port } => Some(model::PathPort { node: node.clone(), port: port.clone() }),
        _ => None,
    };
    let ports = path.ports.iter().map(port).collect::<Option<Vec<_>>>()?;
    Some(model::IncidentPath { ports, known: path.known.words().to_owned() })
}
