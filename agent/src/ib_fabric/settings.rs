//! Settings of the reader, as the configuration gives them.

use fabriclens_agent_mad::discovery::Limits;
use fabriclens_agent_mad::exchange::Pace;
use std::time::Duration;

/// Settings of `[ib_fabric]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IbFabric {
    /// Port that reads the subnet.
    pub source: Source,
    /// Period of the counters of switch ports.
    pub period: Duration,
    /// Period of details: errors and discards by reason, waiting by virtual lane, FEC.
    pub details: Duration,
    /// Period of sweeps for nodes, links and port states.
    pub sweep: Duration,
    /// Rate, deadline and window of the datagrams.
    pub pace: Pace,
    /// Also reads the ports of adapters, for hosts without an agent.
    pub adapters: bool,
    /// Reads only with the lease of the subnet, which the collector grants to one host.
    pub lease: bool,
    /// Largest subnet.
    pub limits: Limits,
}

/// Port that reads the subnet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// A port of this host; `None`: the first one that is active.
    Umad {
        /// RDMA device.
        device: Option<String>,
        /// Port from 1.
        port: Option<u32>,
    },
    /// A node of a simulated subnet (`device = "ibsim:SOCKETS/NODE"`), for tests.
    IbSim {
        /// Beginning of the names of the simulator's sockets.
        sockets: String,
        /// Node id.
        node: String,
    },
}

impl Source {
    /// Port of a configuration's `device`: `mlx5_0`, `mlx5_0/1`, or empty.
    pub fn of(device: &str) -> Self {
        if let Some((sockets, node)) = device.strip_prefix("ibsim:").and_then(|rest| rest.rsplit_once('/')) {
            return Self::IbSim { sockets: sockets.to_owned(), node: node.to_owned() };
        }
        let port = device.rsplit_once('/').and_then(|(device, port)| Some((device, port.parse().ok()?)));
        let (device, port) = port.map_or((device, None), |(device, port)| (device, Some(port)));
        Self::Umad { device: Some(device.to_owned()).filter(|device| !device.is_empty()), port }
    }
}

impl Default for IbFabric {
    fn default() -> Self {
        Self {
            source: Source::Umad { device: None, port: None },
            period: Duration::from_secs(5),
            details: Duration::from_secs(30),
            sweep: Duration::from_secs(30),
            pace: Pace::default(),
            adapters: false,
            lease: true,
            limits: Limits::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_named_as_in_series() {
        let umad = |device: Option<&str>, port| Source::Umad { device: device.map(str::to_owned), port };
        assert_eq!(Source::of(""), umad(None, None));
        assert_eq!(Source::of("mlx5_0"), umad(Some("mlx5_0"), None));
        assert_eq!(Source::of("mlx5_0/2"), umad(Some("mlx5_0"), Some(2)));
        assert_eq!(Source::of("ibsim:sim/H-1"), Source::IbSim { sockets: "sim".into(), node: "H-1".into() });
    }
}
