//! Shell scripts that build the routers.

use super::plan::{Plan, SPINES, Trunk, gateway};
use std::fmt::Write as _;

/// Settings of each router. ICMP errors come from the port by which the packet came, as with most switches, and are limited to
/// 100 per second and host; Linux would send one.
const SETTINGS: &str = "net.ipv4.ip_forward=1 net.ipv4.fib_multipath_hash_policy=1 \
                        net.ipv4.icmp_errors_use_inbound_ifaddr=1 net.ipv4.icmp_ratelimit=10";

/// Namespaces, trunks, addresses, routes and counters.
pub fn build(plan: Plan) -> String {
    let mut text = "set -e; mkdir -p /var; ln -sfn /run /var/run\n".to_owned();
    let mut line = |words: String| {
        let _ = writeln!(text, "{words}");
    };
    for router in plan.routers() {
        line(format!("ip netns add {router}; ip -n {router} link set lo up"));
        line(format!("ip netns exec {router} sysctl -q -w {SETTINGS}"));
    }
    for trunk in plan.trunks() {
        let [(leaf, up), (spine, down)] = trunk.ends();
        line(format!("ip -n {leaf} link add {up} type veth peer name {down} netns {spine}"));
        for (router, port, address) in [(&leaf, &up, trunk.leaf_address()), (&spine, &down, trunk.spine_address())] {
            line(format!("ip -n {router} addr add {address}/30 dev {port}; ip -n {router} link set {port} up"));
        }
    }
    for host in plan.hosts() {
        let (leaf, card) = (plan.leaf_of(host), host - 1);
        line(format!("ip link set fab{card} down; ip link set fab{card} name h{host} netns leaf{leaf}"));
        line(format!(
            "ip -n leaf{leaf} addr add {}/24 dev h{host}; ip -n leaf{leaf} link set h{host} up",
            gateway(host)
        ));
        for spine in SPINES {
            let via = Trunk { leaf, spine }.leaf_address();
            line(format!("ip -n spine{spine} route add 10.77.{host}.0/24 via {via}"));
        }
    }
    for leaf in plan.leaves() {
        line(routes(plan, leaf));
        line(format!("ip netns exec leaf{leaf} nft -f - <<END\n{}END", counters()));
    }
    text
}

/// Routes of a leaf to the hosts of other leaves, over all spines.
fn routes(plan: Plan, leaf: u8) -> String {
    let hops = SPINES.map(|spine| format!(" nexthop via {}", Trunk { leaf, spine }.spine_address())).concat();
    let far = plan.hosts().filter(|host| plan.leaf_of(*host) != leaf);
    far.map(|host| format!("ip -n leaf{leaf} route add 10.77.{host}.0/24{hops}\n")).collect()
}

/// Rules that count in a leaf: all IP packets from its hosts, and RoCE packets to each spine by UDP source port.
fn counters() -> String {
    let mut rules = "add table ip lab\nadd counter ip lab hosts\n\
                     add chain ip lab in { type filter hook prerouting priority -300; }\n\
                     add chain ip lab out { type filter hook postrouting priority 300; }\n\
                     add rule ip lab in iifname \"h*\" counter name hosts\n"
        .to_owned();
    for spine in SPINES {
        let set = format!("spine{spine}");
        let _ = writeln!(rules, "add set ip lab {set} {{ type inet_service; size 65535; flags dynamic; counter; }}");
        let _ = writeln!(rules, "add rule ip lab out oifname {set} udp dport 4791 update @{set} {{ udp sport }}");
    }
    rules
}
