//! The leaf-spine fabric with agents that trace and probe, a job, and the incidents that the collector tells.

use super::Lab;
use super::leaf_spine::LeafSpine;
use crate::lab::agent;
use crate::lab::routers::{Plan, Trunk, host_address};
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// Configuration of agents that trace and probe. Emulated processors are slow: at the usual budget of 2 % of a core, agents would
/// send one probe in sixteen.
pub const PROBES: &str = "[probes]\nenabled = true\n[budget]\ncpu = \"100%\"\n";

/// Time in which plans, paths and probes must be there.
const SETTLES: Duration = Duration::from_secs(120);

/// Job of all hosts.
const JOB: &str = "4703";

/// Traffic of four queue pairs that sends for a moment of each second, so that it does not take the processor from the agents.
const TRAFFIC: &str = "ib_send_bw -d rxe0 -x 1 -q 4 -n 20000000 -N -s 4096 -u 20 -e -F";
const PULSE: &str = "while :; do killall -CONT ib_send_bw; sleep 0.02; killall -STOP ib_send_bw; sleep 1; done";

/// A running fabric with probes.
pub struct Probed {
    /// Guests and collector.
    pub fabric: LeafSpine,
}

impl Probed {
    /// Boots; agents are not started yet.
    ///
    /// # Errors
    /// When the fabric does not come up.
    pub fn boot(lab: &Lab, plan: Plan) -> Result<Self> {
        Ok(Self { fabric: LeafSpine::start(lab, plan)? })
    }

    /// Waits until traced paths cross each trunk in both directions, and all hosts answer probes.
    ///
    /// # Errors
    /// When they do not.
    pub fn settle(&self, lab: &Lab) -> Result<()> {
        let trunks = self.fabric.routers.plan.trunks().count() as u64;
        let mut seen = Value::Null;
        let covered = lab.wait("traced paths over each trunk in both directions", SETTLES, || {
            seen = self.summary()?;
            Ok((seen["coverage"]["between_switches"] == trunks * 2).then_some(()))
        });
        covered.with_context(|| format!("{seen}"))?;
        for host in self.fabric.routers.plan.hosts() {
            let answered = format!("fabric_probe_answered_total{{host=\"h{host}\",transport=\"rdma\"}}");
            lab.wait(&answered, SETTLES, || Ok(self.sum(&answered)?.filter(|count| *count >= 10.0).map(drop)))?;
        }
        Ok(())
    }

    /// Numbers of plans and coverage.
    ///
    /// # Errors
    /// When the collector does not answer.
    pub fn summary(&self) -> Result<Value> {
        Ok(self.fabric.collector.get("/api/v1/probes")?["data"]["summary"].clone())
    }

    /// Value of an instant query summed over all series; `None` if there is none.
    ///
    /// # Errors
    /// When the collector does not answer.
    pub fn sum(&self, promql: &str) -> Result<Option<f64>> {
        self.fabric.collector.value(&format!("sum({promql})"))
    }

    /// Reports a job of all hosts, and starts its traffic between pairs of hosts; each host is in one pair at most.
    ///
    /// # Errors
    /// When the collector refuses the job, or traffic does not start.
    pub fn start_job(&self, lab: &Lab, pairs: &[(u8, u8)]) -> Result<()> {
        let hosts: Vec<String> = self.fabric.routers.plan.hosts().map(|host| format!("h{host}")).collect();
        self.fabric.collector.post("/api/v1/jobs", &json!({"id": JOB, "hosts": hosts}))?;
        for (from, to) in pairs {
            let (from, to, address) = (self.fabric.host(*from), self.fabric.host(*to), host_address(*to));
            agent::serve(to, TRAFFIC)?;
            from.sh(&format!("setsid {TRAFFIC} {address} </dev/null >/tmp/client.log 2>&1 &"))?;
            lab.wait("traffic", Duration::from_secs(30), || Ok((agent::sent(from)? > 1000).then_some(())))?;
            from.sh(&format!("setsid sh -c '{PULSE}' </dev/null >/dev/null 2>&1 &"))?;
        }
        Ok(())
    }

    /// All incidents.
    ///
    /// # Errors
    /// When the collector does not answer.
    pub fn incidents(&self) -> Result<Vec<Value>> {
        self.fabric.collector.incidents()
    }

    /// Incidents by id, to tell new ones apart.
    ///
    /// # Errors
    /// When the collector does not answer.
    pub fn known(&self) -> Result<BTreeSet<String>> {
        Ok(self.incidents()?.iter().map(|one| one["id"].to_string()).collect())
    }

    /// Incidents that are not among `known`.
    ///
    /// # Errors
    /// When the collector does not answer.
    pub fn fresh(&self, known: &BTreeSet<String>) -> Result<Vec<Value>> {
        Ok(self.incidents()?.into_iter().filter(|one| !known.contains(&one["id"].to_string())).collect())
    }

    /// Watches for `time`; no new incident may blame the network.
    ///
    /// # Errors
    /// With the incident and `what` was done to the host.
    pub fn blames_no_network(&self, what: &str, time: Duration) -> Result<()> {
        let (known, start) = (self.known()?, Instant::now());
        while start.elapsed() < time {
            let fresh = self.fresh(&known)?;
            let blamed = fresh.iter().find(|one| is_of_network(one));
            ensure!(blamed.is_none(), "{what}, and the network was blamed: {}", blamed.map(told).unwrap_or_default());
            std::thread::sleep(Duration::from_secs(1));
        }
        Ok(())
    }
}

/// Whether the root of an incident is a link, a port or a switch.
fn is_of_network(incident: &Value) -> bool {
    ["link", "port", "switch", "fabric"].iter().any(|kind| incident["root"]["type"] == **kind)
}

/// Kind, place and explanation.
#[must_use]
pub fn told(incident: &Value) -> String {
    let text = |key: &str| incident[key].as_str().unwrap_or_default().to_owned();
    format!("{} at {}: {}", text("kind"), incident["root"], text("explanation"))
}

/// Whether the root of an incident is a trunk.
#[must_use]
pub fn is_at(incident: &Value, trunk: Trunk) -> bool {
    let root = &incident["root"];
    let [leaf, spine] = &trunk.ends();
    let at = |node: &str, port: &str, end: &(String, String)| root[node] == end.0 && root[port] == end.1;
    let link = |a, b| at("a", "a_port", a) && at("b", "b_port", b);
    match root["type"].as_str() {
        Some("link") => link(leaf, spine) || link(spine, leaf),
        Some("port") => at("node", "port", leaf) || at("node", "port", spine),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trunk_is_found_by_either_end() {
        let trunk = Trunk { leaf: 1, spine: 2 };
        let link = |a: [&str; 2], b: [&str; 2]| json!({"root": {"type": "link", "a": a[0], "a_port": a[1], "b": b[0], "b_port": b[1]}});
        assert!(is_at(&link(["spine2", "leaf1"], ["leaf1", "spine2"]), trunk));
        assert!(!is_at(&link(["spine2", "leaf2"], ["leaf2", "spine2"]), trunk));
        assert!(is_at(&json!({"root": {"type": "port", "node": "leaf1", "port": "spine2"}}), trunk));
        assert!(!is_at(&json!({"root": {"type": "fabric"}}), trunk));
    }
}
