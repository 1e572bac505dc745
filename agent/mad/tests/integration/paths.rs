//! Compares paths by the forwarding tables with those of `ibtracert`.

use crate::discovery::{PACE, sweep};
use fabriclens_agent_mad::discovery::{Limits, Sweep};
use fabriclens_agent_mad::ibsim::IbSim;
use fabriclens_agent_mad::paths;
use fabriclens_testing::ibsim::{FatTree, Subnet};

/// Egress ports that ibtracert prints: `[5] -> switch port {0x…}[1] lid 2-2 "spine001"`.
fn traced(subnet: &Subnet, from: u16, to: u16) -> Vec<u8> {
    let printed = subnet.run(&FatTree::host(1), "ibtracert", &[&from.to_string(), &to.to_string()]);
    let text = String::from_utf8_lossy(&printed.stdout).into_owned();
    let hops = text.lines().filter_map(|line| line.strip_prefix('[')?.split_once("] -> ")?.0.parse().ok());
    let hops: Vec<u8> = hops.collect();
    assert!(!hops.is_empty(), "{text}{}", String::from_utf8_lossy(&printed.stderr));
    hops
}

#[test]
#[ignore = "needs: ibsim"]
fn paths_equal_those_of_ibtracert() {
    let tree = FatTree { hosts: 6, leaves: 6, spines: 3, uplinks: 2 };
    let subnet = Subnet::start(tree);
    let Sweep { subnet: found, next_transaction, .. } = sweep(&subnet, Limits::default());
    let mut mad = IbSim::attach(subnet.sockets(), &FatTree::host(1)).expect("attached");
    let read = paths::read(&mut mad, PACE, &found, next_transaction).expect("no error");
    println!("{:?}", read.counts);
    assert_eq!(read.counts.timed_out, 0);
    let mut lids: Vec<u16> = found.by_lid().into_keys().collect();
    lids.sort_unstable();
    let mut compared = 0;
    for (n, from) in lids.iter().enumerate() {
        // A sample: some destinations of each, hosts and switches.
        for to in lids.iter().skip(n % 5).step_by(9).filter(|to| *to != from) {
            let path = read.tables.path(&found, *from, *to).expect("a path");
            let ours: Vec<u8> = path.iter().map(|hop| hop.egress.1).collect();
            assert_eq!(ours, traced(&subnet, *from, *to), "from {from} to {to}");
            compared += 1;
        }
    }
    assert!(compared >= 200, "{compared}");
    let host =
        |n: u32| found.nodes[&u64::from_str_radix(&FatTree::host(n)[2..], 16).expect("a GUID")].lid(1).expect("a LID");
    let path = read.tables.path(&found, host(0), host(35)).expect("a path");
    let (lanes, _) = paths::lanes(&mut mad, PACE, (&found, &path), 3, read.next_transaction).expect("no error");
    assert!(path.len() == 4 && lanes.len() == 3 && lanes.iter().all(Option::is_some), "{path:?} {lanes:?}");
}
