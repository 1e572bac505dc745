//! Runs the detectors over a recording as a live collector would: samples arrive in order of time, each port in its own
//! phase and period, and each second sees only earlier samples.

use crate::detectors::thresholds::Thresholds;
use crate::engine::recording::{PortSample, RecordedJob, Recording, RecordingError, RouteUpdates};
use crate::engine::slow_signals::SlowSignals;
use crate::model::fabric::{Fabric, Job};
use crate::model::frame::Frame;
use crate::model::incident::Incident;
use crate::model::topology::{HostNames, Role, TopologySource, merge};
use crate::signals::streaming_eval::StreamingEval;
use crate::tracker::incident_tracker::IncidentTracker;
use fabriclens_promql::QueryError;

/// Frames without any sample that are evaluated; a longer gap is skipped.
const LONGEST_GAP: i64 = 120;

/// Why a back-test ends early.
#[derive(Debug, thiserror::Error)]
pub enum BacktestError {
    /// The recording cannot be read.
    #[error(transparent)]
    Recording(#[from] RecordingError),
    /// A signal cannot be queried.
    #[error(transparent)]
    Query(#[from] QueryError),
}

/// Incidents of a recording in the order in which they ended; those that are open at its end have no end and come last.
///
/// # Errors
/// [`BacktestError`].
pub fn backtest(recording: Recording, thresholds: Thresholds) -> Result<Vec<Incident>, BacktestError> {
    let Recording { described, fabric, jobs, step_ms, samples, routes } = recording;
    let (streaming, slow) = StreamingEval::new(step_ms);
    let mut run = Run {
        described,
        jobs,
        known: (Vec::new(), 0),
        streaming,
        slow: SlowSignals::new(slow),
        routes,
        tracker: IncidentTracker::new(fabric, thresholds),
        step_ms,
        frame_ms: None,
        incidents: Vec::new(),
    };
    for sample in samples {
        run.take(&sample?)?;
    }
    if run.frame_ms.is_some() {
        run.evaluate()?;
    }
    run.incidents.extend(run.tracker.open());
    Ok(run.incidents)
}

/// A back-test under way.
struct Run {
    described: Vec<TopologySource>,
    jobs: Vec<RecordedJob>,
    /// Indices of the jobs that run, and the number of ports that were known when they were set.
    known: (Vec<usize>, u64),
    streaming: StreamingEval,
    slow: SlowSignals,
    routes: RouteUpdates,
    tracker: IncidentTracker,
    step_ms: i64,
    /// Instant of the newest frame, Unix ms.
    frame_ms: Option<i64>,
    incidents: Vec<Incident>,
}

impl Run {
    fn take(&mut self, sample: &PortSample) -> Result<(), BacktestError> {
        let frame_ms = self.streaming.frame_of(sample.time_ms);
        match self.frame_ms {
            None => self.push(frame_ms)?,
            Some(newest_ms) => {
                let mut next_ms = (newest_ms + self.step_ms).max(frame_ms - LONGEST_GAP * self.step_ms);
                while next_ms <= frame_ms {
                    self.evaluate()?;
                    self.push(next_ms)?;
                    next_ms += self.step_ms;
                }
            }
        }
        self.slow.take(&sample.series, sample.time_ms, &sample.values);
        self.streaming.take(&sample.series, &[sample.time_ms], &sample.values, &mut self.tracker);
        Ok(())
    }

    fn push(&mut self, time_ms: i64) -> Result<(), QueryError> {
        let mut frame = Frame::new(time_ms.saturating_mul(1_000_000));
        self.slow.fill(self.tracker.fabric(), &mut frame)?;
        self.tracker.push(frame);
        self.frame_ms = Some(time_ms);
        Ok(())
    }

    /// Evaluates all frames so far; paths and probes are known up to the newest one.
    fn evaluate(&mut self) -> Result<(), RecordingError> {
        let now_ns = self.tracker.now_ns();
        while let Some((at_ns, update)) = self.routes.next_until(now_ns)? {
            self.tracker.learn(at_ns, update);
        }
        self.set_jobs();
        let switch = |fabric: &Fabric, node: usize| fabric.topology.nodes[node].role != Role::Host;
        if let Some(inferred) = self.tracker.cables(switch) {
            let all: Vec<TopologySource> = self.described.iter().cloned().chain([inferred]).collect();
            self.tracker.rewire(&merge(&all, &HostNames::default()));
            self.streaming.rewired();
        }
        self.incidents.extend(self.tracker.evaluate());
        Ok(())
    }

    /// Replaces the jobs if others run now, or ports have been found.
    fn set_jobs(&mut self) {
        let (now_ns, fabric) = (self.tracker.now_ns(), self.tracker.fabric());
        let runs = |job: &RecordedJob| (job.start_ns..job.end_ns).contains(&now_ns);
        let running: Vec<usize> = (0..self.jobs.len()).filter(|at| runs(&self.jobs[*at])).collect();
        let known = (running, fabric.ports.added());
        if known == self.known {
            return;
        }
        let job = |at: &usize| {
            let RecordedJob { id, hosts, start_ns, .. } = &self.jobs[*at];
            let nodes = hosts.iter().filter_map(|host| fabric.topology.node(host));
            let ports = nodes.flat_map(|node| fabric.ports.of_node(node).iter().copied()).collect();
            Job { id: id.clone(), ports, since_ns: *start_ns }
        };
        let jobs = known.0.iter().map(job).collect();
        self.tracker.set_jobs(jobs);
        self.known = known;
    }
}
