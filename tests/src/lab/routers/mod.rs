//! Linux routers as leaves and spines: one guest, in which each router is a network namespace and each trunk a pair of veth.
//!
//! Leaves spread flows over the spines by a hash of addresses and ports (`fib_multipath_hash_policy`), all routers answer
//! packets whose TTL ends, and each leaf counts RoCE packets by UDP source port and spine.

mod plan;
mod script;

pub use plan::{Plan, SPINES, THREE_LEAVES, TWO_LEAVES, Trunk, gateway, host_address};

use super::vm::Vm;
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// The guest with the routers.
#[derive(Debug)]
pub struct Routers {
    /// The guest.
    pub guest: Vm,
    /// Hosts and leaves.
    pub plan: Plan,
}

impl Routers {
    /// Builds the routers in a guest with the module list `router` and a card per host.
    ///
    /// # Errors
    /// When a command in the guest fails.
    pub fn set_up(guest: Vm, plan: Plan) -> Result<Self> {
        guest.write("/routers.sh", &script::build(plan))?;
        guest.sh("sh /routers.sh").context("building the routers")?;
        Ok(Self { guest, plan })
    }

    /// Runs a script without single quotes in the namespace of a router.
    ///
    /// # Errors
    /// When it fails.
    pub fn at(&self, router: &str, script: &str) -> Result<String> {
        self.guest.sh(&format!("ip netns exec {router} sh -c '{script}'"))
    }

    /// Makes a trunk lose or delay packets in both directions, in netem's words: `loss 2%`, `delay 5ms`.
    ///
    /// # Errors
    /// When netem refuses.
    pub fn impair(&self, trunk: Trunk, netem: &str) -> Result<()> {
        let set = |port: &str| format!("tc qdisc replace dev {port} root netem limit 100000 {netem}");
        trunk.ends().iter().try_for_each(|(router, port)| self.at(router, &set(port)).map(drop))
    }

    /// Ends [`Self::impair`].
    ///
    /// # Errors
    /// When the trunk was not impaired.
    pub fn mend(&self, trunk: Trunk) -> Result<()> {
        let end = |port: &str| format!("tc qdisc del dev {port} root");
        trunk.ends().iter().try_for_each(|(router, port)| self.at(router, &end(port)).map(drop))
    }

    /// Sets the leaf's port of a trunk down or up. While it is down, the leaf uses its other spines, and the spine drops packets
    /// to that leaf: other leaves do not know that their route has ended, as before a routing protocol has converged.
    ///
    /// # Errors
    /// When the command fails.
    pub fn set_trunk(&self, trunk: Trunk, up: bool) -> Result<()> {
        let [(leaf, port), _] = trunk.ends();
        self.at(&leaf, &format!("ip link set {port} {}", if up { "up" } else { "down" })).map(drop)
    }

    /// Drops packets in a router by a match of nftables, for instance `ip protocol icmp`, until [`Self::allow`].
    ///
    /// # Errors
    /// When nftables refuses.
    pub fn drop_packets(&self, router: &str, matches: &str) -> Result<()> {
        let mut rules = "add table ip firewall\n".to_owned();
        for hook in ["forward", "output"] {
            let _ = writeln!(rules, "add chain ip firewall {hook} {{ type filter hook {hook} priority 0; }}");
            let _ = writeln!(rules, "add rule ip firewall {hook} {matches} counter drop");
        }
        self.guest.sh(&format!("ip netns exec {router} nft -f - <<END\n{rules}END")).map(drop)
    }

    /// Ends [`Self::drop_packets`]; number of packets that were dropped.
    ///
    /// # Errors
    /// When the router drops nothing on purpose.
    pub fn allow(&self, router: &str) -> Result<u64> {
        let all = self.nft(router, "list table ip firewall")?;
        self.at(router, "nft delete table ip firewall")?;
        Ok(found(&all, "packets").iter().filter_map(|value| value.as_u64()).sum())
    }

    /// Packets to UDP port 4791 that a leaf has sent to a spine since [`Self::reset_counters`], by UDP source port.
    ///
    /// # Errors
    /// When nftables' answer cannot be read.
    pub fn sent(&self, trunk: Trunk) -> Result<BTreeMap<u16, u64>> {
        let [(leaf, set), _] = trunk.ends();
        let all = self.nft(&leaf, &format!("list set ip lab {set}"))?;
        let elements = found(&all, "elem").into_iter().flat_map(|list| list.as_array().into_iter().flatten());
        let read = |element: &Value| {
            let port = element["elem"]["val"].as_u64().and_then(|port| u16::try_from(port).ok());
            port.zip(element["elem"]["counter"]["packets"].as_u64())
        };
        elements.map(|element| read(element).with_context(|| format!("nft's element {element}"))).collect()
    }

    /// IP packets that leaves have received from hosts since [`Self::reset_counters`].
    ///
    /// # Errors
    /// When nftables' answer cannot be read.
    pub fn from_hosts(&self) -> Result<u64> {
        let mut sum = 0;
        for leaf in self.plan.leaves() {
            let all = self.nft(&format!("leaf{leaf}"), "list counter ip lab hosts")?;
            let count = found(&all, "packets").first().and_then(|count| count.as_u64());
            sum += count.with_context(|| format!("no count of packets in {all}"))?;
        }
        Ok(sum)
    }

    /// Sets the counts of [`Self::sent`] and [`Self::from_hosts`] to zero.
    ///
    /// # Errors
    /// When nftables refuses.
    pub fn reset_counters(&self) -> Result<()> {
        let flush = SPINES.map(|spine| format!("nft flush set ip lab spine{spine}; ")).concat();
        let all = format!("{flush}nft reset counters table ip lab");
        self.plan.leaves().try_for_each(|leaf| self.at(&format!("leaf{leaf}"), &all).map(drop))
    }

    /// Spine that the kernel of the first leaf chooses for RoCE packets of each source port between hosts of two leaves.
    ///
    /// # Errors
    /// When a route leads to no spine.
    pub fn chosen(&self, from: u8, to: u8, source_ports: &[u16]) -> Result<BTreeMap<u16, u8>> {
        let (source, target) = (host_address(from), host_address(to));
        let ports = source_ports.iter().map(u16::to_string).collect::<Vec<_>>().join(" ");
        let route = format!("ip -o route get {target} from {source} iif h{from} ipproto 17 sport $p dport 4791");
        let each = format!("for p in {ports}; do {route} || exit 1; done");
        let told = self.at(&format!("leaf{}", self.plan.leaf_of(from)), &each)?;
        let spine = |line: &str| line.split_once("dev spine")?.1.split_whitespace().next()?.parse().ok();
        let spines: Option<Vec<u8>> = told.lines().map(spine).collect();
        let spines = spines.with_context(|| format!("routes without a spine: {told}"))?;
        ensure!(spines.len() == source_ports.len(), "{} routes for {} ports", spines.len(), source_ports.len());
        Ok(source_ports.iter().copied().zip(spines).collect())
    }

    fn nft(&self, router: &str, command: &str) -> Result<Value> {
        let told = self.at(router, &format!("nft -j {command}"))?;
        serde_json::from_str(&told).with_context(|| format!("nft's JSON: {told}"))
    }
}

/// All values of a key in nested JSON that are not objects.
fn found<'a>(value: &'a Value, key: &str) -> Vec<&'a Value> {
    let each = |(name, value): (&String, &'a Value)| {
        if name == key && !value.is_object() { vec![value] } else { found(value, key) }
    };
    match value {
        Value::Object(fields) => fields.iter().flat_map(each).collect(),
        Value::Array(values) => values.iter().flat_map(|value| found(value, key)).collect(),
        _ => Vec::new(),
    }
}
