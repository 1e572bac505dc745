//! Everything that judges: detectors, jobs, audit, topology, probe plans, incidents and messages about them.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;

use fabriclens_api as api;
use fabriclens_api::Api;
use fabriclens_audit as audit;
use fabriclens_audit::Drift;
use fabriclens_core::time::now_ns;
use fabriclens_correlate::Role;
use fabriclens_data::engine;
use fabriclens_evaluation::{kernel_log, live};
use fabriclens_incidents as incidents;
use fabriclens_incidents::{IncidentStore, WrongSetting};
use fabriclens_ingest::Ingest;
use fabriclens_job_notifications as job_notifications;
use fabriclens_job_sources as jobs;
use fabriclens_probing as probing;
use fabriclens_state::AppState;
use fabriclens_topology as topology;
use fabriclens_topology::{Topologies, TopologyInference};

use super::error::ServeError;

/// Starts it; returns its tasks, which end when `stopped` becomes true.
///
/// # Errors
/// [`ServeError::Remote`] for a file of a receiver of messages that cannot be used.
pub(super) fn start(
    state: AppState,
    api: &Arc<Api>,
    ingest: &Arc<Ingest>,
    stopped: &watch::Receiver<bool>,
) -> Result<Vec<JoinHandle<()>>, ServeError> {
    let AppState { store, data, sink, jobs, incidents, topologies, auditor, probing, telemetry, config, .. } =
        state.clone();
    let mut tasks = jobs::start_sources(&jobs, &data, &config, &telemetry, stopped)?;
    tasks.push(tokio::spawn(live::run(state, stopped.clone())));
    tasks.push(tokio::spawn(name_switches(ingest.clone(), topologies.clone(), stopped.clone())));
    let [wiring, traced] = [topologies.clone(), topologies.clone()];
    let planned = probing::run(
        probing,
        move || wiring.current(),
        move |source| traced.infer(TopologyInference::Traces, source),
        stopped.clone(),
    );
    tasks.push(tokio::spawn(planned));
    let services = audit::Services {
        data: data.clone(),
        engine: engine(&config.query),
        topologies: topologies.clone(),
        sink: sink.clone(),
        store: store.clone(),
        telemetry: telemetry.clone(),
    };
    let explained = incidents.clone();
    let tell = move |drifts: &[Drift]| explain_by_settings(&explained, drifts);
    tasks.push(tokio::spawn(audit::run(auditor, services, tell, stopped.clone())));
    tasks.push(tokio::spawn(kernel_log::run(incidents.clone(), data.clone(), stopped.clone())));
    let wired = topology::run(topologies, data.clone(), engine(&config.query), stopped.clone());
    tasks.push(tokio::spawn(wired));
    let rollups = jobs::roll_up(jobs.clone(), data, sink.clone(), engine(&config.query), stopped.clone());
    tasks.push(tokio::spawn(rollups));
    let written = incidents::series::run(
        incidents.clone(),
        jobs.clone(),
        store.clone(),
        sink.clone(),
        telemetry.clone(),
        stopped.clone(),
    );
    tasks.push(tokio::spawn(written));
    tasks.extend(incidents::notify(&incidents, &config, &telemetry, stopped)?);
    let reported = api.clone();
    let read: job_notifications::ReadDigest = Arc::new(move |key, run| {
        let api = reported.clone();
        Box::pin(async move { api.digest(&key, run).await.map(digest) })
    });
    tasks.extend(job_notifications::start(&config, &store, &jobs, &telemetry, read, stopped)?);
    tasks.push(tokio::spawn(jobs::run(jobs, sink, config, stopped.clone())));
    Ok(tasks)
}

/// How often ingest learns the names of switches from the topology.
const NAME_SWITCHES: Duration = Duration::from_secs(10);

/// Tells ingest how the topology calls its switches, until `stop` becomes true.
async fn name_switches(ingest: Arc<Ingest>, topologies: Arc<Topologies>, mut stop: watch::Receiver<bool>) {
    loop {
        let topology = topologies.current();
        let switches = topology.nodes.iter().filter(|node| node.role != Role::Host);
        ingest.name_switches_as(switches.map(|node| node.name.clone()));
        tokio::select! {
            () = tokio::time::sleep(NAME_SWITCHES) => {}
            _ = stop.wait_for(|stop| *stop) => return,
        }
    }
}

/// The report in three sentences, as messages to owners have it.
fn digest(of: api::Digest) -> job_notifications::Digest {
    let api::Digest { cost, cause, earlier, has_lost, is_complete, hosts } = of;
    job_notifications::Digest { cost, cause, earlier, has_lost, is_complete, hosts }
}

/// Adds the settings that an audit found wrong to the open incidents that they may explain.
fn explain_by_settings(incidents: &IncidentStore, drifts: &[Drift]) {
    let wrong = |drift: &Drift| WrongSetting {
        node: drift.host.clone(),
        port: drift.port.clone(),
        title: drift.title.clone(),
        severity: drift.severity,
        value: drift.value.clone(),
        expected: drift.expected.clone(),
        changed: drift.changed.as_ref().map(|changed| (changed.since_ms, changed.before.clone())),
    };
    incidents.add_settings(&drifts.iter().map(wrong).collect::<Vec<_>>(), now_ns());
}
