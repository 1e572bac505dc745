//! The thread that looks after the probers of ports, if configured: which ports there are, what the plan says, what they found.

use super::core::Core;
use crate::probing::{PortClasses, Probing, probe_plan};
use crate::sandbox::Role;
use fabriclens_agent_host::capabilities;
use fabriclens_agent_prober::{Prober, Settings, sections, set_inventory};
use fabriclens_agent_uplink::{Finding, Part, ProbePlans};
use fabriclens_probe_plan::{ProbeResult, ReportedPair, Target};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Component of its problems in `/healthz`.
const COMPONENT: &str = "probing";
/// Interval at which the plan is looked at.
const TURN: Duration = Duration::from_millis(200);
/// Interval at which ports and problems are looked at.
const LOOK: Duration = Duration::from_secs(2);
/// Shortest interval of series.
const SERIES: Duration = Duration::from_secs(5);

/// Probes until the engine stops.
pub(super) fn run(core: &Core, probing: &Probing, plans: &Arc<ProbePlans>) {
    capabilities::without_probes();
    core.settings.sandbox.enter(Role::Plain);
    let settings = Settings {
        // The devices of a recording are not this host's.
        rdma: probing.rdma && !core.roots.is_recorded(),
        tcp: probing.tcp,
        per_second: probing.probe_packets,
        tcp_port: probing.tcp_port,
    };
    let queue = Arc::clone(plans);
    let report = move |target: &Target, result: ProbeResult| {
        let port = target.to.as_ref().map(|to| to.name.clone()).unwrap_or_default();
        let pair = ReportedPair { from: target.from.clone(), host: target.host.clone(), port };
        queue.report(&Arc::new(pair), Finding::Probe(result));
    };
    let prober = Arc::new(Prober::new(settings, Arc::clone(&core.clock), Box::new(report)));
    let _stops = Stops(&prober);
    let (mut plan, mut refused) = (None, None);
    let (mut looked, mut pushed) = (None, Instant::now());
    let mut classes = PortClasses::default();
    while !core.is_stopping() {
        let now = Instant::now();
        if looked.is_none_or(|at: Instant| now.saturating_duration_since(at) >= LOOK) {
            looked = Some(now);
            let inventory = core.inventory.lock().clone();
            set_inventory(&prober, &inventory);
            classes = PortClasses::read(&inventory);
            prober.reduce(u32::try_from(core.throttle.step()).unwrap_or(0));
            let problems: Vec<String> = prober.problems().into_iter().chain(refused.clone()).collect();
            tell(core, problems.join("; "));
        }
        plans.offer(Part::Prober, classes.with(prober.offers()));
        // Without a plan nothing is sent but answers.
        let current = plans.plan(now);
        let number = current.as_ref().map(|plan| plan.number);
        if number != plan {
            plan = number;
            let targets = current.map(|plan| probe_plan(probing, &plan.targets)).unwrap_or_default();
            refused = targets.refused;
            prober.set_targets(targets.targets);
        }
        if now.saturating_duration_since(pushed) >= SERIES.max(core.full()) {
            pushed = now;
            let sections = sections(&prober, &core.host, core.clock.now());
            core.probed.lock().clone_from(&sections);
            sections.into_iter().for_each(|section| _ = core.ring.push(section));
        }
        std::thread::sleep(TURN);
    }
    plans.offer(Part::Prober, Vec::new());
}

/// Stops the threads of ports when this thread ends, also by a panic.
struct Stops<'a>(&'a Prober);

impl Drop for Stops<'_> {
    fn drop(&mut self) {
        self.0.stop();
    }
}

/// Sets or clears the problem; logs it when it begins.
fn tell(core: &Core, why: String) {
    if why.is_empty() {
        core.thread_health.clear(COMPONENT);
    } else if core.thread_health.set(COMPONENT, why.clone()) {
        tracing::warn!(why, "ports are not probed, or not all; fabriclens-agent doctor lists them");
    }
}
