//! Two whole agents, each in its sandbox, probe each other by TCP as the collector plans. RDMA is left to guests.

use super::path_tracing::roots;
use super::probe_plans::{Agent, Collector};
use fabriclens_agent::config::{Overrides, load};
use fabriclens_agent::probing::Probing;
use fabriclens_agent::sandbox::{Sandbox, SandboxRuleset};
use fabriclens_agent::schedule::{Engine, Settings};
use fabriclens_agent_uplink::ProbePlans;
use fabriclens_probe_plan::{PairClass, PlanReply, ProbeResult, ProbeTransport, ProbedPort, Target};
use fabriclens_testing::routers::Routers;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(60);

fn plan(tcp_port: u16) -> PlanReply {
    let name = "rxe0/1".to_owned();
    let to = ProbedPort { name, address: vec![10, 0, 2, 1], tcp_port: tcp_port.into(), ..ProbedPort::default() };
    let target = Target {
        from: "rxe0/1".into(),
        host: "host2".into(),
        to: Some(to),
        traffic_class: 104,
        probe_every_ms: 50,
        tcp_twin: true,
        class: PairClass::CrossLeaf as i32,
        ..Target::default()
    };
    PlanReply { lasts_ms: 60_000, targets: vec![target] }
}

/// An agent of a host whose port has this GID.
fn engine(host: &str, dir: &Path, gid: &str, plans: &Arc<ProbePlans>) -> Engine {
    let roots = roots(dir);
    std::fs::write(dir.join("sys/class/infiniband/rxe0/ports/1/gids/1"), format!("{gid}\n")).unwrap();
    let mut config = load(None, [], &Overrides::default(), &[]).unwrap();
    let probing = Some(Arc::new(Probing { trace: false, ..Probing::default() }));
    config.settings.probing.clone_from(&probing);
    let sandbox = Sandbox::new(SandboxRuleset::of(&roots, &config));
    let probe_plans = Some(Arc::clone(plans));
    let settings = Settings { host: host.into(), sandbox, probing, probe_plans, ..Settings::default() };
    Engine::start(roots, settings).unwrap()
}

#[test]
#[ignore = "needs: network-namespaces"]
fn agents_measure_tcp_round_trips_between_their_ports() {
    let (routers, dir) = (Routers::start(), tempfile::tempdir().unwrap());
    let mapped = |host: &str| format!("0000:0000:0000:0000:0000:ffff:{host}");
    let other = routers.inside("host2", || {
        let plans = Arc::new(ProbePlans::new("host2", 1));
        engine("host2", &dir.path().join("host2"), &mapped("0a00:0201"), &plans)
    });
    routers.inside("host1", || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let collector = Collector::new(Ok(plan(Probing::default().tcp_port)));
        let address = runtime.block_on(collector.serve());
        let agent = runtime.block_on(async { Agent::start(&[&[address]], vec![]) });
        let engine = engine("host1", &dir.path().join("host1"), &mapped("0a00:0101"), &agent.plans);
        let results = || -> Vec<ProbeResult> {
            collector.reported.lock().iter().flat_map(|report| report.probes.clone()).collect()
        };
        let answered = || results().iter().filter(|result| result.rtt_ns.is_some()).count() >= 20;
        runtime.block_on(fabriclens_testing::eventually_async("twins are reported", LIMIT, async || answered()));
        let pair = collector.reported.lock().iter().find_map(|report| report.pairs.first().cloned()).unwrap();
        assert_eq!((pair.from.as_str(), pair.host.as_str(), pair.port.as_str()), ("rxe0/1", "host2", "rxe0/1"));
        for result in results() {
            assert_eq!(result.transport, ProbeTransport::Tcp as i32, "the devices of a recording are not opened");
            assert!(result.sent_ns > 1_700_000_000_000_000_000, "a time of this century");
        }
        let asked = collector.asked.lock().last().cloned().unwrap();
        assert_eq!((asked.ports[0].tcp_port, asked.ports[0].queue_pair), (7472, 0));
        let series = || {
            engine
                .snapshot()
                .iter()
                .any(|section| section.columns.iter().any(|column| column.metric.name == "fabric.probe.rtt"))
        };
        fabriclens_testing::eventually("series of round trips", LIMIT, series);
        assert_eq!(engine.troubles(), Vec::<String>::new());
        // The plan ends: nothing more is sent.
        *collector.plan.lock() = Ok(PlanReply { lasts_ms: 60_000, targets: vec![] });
        let none = async || agent.plans.plan(std::time::Instant::now()).is_some_and(|plan| plan.targets.is_empty());
        runtime.block_on(fabriclens_testing::eventually_async("the plan ends", LIMIT, none));
        std::thread::sleep(Duration::from_secs(1));
        let before = routers.sent("host1", "leaf1");
        std::thread::sleep(Duration::from_secs(1));
        let more = routers.sent("host1", "leaf1") - before;
        assert!(more <= 2, "{more} packets without a plan");
        engine.shutdown(LIMIT);
    });
    other.shutdown(LIMIT);
}
