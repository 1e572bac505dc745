//! A whole agent traces the paths of a plan through Linux routers, in its sandbox, and reports them.

use super::probe_plans::{Agent, Collector};
use crate::support::{copy, host};
use fabriclens_agent::config::{Overrides, load};
use fabriclens_agent::probing::{Probing, state};
use fabriclens_agent::sandbox::{Sandbox, SandboxRuleset};
use fabriclens_agent::schedule::{Engine, Settings};
use fabriclens_agent_host::discover::discover;
use fabriclens_agent_host::roots::Roots;
use fabriclens_probe_plan::{PlanReply, ProbedPort, Target, TracedPath};
use fabriclens_testing::eventually;
use fabriclens_testing::routers::Routers;
use fabriclens_wire::Value;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(30);

/// A host like the recorded one with soft-RoCE, whose port has the address of `host1` on its link to the leaf.
pub fn roots(dir: &Path) -> Arc<Roots> {
    copy(&host("rxe"), dir);
    let port = dir.join("sys/class/infiniband/rxe0/ports/1");
    std::fs::write(port.join("gids/1"), "0000:0000:0000:0000:0000:ffff:0a00:0101\n").unwrap();
    std::fs::create_dir_all(port.join("gid_attrs/ndevs")).unwrap();
    std::fs::write(port.join("gid_attrs/ndevs/1"), "leaf1\n").unwrap();
    Arc::new(Roots::new(Some(dir.to_owned())))
}

fn plan(source_ports: std::ops::Range<u32>) -> PlanReply {
    let to = ProbedPort { name: "rxe0/1".into(), address: vec![10, 0, 2, 1], ..ProbedPort::default() };
    let target = Target {
        from: "rxe0/1".into(),
        host: "host2".into(),
        to: Some(to),
        source_ports: source_ports.collect(),
        traffic_class: 104,
        trace_every_ms: 60_000,
        ..Target::default()
    };
    PlanReply { lasts_ms: 60_000, targets: vec![target] }
}

fn hops(path: &TracedPath) -> Vec<Vec<IpAddr>> {
    let address = |bytes: &Vec<u8>| IpAddr::from(<[u8; 4]>::try_from(bytes.as_slice()).unwrap());
    path.hops.iter().map(|hop| hop.addresses.iter().map(address).collect()).collect()
}

#[test]
#[ignore = "needs: network-namespaces"]
fn an_agent_traces_what_the_collector_plans_and_reports_the_paths() {
    let (routers, dir) = (Routers::start(), tempfile::tempdir().unwrap());
    let dir = dir.path().join("host");
    let ports = 50_000..50_008;
    routers.inside("host1", || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let collector = Collector::new(Ok(plan(ports.clone())));
        let address = runtime.block_on(collector.serve());
        let agent = runtime.block_on(async { Agent::start(&[&[address]], vec![]) });
        let (roots, probing) = (roots(&dir), Arc::new(Probing { rdma: false, tcp: false, ..Probing::default() }));
        let inventory = discover(&roots, &[], None);
        let doctor = state(&probing, &inventory, true);
        assert!(
            doctor.starts_with("traces paths as the collector plans, from rxe0/1 (10.0.1.1), by at most 50"),
            "{doctor}"
        );
        let config = load(None, [], &Overrides::default(), &[]).unwrap();
        let sandbox = Sandbox::new(SandboxRuleset::of(&roots, &config));
        let probe_plans = Some(Arc::clone(&agent.plans));
        let settings =
            Settings { host: "host1".into(), sandbox, probing: Some(probing), probe_plans, ..Settings::default() };
        let engine = Engine::start(roots, settings).unwrap();
        let paths = || -> Vec<TracedPath> {
            collector.reported.lock().iter().flat_map(|report| report.paths.clone()).collect()
        };
        runtime
            .block_on(fabriclens_testing::eventually_async("all paths", LIMIT, async || paths().len() >= ports.len()));
        for path in paths() {
            let spine = routers.spine(path.source_port as u16);
            assert_eq!((hops(&path), path.complete), (routers.path(spine), true), "{}", path.source_port);
            assert!(path.traced_ns > 1_700_000_000_000_000_000, "a time of this century");
        }
        let asked = collector.asked.lock().last().cloned().unwrap();
        assert_eq!(
            (asked.ports.len(), asked.ports[0].traces, asked.ports[0].address.as_slice()),
            (1, true, &[10, 0, 1, 1][..])
        );
        let known = |engine: &Engine| {
            let sections = engine.snapshot();
            let mut values = sections.iter().flat_map(|section| section.columns.iter().zip(&section.values));
            let found = values.find(|(column, _)| {
                column.metric.name == "fabriclens.agent.trace.paths" && &*column.labels[0].1 == "known"
            });
            found.map(|(_, value)| value.clone())
        };
        eventually("paths are counted", LIMIT, || known(&engine) == Some(Value::Int(8)));
        assert_eq!(engine.troubles(), Vec::<String>::new());
        let restricted = engine.sandbox().state().expect("entered");
        assert!(restricted.calls.is_ok(), "{restricted:?}");
        // The ports are taken back when the agent stops.
        engine.shutdown(LIMIT);
        let gone = || collector.asked.lock().last().is_some_and(|asked| asked.ports.is_empty());
        runtime.block_on(fabriclens_testing::eventually_async("no port is offered", LIMIT, async || gone()));
    });
    assert_eq!(routers.unwanted(), 1, "the search for the target alone arrived");
}

#[test]
#[ignore = "needs: network-namespaces"]
fn a_network_that_the_configuration_leaves_out_is_told_and_gets_nothing() {
    let (routers, dir) = (Routers::start(), tempfile::tempdir().unwrap());
    let dir = dir.path().join("host");
    routers.inside("host1", || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let collector = Collector::new(Ok(plan(50_000..50_008)));
        let address = runtime.block_on(collector.serve());
        let agent = runtime.block_on(async { Agent::start(&[&[address]], vec![]) });
        let probing =
            Probing { rdma: false, tcp: false, networks: vec!["10.7.0.0/16".parse().unwrap()], ..Probing::default() };
        let (probing, probe_plans) = (Some(Arc::new(probing)), Some(Arc::clone(&agent.plans)));
        let settings = Settings { host: "host1".into(), probing, probe_plans, ..Settings::default() };
        let engine = Engine::start(roots(&dir), settings).unwrap();
        let says =
            "path tracing: 1 targets of the plan are not traced; the first: 10.0.2.1 is in none of probes.networks";
        let told = || engine.troubles().iter().any(|trouble| trouble == says);
        runtime.block_on(fabriclens_testing::eventually_async("it is told", LIMIT, async || told()));
        engine.shutdown(LIMIT);
    });
    assert_eq!(routers.unwanted(), 0);
}
