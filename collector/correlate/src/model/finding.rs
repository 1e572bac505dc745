//! What a detector says.

use crate::fabric::Fabric;
use crate::incident::action;
use crate::priority::Priorities;
use serde::{Deserialize, Serialize};

/// What is wrong; names are those of the API.
#[derive(Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A NIC pauses its switch without need.
    PfcStorm,
    /// A NIC pauses its switch because it does not drain.
    SlowReceiver,
    /// Many send to one.
    Incast,
    /// A link carries less than it should.
    DegradedLink,
    /// A link corrupts frames.
    LossyLink,
    /// A link goes down and comes up.
    LinkFlap,
    /// A link is down.
    LinkDown,
    /// Links between switches are full.
    UplinkCongestion,
    /// Flows share one of several equal links while others idle.
    EcmpCollision,
    /// Congestion is not marked, not told, or not reacted to.
    EcnMisconfigured,
    /// A job takes so much that others suffer.
    NoisyNeighbour,
    /// Congestion without a finer name.
    FabricCongestion,
    /// RDMA sends again and again, or gives up.
    TransportErrors,
    /// An adapter that its PCIe path slows down.
    PcieBottleneck,
    /// A transceiver that gets too hot, or too little light.
    OpticsDegraded,
    /// One rail of a job lags behind its others.
    StragglerRail,
    /// A job's traffic goes over TCP where RDMA should carry it.
    TcpFallback,
}

impl Kind {
    /// Whether it is seen at the place where it is, not inferred from what others suffer: two such places are two troubles.
    pub fn is_seen(self) -> bool {
        matches!(
            self,
            Self::PfcStorm
                | Self::SlowReceiver
                | Self::LossyLink
                | Self::LinkFlap
                | Self::LinkDown
                | Self::DegradedLink
                | Self::PcieBottleneck
                | Self::OpticsDegraded
        )
    }

    /// Whether it shows at several links one after the other: a switch that dies takes seconds for that.
    pub fn spreads(self) -> bool {
        matches!(self, Self::LinkDown | Self::LinkFlap)
    }

    /// Whether it keeps others from sending, so that these are paused because of it.
    pub fn holds(self) -> bool {
        matches!(self, Self::PfcStorm | Self::SlowReceiver | Self::DegradedLink | Self::Incast)
    }

    /// Whether traffic is another while it lasts, so that nothing of that is usual.
    pub fn bends(self) -> bool {
        !matches!(self, Self::LossyLink | Self::LinkFlap | Self::PcieBottleneck | Self::OpticsDegraded)
    }

    /// Whether another kind, wherever it is, follows from it: what is lost on a link is sent again elsewhere.
    pub fn explains(self, other: Self) -> bool {
        matches!(self, Self::LossyLink | Self::LinkFlap) && matches!(other, Self::TransportErrors)
    }

    /// Whether it only says that somebody suffers, so that a finer kind explains it.
    pub fn is_coarse(self) -> bool {
        matches!(self, Self::FabricCongestion | Self::UplinkCongestion)
    }
}

/// Where it is; indices of the fabric.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Root {
    /// A port.
    Port(usize),
    /// A link.
    Link(usize),
    /// A switch.
    Switch(usize),
    /// A host.
    Host(usize),
    /// A job.
    Job(usize),
    /// More than one place.
    Fabric,
}

/// A number that speaks for a finding.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq)]
pub struct Evidence {
    /// Of which metric.
    pub metric: String,
    /// Where.
    pub at: String,
    /// What was measured.
    pub value: f64,
    /// Beyond which it counts.
    pub threshold: f64,
    /// First and last instant of the measurement, Unix nanoseconds.
    pub window_ns: [i64; 2],
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Finding {
    /// What.
    pub kind: Kind,
    /// Where.
    pub root: Root,
    /// 0 to 1.
    pub confidence: f64,
    /// Jobs that cause it.
    pub culprits: Vec<usize>,
    /// Host ports that get more than they can take, or its marks.
    pub receivers: Vec<usize>,
    /// Priorities in which it holds others back.
    pub priorities: Priorities,
    /// When it began, Unix nanoseconds, where that shows; otherwise with the stretch that was judged.
    pub began_ns: Option<i64>,
    /// What speaks for it.
    pub evidence: Vec<Evidence>,
    /// In plain words.
    pub explanation: String,
    /// What to do next.
    pub action: String,
    /// It is not seen at its place, but follows from how traffic goes, which other trouble may bend.
    pub inferred: bool,
    /// A port that it is felt at, where its place has none.
    pub near: Option<usize>,
}

impl Root {
    /// Whether two are the same place: a port is a part of its link and of its switch.
    pub fn meets(&self, other: &Self, fabric: &Fabric) -> bool {
        let link = |port: usize| fabric.ports.list[port].link;
        let ends = |link: usize| fabric.topology.links.get(link).map(|l| l.ends.each_ref().map(|e| e.node));
        match (self, other) {
            (Self::Port(a), Self::Port(b)) => a == b || link(*a).is_some_and(|l| link(*b) == Some(l)),
            (Self::Port(p), Self::Link(l)) | (Self::Link(l), Self::Port(p)) => link(*p) == Some(*l),
            (Self::Port(p), Self::Switch(n) | Self::Host(n)) | (Self::Switch(n) | Self::Host(n), Self::Port(p)) => {
                fabric.ports.list[*p].end.node == *n || fabric.peer_node(*p) == Some(*n)
            }
            (Self::Link(l), Self::Switch(n) | Self::Host(n)) | (Self::Switch(n) | Self::Host(n), Self::Link(l)) => {
                ends(*l).is_some_and(|ends| ends.contains(n))
            }
            _ => self == other,
        }
    }
}

impl Finding {
    /// One that no job causes, and whose begin does not show.
    pub fn new(kind: Kind, root: Root, confidence: f64, evidence: Evidence, explanation: String) -> Self {
        let evidence = vec![evidence];
        Self {
            kind,
            root,
            confidence,
            culprits: Vec::new(),
            receivers: Vec::new(),
            priorities: Priorities::UNKNOWN,
            began_ns: None,
            evidence,
            explanation,
            action: action(kind).to_owned(),
            inferred: !kind.is_seen(),
            near: None,
        }
    }

    /// Whether it is of the same kind and place as another.
    pub fn is_of(&self, other: &Self) -> bool {
        self.kind == other.kind && self.root == other.root
    }

    /// Whether it is of all links of a node, or of many nodes, each of which may go on alone.
    pub fn is_whole(&self) -> bool {
        self.kind.spreads() && matches!(self.root, Root::Switch(_) | Root::Host(_) | Root::Fabric)
    }

    /// The same, with one more number that speaks for it.
    #[must_use]
    pub fn and(mut self, evidence: Evidence) -> Self {
        self.evidence.push(evidence);
        self
    }

    /// The same, caused by jobs.
    #[must_use]
    pub fn by(self, culprits: Vec<usize>) -> Self {
        Self { culprits, ..self }
    }

    /// The same, where these get what is too much.
    #[must_use]
    pub fn to(self, receivers: Vec<usize>) -> Self {
        Self { receivers, ..self }
    }

    /// The same, in these priorities.
    #[must_use]
    pub fn within(self, priorities: Priorities) -> Self {
        Self { priorities, ..self }
    }

    /// The same, where something else than usual for its kind is to be done.
    #[must_use]
    pub fn to_mend(self, action: &str) -> Self {
        Self { action: action.to_owned(), ..self }
    }

    /// The same, felt at a port.
    #[must_use]
    pub fn near(self, port: usize) -> Self {
        Self { near: Some(port), ..self }
    }

    /// The ports of its place, or else where it is felt; none: it may be everywhere.
    pub fn ports(&self, fabric: &Fabric) -> Vec<usize> {
        let ports = fabric.ports_of(&self.root);
        if ports.is_empty() { self.near.into_iter().collect() } else { ports }
    }

    /// The same, as one that only follows from how traffic goes.
    #[must_use]
    pub fn inferred(self) -> Self {
        Self { inferred: true, ..self }
    }

    /// The same, whose begin shows.
    #[must_use]
    pub fn since(self, began_ns: Option<i64>) -> Self {
        Self { began_ns, ..self }
    }
}
