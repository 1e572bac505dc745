use super::*;
use crate::trace_status::HopStatus;
use fabriclens_core::telemetry::Telemetry;
use fabriclens_correlate::topology::{HostNames, merge, parse};
use fabriclens_probe_plan::{Hop, LASTS, PlanReply, ProbeResult, ProbeTransport, ProbedPort, ReportedPair, TracedPath};
use prost::Message as _;

const NOW_NS: i64 = 1_000_000_000_000;

fn offer(host: usize) -> PlanRequest {
    let port = ProbedPort {
        name: "p".into(),
        address: vec![10, 0, 0, host as u8],
        queue_pair: 9,
        traces: true,
        ..ProbedPort::default()
    };
    PlanRequest { host: format!("h{host}"), agent: 1, ports: vec![port] }
}

/// Two hosts on each of two leaves; the spine is known only if `spine`.
fn topology(spine: bool) -> Arc<Topology> {
    let cable = |host: usize| {
        format!(r#"{{"a": "h{host}", "a_port": "p", "b": "leaf{}", "b_port": "{host}"}}"#, (host - 1) / 2)
    };
    let mut links: Vec<String> = (1..=4).map(cable).collect();
    if spine {
        links.push(r#"{"a": "leaf0", "a_port": "9", "b": "spine", "b_port": "1"}"#.into());
        links.push(r#"{"a": "leaf1", "a_port": "9", "b": "spine", "b_port": "2"}"#.into());
    }
    let text = format!(
        r#"{{"hosts": [{{"id": "h1"}}, {{"id": "h2"}}, {{"id": "h3"}}, {{"id": "h4"}}],
            "switches": [{{"id": "leaf0"}}, {{"id": "leaf1"}}, {{"id": "spine", "addresses": ["10.9.0.1"]}}],
            "links": [{}]}}"#,
        links.join(",")
    );
    Arc::new(merge(&[parse("fabric.json", &text).unwrap()], &HostNames::default()))
}

fn probing() -> Probing {
    Probing::new(
        Probes { paths: 4, ..Probes::default() },
        BTreeMap::new(),
        Telemetry::new().unwrap().probes,
        usize::MAX,
    )
}

fn plan_of(probing: &Probing, host: usize, now: Instant) -> PlanReply {
    PlanReply::decode(probing.ask(Sender::Bound, &offer(host), now).unwrap()).unwrap()
}

/// Traces and probes of h1 to a host behind the other leaf, by its plan.
fn report(plan: &PlanReply) -> ReportRequest {
    let target = plan.targets.iter().find(|target| target.host == "h3" || target.host == "h4").unwrap();
    let pair = ReportedPair { from: "p".into(), host: target.host.clone(), port: "p".into() };
    let source_port = target.source_ports[0];
    let spine = Hop { addresses: vec![vec![10, 9, 0, 1]] };
    let hops = vec![Hop::default(), spine, Hop::default()];
    let path = TracedPath { pair: 0, source_port, traced_ns: NOW_NS as u64, hops, complete: true };
    let transport = ProbeTransport::Rdma.into();
    let probe = ProbeResult { source_port, sent_ns: NOW_NS as u64, transport, ..ProbeResult::default() };
    ReportRequest { host: "H1".into(), agent: 1, pairs: vec![pair], paths: vec![path], probes: vec![probe], dropped: 3 }
}

#[test]
fn reports_become_updates_in_order_and_count_in_the_coverage() {
    let (probing, now) = (probing(), Instant::now());
    (1..=4).for_each(|host| assert_eq!(plan_of(&probing, host, now).targets.len(), 0));
    probing.rewire(&topology(true), NOW_NS);
    probing.replan(&topology(true), now, 0);
    assert!(probing.is_used());
    let report = report(&plan_of(&probing, 1, now));
    assert_eq!(probing.report(Sender::Bound, &report, now, NOW_NS), Ok(ReportReply::default()));
    let updates = probing.drain(10);
    let [(NOW_NS, RouteUpdate::Path { flow, hops, source }), (NOW_NS, RouteUpdate::Probe { rtt_ns: None, .. })] =
        updates.as_slice()
    else {
        panic!("{updates:?}")
    };
    let nodes: Vec<&str> = hops.iter().map(|hop| hop.node.as_str()).collect();
    assert_eq!((nodes, *source), (vec!["h1", "leaf0", "spine", "leaf1"], PathSource::Traced));
    assert_eq!(flow.from.node, "h1", "as in samples");
    probing.rewire(&topology(true), NOW_NS);
    let coverage = probing.status(0).summary.coverage;
    assert_eq!((coverage.between_switches, coverage.at_hosts), (2, 2));
    assert_eq!((coverage.all_between_switches, coverage.all_at_hosts), (4, 8));
    assert_eq!(probing.telemetry.agents_dropped.get(), 3);
    assert_eq!(probing.drain(10), []);
}

#[test]
fn traces_wait_until_the_topology_explains_them() {
    let (probing, now) = (probing(), Instant::now());
    (1..=4).for_each(|host| _ = plan_of(&probing, host, now));
    probing.rewire(&topology(false), NOW_NS);
    probing.replan(&topology(false), now, 0);
    let report = report(&plan_of(&probing, 1, now));
    probing.report(Sender::Bound, &report, now, NOW_NS).unwrap();
    assert!(matches!(probing.drain(10).as_slice(), [(_, RouteUpdate::Probe { .. })]), "no link to the spine is known");
    probing.rewire(&topology(true), NOW_NS);
    assert!(matches!(probing.drain(10).as_slice(), [(_, RouteUpdate::Path { .. })]));
}

#[test]
fn hosts_that_are_gone_leave_all_plans_and_may_not_report() {
    let (probing, now) = (probing(), Instant::now());
    (1..=4).for_each(|host| _ = plan_of(&probing, host, now));
    probing.replan(&topology(true), now, 0);
    let report = report(&plan_of(&probing, 1, now));
    let later = now + LASTS;
    (2..=4).for_each(|host| _ = plan_of(&probing, host, later));
    probing.replan(&topology(true), later, 0);
    assert_eq!(probing.report(Sender::Bound, &report, later, NOW_NS), Err(ReportRefused::NoPlan("H1".into())));
    for host in 2..=4 {
        assert!(plan_of(&probing, host, later).targets.iter().all(|target| target.host != "h1"), "h{host}");
    }
    let host = |name: &str| probing.host(name, NOW_NS);
    assert!(host("h1").is_none() && host("H2").is_some_and(|host| host.pairs.is_some()));
}

#[test]
fn the_last_trace_of_each_source_port_is_told_with_its_ports() {
    let (probing, now) = (probing(), Instant::now());
    (1..=4).for_each(|host| _ = plan_of(&probing, host, now));
    probing.rewire(&topology(false), NOW_NS);
    probing.replan(&topology(false), now, 0);
    let report = report(&plan_of(&probing, 1, now));
    probing.report(Sender::Bound, &report, now, NOW_NS).unwrap();
    let traces = || probing.host("h1", NOW_NS + 2_500_000_000).unwrap().traces.unwrap();
    let [trace] = &traces()[..] else { panic!("one source port was traced") };
    assert_eq!((trace.is_path, trace.why), (false, Some("no link is known between two switches of the trace")));
    assert_eq!(trace.hops[1].switch.as_deref(), Some("spine"), "its address is known all the same");
    probing.rewire(&topology(true), NOW_NS);
    let [trace] = &traces()[..] else { panic!("one source port was traced") };
    assert_eq!((trace.source_port, trace.age_seconds), (Some(report.paths[0].source_port as u16), 2.5));
    assert_eq!((trace.is_path, trace.why, &*trace.host), (true, None, &*report.pairs[0].host));
    let hop = |hop: &HopStatus| {
        let [switch, ingress, egress] = [&hop.switch, &hop.ingress, &hop.egress].map(|text| text.clone().unwrap());
        format!("{ingress} {switch} {egress} {:?}", hop.matched.unwrap())
    };
    let last = &report.pairs[0].host[1..];
    let expected = ["1 leaf0 9 Cable", "1 spine 2 Address", &format!("9 leaf1 {last} Cable")];
    assert_eq!(trace.hops.iter().map(hop).collect::<Vec<_>>(), expected);
    let flow = |source_port| {
        let port = |node: &str| PortName { node: node.into(), port: "p".into() };
        FlowName { from: port("h1"), to: port(&trace.host), source_port }
    };
    assert_eq!(probing.path(&flow(trace.source_port)).unwrap().len(), 4);
    assert_eq!(probing.path(&flow(Some(1))), Err("its source port was not traced"));
}

#[test]
fn a_token_of_any_host_does_not_report_for_a_host_with_its_own() {
    let (probing, now) = (probing(), Instant::now());
    (1..=4).for_each(|host| _ = plan_of(&probing, host, now));
    probing.rewire(&topology(true), NOW_NS);
    probing.replan(&topology(true), now, 0);
    let report = report(&plan_of(&probing, 1, now));
    let taken = probing.report(Sender::Unbound("a"), &report, now, NOW_NS);
    assert_eq!((taken, probing.drain(10).len()), (Err(ReportRefused::Taken("H1".into())), 0));
}
