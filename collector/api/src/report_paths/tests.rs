//! Two jobs on an InfiniBand fat tree of three leaves with four hosts each and two spines, as ibsim and opensm make it: host N has
//! LID N, and packets to odd LIDs go by spine 2.

use super::*;
use fabriclens_config::Probes;
use fabriclens_core::telemetry::Telemetry;
use fabriclens_correlate::Node;
use fabriclens_forwarding_tables::{AdapterPort, Adaptive, Cable, NO_ROUTE, SwitchTables, TellRequest};
use fabriclens_jobs::{HostAllocation, Job, JobKey, JobRecord, Source};
use fabriclens_model::{Labels, Memory, Series};
use fabriclens_promql::{CancelToken, Engine};
use fabriclens_report::model::{FlowPaths, LinkFlows};
use fabriclens_report::{Input, Leaves, Report, build, html, markdown};

const LEAVES: usize = 3;
const HOSTS: usize = 4;
const SPINES: usize = 2;
/// End of the data, Unix ms.
const END: i64 = 1_700_000_600_000;

/// Cables as node, port, node, port.
fn cables() -> Vec<(String, usize, String, usize)> {
    let hosts = (0..LEAVES * HOSTS).map(|n| {
        let (leaf, at) = (n / HOSTS, n % HOSTS);
        (format!("h{}", n + 1), 1, format!("leaf{}", leaf + 1), at + 1)
    });
    let trunks = (0..LEAVES).flat_map(|leaf| {
        (0..SPINES)
            .map(move |spine| (format!("leaf{}", leaf + 1), HOSTS + spine + 1, format!("spine{}", spine + 1), leaf + 1))
    });
    hosts.chain(trunks).collect()
}

fn guid(node: &str) -> u64 {
    node.bytes().fold(7, |hash, byte| hash << 8 | u64::from(byte))
}

fn tables(adaptive: Adaptive) -> SubnetPaths {
    let far = |node: &str| -> Vec<Cable> {
        let both = cables().into_iter().flat_map(|(a, ap, b, bp)| [(a.clone(), ap, b.clone(), bp), (b, bp, a, ap)]);
        let own = both.filter(|(near, ..)| near == node);
        own.map(|(_, port, far, far_port)| Cable { port: port as u32, far_guid: guid(&far), far_port: far_port as u32 })
            .collect()
    };
    let switch = |name: String, table: Vec<u8>| SwitchTables {
        guid: guid(&name),
        ports: 8,
        cables: far(&name),
        table: [vec![NO_ROUTE], table].concat().into(),
        adaptive: adaptive as i32,
        name,
        ..SwitchTables::default()
    };
    let hosts = 0..LEAVES * HOSTS;
    let egress = |leaf: usize, n: usize| match n / HOSTS == leaf {
        true => n % HOSTS + 1,
        false => HOSTS + 1 + (n + 1) % SPINES,
    };
    let table = |egress: &dyn Fn(usize) -> usize| hosts.clone().map(|n| egress(n) as u8).collect::<Vec<u8>>();
    let leaves = (0..LEAVES).map(|leaf| switch(format!("leaf{}", leaf + 1), table(&|n| egress(leaf, n))));
    let spines = (0..SPINES).map(|spine| switch(format!("spine{}", spine + 1), table(&|n| n / HOSTS + 1)));
    let adapter = |n: usize| AdapterPort {
        guid: guid(&format!("h{}", n + 1)),
        port: 1,
        lid: n as u32 + 1,
        lmc: 0,
        host: format!("h{}", n + 1),
        name: "mlx5_0/1".into(),
    };
    let request = TellRequest {
        host: "mgmt".into(),
        agent: 5,
        telling: 77,
        complete: true,
        switches: leaves.chain(spines).collect(),
        adapters: hosts.clone().map(adapter).collect(),
        ..TellRequest::default()
    };
    let paths = SubnetPaths::default();
    assert_eq!(paths.tell(fabriclens_base::Sender::Bound, request, Instant::now(), |_, _| true), Ok(false));
    paths
}

fn topology() -> Arc<Topology> {
    let cables = cables();
    let mut names: Vec<String> = cables.iter().flat_map(|(a, _, b, _)| [a.clone(), b.clone()]).collect();
    names.sort();
    names.dedup();
    let role = |name: &str| match name.as_bytes()[0] {
        b'h' => Role::Host,
        b'l' => Role::Leaf,
        _ => Role::Spine,
    };
    let end = |name: &str, port: usize| LinkEnd {
        node: names.iter().position(|other| other == name).unwrap(),
        port: if name.starts_with('h') { "mlx5_0/1".into() } else { port.to_string() },
    };
    let links = cables.iter().map(|(a, ap, b, bp)| fabriclens_correlate::Link::new([end(a, *ap), end(b, *bp)], None));
    let nodes = names.iter().map(|name| Node { name: name.clone(), role: role(name) });
    Arc::new(Topology::new(nodes.collect(), links.collect()))
}

fn job(id: &str, hosts: &[usize]) -> Job {
    let host = |n: &usize| (format!("h{n}"), HostAllocation { devices: Vec::new(), pids: Vec::new() });
    let record = JobRecord {
        start_ns: Some((END - 600_000) * 1_000_000),
        hosts: hosts.iter().map(host).collect(),
        ..JobRecord::default()
    };
    Job::from_records(&JobKey { cluster: String::new(), id: id.into() }, 1, &[(Source::Http, record)].into())
}

fn series(labels: &[(&str, &str)], value: impl Fn(i64) -> f64) -> Series {
    let times: Vec<i64> = (0..=60).map(|step| END - 600_000 + step * 10_000).collect();
    let values = times.iter().map(|time| value(*time)).collect();
    Series { labels: Labels::new(labels.iter().copied()), times, values }
}

/// Both ends of queue pairs between hosts, and damage at leaf 1's uplinks.
fn samples(pairs: &[(usize, usize)], source_port: &str) -> Memory {
    let mut all = Vec::new();
    for (at, (a, b)) in pairs.iter().enumerate() {
        let numbers = [at * 2 + 10, at * 2 + 11].map(|number| number.to_string());
        for (host, local, remote) in [(a, &numbers[0], &numbers[1]), (b, &numbers[1], &numbers[0])] {
            let host = format!("h{host}");
            let identity = [("__name__", "fabric_queue_pair_info"), ("device", "mlx5_0"), ("port", "1")];
            let own = [("host", &*host), ("local", local), ("remote", remote), ("source_port", source_port)];
            all.push(series(&[identity.as_slice(), &own].concat(), |_| 1.0));
        }
    }
    for port in ["5", "6"] {
        let labels = [("__name__", "fabric_link_symbol_errors_total"), ("host", "leaf1"), ("port", port)];
        all.push(series(&labels, |time| (time - END + 600_000) as f64 / 1000.0));
    }
    Memory(all)
}

fn report(adaptive: Adaptive, samples: &Memory, later_s: i64) -> Report {
    let telemetry = Telemetry::new().unwrap();
    let probing = Arc::new(Probing::new(Probes::default(), Default::default(), telemetry.probes, usize::MAX));
    let topology = topology();
    let paths = ReportPaths::new(&topology, &tables(adaptive), &probing).unwrap();
    let mut job_1 = job("1", &[1, 3, 5, 7]);
    job_1.end_ns = (later_s > 0).then_some(END * 1_000_000);
    let others = [job("2", &[2, 9]), job("3", &[4, 10])];
    let links = crate::report_topology::links(&topology, &job_1);
    let now_ns = (END + later_s * 1000) * 1_000_000;
    let input = Input {
        job: &job_1,
        others: &others,
        now_ns,
        incidents: Vec::new(),
        leaves: Leaves::new(),
        links,
        paths: Some(&paths),
    };
    build(&Engine::default(), samples, &CancelToken::default(), input).unwrap()
}

/// Jobs 1 (hosts 1, 3, 5, 7), 2 (2, 9) and 3 (4, 10).
const PAIRS: [(usize, usize); 4] = [(1, 5), (3, 7), (2, 9), (4, 10)];

fn nodes(flow: &FlowPaths) -> Vec<String> {
    let words = |path: &fabriclens_report::model::Path| {
        path.ports.iter().map(|port| port.node.as_str()).collect::<Vec<_>>().join(" ")
    };
    flow.paths.iter().map(words).collect()
}

#[test]
fn forwarding_tables_tell_which_links_a_job_shares() {
    let report = report(Adaptive::Off, &samples(&PAIRS, ""), 0);
    let paths = report.links.paths.as_ref().unwrap();
    assert_eq!((paths.flows, paths.known, paths.one_of, paths.later_seconds), (4, 4, 0, 0));
    assert_eq!(
        paths.sources.iter().map(|s| (&*s.text, s.flows)).collect::<Vec<_>>(),
        [("by the forwarding tables", 4)]
    );
    // All of job 1's and job 2's receivers have odd LIDs but host 2: packets from leaf 1 to host 9 go by spine 2 as well.
    let own = |flows| LinkFlows { flows, one_of: 0 };
    let shared: Vec<_> = paths
        .shared
        .iter()
        .map(|l| (&*l.link, l.senders, l.own, l.others.iter().map(|o| (&*o.id, o.own)).collect()))
        .collect();
    type Expected<'a> = (&'a str, usize, LinkFlows, Vec<(&'a str, LinkFlows)>);
    let expected: [Expected<'_>; 4] = [
        ("leaf1 6 - spine2 1", 2, own(2), vec![("2", own(1))]),
        ("leaf2 6 - spine2 2", 2, own(2), vec![]),
        ("spine2 1 - leaf1 6", 2, own(2), vec![]),
        ("spine2 2 - leaf2 6", 2, own(2), vec![]),
    ];
    assert_eq!(shared, expected);
    // Both uplinks of leaf 1 are as damaged; that without a flow of the job comes last.
    let worst: Vec<_> = report.links.worst.iter().map(|l| (&*l.link, l.flows.unwrap())).collect();
    assert_eq!(worst, [("leaf1 6 - spine2 1", own(4)), ("leaf1 5 - spine1 1", own(0))]);
    assert_eq!(nodes(&paths.list[0]), ["h1 leaf1 spine2 leaf2 h5"]);
    assert_eq!(paths.list[0].paths[0].known, "by the forwarding tables");
    let markdown = markdown(&report);
    for text in [
        "The job's queue pairs make 4 flows; the path of 4 is known (4 by the forwarding tables).",
        "| leaf1 6 - spine2 1 | 2 | 2 | 2: 1 | not measured | not measured |",
        "| h1 mlx5\\_0/1 | h5 mlx5\\_0/1 | not measured | h1 mlx5\\_0/1, leaf1 6, spine2 2, leaf2 1, h5 | by the forwarding tables |",
    ] {
        assert!(markdown.contains(text), "{text}: {markdown}");
    }
    assert!(html(&report).contains("<figcaption>From h1 to h5 (by the forwarding tables)</figcaption>"));
}

#[test]
fn under_adaptive_routing_flows_take_one_of_several_paths() {
    let report = report(Adaptive::On, &samples(&PAIRS, ""), 3600);
    let paths = report.links.paths.as_ref().unwrap();
    assert_eq!((paths.flows, paths.known, paths.one_of, paths.later_seconds), (4, 0, 4, 3600));
    assert_eq!(paths.shared, [], "nothing is shared for sure");
    let worst: Vec<_> = report.links.worst.iter().map(|l| (&*l.link, l.flows.unwrap())).collect();
    let may = |one_of| LinkFlows { flows: 0, one_of };
    assert_eq!(worst, [("leaf1 5 - spine1 1", may(4)), ("leaf1 6 - spine2 1", may(4))]);
    assert_eq!(nodes(&paths.list[0]), ["h1 leaf1 spine1 leaf2 h5", "h1 leaf1 spine2 leaf2 h5"]);
    assert_eq!(paths.list[0].paths[0].known, "one of several paths");
    let markdown = markdown(&report);
    for text in ["4 flows take one of several paths", "Paths are those of 1 h after the job's end", "| up to 4 |"] {
        assert!(markdown.contains(text), "{text}: {markdown}");
    }
}

#[test]
fn source_ports_that_were_not_traced_have_a_path_at_one_leaf_only() {
    let report = report(Adaptive::Off, &samples(&[(1, 3), (3, 7)], "50000"), 0);
    let paths = report.links.paths.as_ref().unwrap();
    assert_eq!((paths.flows, paths.known), (4, 2));
    assert_eq!(paths.sources.iter().map(|s| (&*s.text, s.flows)).collect::<Vec<_>>(), [("by the cables", 2)]);
    let unknown = [("its source port was not traced", 2)];
    assert_eq!(paths.unknown.iter().map(|s| (&*s.text, s.flows)).collect::<Vec<_>>(), unknown);
    let flow = paths.list.iter().find(|flow| flow.to.node == "h3").unwrap();
    assert_eq!((flow.source_port, nodes(flow)), (Some(50_000), vec!["h1 leaf1 h3".to_owned()]));
}
