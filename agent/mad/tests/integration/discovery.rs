//! What a sweep finds is what the network file says.

use fabriclens_agent_mad::discovery::{Limits, Sweep, discover};
use fabriclens_agent_mad::exchange::Pace;
use fabriclens_agent_mad::ibsim::IbSim;
use fabriclens_testing::ibsim::{FatTree, Subnet};

pub const SMALL: FatTree = FatTree { hosts: 4, leaves: 2, spines: 2, uplinks: 2 };
pub const PACE: Pace = Pace { per_second: 1_000_000, ..DEFAULT };
const DEFAULT: Pace =
    Pace { per_second: 2_000, deadline: std::time::Duration::from_millis(500), in_flight: 64, retries: 2 };

pub fn sweep(subnet: &Subnet, limits: Limits) -> Sweep {
    let mut mad = IbSim::attach(subnet.sockets(), &FatTree::host(1)).expect("attached");
    discover(&mut mad, PACE, limits, 0).expect("a subnet")
}

fn guid(id: &str) -> u64 {
    u64::from_str_radix(&id[2..], 16).expect("a GUID")
}

#[test]
#[ignore = "needs: ibsim"]
fn a_fat_tree_of_648_ports_is_found_whole() {
    let tree = FatTree { hosts: 18, leaves: 36, spines: 18, uplinks: 1 };
    let subnet = Subnet::start(tree);
    let begin = std::time::Instant::now();
    let Sweep { subnet: found, counts, .. } = sweep(&subnet, Limits::default());
    println!("{} nodes, {} cables, {counts:?}, {:?}", found.nodes.len(), found.links.len() / 2, begin.elapsed());
    assert_eq!((found.nodes.len(), found.links.len()), (tree.nodes() as usize, 2 * tree.cables() as usize));
    assert_eq!(found.switches().count() as u32, tree.leaves + tree.spines);
    assert!(!found.truncated && counts.timed_out == 0);
    let leaf = &found.nodes[&guid(&FatTree::leaf(4))];
    assert_eq!((leaf.description.as_str(), leaf.info.ports, leaf.ports.len()), ("leaf005", 36, 37));
    assert_eq!(found.links[&(guid(&FatTree::leaf(4)), 3)], (guid(&FatTree::host(4 * 18 + 2)), 1));
    assert_eq!(found.links[&(guid(&FatTree::leaf(4)), 20)], (guid(&FatTree::spine(1)), 5));
    assert!(leaf.ports[&1].is_active() && leaf.ports[&1].rate_bits() == Some(200_000_000_000), "{:?}", leaf.ports[&1]);
    assert_eq!(found.by_lid().len(), tree.nodes() as usize, "each node has a LID of its own");
}

#[test]
#[ignore = "needs: ibsim"]
fn a_link_taken_down_is_gone_and_comes_back() {
    let mut subnet = Subnet::start(SMALL);
    let (leaf, spine) = (guid(&FatTree::leaf(0)), guid(&FatTree::spine(0)));
    assert_eq!(sweep(&subnet, Limits::default()).subnet.links[&(leaf, 5)], (spine, 1));
    subnet.console(&format!("Unlink \"{}\"[5]", FatTree::leaf(0)));
    let found = sweep(&subnet, Limits::default()).subnet;
    assert!(!found.links.contains_key(&(leaf, 5)) && !found.links.contains_key(&(spine, 1)));
    assert!(!found.nodes[&leaf].ports[&5].is_linked() && found.nodes.len() == SMALL.nodes() as usize);
    subnet.console(&format!("ReLink \"{}\"[5]", FatTree::leaf(0)));
    assert_eq!(sweep(&subnet, Limits::default()).subnet.links[&(leaf, 5)], (spine, 1));
}

#[test]
#[ignore = "needs: ibsim"]
fn limits_end_a_sweep_and_say_so() {
    let subnet = Subnet::start(SMALL);
    let found = sweep(&subnet, Limits { nodes: 5, ports: 40_000 }).subnet;
    assert!(found.truncated && found.nodes.len() == 5);
    let found = sweep(&subnet, Limits { nodes: 20_000, ports: 10 }).subnet;
    assert!(found.truncated && found.nodes.len() < SMALL.nodes() as usize);
}

#[test]
#[ignore = "needs: ibsim"]
fn a_node_that_never_answers_costs_only_itself() {
    let mut subnet = Subnet::start(SMALL);
    subnet.console(&format!("Error \"{}\"[1] 100", FatTree::host(5)));
    let Sweep { subnet: found, counts, .. } = sweep(&subnet, Limits::default());
    assert_eq!(found.nodes.len(), SMALL.nodes() as usize - 1, "{counts:?}");
    assert!(!found.nodes.contains_key(&guid(&FatTree::host(5))));
}
