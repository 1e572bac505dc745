use super::*;
use fabriclens_correlate::topology::{HostNames, merge, parse};

/// Two leaves and two spines; spine 1 has two cables to each leaf. Addresses of spine 0 are its loopback, of the others their
/// interfaces.
const FABRIC: &str = r#"{
  "hosts": [{"id": "h1"}, {"id": "h2"}, {"id": "h3"}],
  "switches": [{"id": "leaf1"}, {"id": "leaf2"}, {"id": "spine0", "addresses": ["10.9.0.1"]}, {"id": "spine1"}],
  "links": [
    {"a": "h1", "a_port": "p", "b": "leaf1", "b_port": "1"},
    {"a": "h2", "a_port": "p", "b": "leaf2", "b_port": "1"},
    {"a": "h3", "a_port": "p", "b": "leaf1", "b_port": "2"},
    {"a": "leaf1", "a_port": "10", "b": "spine0", "b_port": "1"},
    {"a": "leaf2", "a_port": "10", "b": "spine0", "b_port": "2", "a_address": "10.9.2.1"},
    {"a": "leaf1", "a_port": "11", "b": "spine1", "b_port": "1", "b_address": "10.9.1.1"},
    {"a": "leaf1", "a_port": "12", "b": "spine1", "b_port": "2", "b_address": "10.9.1.2"},
    {"a": "leaf2", "a_port": "11", "b": "spine1", "b_port": "3", "a_address": "10.9.2.2"}
  ]
}"#;

fn topology(text: &str) -> Arc<Topology> {
    let source = parse("fabric.json", text).unwrap();
    assert_eq!(source.complaints, [""; 0]);
    Arc::new(merge(&[source], &HostNames::default()))
}

fn index(text: &str) -> FabricIndex {
    FabricIndex::new(topology(text), &BTreeMap::new())
}

fn port(node: &str, port: &str) -> PortName {
    PortName { node: node.into(), port: port.into() }
}

fn trace(to: &str, hops: &[&[&str]]) -> Trace {
    let flow = FlowName { from: port("h1", "p"), to: port(to, "p"), source_port: Some(50_000) };
    let hops = hops.iter().map(|hop| hop.iter().map(|ip| ip.parse().unwrap()).collect()).collect();
    let by = Arc::new(Reporter { host: "h1".into(), unbound: None });
    Trace { by, flow: Arc::new(flow), at_ns: 1, hops, complete: true }
}

fn back(trace: &Trace) -> Arc<FlowName> {
    let FlowName { from, to, source_port } = (*trace.flow).clone();
    Arc::new(FlowName { from: to, to: from, source_port })
}

fn words(index: &FabricIndex, to: &str, hops: &[&[&str]]) -> Result<String, Unresolved> {
    let path = index.resolve(&trace(to, hops))?;
    Ok(path.iter().map(|hop| format!("{}:{}", hop.node, hop.port)).collect::<Vec<_>>().join(" "))
}

#[test]
fn addresses_become_egress_ports() {
    let index = index(FABRIC);
    let of = |hops: &[&[&str]]| words(&index, "h2", hops);
    let known: [&[&str]; 3] = [&["10.1.0.1"], &["10.9.0.1"], &["10.9.2.1"]];
    assert_eq!(of(&known), Ok("h1:p leaf1:10 spine0:2 leaf2:1".into()));
    assert_eq!(of(&[&[], &["10.9.0.1"], &[]]), Ok("h1:p leaf1:10 spine0:2 leaf2:1".into()), "both leaves are silent");
    assert_eq!(
        of(&[&[], &["10.9.1.2"], &[]]),
        Ok("h1:p leaf1:12 spine1:3 leaf2:1".into()),
        "the interface tells the cable"
    );
    assert_eq!(words(&index, "h3", &[&["10.1.0.1"]]), Ok("h1:p leaf1:2".into()), "one leaf");
}

#[test]
fn what_is_not_known_is_no_path() {
    let index = index(FABRIC);
    let of = |hops: &[&[&str]]| words(&index, "h2", hops).unwrap_err();
    assert_eq!(of(&[]), Unresolved::Incomplete);
    assert_eq!(of(&[&[], &[], &[]]), Unresolved::Silent);
    assert_eq!(of(&[&[], &["10.9.0.1", "10.9.1.1"], &[]]), Unresolved::Several);
    assert_eq!(of(&[&[], &["10.8.8.8"], &[]]), Unresolved::UnknownAddress);
    assert_eq!(of(&[&["10.9.0.1"], &["10.9.0.1"], &[]]), Unresolved::Contradiction, "the first answers as a spine");
    assert_eq!(of(&[&[]]), Unresolved::Contradiction, "one switch cannot join two leaves");
    assert_eq!(words(&index, "gone", &[&[]]), Err(Unresolved::NoCable));
    let unnamed = FABRIC.replace("\"10.9.1.2\"", "null").replace("\"10.9.1.1\"", "null");
    let unnamed = unnamed.replace(r#"{"id": "spine1"}"#, r#"{"id": "spine1", "addresses": ["10.9.1.9"]}"#);
    let index = self::index(&unnamed);
    assert_eq!(words(&index, "h2", &[&[], &["10.9.1.9"], &[]]), Err(Unresolved::Parallel), "two cables, one loopback");
    let incomplete = Trace { complete: false, ..trace("h2", &[&[], &["10.9.0.1"]]) };
    assert_eq!(index.resolve(&incomplete), Err(Unresolved::Incomplete));
}

#[test]
fn configured_addresses_name_switches_too() {
    let names = BTreeMap::from([("10.8.8.8".parse().unwrap(), "spine0".to_owned())]);
    let index = FabricIndex::new(topology(FABRIC), &names);
    assert_eq!(words(&index, "h2", &[&[], &["10.8.8.8"], &[]]), Ok("h1:p leaf1:10 spine0:2 leaf2:1".into()));
}

/// Leaves are known by LLDP, spines by traces only.
#[test]
fn switches_that_only_traces_show_enter_the_topology_and_leave_it_late() {
    use crate::inferred::InferredSwitches;
    const HOUR_NS: i64 = 3_600_000_000_000;
    let leaves = r#"{"hosts": [{"id": "h1"}, {"id": "h2"}], "switches": [{"id": "leaf1"}, {"id": "leaf2"}],
        "links": [{"a": "h1", "a_port": "p", "b": "leaf1", "b_port": "1"}]}"#;
    let file = parse("fabric.json", leaves).unwrap();
    let known = Arc::new(merge(std::slice::from_ref(&file), &HostNames::default()));
    let index = FabricIndex::new(known, &BTreeMap::new());
    let mut inferred = InferredSwitches::default();
    let one = trace("h2", &[&["10.1.0.1"], &["10.9.0.1"], &["10.9.2.1"]]);
    let back = Trace { flow: back(&one), ..trace("h2", &[&["10.9.2.1"], &["10.9.0.1"], &["10.1.0.2"]]) };
    inferred.note(&one, &index);
    inferred.note(&back, &index);
    let first = inferred.changed(&index, HOUR_NS).expect("the spine's cables were seen from both sides");
    assert_eq!((first.cables.len(), inferred.changed(&index, HOUR_NS)), (2, None));
    inferred.note(&back, &index);
    assert_eq!(inferred.changed(&index, HOUR_NS + 1_000_000_000), None, "not more often than each 20 s");
    let source = inferred.changed(&index, 2 * HOUR_NS);
    let merged = source.map(|source| Arc::new(merge(&[file, source], &HostNames::default())));
    let merged = merged.expect("each cable was seen twice");
    let index = FabricIndex::new(merged.clone(), &BTreeMap::new());
    let path = index.resolve(&one).unwrap();
    let nodes: Vec<&str> = path.iter().map(|hop| hop.node.as_str()).collect();
    assert_eq!(nodes, ["h1", "leaf1", "switch 10.9.0.1", "switch 10.9.2.1"], "h2's leaf has an address only");
    assert!(merged.links.iter().filter(|link| link.known == Provenance::Traced).count() == 3, "{:?}", merged.links);
    assert_eq!(inferred.changed(&index, 3 * HOUR_NS), None, "nothing is new");
    let gone = inferred.changed(&index, 7 * HOUR_NS).expect("nobody saw them for six hours");
    assert_eq!(gone.cables.len(), 0);
}

/// No source but traces: each leaf answers its hosts by one address and the spines by others.
#[test]
fn traces_alone_make_a_fabric() {
    use crate::inferred::InferredSwitches;
    const MINUTE_NS: i64 = 60_000_000_000;
    let there = trace("h2", &[&["10.1.0.1"], &["10.9.0.1"], &["10.8.2.0"]]);
    let back = Trace { flow: back(&there), ..trace("h2", &[&["10.2.0.1"], &["10.9.0.1"], &["10.8.1.0"]]) };
    let mut inferred = InferredSwitches::default();
    let mut index = FabricIndex::default();
    let mut versions = 0;
    for round in 1..=4 {
        for trace in [&there, &back, &there, &back] {
            inferred.note(trace, &index);
        }
        if let Some(source) = inferred.changed(&index, round * MINUTE_NS) {
            versions += 1;
            index = FabricIndex::new(Arc::new(merge(&[source], &HostNames::default())), &BTreeMap::new());
        }
    }
    let nodes =
        |trace: &Trace| index.resolve(trace).map(|path| path.into_iter().map(|hop| hop.node).collect::<Vec<_>>());
    assert_eq!(
        nodes(&there),
        Ok(["h1", "switch 10.1.0.1", "switch 10.9.0.1", "switch 10.2.0.1"].map(String::from).to_vec())
    );
    assert_eq!(
        nodes(&back),
        Ok(["h2", "switch 10.2.0.1", "switch 10.9.0.1", "switch 10.1.0.1"].map(String::from).to_vec())
    );
    assert_eq!(versions, 1, "the topology does not flap");
}

#[test]
fn one_host_cannot_fill_the_topology() {
    use crate::inferred::InferredSwitches;
    let index = index(FABRIC);
    let mut inferred = InferredSwitches::default();
    for n in 0..2000u32 {
        let spine = format!("10.77.{}.{}", n / 256, n % 256);
        let made_up = trace("h2", &[&[], &[&spine], &[]]);
        inferred.note(&made_up, &index);
        inferred.note(&made_up, &index);
    }
    let source = inferred.changed(&index, 3_600_000_000_000).unwrap();
    assert_eq!(source.cables.len(), 512);
}

#[test]
fn invented_hosts_cannot_fill_the_topology() {
    use crate::inferred::InferredSwitches;
    let index = index(FABRIC);
    let mut inferred = InferredSwitches::default();
    let mut report = |host: u32, sender: Option<&str>| {
        let by = Arc::new(Reporter { host: format!("h{host}").into(), unbound: sender.map(Arc::from) });
        for n in 0..600u32 {
            let spine = format!("10.{host}.{}.{}", n / 256, n % 256);
            let made_up = Trace { by: by.clone(), ..trace("h2", &[&[], &[&spine], &[]]) };
            (0..2).for_each(|_| inferred.note(&made_up, &index));
        }
        inferred.count()
    };
    let counts: Vec<usize> = (1..=9).map(|host| report(host, Some("a"))).collect();
    assert_eq!((counts[0], counts[8]), (512, 4096), "one sender has a quarter");
    assert_eq!(report(20, None), 4096 + 512);
}
