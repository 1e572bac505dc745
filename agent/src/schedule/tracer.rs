//! The thread that traces paths, if configured.

use super::core::Core;
use crate::probing::{PortClasses, Probing, RoutedPorts, TraceCounts, routed_ports, trace_plan};
use crate::sandbox::Role;
use fabriclens_agent_host::capabilities;
use fabriclens_agent_tracer::transport::Live;
use fabriclens_agent_tracer::{LocalPort, Tracer};
use fabriclens_agent_uplink::{Finding, Part, PlanState, ProbePlans};
use fabriclens_probe_plan::{ProbedPort, octets};
use std::hash::{BuildHasher as _, RandomState};
use std::time::{Duration, Instant};

/// Components of its problems in `/healthz`.
const PLAN: &str = "probe plan";
const TRACES: &str = "path tracing";
/// Interval at which ports, problems and counts are looked at.
const LOOK: Duration = Duration::from_secs(2);
/// Longest wait for answers, after which the thread looks whether it must end.
const WAIT: Duration = Duration::from_millis(200);

/// Traces paths until the engine stops.
pub(super) fn run(core: &Core, probing: &Probing, plans: &ProbePlans) {
    capabilities::without_probes();
    core.settings.sandbox.enter(Role::Plain);
    // Random in each process, so that others cannot guess which answers are waited for.
    let mut tracer = Tracer::new(Live, probing.trace_packets, RandomState::new().hash_one(std::process::id()));
    let (mut plan, mut refused, mut looked) = (None, None, None);
    while !core.is_stopping() {
        let now = Instant::now();
        if looked.is_none_or(|at: Instant| now.saturating_duration_since(at) >= LOOK) {
            looked = Some(now);
            look(core, plans, &mut tracer, &refused, now);
            // As the agent samples less often when it costs too much, it traces less.
            tracer.set_rate((probing.trace_packets >> core.throttle.step().min(3)).max(1));
        }
        let current = plans.plan(now);
        let number = current.as_ref().map(|plan| plan.number);
        if number != plan {
            plan = number;
            let targets = current.map(|plan| trace_plan(probing, &plan.targets)).unwrap_or_default();
            refused = targets.refused;
            tracer.set_targets(targets.targets, now);
        }
        for found in tracer.step(now, core.clock.now()) {
            plans.report(&found.pair, Finding::Path(found.path));
        }
        tracer.wait(now, now + WAIT);
    }
    plans.offer(Part::Tracer, Vec::new());
}

/// Offers the ports that the host has now, and tells problems and counts.
fn look(core: &Core, plans: &ProbePlans, tracer: &mut Tracer<Live>, refused: &Option<String>, now: Instant) {
    let inventory = core.inventory.lock().clone();
    let RoutedPorts { ports, left_out } = routed_ports(&inventory);
    let has_none = ports.is_empty();
    plans.offer(Part::Tracer, PortClasses::read(&inventory).with(ports.iter().map(offered).collect()));
    tracer.set_ports(ports, now);
    // A port without an address may be unused; that no port has one is a mistake.
    let left_out = left_out.into_iter().filter(|_| has_none);
    let problems = tracer.problems().into_iter().chain(left_out).chain(refused.clone());
    tell(core, TRACES, problems.collect::<Vec<_>>().join("; "));
    tell(
        core,
        PLAN,
        match plans.state() {
            PlanState::Failed(why) => format!("no plan: {why}; the last one is followed until it ends"),
            PlanState::Unsupported => {
                "the receiver makes no probe plans; upgrade the collector, or set probes.enabled = false".to_owned()
            }
            PlanState::NotAsked | PlanState::Answered { .. } => String::new(),
        },
    );
    *core.tracing.lock() = Some(TraceCounts { stats: tracer.stats(), paths: tracer.paths() });
}

/// Sets or clears the problem of a component; logs it when it begins.
fn tell(core: &Core, component: &str, why: String) {
    if why.is_empty() {
        core.thread_health.clear(component);
    } else if core.thread_health.set(component, why.clone()) {
        tracing::warn!(component, why, "paths are not traced, or not all");
    }
}

fn offered(port: &LocalPort) -> ProbedPort {
    ProbedPort { name: port.name.clone(), address: octets(port.address), traces: true, ..ProbedPort::default() }
}
