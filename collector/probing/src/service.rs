//! The service: offers, plans, reports, and the feed of the live evaluation.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use fabriclens_base::Sender;
use fabriclens_config::Probes;
use fabriclens_core::periodic::{Trigger, periodic};
use fabriclens_core::probe_telemetry::ProbeTelemetry;
use fabriclens_core::time::now_ms;
use fabriclens_correlate::topology::TopologySource;
use fabriclens_correlate::{FlowName, PathSource, PortName, RouteUpdate, Topology};
use fabriclens_probe_plan::{PlanRequest, ReportReply, ReportRequest};
use parking_lot::{Mutex, RwLock};
use tokio::sync::{Notify, watch};

use crate::coverage::{Coverage, Crossed};
use crate::demand::Demand;
use crate::feed::{Feed, Timed};
use crate::hops::{FabricIndex, Trace, Unresolved};
use crate::inferred::InferredSwitches;
use crate::kept_traces::KeptTraces;
use crate::plan_table::PlanTable;
use crate::planner::{class_name, encoded, plan};
use crate::registry::{OfferRefused, PortRegistry, Reporter};
use crate::reports::{Budgets, ReportRefused, Taken, check};
use crate::status::{self, HostStatus, Status};
use crate::targets::Unused;
use crate::trace_status;

/// Interval of planning.
const INTERVAL: Duration = Duration::from_secs(10);
/// Shortest pause between two plannings that new offers cause, and as a multiple of the last one's duration.
const PAUSE: Duration = Duration::from_secs(1);
const PAUSE_FACTOR: u32 = 10;
/// Hosts of a page of the API.
const PAGE: usize = 1000;

/// Chooses targets and takes reports. All methods are quick except [`Probing::replan`].
pub struct Probing {
    settings: Probes,
    /// Switch by address, as configured.
    switches: BTreeMap<IpAddr, String>,
    telemetry: ProbeTelemetry,
    registry: Mutex<PortRegistry>,
    demand: Mutex<Arc<Demand>>,
    /// The present plans, and the last ones.
    plans: RwLock<[Arc<PlanTable>; 2]>,
    index: RwLock<Arc<FabricIndex>>,
    budgets: Mutex<Budgets>,
    paths: Mutex<Paths>,
    feed: Mutex<Feed>,
    coverage: Mutex<Coverage>,
    wake: Arc<Notify>,
}

/// What traces showed.
#[derive(Default)]
struct Paths {
    crossed: Crossed,
    inferred: InferredSwitches,
    traces: KeptTraces,
}

impl Probing {
    /// A service without offers. `switches` are switches by address; offers and plans may take `memory` bytes.
    pub fn new(settings: Probes, switches: BTreeMap<IpAddr, String>, telemetry: ProbeTelemetry, memory: usize) -> Self {
        Self {
            settings,
            switches,
            telemetry,
            registry: Mutex::new(PortRegistry::new(memory)),
            demand: Mutex::default(),
            plans: RwLock::default(),
            index: RwLock::default(),
            budgets: Mutex::default(),
            paths: Mutex::default(),
            feed: Mutex::default(),
            coverage: Mutex::default(),
            wake: Arc::default(),
        }
    }

    /// Takes the offer of a host from a sender, and returns the host's encoded plan.
    ///
    /// # Errors
    /// [`OfferRefused`].
    pub fn ask(&self, sender: Sender<'_>, request: &PlanRequest, now: Instant) -> Result<Bytes, OfferRefused> {
        if self.registry.lock().offer(sender, request, now)? {
            self.wake.notify_one();
        }
        let plan = if request.ports.is_empty() { None } else { self.plans.read()[0].reply(&request.host) };
        Ok(plan.unwrap_or_else(|| encoded(Vec::new())))
    }

    /// Takes the paths and results of a host from a sender. They are in the share of the sender that offered the host's ports.
    ///
    /// # Errors
    /// [`ReportRefused`]; nothing is taken.
    pub fn report(
        &self,
        sender: Sender<'_>,
        request: &ReportRequest,
        now: Instant,
        now_ns: i64,
    ) -> Result<ReportReply, ReportRefused> {
        request.check()?;
        let reporter = {
            let registry = self.registry.lock();
            let offer = registry.of(&request.host).ok_or_else(|| ReportRefused::NoPlan(request.host.clone()))?;
            if offer.agent != request.agent {
                return Err(ReportRefused::OtherAgent(request.host.clone()));
            }
            if sender != Sender::Bound && offer.sender() == Sender::Bound {
                return Err(ReportRefused::Taken(request.host.clone()));
            }
            Arc::new(offer.reporter())
        };
        let [present, last] = self.plans.read().clone();
        let taken = check(&reporter, request, [&present, &last], &mut self.budgets.lock(), now, now_ns);
        let Taken { traces, probes, counts, refused, reply } = taken;
        for (kind, count) in counts {
            self.telemetry.taken.with_label_values(&[kind]).inc_by(count);
        }
        for (reason, count) in refused {
            self.telemetry.refused.with_label_values(&[reason]).inc_by(count);
        }
        self.telemetry.agents_dropped.inc_by(request.dropped);
        let mut updates: Vec<Timed> = self.resolve(traces).into_iter().map(|(_, update)| update).collect();
        updates.extend(probes);
        self.push(&reporter, updates);
        Ok(reply)
    }

    fn push(&self, reporter: &Arc<Reporter>, updates: Vec<Timed>) {
        if !updates.is_empty() {
            self.telemetry.feed_dropped.inc_by(self.feed.lock().add(reporter, updates) as u64);
        }
    }

    /// Paths of traces with who reported them; traces that the topology does not explain yet wait.
    fn resolve(&self, traces: Vec<Trace>) -> Vec<(Arc<Reporter>, Timed)> {
        if traces.is_empty() {
            return Vec::new();
        }
        let index = self.index.read().clone();
        let paths = &mut *self.paths.lock();
        let mut updates = Vec::new();
        for trace in traces {
            paths.inferred.note(&trace, &index);
            match index.resolve(&trace) {
                Ok(hops) => {
                    self.telemetry.traces.with_label_values(&["path"]).inc();
                    paths.crossed.note(&hops, trace.at_ns);
                    let flow = (*trace.flow).clone();
                    let path = RouteUpdate::Path { flow, hops, source: PathSource::Traced };
                    updates.push((trace.by.clone(), (trace.at_ns, path)));
                    paths.traces.keep(trace, false);
                }
                Err(why) => {
                    self.telemetry.traces.with_label_values(&[why.name()]).inc();
                    paths.traces.keep(trace, why.may_resolve());
                }
            }
        }
        updates
    }

    /// Takes at most `most` updates for the live evaluation, in order of their instants (Unix nanoseconds).
    pub fn drain(&self, most: usize) -> Vec<Timed> {
        self.feed.lock().drain(most)
    }

    /// Whether any agent asks for plans.
    pub fn is_used(&self) -> bool {
        self.plans.read()[0].totals.ports > 0
    }

    /// Names of all ports that agents offer, by host; also of ports that no plan uses.
    pub fn offered(&self) -> Vec<(Arc<str>, Vec<String>)> {
        let all = self.registry.lock().all();
        all.into_iter().map(|offer| (offer.host, offer.ports.iter().map(|port| port.name.clone()).collect())).collect()
    }

    /// Replaces what plans depend on; suspects that are new are planned for at once.
    pub fn set_demand(&self, demand: Demand) {
        let mut known = self.demand.lock();
        let is_new = |pair| !known.suspect_flows.contains_key(pair);
        let is_urgent = !demand.suspects.is_subset(&known.suspects) || demand.suspect_flows.keys().any(is_new);
        *known = Arc::new(demand);
        if is_urgent {
            self.wake.notify_one();
        }
    }

    /// Computes the plans for a topology. `hour` decides which source ports change.
    pub fn replan(&self, topology: &Topology, now: Instant, hour: u64) {
        let began = Instant::now();
        let offers = {
            let mut registry = self.registry.lock();
            registry.expire(now);
            registry.all()
        };
        let demand = self.demand.lock().clone();
        let table = Arc::new(plan(&offers, topology, &demand, &self.settings, hour));
        self.observe(&table);
        {
            let mut plans = self.plans.write();
            let last = std::mem::replace(&mut plans[0], table);
            plans[1] = last;
        }
        let registry = self.registry.lock();
        self.budgets.lock().retain(|host| registry.of(host).is_some());
        self.telemetry.plan_seconds.set(began.elapsed().as_secs_f64());
    }

    fn observe(&self, table: &PlanTable) {
        let (telemetry, totals) = (&self.telemetry, &table.totals);
        let whole = |n: usize| i64::try_from(n).unwrap_or(i64::MAX);
        telemetry.hosts.set(whole(totals.hosts));
        telemetry.ports.with_label_values(&["used"]).set(whole(totals.ports));
        for why in Unused::ALL {
            let count = totals.unused.iter().filter(|(_, _, other)| *other == why).count();
            if telemetry.ports.with_label_values(&[why.name()]).get() < whole(count)
                && let Some((host, port, _)) = totals.unused.iter().find(|(_, _, other)| *other == why)
            {
                tracing::warn!(ports = count, %host, port, why = why.words(), "offered ports are not probed");
            }
            telemetry.ports.with_label_values(&[why.name()]).set(whole(count));
        }
        use fabriclens_probe_plan::PairClass::{CrossLeaf, Job, SameLeaf, Unknown};
        for class in [Job, SameLeaf, CrossLeaf, Unknown].map(class_name) {
            telemetry.pairs.with_label_values(&[class]).set(whole(totals.pairs.get(class).copied().unwrap_or(0)));
        }
        telemetry.probes_per_s.set(totals.probes_per_s);
        telemetry.traces_per_s.set(totals.traces_per_s);
        telemetry.plan_bytes.set(whole(totals.bytes));
    }

    /// Takes over a topology: traces that it explains now become paths. Returns switches and cables that only traces show, if
    /// they have changed.
    pub fn rewire(&self, topology: &Arc<Topology>, now_ns: i64) -> Option<TopologySource> {
        let is_new = !Arc::ptr_eq(self.index.read().topology(), topology);
        if is_new {
            *self.index.write() = Arc::new(FabricIndex::new(topology.clone(), &self.switches));
            let waiting = self.paths.lock().traces.take_waiting();
            for (reporter, update) in self.resolve(waiting) {
                self.push(&reporter, vec![update]);
            }
        }
        let index = self.index.read().clone();
        let mut paths = self.paths.lock();
        paths.traces.forget_old(now_ns);
        let coverage = paths.crossed.coverage(topology, now_ns);
        let telemetry = &self.telemetry;
        let set = |between: &str, crossed: usize, all: usize| {
            telemetry.links.with_label_values(&[between, "yes"]).set(crossed as i64);
            telemetry.links.with_label_values(&[between, "no"]).set(all.saturating_sub(crossed) as i64);
        };
        set("switches", coverage.between_switches, coverage.all_between_switches);
        set("hosts", coverage.at_hosts, coverage.all_at_hosts);
        telemetry.waiting.set(self.feed.lock().len() as i64);
        *self.coverage.lock() = coverage;
        paths.inferred.changed(&index, now_ns)
    }

    /// What the API says, with hosts from an offset on.
    pub fn status(&self, offset: usize) -> Status {
        let plans = self.plans.read()[0].clone();
        let offers = self.registry.lock().all();
        let page =
            offers.iter().skip(offset).take(PAGE).map(|offer| status::host(offer, &plans.totals, &self.settings, None));
        Status {
            summary: status::summary(&plans.totals, *self.coverage.lock()),
            hosts: page.collect(),
            next: Some(offset.saturating_add(PAGE)).filter(|next| *next < offers.len()),
        }
    }

    /// Egress ports of a flow by its last trace, the sender's own first.
    ///
    /// # Errors
    /// Why they are not known, in words.
    pub fn path(&self, flow: &FlowName) -> Result<Vec<PortName>, &'static str> {
        let index = self.index.read().clone();
        let paths = self.paths.lock();
        let trace = paths.traces.of(flow).ok_or("its source port was not traced")?;
        index.resolve(trace).map_err(Unresolved::words)
    }

    /// What the API says of one host at an instant (Unix nanoseconds), with its plan and its traces; `None` if its agent does not
    /// ask for a plan.
    pub fn host(&self, host: &str, now_ns: i64) -> Option<HostStatus> {
        let offer = self.registry.lock().of(host)?.clone();
        let plans = self.plans.read()[0].clone();
        let plan = plans.reply(host).unwrap_or_default();
        let traces = self.paths.lock().traces.of_host(&offer.host);
        let index = self.index.read().clone();
        let traces = traces.iter().map(|trace| trace_status::status(trace, &index, now_ns)).collect();
        Some(HostStatus { traces: Some(traces), ..status::host(&offer, &plans.totals, &self.settings, Some(plan)) })
    }
}

/// Plans until `stop` becomes true. `topology` returns the present topology, `infer` takes switches that only traces show.
pub async fn run(
    probing: Arc<Probing>,
    topology: impl Fn() -> Arc<Topology> + Send + 'static,
    infer: impl Fn(TopologySource) + Send + 'static,
    stop: watch::Receiver<bool>,
) {
    let wake = probing.wake.clone();
    let mut next = Instant::now();
    let work = move |trigger| {
        if trigger == Trigger::Stop {
            return;
        }
        // Offers come in crowds: the first waits a moment for the others.
        std::thread::sleep(next.saturating_duration_since(Instant::now()).min(INTERVAL));
        let (began, now) = (Instant::now(), now_ms());
        let topology = topology();
        if let Some(source) = probing.rewire(&topology, now.saturating_mul(1_000_000)) {
            infer(source);
        }
        probing.replan(&topology, began, u64::try_from(now / 3_600_000).unwrap_or(0));
        next = Instant::now() + (began.elapsed() * PAUSE_FACTOR).max(PAUSE);
    };
    periodic(INTERVAL, wake, stop, "probes are no longer planned", work).await;
}

#[cfg(test)]
mod tests;
