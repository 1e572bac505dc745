//! `/api/v1/jobs/{id}/report`: the communication report of a job, as HTML, Markdown or JSON.

use std::sync::Arc;

use axum::Extension;
use axum::extract::{Path, State};
use axum::http::{HeaderValue, header};
use axum::response::Response;
use fabriclens_correlate::{IncidentPath, Location, Severity};
use fabriclens_jobs::{Filter, Job, JobKey, Page, Registry};
use fabriclens_model::Budget as _;
use fabriclens_promql::QueryError;
use fabriclens_report::model::{self, Incident};
use fabriclens_report::{Digest, Input, PathLookup, Report};

use super::Api;
use super::blocking::{blocking, in_turn};
use super::encode::Json;
use super::jobs::refused;
use super::memory::Answer;
use super::params::Params;
use super::query::QueryContext;
use super::report_paths::ReportPaths;
use super::report_topology::{leaves, links};
use fabriclens_core::time::now_ns;
use fabriclens_incidents::{Filter as Filters, IncidentStore, Record, kind_text};
use fabriclens_server::auth::Caller;
use fabriclens_server::error::{ApiError, Kind};

/// How far back earlier jobs of the user are searched, ns.
const BEFORE_NS: i64 = 30 * 86_400_000_000_000;
/// Time after the end of a job from which on present paths say nothing of it, ns.
const STALE_NS: i64 = 86_400_000_000_000;
/// Memory of the runs of other jobs that are read at once, bytes; at least one is.
const PAGE_BYTES: usize = 1 << 20;
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
pub(super) async fn report(
    State(api): State<Arc<Api>>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
    params: Params,
) -> Response {
    let evaluate = async {
        let form = form(&params)?;
        let run = params.get("run").map(|text| text.parse::<u32>().ok().filter(|run| *run > 0).ok_or(text));
        let run = run.transpose().map_err(|text| {
            ApiError::parameter("run", format!("{text:?} is not the number of a run; runs are counted from 1"))
        })?;
        let key = JobKey { cluster: params.get("cluster").unwrap_or_default().to_owned(), id };
        let jobs = api.jobs.clone();
        let job = in_turn(&api.job_turn, &caller, move || look_up(&jobs.registry, &key, run)).await?;
        Ok(api.report_of(&params, job, form.write).await?.of_type(form.content_type))
    };
    let mut response = api.measured("report", evaluate).await;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

impl Api {
    /// The report of a run, written by `written`; it waits for a permit as queries do.
    async fn report_of(&self, params: &Params, job: Job, written: fn(&Report) -> String) -> Result<Answer, ApiError> {
        let (jobs, incidents) = (self.jobs.clone(), self.incidents.clone());
        let (topologies, subnets, probing) =
            (self.topologies.clone(), self.telemetry.subnet_paths.clone(), self.probing.clone());
        let write = move |context: &QueryContext<'_>| {
            let others = others(&jobs.registry, &job, context)?;
            let (incidents, now_ns) = (incidents_of(&incidents, &job), now_ns());
            let topology = topologies.at(job.end_ns.unwrap_or(now_ns));
            let (leaves, links) = (leaves(&topology), links(&topology, &job));
            // Routes of an earlier time are not kept.
            let is_recent = job.end_ns.is_none_or(|end| end.saturating_add(STALE_NS) > now_ns);
            let paths = if is_recent { ReportPaths::new(&topology, &subnets, &probing) } else { None };
            let paths = paths.as_ref().map(|paths| paths as &dyn PathLookup);
            let input = Input { job: &job, others: &others, now_ns, incidents, leaves, links, paths };
            let report = fabriclens_report::build(context.engine, context.data.reader(), context.budget.cancel, input)?;
            let text = written(&report);
            context.budget.request(text.capacity())?;
            Ok(Json(text))
        };
        self.within_limits(params, write).await
    }

    /// The report of a run in three sentences, for messages. It takes one permit of queries, and a thread whose priority is lowered
    /// if it takes long.
    ///
    /// # Errors
    /// A message: the run is not known, or the limits of queries do not suffice.
    pub async fn digest(&self, key: &JobKey, run: u32) -> Result<Digest, String> {
        let (jobs, key) = (self.jobs.clone(), key.clone());
        let found = blocking(move || look_up(&jobs.registry, &key, Some(run))).await;
        let written = |report: &Report| serde_json::to_string(&fabriclens_report::digest(report)).unwrap_or_default();
        let answer = match found {
            Ok(job) => self.report_of(&Params::default(), job, written).await,
            Err(error) => Err(error),
        };
        let text = answer.map_err(|error| error.message)?.text();
        serde_json::from_str(&text).map_err(|error| error.to_string())
    }
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

/// The last run of a job, or the requested one.
fn look_up(registry: &Registry, key: &JobKey, run: Option<u32>) -> Result<Job, ApiError> {
    let last = registry.find(key).map_err(refused)?;
    let Some(run) = run.filter(|run| *run != last.run) else { return Ok(last) };
    let mut found = None;
    let filter = Filter { cluster: Some(last.cluster.clone()), ..Filter::default() };
    let of_run = |page: Page| {
        found = page.jobs.into_iter().find(|job| job.id == last.id && job.run == run);
        Ok::<_, ApiError>(found.is_none())
    };
    pages(registry, &filter, of_run)?;
    let text = || format!("job {key} has no run {run}; its last is run {}", last.run);
    found.ok_or_else(|| ApiError::new(Kind::NotFound, text()))
}

/// All jobs that ran at the same time, and earlier jobs of the same user. They count in the memory of the query.
fn others(registry: &Registry, job: &Job, context: &QueryContext<'_>) -> Result<Vec<Job>, QueryError> {
    let mut others = Vec::new();
    let mut add = |filter: &Filter, keeps: &dyn Fn(&Job) -> bool| {
        pages(registry, filter, |page: Page| {
            context.budget.check()?;
            context.budget.request(page.bytes)?;
            others.extend(page.jobs.into_iter().filter(keeps));
            Ok::<_, QueryError>(true)
        })
    };
    let overlapping = Filter { from_ns: Some(job.start_ns), to_ns: job.end_ns, ..Filter::default() };
    add(&overlapping, &|_| true)?;
    if !job.user.is_empty() {
        let before = Filter {
            from_ns: Some(job.start_ns.saturating_sub(BEFORE_NS)),
            to_ns: Some(job.start_ns),
            running: Some(false),
            user: Some(job.user.clone()),
            ..Filter::default()
        };
        let is_earlier = |o: &Job| o.end_ns.is_some_and(|end| end < job.start_ns) && o.hosts.len() == job.hosts.len();
        add(&before, &is_earlier)?;
    }
    Ok(others)
}

/// Reads all matching runs by page while `visit` returns true.
fn pages<E>(registry: &Registry, filter: &Filter, mut visit: impl FnMut(Page) -> Result<bool, E>) -> Result<(), E> {
    let mut after = None;
    loop {
        let mut page = registry.page(filter, after.as_ref(), usize::MAX, PAGE_BYTES);
        after = page.next.take();
        if !visit(page)? || after.is_none() {
            return Ok(());
        }
    }
}

/// The path of an incident; `None` if it has something other than ports.
fn path_of(path: &IncidentPath) -> Option<model::Path> {
    let port = |place: &Location| match place {
        Location::Port { node, port } => Some(model::PathPort { node: node.clone(), port: port.clone() }),
        _ => None,
    };
    let ports = path.ports.iter().map(port).collect::<Option<Vec<_>>>()?;
    Some(model::Path { ports, known: path.known.words().to_owned() })
}
