//! What a message may hold. Both ends check it: the collector what hosts send, the agent what a collector answers.

use crate::{Hop, PlanReply, PlanRequest, ProbedPort, ReportRequest, Target, TracedPath};

/// Most ports of a host.
pub const PORTS: usize = 64;
/// Most targets of a plan.
pub const TARGETS: usize = 1024;
/// Most source ports of a target or of a port.
pub const SOURCE_PORTS: usize = 64;
/// Most paths and results of a report.
pub const RESULTS: usize = 8192;
/// Most hops of a path: a fabric of five stages has nine switches on a path.
const HOPS: usize = 16;
/// Most addresses that answer at one distance.
const ADDRESSES: usize = 16;
/// Longest name of a host or port, bytes.
const NAME: usize = 255;

/// What is wrong with a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Malformed(pub String);

impl std::fmt::Display for Malformed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for Malformed {}

impl PlanRequest {
    /// Checks the bounds.
    ///
    /// # Errors
    /// What is out of bounds.
    pub fn check(&self) -> Result<(), Malformed> {
        name("host", &self.host)?;
        at_most("ports", self.ports.len(), PORTS)?;
        self.ports.iter().try_for_each(ProbedPort::check)
    }
}

impl PlanReply {
    /// Checks the bounds.
    ///
    /// # Errors
    /// What is out of bounds.
    pub fn check(&self) -> Result<(), Malformed> {
        at_most("targets", self.targets.len(), TARGETS)?;
        self.targets.iter().try_for_each(Target::check)
    }
}

impl ReportRequest {
    /// Checks the bounds, and that positions are those of pairs.
    ///
    /// # Errors
    /// What is out of bounds.
    pub fn check(&self) -> Result<(), Malformed> {
        name("host", &self.host)?;
        at_most("pairs", self.pairs.len(), TARGETS)?;
        at_most("paths and results", self.paths.len() + self.probes.len(), RESULTS)?;
        for pair in &self.pairs {
            name("port", &pair.from)?;
            name("host", &pair.host)?;
            name("port", &pair.port)?;
        }
        let positions = self.paths.iter().map(|path| path.pair).chain(self.probes.iter().map(|probe| probe.pair));
        for position in positions {
            if usize::try_from(position).is_ok_and(|position| position >= self.pairs.len()) {
                return Err(Malformed(format!("pair {position} of {}", self.pairs.len())));
            }
        }
        self.probes.iter().try_for_each(|probe| source_port(probe.source_port))?;
        self.paths.iter().try_for_each(TracedPath::check)
    }
}

impl Target {
    fn check(&self) -> Result<(), Malformed> {
        name("port", &self.from)?;
        name("host", &self.host)?;
        let to = self.to.as_ref().ok_or_else(|| Malformed("a target without a port".to_owned()))?;
        to.check()?;
        source_ports(&self.source_ports)?;
        let is_valid = self.traffic_class <= 255 && self.service_level <= 15;
        let words =
            || Malformed(format!("traffic class {} or service level {}", self.traffic_class, self.service_level));
        is_valid.then_some(()).ok_or_else(words)
    }
}

impl ProbedPort {
    fn check(&self) -> Result<(), Malformed> {
        name("port", &self.name)?;
        address(&self.address, true)?;
        source_ports(&self.source_ports)?;
        let is_valid = self.queue_pair < 1 << 24 && self.lid <= 0xFFFF && self.tcp_port <= 0xFFFF;
        let words =
            || Malformed(format!("queue pair {}, LID {} or TCP port {}", self.queue_pair, self.lid, self.tcp_port));
        is_valid.then_some(()).ok_or_else(words)?;
        let class = self.traffic_class.filter(|class| *class > 255);
        class.map_or(Ok(()), |class| Err(Malformed(format!("traffic class {class} of a port"))))
    }
}

impl TracedPath {
    fn check(&self) -> Result<(), Malformed> {
        source_port(self.source_port)?;
        at_most("hops", self.hops.len(), HOPS)?;
        self.hops.iter().try_for_each(Hop::check)
    }
}

impl Hop {
    fn check(&self) -> Result<(), Malformed> {
        at_most("addresses of a hop", self.addresses.len(), ADDRESSES)?;
        self.addresses.iter().try_for_each(|bytes| address(bytes, false))
    }
}

fn at_most(what: &str, count: usize, most: usize) -> Result<(), Malformed> {
    if count > most { Err(Malformed(format!("{count} {what}; at most {most} are taken"))) } else { Ok(()) }
}

fn name(what: &str, text: &str) -> Result<(), Malformed> {
    if text.is_empty() || text.len() > NAME || text.chars().any(char::is_control) {
        return Err(Malformed(format!(
            "name of a {what} with {} bytes; 1 to {NAME} are taken, without control characters",
            text.len()
        )));
    }
    Ok(())
}

fn address(bytes: &[u8], may_be_empty: bool) -> Result<(), Malformed> {
    let is_valid = matches!(bytes.len(), 4 | 16) || may_be_empty && bytes.is_empty();
    is_valid.then_some(()).ok_or_else(|| Malformed(format!("an address with {} bytes", bytes.len())))
}

fn source_ports(ports: &[u32]) -> Result<(), Malformed> {
    at_most("source ports", ports.len(), SOURCE_PORTS)?;
    ports.iter().try_for_each(|port| source_port(*port))
}

fn source_port(port: u32) -> Result<(), Malformed> {
    if port > 0xFFFF { Err(Malformed(format!("source port {port}"))) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ProbeResult, ReportedPair};

    fn port() -> ProbedPort {
        ProbedPort { name: "mlx5_0/1".to_owned(), address: vec![10, 0, 0, 1], queue_pair: 17, ..ProbedPort::default() }
    }

    fn target() -> Target {
        let to = Some(port());
        Target { from: "mlx5_0/1".to_owned(), host: "gpu-02".to_owned(), to, ..Target::default() }
    }

    fn report() -> ReportRequest {
        let pair = ReportedPair { from: "mlx5_0/1".into(), host: "gpu-02".into(), port: "mlx5_0/1".into() };
        ReportRequest {
            host: "gpu-01".to_owned(),
            pairs: vec![pair],
            paths: vec![TracedPath { hops: vec![Hop { addresses: vec![vec![10, 0, 1, 1]] }], ..TracedPath::default() }],
            probes: vec![ProbeResult { source_port: 50_000, ..ProbeResult::default() }],
            ..ReportRequest::default()
        }
    }

    #[test]
    fn what_is_out_of_bounds_is_named() {
        let why = |target: Target| PlanReply { lasts_ms: 1, targets: vec![target] }.check().unwrap_err().0;
        assert!(PlanReply { lasts_ms: 1, targets: vec![target()] }.check().is_ok());
        assert_eq!(why(Target { to: None, ..target() }), "a target without a port");
        assert_eq!(why(Target { source_ports: vec![65_536], ..target() }), "source port 65536");
        assert_eq!(why(Target { traffic_class: 256, ..target() }), "traffic class 256 or service level 0");
        let odd = ProbedPort { address: vec![1, 2, 3], ..port() };
        assert_eq!(why(Target { to: Some(odd), ..target() }), "an address with 3 bytes");
        let large = ProbedPort { queue_pair: 1 << 24, ..port() };
        assert_eq!(why(Target { to: Some(large), ..target() }), "queue pair 16777216, LID 0 or TCP port 0");
        let wide = ProbedPort { traffic_class: Some(256), ..port() };
        assert_eq!(why(Target { to: Some(wide), ..target() }), "traffic class 256 of a port");
        let request = PlanRequest { host: "gpu-01".into(), agent: 1, ports: vec![port(); PORTS + 1] };
        assert_eq!(request.check().unwrap_err().0, "65 ports; at most 64 are taken");
        let request = PlanRequest { host: "a\nb".into(), agent: 1, ports: vec![] };
        assert!(request.check().unwrap_err().0.starts_with("name of a host with 3 bytes"));
    }

    #[test]
    fn reports_name_their_own_pairs_only() {
        assert!(report().check().is_ok());
        let mut foreign = report();
        foreign.probes[0].pair = 1;
        assert_eq!(foreign.check().unwrap_err().0, "pair 1 of 1");
        let mut long = report();
        long.paths[0].hops = vec![Hop { addresses: vec![] }; HOPS + 1];
        assert_eq!(long.check().unwrap_err().0, "17 hops; at most 16 are taken");
        let mut many = report();
        many.probes = vec![ProbeResult::default(); RESULTS];
        assert_eq!(many.check().unwrap_err().0, "8193 paths and results; at most 8192 are taken");
    }
}
