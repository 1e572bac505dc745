//! Counters set at the simulator's console are read, and equal what `perfquery` prints.

use crate::discovery::{PACE, SMALL, sweep};
use fabriclens_agent_mad::counters::{Group, Poller, Reading, Round, Target};
use fabriclens_agent_mad::discovery::{Limits, Sweep};
use fabriclens_agent_mad::ibsim::IbSim;
use fabriclens_agent_mad::subnet;
use fabriclens_testing::ibsim::{FatTree, Subnet};

/// All cabled switch ports.
pub fn targets(found: &subnet::Subnet) -> Vec<Target> {
    let ports =
        found.switches().flat_map(|(guid, node)| node.ports.iter().map(move |(port, info)| (guid, node, port, info)));
    let ports = ports.filter(|(.., port, info)| **port > 0 && info.is_linked());
    ports
        .filter_map(|(guid, node, port, info)| {
            Some(Target { port: (guid, *port), lid: node.lid(*port)?, lanes: info.virtual_lanes })
        })
        .collect()
}

fn read(subnet: &Subnet, poller: &mut Poller, group: Group) -> (Vec<Reading>, Round) {
    let Sweep { subnet: found, next_transaction, .. } = sweep(subnet, Limits::default());
    let mut mad = IbSim::attach(subnet.sockets(), &FatTree::host(1)).expect("attached");
    let (mut readings, targets) = (Vec::new(), targets(&found));
    let round = poller.read(&mut mad, PACE, (group, &targets), next_transaction, &mut |r| readings.push(r));
    (readings, round.expect("no error"))
}

fn value(reading: &Reading, name: &str) -> Option<u64> {
    let at = reading.names.iter().position(|n| **n == *name)?;
    reading.values[at]
}

#[test]
#[ignore = "needs: ibsim"]
fn counters_set_at_the_console_are_read() {
    let mut subnet = Subnet::start(SMALL);
    let leaf = FatTree::leaf(0);
    let set = |subnet: &mut Subnet, what: &str| subnet.console(&format!("PerformanceSet \"{leaf}\"[5] {what}"));
    set(&mut subnet, "PortCounters.SymbolErrorCounter=1234");
    set(&mut subnet, "PortCounters.PortXmitDiscards=77");
    set(&mut subnet, "PortCountersExtended.PortXmitData=123456789012");
    set(&mut subnet, "PortXmitDiscardDetails.PortSwHOQLifetimeLimitDiscards=9");
    let mut poller = Poller::default();
    let (basic, round) = read(&subnet, &mut poller, Group::Basic);
    let port = (u64::from_str_radix(&leaf[2..], 16).expect("a GUID"), 5);
    let of = |readings: &[Reading]| readings.iter().find(|r| r.port == port).cloned().expect("the port");
    let reading = of(&basic);
    println!("{:?}", round.counts);
    assert_eq!(value(&reading, "PortCounters/SymbolErrorCounter"), Some(1234), "{reading:?}");
    assert_eq!(value(&reading, "PortCounters/PortXmitDiscards"), Some(77));
    // The MADs of this test are traffic too.
    let sent = value(&reading, "PortCountersExtended/PortXmitData");
    assert!(sent.is_some_and(|sent| (123_456_789_012..123_456_900_000).contains(&sent)), "{sent:?}");
    assert_eq!(basic.len(), 2 * (2 * 4) + 8, "each cabled port of leaves and spines");
    assert!(round.silent.is_empty());
    let details = of(&read(&subnet, &mut poller, Group::Details).0);
    assert_eq!(value(&details, "PortXmitDiscardDetails/PortSwHOQLifetimeLimitDiscards"), Some(9), "{details:?}");
    let lane = |lane: u8| value(&details, &format!("PortVLXmitWaitCounters/PortVLXmitWait{lane}"));
    // The simulator answers the attribute, but its console cannot set these fields.
    assert_eq!((lane(0), lane(15)), (Some(0), None), "only lanes in use: {details:?}");
}

#[test]
#[ignore = "needs: ibsim"]
fn counters_equal_those_of_perfquery() {
    let mut subnet = Subnet::start(SMALL);
    let leaf = FatTree::leaf(1);
    for set in
        ["PortRcvErrors=11", "LinkDownedCounter=3", "VL15Dropped=5", "LocalLinkIntegrityErrors=2", "PortXmitWait=99"]
    {
        subnet.console(&format!("PerformanceSet \"{leaf}\"[2] PortCounters.{set}"));
    }
    let guid = u64::from_str_radix(&leaf[2..], 16).expect("a GUID");
    let (readings, _) = read(&subnet, &mut Poller::default(), Group::Basic);
    let reading = readings.iter().find(|r| r.port == (guid, 2)).expect("the port");
    let printed = subnet.run(&FatTree::host(2), "perfquery", &["-G", &format!("0x{guid:x}"), "2"]);
    let printed = String::from_utf8_lossy(&printed.stdout).into_owned();
    let mut compared = 0;
    for (name, value) in reading.names.iter().zip(&reading.values) {
        let Some(field) = name.strip_prefix("PortCounters/") else { continue };
        // Traffic counts the MADs of this test; perfquery prints some names of its own.
        let line = printed
            .lines()
            .find(|l| l.starts_with(&format!("{field}:")) && !field.ends_with("Data") && !field.ends_with("Pkts"));
        if let Some(theirs) = line.and_then(|line| line.rsplit('.').next()?.parse::<u64>().ok()) {
            assert_eq!(Some(theirs), *value, "{name}");
            compared += 1;
        }
    }
    assert!(compared >= 8, "{compared} of\n{printed}");
}
