//! Ordinary events of a made-up fleet, and which incidents are true of them.

use crate::random::Random;
use serde_json::{Value, json};

/// Kinds that are true of an ordinary event; of all others nothing is.
const FAIR: [(&str, &[&str]); 7] = [
    ("checkpoint", &["incast", "fabric_congestion", "uplink_congestion"]),
    ("restart_load", &["incast", "fabric_congestion", "uplink_congestion"]),
    ("hot_link", &["uplink_congestion", "fabric_congestion", "ecmp_collision", "noisy_neighbour"]),
    ("host_reboot_drained", &["link_down", "link_flap"]),
    ("driver_reload", &["link_down", "link_flap"]),
    ("single_flap", &["link_down", "transport_errors"]),
    ("known_bad_link", &["lossy_link"]),
];

/// What happens at a host or at one of its cables.
#[derive(Clone, Copy, PartialEq)]
pub enum HostEvent {
    /// The agent is gone for some seconds.
    AgentRestart,
    /// Its clock runs ahead from then on, by so many ms.
    ClockStep(i32),
    /// Counters are refreshed each so many seconds.
    SlowCounters(usize),
    /// The host is down, and counts from zero afterwards.
    Reboot,
    /// Its ports are down for some seconds, and count from zero afterwards.
    DriverReload,
    /// The cable of its first rail is down.
    Flap,
    /// The NIC of its first rail pauses its switch a little.
    Hiccup,
    /// One error of the wire.
    SymbolError,
    /// Errors of the wire, always.
    BadLink,
}

/// An event at a host.
pub struct AtHost {
    pub host: usize,
    pub what: HostEvent,
    pub from_s: usize,
    pub to_s: usize,
}

impl AtHost {
    /// Whether it goes on in a second.
    pub fn is_at(&self, second: usize) -> bool {
        (self.from_s..self.to_s).contains(&second)
    }
}

/// All that happens.
pub struct Life {
    pub infiniband: bool,
    pub at_hosts: Vec<AtHost>,
    events: Vec<Value>,
}

impl Life {
    pub fn new(infiniband: bool) -> Self {
        Self { infiniband, at_hosts: Vec::new(), events: Vec::new() }
    }

    /// Adds an event to `life.json`.
    pub fn tell(&mut self, kind: &str, element: Value, from_s: usize, to_s: usize) {
        let fair = FAIR.iter().find(|(of, _)| *of == kind).map_or(&[] as &[&str], |(_, fair)| fair);
        self.events.push(json!({ "kind": kind, "element": element, "start_s": from_s, "end_s": to_s, "fair": fair }));
    }

    /// Chooses events at hosts: some hundred times as many as a real fleet has. Idle hosts reboot.
    pub fn plan(
        &mut self,
        hosts: usize,
        seconds: usize,
        random: &mut Random,
        is_idle: impl Fn(usize, usize, usize) -> bool,
    ) {
        for host in 0..hosts {
            let mut at = |what: HostEvent, kind: &str, chance: f64, length: [f64; 2]| {
                if !random.happens(chance) {
                    return;
                }
                let always = matches!(what, HostEvent::SlowCounters(_) | HostEvent::BadLink);
                let from_s = if always { 0 } else { random.below(seconds) };
                let to_s = from_s + random.between(length[0], length[1]) as usize;
                if matches!(what, HostEvent::Reboot | HostEvent::DriverReload) && !is_idle(host, from_s, to_s) {
                    return;
                }
                self.tell(kind, json!({ "type": "host", "node": format!("n{host:03}") }), from_s, to_s);
                self.at_hosts.push(AtHost { host, what, from_s, to_s });
            };
            let whole = [seconds as f64; 2];
            at(HostEvent::AgentRestart, "agent_restart", 0.05, [3.0, 30.0]);
            at(HostEvent::ClockStep(150), "clock_step", 0.02, whole);
            at(HostEvent::ClockStep(-150), "clock_step", 0.02, whole);
            at(HostEvent::SlowCounters(2), "slow_counters", 0.02, whole);
            at(HostEvent::SlowCounters(5), "slow_counters", 0.02, whole);
            at(HostEvent::Reboot, "host_reboot_drained", 0.1, [60.0, 180.0]);
            at(HostEvent::DriverReload, "driver_reload", 0.1, [3.0, 8.0]);
            at(HostEvent::Flap, "single_flap", 0.02, [2.0, 5.0]);
            at(HostEvent::Hiccup, "nic_hiccup", 0.05, [2.0, 5.0]);
            at(HostEvent::SymbolError, "symbol_error", 0.05, [1.0, 1.0]);
            at(HostEvent::BadLink, "known_bad_link", 0.02, whole);
        }
    }

    /// Events of a host that go on in a second.
    pub fn of_host(&self, host: usize, second: usize) -> impl Iterator<Item = &AtHost> {
        self.at_hosts.iter().filter(move |event| event.host == host && event.is_at(second))
    }

    /// `life.json`.
    pub fn json(&self) -> Value {
        json!({ "events": self.events })
    }
}
