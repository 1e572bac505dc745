//! The answer of `/api/v1/overview`, as far as it is shown.

use serde::Deserialize;

/// What is wrong and what is busy.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Overview {
    incidents: Incidents,
    pub(super) switches: Switches,
    pub(super) measured: Measured,
}

/// Open incidents by severity.
#[derive(Debug, Default, Deserialize)]
struct Incidents {
    critical: usize,
    warning: usize,
}

/// Switches that are read.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Switches {
    known: usize,
    silent: usize,
    pub(super) names: Vec<String>,
}

/// What is known by samples.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Measured {
    pub(super) hosts: Hosts,
    ports: Ports,
    pub(super) suffering: Vec<SufferingJob>,
}

/// Hosts with an agent.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Hosts {
    reporting: usize,
    silent: usize,
    pub(super) names: Vec<SilentHost>,
}

/// A host whose agent is silent.
#[derive(Debug, Deserialize)]
pub(super) struct SilentHost {
    pub(super) host: String,
    /// Seconds.
    pub(super) silent_s: f64,
}

/// Ports that are known.
#[derive(Debug, Default, Deserialize)]
struct Ports {
    up: Up,
}

/// Ports that are up.
#[derive(Debug, Default, Deserialize)]
struct Up {
    up: usize,
    of: usize,
}

/// A victim of an open incident.
#[derive(Debug, Deserialize)]
pub(super) struct SufferingJob {
    pub(super) cluster: String,
    pub(super) id: String,
    bytes_per_second: Option<f64>,
    bytes_per_second_before: Option<f64>,
}

impl SufferingJob {
    /// Share of its usual traffic that it lost.
    pub(super) fn lost(&self) -> Option<f64> {
        let before = self.bytes_per_second_before.filter(|before| *before > 0.0)?;
        Some((1.0 - self.bytes_per_second? / before).max(0.0))
    }
}

impl Overview {
    /// All in one line.
    pub(super) fn summary(&self) -> String {
        let (hosts, ports) = (&self.measured.hosts, &self.measured.ports.up);
        let mut parts = vec![
            format!("{} critical and {} other incidents", self.incidents.critical, self.incidents.warning),
            format!("{} of {} agents report", hosts.reporting, hosts.reporting + hosts.silent),
            format!("{} of {} ports are up", ports.up, ports.of),
        ];
        if self.switches.known > 0 {
            parts.push(format!("{} of {} switches are silent", self.switches.silent, self.switches.known));
        }
        parts.join("; ")
    }
}
