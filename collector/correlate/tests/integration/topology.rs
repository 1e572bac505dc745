//! Topology files in every format, names that follow the agents, and contradictions between sources.

use fabriclens_correlate::topology::{
    HostNames, PortInfo, Provenance, Role, Topology, TopologyError, TopologySource, from_agents, merge, parse,
};
use fabriclens_model::Labels;
use std::collections::BTreeMap;

/// Links as `a:port - b:port`, sorted; the end whose name sorts first stands first.
fn links(topology: &Topology) -> Vec<String> {
    let mut all: Vec<String> = topology
        .links
        .iter()
        .map(|link| {
            let mut ends = link.ends.each_ref().map(|e| format!("{}:{}", topology.nodes[e.node].name, e.port));
            ends.sort();
            ends.join(" - ")
        })
        .collect();
    all.sort();
    all
}

fn read(name: &str, text: &str) -> TopologySource {
    parse(name, text).unwrap()
}

fn alone(described: TopologySource) -> Topology {
    merge(&[described], &HostNames::default())
}

fn ports(rows: &[&[(&str, &str)]]) -> Vec<PortInfo> {
    rows.iter().map(|row| PortInfo::of(&Labels::new(row.iter().copied())).unwrap()).collect()
}

/// All cables from agents and files.
fn all(ports: &[PortInfo], files: &[TopologySource]) -> Topology {
    let mut described = from_agents(ports);
    described.extend(files.iter().cloned());
    merge(&described, &HostNames::new(ports, &BTreeMap::new()))
}

const PAIR: [&str; 3] = ["h1:mlx5_0/1 - leaf1:1", "h2:mlx5_0/1 - leaf1:2", "leaf1:3 - spine1:1"];

const IBNETDISCOVER: &str = "#\n# Topology file\n\nswitchguid=0xa1(a1)\nSwitch\t8 \"S-00000000000000a1\"\t\t# \"MF0;leaf1:MQM9700/U1\" enhanced port 0 lid 100 lmc 0\n\
[1]\t\"H-0000000000000010\"[1](11) \t\t# \"h1 mlx5_0\" lid 1 4xHDR\n\
[2][ext 2]\t\"H-0000000000000020\"[1](21) \t\t# \"h2 mlx5_0\" lid 2 4xHDR\n\
[3]\t\"S-00000000000000b1\"[1]\t\t# \"spine1\" lid 200 4xHDR\n\
[8]\t\"H-00000000000000a9\"[1](a9) \t\t# \"Mellanox Technologies Aggregation Node\" lid 9 4xNDR\n\
[9]\t\"H-0000\n\n\
Switch\t4 \"S-00000000000000b1\"\t\t# \"spine1\" enhanced port 0 lid 200 lmc 0\n\
[1]\t\"S-00000000000000a1\"[3]\t\t# \"MF0;leaf1:MQM9700/U1\" lid 100 4xHDR\n\n\
caguid=0x10\nCa\t1 \"H-0000000000000010\"\t\t# \"h1 mlx5_0\"\n\
[1](11) \t\"S-00000000000000a1\"[1]\t\t# lid 1 lmc 0 \"MF0;leaf1:MQM9700/U1\" lid 100 4xHDR\n";

const IBPORTS: &str = "CA     1  1 0x0000000000000011 4x HDR - SW   100  1 0x00000000000000a1 ( 'h1 mlx5_0' - 'leaf1' )\n\
SW   100  2 0x00000000000000a1 4x HDR - CA     2  1 0x0000000000000021 ( 'leaf1' - 'h2 mlx5_0' )\n\
SW   100  3 0x00000000000000a1 4x HDR - SW   200  1 0x00000000000000b1 ( 'leaf1' - 'spine1' )\n\
SW   100  4 0x00000000000000a1 4x ???                                    'leaf1'\n\
SW   100  x 0x00000000000000a1\n";

const IBLINKINFO: &str = "CA: h1 mlx5_0:\n      0x0000000000000011      1    1[  ] ==( 4X        53.125 Gbps Active/  LinkUp)==>     100    1[  ] \"leaf1\" ( )\n\
Switch: 0x00000000000000a1 leaf1:\n\
         100    1[  ] ==( 4X        53.125 Gbps Active/  LinkUp)==>       1    1[  ] \"h1 mlx5_0\" ( )\n\
         100    2[  ] ==( 4X        53.125 Gbps Active/  LinkUp)==>       2    1[  ] \"h2 mlx5_0\" ( Could be 12X)\n\
         100    3[  ] ==( 4X        53.125 Gbps Active/  LinkUp)==>     200    1[  ] \"spine1\" ( )\n\
         100    5[  ] ==(                Down/ Polling)==>             [  ] \"\" ( )\n\
         100    6[  ] ==( 4X  torn\n\
Switch: 0x00000000000000b1 spine1:\n\
         200    1[  ] ==( 4X        53.125 Gbps Active/  LinkUp)==>     100    3[  ] \"leaf1\" ( )\n";

const IBLINKINFO_LINES: &str = "0x0000000000000011 \"              h1 mlx5_0\"      1    1[  ] ==( 4X        53.125 Gbps Active/  LinkUp)==>  0x00000000000000a1    100    1[  ] \"leaf1\" ( )\n\
0x00000000000000a1 \"                  leaf1\"    100    2[  ] ==( 4X        53.125 Gbps Active/  LinkUp)==>  0x0000000000000021      2    1[  ] \"h2 mlx5_0\" ( )\n\
0x00000000000000a1 \"                  leaf1\"    100    3[  ] ==( 4X        53.125 Gbps Active/  LinkUp)==>  0x00000000000000b1    200    1[  ] \"spine1\" ( )\n\
0x00000000000000a1 \"                  leaf1\"    100    4[  ] ==(                Down/ Polling)==>             [  ] \"\" ( )\n\
0x00000000000000a1 \"                  leaf1\"    100    4[  ] ==( torn\n";

#[test]
fn infiniband_dumps_agree() {
    for (name, text) in [("disc", IBNETDISCOVER), ("ports", IBPORTS), ("info", IBLINKINFO), ("lines", IBLINKINFO_LINES)]
    {
        let described = read(name, text);
        assert_eq!((described.left_out, described.complaints.len()), (1, 1), "{name}: {:?}", described.complaints);
        assert!(described.complaints[0].starts_with(&format!("{name}, line ")), "{:?}", described.complaints);
        let topology = alone(described);
        assert_eq!(links(&topology), PAIR, "{name}");
        assert_eq!(topology.contradictions, []);
        for link in &topology.links {
            assert_eq!((link.rate, link.known), (Some(25e9), Provenance::SubnetManager), "{name}");
        }
        let role = |n: &str| topology.nodes[topology.node(n).unwrap()].role;
        assert_eq!(["h1", "leaf1", "spine1"].map(role), [Role::Host, Role::Leaf, Role::Spine], "{name}");
    }
}

#[test]
fn json_round_trips() {
    let text = r#"{"hosts":[{"id":"h1","name":"first"},{"node":2}],"switches":[{"name":"leaf1"}],"links":[
        {"a":"h1","a_port":"mlx5_0/1","b":"leaf1","b_port":1,"rate_gbps":200,"rail":0},
        {"a":2,"a_port":"mlx5_0/1","b":"leaf1","b_port":2},
        {"a":"h3","a_port":1,"b":"leaf1","b_port":3}]}"#;
    let described = read("t.json", text);
    assert_eq!(described.complaints, ["t.json, link 3: h3 is neither host nor switch"]);
    let topology = alone(described);
    assert_eq!(links(&topology), ["2:mlx5_0/1 - leaf1:2", "h1:mlx5_0/1 - leaf1:1"]);
    assert_eq!((topology.links[0].rate, topology.links[0].rail.as_deref()), (Some(25e9), Some("0")));
    let written = serde_json::to_string(&topology).unwrap();
    assert_eq!(serde_json::from_str::<Topology>(&written).unwrap(), topology);
    assert_eq!(alone(read("api", &written)), topology);
    assert_eq!(alone(read("api", &format!("{{\"status\":\"success\",\"data\":{written}}}"))), topology);
}

const CONF: &str = "# switch.2.1=pod-1\nSwitchName=switch.2.1 Switches=leaf[1-2] LinkSpeed=1\nswitchname=leaf1 \\\n  nodes=n[1-2]\n\
SwitchName=leaf2 Nodes=n3 # the third\nFrontend=x\nSwitchName=leaf3 Nodes=n[4\n";
const YAML: &str = "---\n- topology: topo1\n  cluster_default: true\n  tree:\n    switches:\n        - switch: pod-1\n          children: leaf[1-2]\n\
        - switch: \"leaf1\"\n          nodes: [n1, 'n2']\n        - switch: leaf2\n          nodes:\n            - n3\n- topology: flat\n  flat: true\n";
const GRAPH: &str = r#"{"instances":[{"id":"n1","type":"H100","network_layers":["leaf1","pod-1"],"attributes":{"nvlink":"nvl-1"}},
{"id":"n2","network_layers":["leaf1","pod-1"]},{"id":"n3","network_layers":["leaf2","pod-1"]},{"id":"n4"}]}"#;
const TREE: [&str; 5] = [
    "leaf1:?n1 - n1:?leaf1",
    "leaf1:?n2 - n2:?leaf1",
    "leaf1:?pod-1 - pod-1:?leaf1",
    "leaf2:?n3 - n3:?leaf2",
    "leaf2:?pod-1 - pod-1:?leaf2",
];

#[test]
fn schedulers_name_leaves_without_ports() {
    for (name, text, odd) in [
        ("conf", CONF, "conf, line 6: neither SwitchName=… nor BlockName=…"),
        ("yaml", YAML, ""),
        ("graph", GRAPH, "graph, instance 4: n4 has no switch"),
    ] {
        let described = read(name, text);
        assert_eq!(described.complaints.first().map_or("", String::as_str), odd);
        let topology = alone(described);
        assert_eq!(links(&topology), TREE, "{name}");
        assert!(
            topology.links.iter().all(|l| l.known == Provenance::Scheduler && l.ends.iter().all(|e| e.is_unknown()))
        );
        let role = |n: &str| topology.nodes[topology.node(n).unwrap()].role;
        assert_eq!(["n1", "leaf1", "pod-1"].map(role), [Role::Host, Role::Leaf, Role::Spine], "{name}");
    }
    // scontrol lists all hosts below a switch at that switch.
    let shown = "SwitchName=leaf1 Level=0 LinkSpeed=1 Nodes=n[1-2]\nSwitchName=top Level=1 LinkSpeed=1 Nodes=n[1-2] Switches=leaf1\n";
    assert_eq!(
        links(&alone(read("scontrol", shown))),
        ["leaf1:?n1 - n1:?leaf1", "leaf1:?n2 - n2:?leaf1", "leaf1:?top - top:?leaf1"]
    );
    for blocks in [
        "BlockName=b1 Nodes=n[1-2]\nBlockSizes=2\n",
        "- topology: t\n  block:\n    block_sizes:\n      - 2\n    blocks:\n      - block: b1\n        nodes: n[1-2]\n",
    ] {
        let topology = alone(read("blocks", blocks));
        assert_eq!(links(&topology), ["block b1:?n1 - n1:?block b1", "block b1:?n2 - n2:?block b1"]);
        assert!(topology.links.iter().all(|l| l.known == Provenance::Inferred));
    }
}

#[test]
fn repeated_host_has_one_cable() {
    let topology = alone(read("topology.conf", "SwitchName=leaf1 Nodes=n1,n[1-2],n2\n"));
    assert_eq!(links(&topology), ["leaf1:?n1 - n1:?leaf1", "leaf1:?n2 - n2:?leaf1"]);
}

#[test]
fn invalid_files_are_rejected() {
    let why = |text: &str| parse("t.txt", text).unwrap_err().to_string();
    let unknown = why("\n# x\nhello\n");
    assert!(
        unknown.starts_with("t.txt, line 3: unknown topology format; supported formats: JSON of hosts"),
        "{unknown}"
    );
    assert!(unknown.ends_with("Slurm topology.conf, Slurm topology.yaml"), "{unknown}");
    assert!(matches!(parse("", ""), Err(TopologyError::Unknown { line: 1, .. })));
    let torn = why("{\"hosts\":[],\n\"links\":[{\"a\":1]}");
    assert!(torn.starts_with("t.txt, line 2: ") && torn.contains("(JSON of hosts, switches and links)"), "{torn}");
    let empty = why("Ca\t1 \"H-b8e92403009ca838\"\t\t# \"n01-c1 HCA-1\"\n");
    assert!(empty.starts_with("t.txt: the file has no cables (ibnetdiscover); was the fabric down"), "{empty}");
    let first = why("SwitchName=s Nodes=n[1\n");
    assert!(first.contains("t.txt, line 1: ") && first.contains("host list"), "{first}");
}

#[test]
fn names_follow_agents() {
    let ports = ports(&[
        &[
            ("host", "h1.example.com"),
            ("device", "mlx5_0"),
            ("port", "1"),
            ("netdev", "ens1np0"),
            ("node_guid", "0000:0000:0000:0010"),
            ("node_desc", "h1 HCA-1"),
        ],
        &[
            ("host", "h2"),
            ("device", "mlx5_0"),
            ("port", "1"),
            ("netdev", "ens1np0"),
            ("port_guid", "0000:0000:0000:0021"),
            ("rail", "0"),
        ],
        &[("host", "h2"), ("device", "mlx5_1"), ("port", "1"), ("netdev", "ens2np0"), ("rail", "1")],
        &[("host", "h2"), ("device", "eno1")],
    ]);
    // By GUID, whatever their names are; the factory default says nothing.
    let text =
        IBNETDISCOVER.replace("h1 mlx5_0", "MT4129 ConnectX7   Mellanox Technologies").replace("h2 mlx5_0", "h9 HCA-7");
    let topology = all(&ports, &[read("disc", &text)]);
    assert_eq!(links(&topology), ["h1.example.com:mlx5_0/1 - leaf1:1", "h2:mlx5_0/1 - leaf1:2", "leaf1:3 - spine1:1"]);
    assert_eq!(topology.links[1].rail.as_deref(), Some("0"));
    // By description, by short name, by interface, by number, and in capitals.
    let file = |a: &str, port: &str| {
        let text = format!(
            r#"{{"hosts":[{{"id":"{a}"}}],"switches":[{{"id":"s"}}],"links":[{{"a":"{a}","a_port":"{port}","b":"s","b_port":"7"}}]}}"#
        );
        links(&all(&ports, &[read("f", &text)])).remove(0)
    };
    assert_eq!(file("h1", "1"), "h1.example.com:mlx5_0/1 - s:7");
    assert_eq!(file("H2.other.net", "ens2np0"), "h2:mlx5_1/1 - s:7");
    assert_eq!(file("h2", "mlx5_1"), "h2:mlx5_1/1 - s:7");
    assert_eq!(file("h2", "eno1"), "h2:eno1 - s:7");
    assert_eq!(file("h2", "1"), "h2:1 - s:7", "which of two it is, nobody knows");
    // A host without an agent keeps its name; one whose ports are not named is cabled by each of its HCAs.
    let conf = read("conf", "SwitchName=leaf1 Nodes=h[1-3]\n");
    let expected = [
        "h1.example.com:mlx5_0/1 - leaf1:?h1.example.com mlx5_0/1",
        "h2:mlx5_0/1 - leaf1:?h2 mlx5_0/1",
        "h2:mlx5_1/1 - leaf1:?h2 mlx5_1/1",
        "h3:?leaf1 - leaf1:?h3",
    ];
    assert_eq!(links(&all(&ports, &[conf])), expected);
}

fn lldp(host: &'static str, switch: &'static str, port: &'static str) -> Vec<(&'static str, &'static str)> {
    vec![
        ("host", host),
        ("device", "mlx5_0"),
        ("port", "1"),
        ("netdev", "ens1np0"),
        ("switch", switch),
        ("switch_port", port),
    ]
}

fn heard(rows: &[Vec<(&'static str, &'static str)>]) -> Vec<PortInfo> {
    ports(&rows.iter().map(Vec::as_slice).collect::<Vec<_>>())
}

const FILE: &str = r#"{"hosts":[{"id":"h1"},{"id":"h2"}],"switches":[{"id":"leaf1"},{"id":"spine1"}],"links":[
    {"a":"h1","a_port":"mlx5_0/1","b":"leaf1","b_port":"1","rate_gbps":200},
    {"a":"h2","a_port":"mlx5_0/1","b":"leaf1","b_port":"2","rate_gbps":200},
    {"a":"leaf1","a_port":"3","b":"spine1","b_port":"1","rate_gbps":400}]}"#;

#[test]
fn agreeing_sources_complete_each_other() {
    let file = read("f.json", FILE);
    // Switches name themselves with a domain, and their ports differently or not at all.
    let ports = heard(&[lldp("h1", "leaf1.example.com", "Ethernet1/1"), lldp("h2", "Leaf1", "")]);
    let topology = all(&ports, std::slice::from_ref(&file));
    assert_eq!(topology.contradictions, []);
    assert_eq!(topology.links.len(), 3);
    let h1 = &topology.links[0];
    assert_eq!((h1.known, h1.rate, h1.ends[1].port.as_str()), (Provenance::Lldp, Some(25e9), "1"));
    assert_eq!(topology.links[1].ends[1].port, "2", "what nobody heard, the file says");
    // A scheduler's tree over the same fabric adds nothing, and its made-up switches are dropped.
    let conf = read("topology.conf", "SwitchName=s1 Nodes=h[1-2]\nSwitchName=top Switches=s1\n");
    let with = all(&ports, &[file.clone(), conf.clone()]);
    assert_eq!(with, topology);
    // For a host that no other source cables it is the only source.
    let more = read("topology.conf", "SwitchName=s1 Nodes=h[1-3]\nSwitchName=top Switches=s1\n");
    let with = all(&ports, &[file, more]);
    assert_eq!(links(&with)[2..], ["h3:?s1 - s1:?h3", "leaf1:3 - spine1:1", "s1:?top - top:?s1"]);
}

#[test]
fn moved_cable_is_a_contradiction() {
    let file = read("f.json", FILE);
    // The cable of h2 went to another leaf; that of h1 to the port of h2.
    let ports = heard(&[lldp("h1", "leaf1", "swp2"), lldp("h2", "leaf2", "swp9")]);
    let topology = all(&ports, &[file]);
    assert_eq!(links(&topology), ["h1:mlx5_0/1 - leaf1:swp2", "h2:mlx5_0/1 - leaf2:swp9", "leaf1:3 - spine1:1"]);
    let told: Vec<String> = topology.contradictions.iter().map(ToString::to_string).collect();
    assert_eq!(
        told,
        [
            "h1 port mlx5_0/1 is cabled to leaf1 port swp2 (agents (LLDP)), not to leaf1 port 1 (f.json); check the cable, or \
             correct the second source",
            "h2 port mlx5_0/1 is cabled to leaf2 port swp9 (agents (LLDP)), not to leaf1 port 2 (f.json); check the cable, or \
             correct the second source",
            "leaf1 port 2 is cabled to h1 port mlx5_0/1 (agents (LLDP)), not to h2 port mlx5_0/1 (f.json); check the cable, or \
             correct the second source",
        ]
    );
    // A scheduler that places a host below the wrong leaf, by its real name.
    let conf = read("topology.conf", "SwitchName=leaf1 Nodes=h2\n");
    let topology = all(&ports, &[conf]);
    assert_eq!(topology.contradictions.len(), 1);
    assert_eq!(topology.contradictions[0].rejected.source, "topology.conf");
    assert_eq!(links(&topology).len(), 2);
    // One file with two claims about one port: the first wins.
    let twice = FILE.replace("\"b_port\":\"2\"", "\"b_port\":\"1\"");
    let topology = alone(read("f.json", &twice));
    assert_eq!((topology.links.len(), topology.contradictions.len()), (2, 1));
}

#[test]
fn cables_are_inferred_from_small_rails() {
    let row = |host: &'static str, rail: &'static str| {
        vec![("host", host), ("device", "mlx5_0"), ("port", "1"), ("rail", rail)]
    };
    let ports = heard(&[row("h1", "0"), row("h2", "0"), row("h3", "1")]);
    let topology = all(&ports, &[]);
    assert_eq!(links(&topology), ["h1:mlx5_0/1 - rail 0:?h1 mlx5_0/1", "h2:mlx5_0/1 - rail 0:?h2 mlx5_0/1"]);
    assert!(topology.links.iter().all(|l| l.known == Provenance::Inferred && l.rail.as_deref() == Some("0")));
    let by_order = |host| [row(host, "0"), vec![("rail_source", "order")]].concat();
    let ordered = all(&heard(&[by_order("h1"), by_order("h2")]), &[]);
    assert!(links(&ordered).is_empty(), "an order of adapters tells of no cable");
    let plane = |host, number| vec![("host", host), ("device", "mlx5_0"), ("port", number), ("rail", "0")];
    let planes = all(&heard(&[plane("h1", "3"), plane("h1", "6"), plane("h2", "3"), plane("h2", "6")]), &[]);
    let switches: Vec<&str> = planes.nodes.iter().map(|n| &*n.name).filter(|name| name.starts_with("rail")).collect();
    assert_eq!(switches, ["rail 0 port 3", "rail 0 port 6"], "planes of an adapter are networks of their own");
    assert_eq!(topology.nodes.len(), 4, "a host without a cable is a host: {:?}", topology.nodes);
    // A single source is believed.
    let topology = all(&ports, &[read("f.json", FILE)]);
    assert_eq!(links(&topology), PAIR);
    assert_eq!(topology.contradictions, []);
}

#[test]
fn ambiguous_names_resolve_to_none() {
    // Switches with factory defaults.
    let text = IBPORTS.replace("'leaf1'", "'Quantum'").replace("'spine1'", "'Quantum'");
    let expected = [
        "Quantum 0x00000000000000a1:1 - h1:mlx5_0/1",
        "Quantum 0x00000000000000a1:2 - h2:mlx5_0/1",
        "Quantum 0x00000000000000a1:3 - Quantum 0x00000000000000b1:1",
    ];
    assert_eq!(links(&alone(read("ports", &text))), expected);
    // Hosts of two domains, and HCAs that were cloned with their GUID.
    let row = |host: &'static str| -> Vec<(&'static str, &'static str)> {
        vec![("host", host), ("device", "mlx5_0"), ("port", "1"), ("node_guid", "0000:0000:0000:0010")]
    };
    let topology = all(&heard(&[row("h1.east"), row("h1.west")]), &[read("disc", IBNETDISCOVER)]);
    assert_eq!(links(&topology)[0], "h1:mlx5_0/1 - leaf1:1", "neither of the two");
}

#[test]
fn switch_with_agent_stays_a_switch() {
    let mut rows = vec![lldp("h1", "leaf1", "swp1"), lldp("h2", "leaf1", "swp2")];
    rows.push(vec![("host", "leaf1"), ("device", "swp1")]);
    let topology = all(&heard(&rows), &[read("f.json", FILE)]);
    let role = |n: &str| topology.nodes[topology.node(n).unwrap()].role;
    assert_eq!((role("leaf1"), role("h1"), topology.contradictions.len()), (Role::Leaf, Role::Host, 0));
}

#[test]
fn merge_time_grows_linearly() {
    let hosts = 2_000;
    let rows: Vec<PortInfo> = (0..hosts * 8)
        .map(|n| {
            let (h, rail) = (n / 8, n % 8);
            let (host, device) = (format!("h{h}"), format!("mlx5_{rail}"));
            let (switch, port) = (format!("leaf{rail}-{}", h / 32), format!("swp{}", h % 32));
            PortInfo::of(&Labels::new([
                ("host", host.as_str()),
                ("device", device.as_str()),
                ("port", "1"),
                ("switch", switch.as_str()),
                ("switch_port", port.as_str()),
            ]))
            .unwrap()
        })
        .collect();
    let conf = read("topology.conf", &format!("SwitchName=top Nodes=h[0-{}]\n", hosts - 1));
    let topology = all(&rows, &[conf]);
    assert_eq!((topology.links.len(), topology.nodes.len()), (hosts * 8, hosts + 63 * 8));
}

#[test]
#[ignore = "needs: recordings"]
fn recorded_topologies_parse() {
    let dir = fabriclens_testing::recordings();
    let topology = |file: &str| {
        let described = read(file, &std::fs::read_to_string(dir.join(file)).unwrap());
        assert_eq!(described.complaints, [""; 0], "{file}");
        let topology = alone(described);
        let told: Vec<String> = topology.contradictions.iter().map(ToString::to_string).collect();
        assert_eq!(told, [""; 0], "{file}");
        topology
    };
    let roles =
        |t: &Topology| [Role::Host, Role::Leaf, Role::Spine].map(|r| t.nodes.iter().filter(|n| n.role == r).count());
    let healthy = topology("ibsim-fattree/0-healthy/ibnetdiscover.txt");
    assert_eq!((healthy.links.len(), roles(&healthy)), (16, [8, 2, 2]));
    for file in ["ibnetdiscover-p.txt", "iblinkinfo.txt", "iblinkinfo-l.txt"] {
        assert_eq!(links(&topology(&format!("ibsim-fattree/0-healthy/{file}"))), links(&healthy), "{file}");
    }
    for (state, cables) in [("1-errors", 16), ("2-linkdown-leaf1.5", 15), ("3-relinked", 16), ("4-node08-gone", 15)] {
        for file in ["ibnetdiscover.txt", "ibnetdiscover-p.txt", "iblinkinfo.txt", "iblinkinfo-l.txt"] {
            let file = format!("ibsim-fattree/{state}/{file}");
            assert_eq!(topology(&file).links.len(), cables, "{file}");
        }
    }
    for (file, count, roles_of) in [
        ("ibnetdiscover/topograph-dgx-ndr-582ca/ibnetdiscover.txt", 1074, [191, 31, 9]),
        ("ibnetdiscover/loginoff-qdr-fdr10-mlx4/ibnetdiscover.txt", 192, [144, 7, 1]),
        ("tools/iblinkinfo-ibstat-qdr-is4/iblinkinfo.txt", 4, [4, 1, 0]),
        ("slurm-22.05/topology.conf", 6, [4, 2, 1]),
        ("slurm-22.05/scontrol-show-topology.txt", 6, [4, 2, 1]),
    ] {
        let one = topology(file);
        assert_eq!((one.links.len(), roles(&one)), (count, roles_of), "{file}");
    }
    let bad = std::fs::read_to_string(dir.join("ibnetdiscover/topograph-bad-example/ibnetdiscover.txt")).unwrap();
    assert!(matches!(parse("bad", &bad), Err(TopologyError::Empty { .. })));
}

/// Ports as the reader of an InfiniBand subnet reports them.
fn subnet_port(
    host: &'static str,
    port: &'static str,
    guid: &'static str,
    [switch, switch_id, switch_port]: [&'static str; 3],
) -> Vec<(&'static str, &'static str)> {
    let labels = [
        ("host", host),
        ("port", port),
        ("node_guid", guid),
        ("fabric", "infiniband"),
        ("node_type", "2: switch"),
        ("switch", switch),
        ("switch_id", switch_id),
        ("switch_port", switch_port),
    ];
    labels.into_iter().filter(|(_, value)| !value.is_empty()).collect()
}

#[test]
fn a_subnet_that_an_agent_reads_needs_no_file() {
    let mut rows = vec![
        subnet_port("leaf1", "1", "0xa1", ["h1 mlx5_0", "0x10", "1"]),
        // A description that names no host: the GUID does.
        subnet_port("leaf1", "2", "0xa1", ["MT4129 ConnectX7   Mellanox Technologies", "0x20", "1"]),
        subnet_port("leaf1", "3", "0xa1", ["spine1", "0xb1", "1"]),
        subnet_port("leaf1", "4", "0xa1", ["", "", ""]),
        subnet_port("spine1", "1", "0xb1", ["leaf1", "0xa1", "3"]),
    ];
    rows.push(vec![
        ("host", "h1"),
        ("device", "mlx5_0"),
        ("port", "1"),
        ("node_guid", "0x10"),
        ("fabric", "infiniband"),
    ]);
    rows.push(vec![
        ("host", "h2"),
        ("device", "mlx5_0"),
        ("port", "1"),
        ("node_guid", "0x20"),
        ("fabric", "infiniband"),
    ]);
    let ports = heard(&rows);
    let topology = all(&ports, &[]);
    assert_eq!(links(&topology), PAIR);
    let role = |name: &str| topology.nodes.iter().find(|n| n.name == name).map(|n| n.role);
    assert_eq!((role("h1"), role("leaf1"), role("spine1")), (Some(Role::Host), Some(Role::Leaf), Some(Role::Spine)));
    assert!(topology.links.iter().all(|link| link.known == Provenance::SubnetManager));
    // A file of the same subnet says the same.
    assert_eq!(links(&all(&ports, &[read("net", IBNETDISCOVER)])), PAIR);
}
