//! What becomes known of paths, queue pairs and probes, by names, as agents and recordings tell it.

use super::path::PathSource;

/// A port by name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PortName {
    /// Host or switch.
    pub node: String,
    /// Port on that node.
    pub port: String,
}

/// A flow by names.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FlowName {
    /// Sending host port.
    pub from: PortName,
    /// Receiving host port.
    pub to: PortName,
    /// UDP source port; `None` if unknown, or on InfiniBand.
    pub source_port: Option<u16>,
}

/// What carries a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ProbeTransport {
    /// RDMA datagrams.
    Rdma,
    /// The TCP twin of an RDMA probe: between the same ports, in the same traffic class, on a way of its own.
    Tcp,
}

/// Something that became known at an instant. Times are Unix nanoseconds.
#[derive(Clone, Debug, PartialEq)]
pub enum RouteUpdate {
    /// The path of a flow, valid until it is replaced.
    Path {
        /// The flow.
        flow: FlowName,
        /// Egress ports from the sender's port on.
        hops: Vec<PortName>,
        /// How it is known.
        source: PathSource,
    },
    /// A queue pair was connected.
    Connected {
        /// Its flow, from the port that tells of it to its peer.
        flow: FlowName,
        /// Its number at the port that tells of it.
        number: u32,
    },
    /// A queue pair ended.
    Closed {
        /// The port that told of it.
        port: PortName,
        /// Its number there.
        number: u32,
    },
    /// The result of a probe.
    Probe {
        /// The flow of the probe.
        flow: FlowName,
        /// UDP source port of its answer, which takes the reverse flow: mostly that of the probe; another where the
        /// responder's driver fixes it.
        answer_port: Option<u16>,
        /// What carried it.
        transport: ProbeTransport,
        /// When it was sent.
        sent_ns: i64,
        /// Time on the network, without the responder, nanoseconds; `None` if no answer came in time.
        rtt_ns: Option<f64>,
        /// Time that the responder took, nanoseconds; `None` without an answer.
        turn_ns: Option<f64>,
    },
}
