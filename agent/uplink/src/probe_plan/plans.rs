//! What the threads that trace and probe share with the tasks that ask and report.

use crate::random_number::random_number;
use crate::ring::{Item, Reader, Ring};
use fabriclens_probe_plan::{
    LASTS, PORTS, PlanReply, PlanRequest, ProbeResult, ProbedPort, ReportedPair, Target, TracedPath,
};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// Paths and results that wait for a report; the oldest are dropped beyond. Two full reports.
const QUEUE: usize = 2 * fabriclens_probe_plan::RESULTS;

/// Part of the agent that offers ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// Traces paths: sets name, address and [`ProbedPort::traces`].
    Tracer,
    /// Probes: sets name, address or LID, and how the port answers.
    Prober,
}

/// Plan that this host follows.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Number of the plan; stays while the targets stay.
    pub number: u64,
    /// What to trace and probe, the most important first.
    pub targets: Arc<[Target]>,
    /// End of the plan, unless the collector renews it.
    pub until: Instant,
    /// URL of the collector that made it.
    pub collector: Arc<str>,
}

/// A path or result to report.
#[derive(Clone, Debug, PartialEq)]
pub enum Finding {
    /// A traced path; the pair's position is set when it is reported.
    Path(TracedPath),
    /// The result of a probe; the pair's position is set when it is reported.
    Probe(ProbeResult),
}

/// A finding and the pair of ports that it belongs to.
#[derive(Clone, Debug)]
pub(super) struct PairFinding {
    pub(super) pair: Arc<ReportedPair>,
    pub(super) finding: Finding,
}

impl Item for PairFinding {
    fn is_urgent(&self) -> bool {
        false
    }

    fn points(&self) -> u64 {
        1
    }
}

/// How the last request for a plan ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlanState {
    /// No collector was asked yet, or no port is offered.
    NotAsked,
    /// A collector answered; number of targets.
    Answered {
        /// URL of the collector.
        collector: Arc<str>,
        /// Targets of its plan.
        targets: usize,
    },
    /// No receiver knows probe plans.
    Unsupported,
    /// No answer, or an error, which the text names.
    Failed(String),
}

/// Counts since the start of the agent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PlanStats {
    /// Requests for a plan that were answered.
    pub plans: u64,
    /// Requests for a plan that failed.
    pub failed_plans: u64,
    /// Reports that a collector took.
    pub reports: u64,
    /// Reports that failed; each is sent again.
    pub failed_reports: u64,
    /// Paths and results that were dropped before a collector took them.
    pub dropped: u64,
    /// Paths and results that a collector refused.
    pub refused: u64,
}

#[derive(Debug, Default)]
pub(super) struct Totals {
    pub(super) plans: AtomicU64,
    pub(super) failed_plans: AtomicU64,
    pub(super) reports: AtomicU64,
    pub(super) failed_reports: AtomicU64,
    /// Dropped by the tasks; those that the queue dropped are counted there.
    pub(super) dropped: AtomicU64,
    pub(super) refused: AtomicU64,
}

/// Ports that this host offers, the plan for them, and the queue of findings.
#[derive(Debug)]
pub struct ProbePlans {
    host: String,
    agent: u64,
    offers: Mutex<BTreeMap<Part, Vec<ProbedPort>>>,
    plan: Mutex<Option<Plan>>,
    state: Mutex<PlanState>,
    queue: Arc<Ring<PairFinding>>,
    /// Wakes the task that asks when the ports have changed.
    pub(super) changed: Notify,
    pub(super) totals: Totals,
}

impl ProbePlans {
    /// No plan yet. `uplinks`: number of uplinks, each of which reports.
    pub fn new(host: &str, uplinks: usize) -> Self {
        Self {
            host: host.to_owned(),
            agent: random_number(),
            offers: Mutex::default(),
            plan: Mutex::default(),
            state: Mutex::new(PlanState::NotAsked),
            queue: Arc::new(Ring::new(QUEUE, uplinks)),
            changed: Notify::new(),
            totals: Totals::default(),
        }
    }

    /// Sets the ports of a part. The collector learns changed ports with the next request, which is then sent at once.
    pub fn offer(&self, part: Part, ports: Vec<ProbedPort>) {
        let before = self.offers.lock().insert(part, ports.clone());
        if before.unwrap_or_default() != ports {
            self.changed.notify_one();
        }
    }

    /// The plan to follow; `None` if there is none, or it has expired: then nothing is sent.
    pub fn plan(&self, now: Instant) -> Option<Plan> {
        self.plan.lock().clone().filter(|plan| now < plan.until)
    }

    /// How the last request for a plan ended.
    pub fn state(&self) -> PlanState {
        self.state.lock().clone()
    }

    /// Queues a finding for the next report. Drops the oldest if the queue is full.
    pub fn report(&self, pair: &Arc<ReportedPair>, finding: Finding) {
        self.queue.push(PairFinding { pair: Arc::clone(pair), finding });
    }

    /// Counts since the start.
    pub fn stats(&self) -> PlanStats {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let totals = &self.totals;
        PlanStats {
            plans: of(&totals.plans),
            failed_plans: of(&totals.failed_plans),
            reports: of(&totals.reports),
            failed_reports: of(&totals.failed_reports),
            dropped: of(&totals.dropped) + self.queue.dropped(),
            refused: of(&totals.refused),
        }
    }

    /// Host name and number of the agent process, for requests.
    pub(super) fn sender(&self) -> (String, u64) {
        (self.host.clone(), self.agent)
    }

    /// Reader of the queue for one uplink.
    pub(super) fn reader(&self, uplink: usize) -> Reader<PairFinding> {
        self.queue.reader(uplink)
    }

    /// The next request: each port once, with what all parts offer of it.
    pub(super) fn request(&self) -> PlanRequest {
        let mut ports: BTreeMap<String, ProbedPort> = BTreeMap::new();
        for port in self.offers.lock().values().flatten() {
            if let Some(known) = ports.get_mut(&port.name) {
                join(known, port);
            } else if ports.len() < PORTS {
                ports.insert(port.name.clone(), port.clone());
            }
        }
        let (host, agent) = self.sender();
        PlanRequest { host, agent, ports: ports.into_values().collect() }
    }

    /// Takes a checked plan, whose request was sent at `sent`. The number stays while the targets stay.
    pub(super) fn take(&self, reply: PlanReply, collector: &str, sent: Instant) {
        let lasts = Duration::from_millis(reply.lasts_ms.into()).min(LASTS);
        let mut plan = self.plan.lock();
        let same = plan.as_ref().filter(|plan| *plan.targets == *reply.targets);
        let (number, targets) = match same {
            Some(plan) => (plan.number, Arc::clone(&plan.targets)),
            None => (plan.as_ref().map_or(0, |plan| plan.number) + 1, reply.targets.into()),
        };
        let (collector, count): (Arc<str>, usize) = (collector.into(), targets.len());
        *plan = Some(Plan { number, targets, until: sent + lasts, collector: Arc::clone(&collector) });
        *self.state.lock() = PlanState::Answered { collector, targets: count };
    }

    /// Sets the state of a request that brought no plan; true if it differs from the state before.
    pub(super) fn set_state(&self, state: PlanState) -> bool {
        let mut slot = self.state.lock();
        let is_new = *slot != state;
        *slot = state;
        is_new
    }
}

/// Adds to a port what another part offers of it.
fn join(port: &mut ProbedPort, other: &ProbedPort) {
    if port.address.is_empty() {
        port.address.clone_from(&other.address);
    }
    if port.source_ports.is_empty() {
        port.source_ports.clone_from(&other.source_ports);
    }
    for (number, more) in
        [(&mut port.lid, other.lid), (&mut port.queue_pair, other.queue_pair), (&mut port.tcp_port, other.tcp_port)]
    {
        if *number == 0 {
            *number = more;
        }
    }
    if port.traffic_class.is_none() {
        (port.traffic_class, port.class_source) = (other.traffic_class, other.class_source);
    }
    port.hardware_time |= other.hardware_time;
    port.traces |= other.traces;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn port(name: &str) -> ProbedPort {
        ProbedPort { name: name.to_owned(), ..ProbedPort::default() }
    }

    fn reply(lasts_ms: u32, hosts: &[&str]) -> PlanReply {
        let target = |host: &&str| Target { host: (*host).to_owned(), ..Target::default() };
        PlanReply { lasts_ms, targets: hosts.iter().map(target).collect() }
    }

    #[test]
    fn a_port_of_two_parts_is_offered_once() {
        let plans = ProbePlans::new("a", 1);
        plans.offer(Part::Tracer, vec![ProbedPort { address: vec![10, 0, 0, 1], traces: true, ..port("rxe0/1") }]);
        let probed = ProbedPort { queue_pair: 17, tcp_port: 7473, source_ports: vec![50_000], ..port("rxe0/1") };
        plans.offer(Part::Prober, vec![probed, port("rxe1/1")]);
        let ports = plans.request().ports;
        assert_eq!(ports.iter().map(|port| port.name.as_str()).collect::<Vec<_>>(), ["rxe0/1", "rxe1/1"]);
        let both = &ports[0];
        assert_eq!((both.address.len(), both.traces, both.queue_pair, both.tcp_port), (4, true, 17, 7473));
        assert_eq!(both.source_ports, [50_000]);
        plans.offer(Part::Prober, Vec::new());
        assert_eq!(plans.request().ports.len(), 1, "an offer replaces the one before");
    }

    #[test]
    fn at_most_the_ports_of_the_contract_are_offered() {
        let plans = ProbePlans::new("a", 1);
        plans.offer(Part::Tracer, (0..PORTS + 9).map(|n| port(&format!("rxe{n}/1"))).collect());
        assert!(plans.request().check().is_ok());
    }

    #[test]
    fn a_plan_holds_until_it_expires_and_keeps_its_number_while_it_stays() {
        let (plans, now) = (ProbePlans::new("a", 1), Instant::now());
        assert!(plans.plan(now).is_none());
        plans.take(reply(5000, &["b"]), "http://c:1", now);
        let plan = plans.plan(now).expect("a plan");
        assert!(plans.plan(now + Duration::from_millis(4999)).is_some());
        assert!(plans.plan(now + Duration::from_secs(5)).is_none(), "expired");
        plans.take(reply(5000, &["b"]), "http://c:1", now + Duration::from_secs(10));
        assert_eq!(plans.plan(now + Duration::from_secs(14)).expect("renewed").number, plan.number);
        plans.take(reply(u32::MAX, &["c"]), "http://c:1", now);
        assert_eq!(plans.plan(now).expect("replaced").number, plan.number + 1);
        assert!(plans.plan(now + LASTS).is_none(), "no plan lasts longer than a collector may be away");
    }

    #[test]
    fn the_oldest_findings_are_dropped_and_counted() {
        let plans = ProbePlans::new("a", 1);
        let pair = Arc::new(ReportedPair::default());
        for sent_ns in 0..QUEUE as u64 + 3 {
            plans.report(&pair, Finding::Probe(ProbeResult { sent_ns, ..ProbeResult::default() }));
        }
        assert_eq!(plans.stats().dropped, 3);
        let first = plans.reader(0).take(1).pop().expect("a result");
        assert!(matches!(first.finding, Finding::Probe(result) if result.sent_ns == 3));
    }
}
