//! Faults in real kernels against the collector's incidents. A fault that soft-RoCE counts must get the right kind; for the
//! others the result is printed and documented in `docs/verdicts.md`.

use super::watched::Pair;
use super::{Lab, Scenario};
use crate::lab::agent;
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

pub const SCENARIO: Scenario = Scenario {
    name: "rxe-faults",
    shows: "injected loss, rate limits and flaps, beside the incidents that open: kind and place",
    limit: Duration::from_secs(600),
    often: false,
    alone: true,
    run,
};

/// Time in which an incident must open or end; guests are slow.
const PATIENCE: Duration = Duration::from_secs(120);
/// Attempts to start traffic, and the time until it flows.
const TRIES: usize = 4;
const FLOWS: Duration = Duration::from_secs(40);
/// Time for which faults without a required incident are observed.
const LISTENS: Duration = Duration::from_secs(25);

/// A fault of the guest `vm1` or its port.
struct Fault {
    name: &'static str,
    /// Commands at `vm1` that begin and end the fault.
    inject: &'static str,
    mend: &'static str,
    /// Retries of the queue pairs; 7 is without limit.
    retries: u8,
    /// Correct kinds, and whether one of them is required because soft-RoCE counts the fault.
    right: &'static [&'static str],
    told: bool,
}

const FAULTS: &[Fault] = &[
    Fault {
        name: "2 % of packets lost on the way out",
        inject: "tc qdisc replace dev fab0 root netem loss 2%",
        mend: "tc qdisc del dev fab0 root",
        retries: 7,
        right: &["lossy_link", "transport_errors"],
        told: true,
    },
    Fault {
        name: "rate limited to 20 Mb/s",
        inject: "tc qdisc replace dev fab0 root tbf rate 20mbit burst 32kb latency 50ms",
        mend: "tc qdisc del dev fab0 root",
        retries: 7,
        right: &["degraded_link", "lossy_link", "transport_errors"],
        told: false,
    },
    Fault {
        name: "nothing gets through, queue pairs give up",
        inject: "tc qdisc replace dev fab0 root netem loss 100%",
        mend: "tc qdisc del dev fab0 root",
        retries: 2,
        right: &["lossy_link", "transport_errors"],
        told: true,
    },
    Fault {
        name: "link down",
        inject: "ip link set fab0 down",
        mend: "ip link set fab0 up",
        retries: 7,
        right: &["link_down"],
        told: true,
    },
    Fault {
        name: "link flaps",
        inject: "setsid sh -c 'for n in 1 2 3 4 5 6; do ip link set fab0 down; sleep 3; ip link set fab0 up; sleep 3; done' \
                 </dev/null >/dev/null 2>&1 &",
        mend: "true",
        retries: 7,
        right: &["link_flap"],
        told: true,
    },
];

/// Four queue pairs, and no busy polling: it would starve the agent.
const TRAFFIC: &str = "ib_send_bw -d rxe0 -R -F -e -N -q 4 -s 4096 -n 20000000 --retry_count";

fn run(lab: &Lab) -> Result<()> {
    let pair = Pair::start(lab)?;
    lab.say(&format!("{:<44} {:<32} {:<24} {}", "injected at vm1", "told", "where", "right"));
    let mut wrong = Vec::new();
    for fault in FAULTS {
        let over = || Ok(pair.collector.incidents()?.iter().all(|one| one["state"] == "ended").then_some(()));
        lab.wait("the end of the fault before", PATIENCE, over)
            .with_context(|| format!("before {}: {:?}", fault.name, pair.collector.incidents()))?;
        keep_busy(lab, &pair, fault.retries)?;
        let before: BTreeSet<String> = pair.collector.incidents()?.iter().map(id).collect();
        let begin = Instant::now();
        pair.one.sh(fault.inject)?;
        let right = |one: &Value| {
            let (kind, root) = (&one["kind"], &one["root"]);
            fault.right.iter().any(|name| kind == name) && root["node"] == "vm1"
        };
        let fresh = || -> Result<Vec<Value>> {
            Ok(pair.collector.incidents()?.into_iter().filter(|one| !before.contains(&id(one))).collect())
        };
        let patience = if fault.told { PATIENCE } else { LISTENS };
        // Evidence arrives gradually, so the last kind counts, together with other open incidents.
        let hit = lab.wait("the verdict", patience, || Ok(fresh()?.iter().any(right).then(|| begin.elapsed())));
        let told = fresh()?;
        pair.one.sh(fault.mend)?;
        let verdict = match (&hit, fault.told) {
            (Ok(took), _) => format!("yes, after {:.0} s", took.as_secs_f64()),
            (Err(_), true) => "NO".to_owned(),
            (Err(_), false) if told.is_empty() => "not told".to_owned(),
            (Err(_), false) => "no".to_owned(),
        };
        let all = |of: fn(&Value) -> String| told.iter().map(of).collect::<Vec<_>>().join(", ");
        lab.say(&format!("{:<44} {:<32} {:<24} {verdict}", fault.name, all(kind), all(place)));
        for one in &told {
            lab.say(&format!("    {}", one["explanation"].as_str().unwrap_or_default()));
        }
        if fault.told && hit.is_err() {
            wrong.push(fault.name);
        }
        // A healthy host must not be accused.
        let innocent = told.iter().any(|one| one["root"]["node"] == "vm2");
        ensure!(!innocent || !fault.told, "vm2 was accused of {}: {told:?}", fault.name);
    }
    ensure!(wrong.is_empty(), "not told, or told wrongly: {}", wrong.join(", "));
    Ok(())
}

fn id(one: &Value) -> String {
    one["id"].to_string()
}

fn kind(one: &Value) -> String {
    one["kind"].as_str().unwrap_or_default().to_owned()
}

fn place(one: &Value) -> String {
    let words = ["node", "port"].map(|key| one["root"][key].as_str().unwrap_or_default());
    words.join(" ").trim().to_owned()
}

/// Starts traffic from `vm1` to `vm2`. Either side may start before the other or wait for one that has ended, so both restart
/// until traffic flows.
fn keep_busy(lab: &Lab, pair: &Pair, retries: u8) -> Result<()> {
    let sent = || agent::sent(&pair.one);
    let mut told = None;
    for _ in 0..TRIES {
        begin_traffic(pair, retries)?;
        let before = sent()?;
        match lab.wait("traffic between the guests", FLOWS, || Ok((sent()? > before + 100).then_some(()))) {
            Ok(()) => return Ok(()),
            Err(error) => told = Some(error.context(pair.one.sh("tail -n 20 /tmp/traffic.log").unwrap_or_default())),
        }
    }
    Err(told.context("no try")?)
}

fn begin_traffic(pair: &Pair, retries: u8) -> Result<()> {
    for guest in [&pair.one, &pair.two] {
        guest.sh("rm -f /tmp/go; while pidof ib_send_bw; do killall -9 ib_send_bw; sleep 0.2; done; sleep 1.5; touch /tmp/go")?;
    }
    // The link may have come up a moment ago.
    pair.one.sh("until ping -c 1 -W 1 10.77.0.2; do :; done")?;
    let start = |peer: &str| {
        let again = format!("while [ -e /tmp/go ]; do {TRAFFIC}={retries} {peer}; sleep 1; done");
        format!("setsid sh -c '{again}' </dev/null >/tmp/traffic.log 2>&1 &")
    };
    pair.two.sh(&format!("{} sleep 3", start("")))?;
    pair.one.sh(&start("10.77.0.2"))?;
    Ok(())
}
