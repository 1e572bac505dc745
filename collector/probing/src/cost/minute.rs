//! A minute of a fleet: what the collector takes for it, and which links the traces cross.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fabriclens_base::Sender;
use fabriclens_config::Probes;
use fabriclens_core::telemetry::Telemetry;
use fabriclens_correlate::{Fabric, Frame, IncidentTracker, Ports, Thresholds, Topology};
use fabriclens_probe_plan::{PlanReply, REPORT_EVERY, ReportReply, ReportRequest};
use prost::Message as _;

use super::agent::{Agent, Pace};
use crate::coverage::Coverage;
use crate::fleet::{Fleet, no_change};
use crate::service::Probing;

const NOW_NS: i64 = 1_700_000_000_000_000_000;
const SECOND_NS: i64 = 1_000_000_000;
/// Simulated seconds.
pub(super) const SECONDS: usize = 60;
/// Seconds at which the coverage is told.
pub(super) const TOLD: [usize; 4] = [10, 20, 30, 60];

/// What the collector took for something, and how much came.
#[derive(Clone, Copy, Default)]
pub(super) struct Spent {
    pub time: Duration,
    pub requests: usize,
    pub bytes: usize,
}

/// A simulated minute.
pub(super) struct Minute {
    /// At the instants of [`TOLD`].
    pub coverage: Vec<Coverage>,
    /// Decoding and checking reports, with the paths that follow from traces.
    pub taken: Spent,
    /// Telling the evaluation the paths and results.
    pub told: Duration,
    /// Closing windows and evaluating the detectors, without any sample.
    pub judged: Duration,
    pub refused: u32,
    /// Answered probes of the newest complete window.
    pub answered: u32,
}

/// A service that has planned for a fleet.
pub(super) fn planned(fleet: Fleet, topology: &Arc<Topology>) -> (Probing, Instant) {
    let telemetry = Telemetry::new().unwrap().probes;
    let (probing, now) = (Probing::new(Probes::default(), BTreeMap::new(), telemetry, usize::MAX), Instant::now());
    for host in 0..fleet.all() {
        probing.ask(Sender::Bound, &fleet.request(host, no_change), now).unwrap();
    }
    probing.set_demand(fleet.demand());
    probing.rewire(topology, NOW_NS);
    probing.replan(topology, now, 0);
    (probing, now)
}

/// All agents with their plans.
pub(super) fn agents(fleet: Fleet, probing: &Probing, now: Instant) -> Vec<Agent> {
    let plan =
        |host| PlanReply::decode(probing.ask(Sender::Bound, &fleet.request(host, no_change), now).unwrap()).unwrap();
    (0..fleet.all()).map(|host| Agent::new(host, plan(host))).collect()
}

/// Simulates a minute.
pub(super) fn minute(fleet: Fleet, topology: &Arc<Topology>, pace: Pace) -> Minute {
    let (probing, now) = planned(fleet, topology);
    let mut agents = agents(fleet, &probing, now);
    let fabric = Fabric::new((**topology).clone(), Ports::new(topology), Vec::new());
    let mut tracker = IncidentTracker::new(fabric, Thresholds::default());
    let mut all = Minute {
        coverage: Vec::new(),
        taken: Spent::default(),
        told: Duration::ZERO,
        judged: Duration::ZERO,
        refused: 0,
        answered: 0,
    };
    let every = REPORT_EVERY.as_secs() as usize;
    for second in (every..=SECONDS).step_by(every) {
        let (now_ns, at) = (NOW_NS + second as i64 * SECOND_NS, now + Duration::from_secs(second as u64));
        for agent in &mut agents {
            let report = agent.report(fleet, pace, every as f64, now_ns).encode_to_vec();
            let began = Instant::now();
            let report = ReportRequest::decode(report.as_slice()).unwrap();
            let ReportReply { refused, .. } = probing.report(Sender::Bound, &report, at, now_ns).unwrap();
            all.taken.time += began.elapsed();
            (all.taken.requests, all.refused) = (all.taken.requests + 1, all.refused + refused);
            all.taken.bytes += report.encoded_len();
        }
        let began = Instant::now();
        loop {
            let updates = probing.drain(20_000);
            if updates.is_empty() {
                break;
            }
            updates.into_iter().for_each(|(at_ns, update)| tracker.learn(at_ns, update));
        }
        all.told += began.elapsed();
        let began = Instant::now();
        for tick in 1..=every {
            tracker.tick(Frame::new(now_ns + tick as i64 * SECOND_NS - every as i64 * SECOND_NS));
        }
        all.judged += began.elapsed();
        if TOLD.contains(&second) {
            probing.rewire(topology, now_ns);
            all.coverage.push(probing.status(0).summary.coverage);
        }
    }
    all.answered = tracker.fabric().routes.probes.newest(1).map(|window| window.answered).sum();
    all
}
