//! Kinds of incidents, and every property in which they differ as one exhaustive row each. A new variant does not compile
//! until [`IncidentKind::spec`] decides all of its properties.

use serde::{Deserialize, Serialize};

/// Kind of an incident. Its JSON value is the variant in snake case.
#[derive(Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[serde(rename_all = "snake_case")]
pub enum IncidentKind {
    /// A broken NIC sends pause frames without a full buffer.
    PfcStorm,
    /// A NIC pauses its switch because its host drains the receive buffer too slowly.
    SlowReceiver,
    /// Many senders exceed the link rate of one receiver.
    Incast,
    /// A link carries less than its nominal rate.
    DegradedLink,
    /// A link corrupts frames.
    LossyLink,
    /// A link goes down and up repeatedly.
    LinkFlap,
    /// A link is down.
    LinkDown,
    /// Links between switches are full.
    UplinkCongestion,
    /// Flows share one of several equal-cost links while the others idle.
    EcmpCollision,
    /// Congestion is not marked, not notified, or not reacted to.
    EcnMisconfigured,
    /// One job sends so much that others lose throughput.
    NoisyNeighbour,
    /// Congestion whose cause the counters do not show.
    FabricCongestion,
    /// RDMA retransmits, times out or gives up.
    TransportErrors,
    /// The PCIe path of an adapter is slower than its link.
    PcieBottleneck,
    /// A transceiver overheats or receives too little light.
    OpticsDegraded,
    /// One rail of a job lags behind the others.
    StragglerRail,
    /// A job's traffic uses TCP instead of RDMA.
    TcpFallback,
    /// An InfiniBand adapter gives its switch no credits, so that packets exceed their lifetime.
    CreditStall,
    /// A host answers probes late, because its CPUs are busy.
    BusyHost,
    /// Ranks of a job wait in a collective for one that is dead or stopped, whatever counters show.
    StuckCollective,
    /// Ranks of a job stay behind in launching operations, while the counters of their hosts show nothing.
    ApplicationStraggler,
}

/// Severity of an incident, or of a setting that is not as expected.
#[derive(Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// An observation: not certain enough to page.
    Info,
    /// No job loses throughput yet.
    Warning,
    /// Jobs lose throughput.
    Critical,
}

impl Severity {
    /// Name in the API and in labels.
    pub fn name(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Warning => "warning",
            Self::Critical => "critical",
        }
    }
}

/// How the severity of a kind follows from its victims.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SeverityRule {
    /// Critical as soon as one job loses throughput.
    ByVictims,
}

impl SeverityRule {
    /// Severity of an incident from which so many jobs suffer.
    pub fn severity(self, victims: usize) -> Severity {
        match self {
            Self::ByVictims if victims == 0 => Severity::Warning,
            Self::ByVictims => Severity::Critical,
        }
    }
}

/// What a kind is recognized by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObservedBy {
    /// Counters at the location itself: two locations are two incidents.
    Location,
    /// The effect on other ports and jobs: several such findings are likely faces of one incident.
    Effects,
}

/// What a kind is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The network, its adapters and hosts: any job may suffer.
    Network,
    /// One job by itself: it alone suffers, and what it does hides no fault of the network.
    Job,
}

/// All properties of a kind.
#[derive(Clone, Copy, Debug)]
pub struct KindSpec {
    /// JSON value.
    pub name: &'static str,
    /// How severe its incidents are.
    pub severity: SeverityRule,
    /// What it is recognized by, unless a finding says otherwise.
    pub observed_by: ObservedBy,
    /// Traffic changes while it lasts, so the baseline stops learning.
    pub freezes_baseline: bool,
    /// Kinds that follow from it anywhere in the fabric: frames lost on one link are retransmitted elsewhere, and so are those that
    /// a switch discards for a NIC that pauses without end.
    pub explains: &'static [IncidentKind],
    /// It may show at several links one after the other: a dying switch takes seconds to lose all of them.
    pub may_spread: bool,
    /// It comes and goes by its nature, such as errors of a link: one that is harmless stays open for an hour after it was last seen.
    pub recurs: bool,
    /// It keeps senders from sending, so that they are paused because of it.
    pub holds_others_back: bool,
    /// Load that comes by the clock, such as a backup, brings it back at the same time of the day or week.
    pub follows_load: bool,
    /// It only states that something suffers; a finer kind explains it.
    pub is_coarse: bool,
    /// What it is about.
    pub scope: Scope,
    /// It may keep a host from all traffic, so that others take the ranks there for dead.
    pub cuts_off: bool,
    /// What an operator should do next.
    pub action: &'static str,
    /// Page of the documentation, relative to `docs/`.
    pub docs: &'static str,
}

impl IncidentKind {
    /// Every kind.
    pub const ALL: [Self; 21] = [
        Self::PfcStorm,
        Self::SlowReceiver,
        Self::Incast,
        Self::DegradedLink,
        Self::LossyLink,
        Self::LinkFlap,
        Self::LinkDown,
        Self::UplinkCongestion,
        Self::EcmpCollision,
        Self::EcnMisconfigured,
        Self::NoisyNeighbour,
        Self::FabricCongestion,
        Self::TransportErrors,
        Self::PcieBottleneck,
        Self::OpticsDegraded,
        Self::StragglerRail,
        Self::TcpFallback,
        Self::CreditStall,
        Self::BusyHost,
        Self::StuckCollective,
        Self::ApplicationStraggler,
    ];

    /// Whether counters at the location itself show it.
    pub fn is_observed(self) -> bool {
        self.spec().observed_by == ObservedBy::Location
    }

    /// Whether `other`, wherever it is, follows from this kind.
    pub fn explains(self, other: Self) -> bool {
        self.spec().explains.contains(&other)
    }

    /// The row of the kind.
    pub const fn spec(self) -> &'static KindSpec {
        use ObservedBy::{Effects, Location};
        use Scope::{Job, Network};
        use SeverityRule::ByVictims;
        match self {
            Self::PfcStorm => &KindSpec {
                name: "pfc_storm",
                severity: ByVictims,
                observed_by: Location,
                freezes_baseline: true,
                explains: &[Self::TransportErrors],
                may_spread: false,
                recurs: false,
                follows_load: false,
                holds_others_back: true,
                is_coarse: false,
                scope: Network,
                cuts_off: true,
                action: "Drain the host and reset its NIC. Check the NIC firmware, the PFC watchdog of the switch \
                 and the stall prevention of the NIC, which would have contained the storm.",
                docs: "runbooks/pfc-storm.md",
            },
            Self::SlowReceiver => &KindSpec {
                name: "slow_receiver",
                severity: ByVictims,
                observed_by: Location,
                freezes_baseline: true,
                explains: &[],
                may_spread: false,
                recurs: false,
                follows_load: false,
                holds_others_back: true,
                is_coarse: false,
                scope: Network,
                cuts_off: true,
                action: "Check the host: PCIe width and speed, PCIe stalls, IOMMU, memory and CPU pressure, \
                 receive buffers.",
                docs: "runbooks/pause-sustained.md",
            },
            Self::Incast => &KindSpec {
                name: "incast",
                severity: ByVictims,
                observed_by: Effects,
                freezes_baseline: true,
                explains: &[],
                may_spread: false,
                recurs: true,
                follows_load: true,
                holds_others_back: true,
                is_coarse: false,
                scope: Network,
                cuts_off: false,
                action: "Change the job's traffic pattern: fewer senders at a time, more receivers, or smaller \
                 bursts.",
                docs: "verdicts.md",
            },
            Self::DegradedLink => &KindSpec {
                name: "degraded_link",
                severity: ByVictims,
                observed_by: Location,
                freezes_baseline: true,
                explains: &[],
                may_spread: false,
                recurs: false,
                follows_load: false,
                holds_others_back: true,
                is_coarse: false,
                scope: Network,
                cuts_off: false,
                action: "Check the cable and the transceivers at both ends. Take the link out of ECMP until it is \
                 repaired.",
                docs: "runbooks/link-degraded.md",
            },
            Self::LossyLink => &KindSpec {
                name: "lossy_link",
                severity: ByVictims,
                observed_by: Location,
                freezes_baseline: false,
                explains: &[Self::TransportErrors],
                may_spread: false,
                recurs: true,
                follows_load: false,
                holds_others_back: false,
                is_coarse: false,
                scope: Network,
                cuts_off: true,
                action: "Clean or replace the cable and the transceivers. Take the link out of service until then.",
                docs: "runbooks/link-ber-high.md",
            },
            Self::LinkFlap => &KindSpec {
                name: "link_flap",
                severity: ByVictims,
                observed_by: Location,
                freezes_baseline: false,
                explains: &[Self::TransportErrors],
                may_spread: true,
                recurs: false,
                follows_load: false,
                holds_others_back: false,
                is_coarse: false,
                scope: Network,
                cuts_off: true,
                action: "Replace the cable or the transceiver. Keep the link down until then.",
                docs: "runbooks/link-flapping.md",
            },
            Self::LinkDown => &KindSpec {
                name: "link_down",
                severity: ByVictims,
                observed_by: Location,
                freezes_baseline: true,
                explains: &[],
                may_spread: true,
                recurs: false,
                follows_load: false,
                holds_others_back: false,
                is_coarse: false,
                scope: Network,
                cuts_off: true,
                action: "Check the cable, the transceivers and the port at the other end.",
                docs: "runbooks/link-down.md",
            },
            Self::UplinkCongestion => &KindSpec {
                name: "uplink_congestion",
                severity: ByVictims,
                observed_by: Effects,
                freezes_baseline: true,
                explains: &[],
                may_spread: false,
                recurs: false,
                follows_load: true,
                holds_others_back: false,
                is_coarse: true,
                scope: Network,
                cuts_off: false,
                action: "Spread jobs over more leaves, or add links. Check that traffic uses all uplinks.",
                docs: "verdicts.md",
            },
            Self::EcmpCollision => &KindSpec {
                name: "ecmp_collision",
                severity: ByVictims,
                observed_by: Effects,
                freezes_baseline: true,
                explains: &[],
                may_spread: false,
                recurs: false,
                follows_load: true,
                holds_others_back: false,
                is_coarse: false,
                scope: Network,
                cuts_off: false,
                action: "Increase the entropy of the flows (source ports, more queue pairs) or use adaptive \
                 routing. If that has to wait, restart one of the jobs.",
                docs: "verdicts.md",
            },
            Self::EcnMisconfigured => &KindSpec {
                name: "ecn_misconfigured",
                severity: ByVictims,
                observed_by: Effects,
                freezes_baseline: true,
                explains: &[],
                may_spread: false,
                recurs: false,
                follows_load: false,
                holds_others_back: false,
                is_coarse: false,
                scope: Network,
                cuts_off: false,
                action: "Compare ECN marking on the switches and DCQCN on the NICs with the rest of the fabric, for this priority.",
                docs: "runbooks/pause-without-ecn.md",
            },
            Self::NoisyNeighbour => &KindSpec {
                name: "noisy_neighbour",
                severity: ByVictims,
                observed_by: Effects,
                freezes_baseline: true,
                explains: &[],
                may_spread: false,
                recurs: false,
                follows_load: true,
                holds_others_back: false,
                is_coarse: false,
                scope: Network,
                cuts_off: false,
                action: "Limit the job's rate, move it, or give it a priority of its own.",
                docs: "verdicts.md",
            },
            Self::FabricCongestion => &KindSpec {
                name: "fabric_congestion",
                severity: ByVictims,
                observed_by: Effects,
                freezes_baseline: true,
                explains: &[],
                may_spread: false,
                recurs: false,
                follows_load: true,
                holds_others_back: false,
                is_coarse: true,
                scope: Network,
                cuts_off: false,
                action: "Check which ports are paused. Counters of the switches would show where it begins.",
                docs: "verdicts.md",
            },
            Self::TransportErrors => &KindSpec {
                name: "transport_errors",
                severity: ByVictims,
                observed_by: Effects,
                freezes_baseline: true,
                explains: &[],
                may_spread: false,
                recurs: false,
                follows_load: false,
                holds_others_back: false,
                is_coarse: false,
                scope: Network,
                cuts_off: true,
                action: "Find where packets are lost: switch discards, link errors, a hop without PFC. If only one \
                 host is affected, check its NIC, firmware and queue pair timeouts.",
                docs: "runbooks/retransmit-surge.md",
            },
            Self::PcieBottleneck => &KindSpec {
                name: "pcie_bottleneck",
                severity: ByVictims,
                observed_by: Location,
                freezes_baseline: false,
                explains: &[],
                may_spread: false,
                recurs: false,
                follows_load: false,
                holds_others_back: false,
                is_coarse: false,
                scope: Network,
                cuts_off: false,
                action: "Reseat the adapter, or move it to a slot of full width. Check BIOS settings, payload \
                 size, relaxed ordering and NUMA placement.",
                docs: "runbooks/pcie-degraded.md",
            },
            Self::OpticsDegraded => &KindSpec {
                name: "optics_degraded",
                severity: ByVictims,
                observed_by: Location,
                freezes_baseline: false,
                explains: &[],
                may_spread: false,
                recurs: false,
                follows_load: false,
                holds_others_back: false,
                is_coarse: false,
                scope: Network,
                cuts_off: false,
                action: "Clean the connectors, reseat the module and check its cooling. Replace it before it fails.",
                docs: "verdicts.md",
            },
            Self::StragglerRail => &KindSpec {
                name: "straggler_rail",
                severity: ByVictims,
                observed_by: Effects,
                freezes_baseline: true,
                explains: &[],
                may_spread: false,
                recurs: false,
                follows_load: false,
                holds_others_back: false,
                is_coarse: false,
                scope: Network,
                cuts_off: false,
                action: "Check this rail's NIC, cable and switch port, and that the job's communication library \
                 uses all rails.",
                docs: "verdicts.md",
            },
            Self::TcpFallback => &KindSpec {
                name: "tcp_fallback",
                severity: ByVictims,
                observed_by: Effects,
                freezes_baseline: true,
                explains: &[],
                may_spread: false,
                recurs: false,
                follows_load: false,
                holds_others_back: false,
                is_coarse: false,
                scope: Network,
                cuts_off: false,
                action: "RDMA was not used: check the job's communication library and its log (NCCL_IB_DISABLE, \
                 GIDs, memlock limits, plugins, RDMA device in the container).",
                docs: "runbooks/tcp-fallback.md",
            },
            Self::CreditStall => &KindSpec {
                name: "credit_stall",
                severity: ByVictims,
                observed_by: Location,
                freezes_baseline: true,
                explains: &[Self::TransportErrors],
                may_spread: false,
                recurs: false,
                follows_load: false,
                holds_others_back: true,
                is_coarse: false,
                scope: Network,
                cuts_off: true,
                action: "Disable the switch's port to the host, drain the host and reset its adapter. Check the \
                 adapter's firmware and, with opensm, the head-of-queue lifetime towards hosts.",
                docs: "runbooks/credit-stall.md",
            },
            Self::BusyHost => &KindSpec {
                name: "busy_host",
                severity: ByVictims,
                observed_by: Location,
                freezes_baseline: false,
                explains: &[],
                may_spread: false,
                recurs: false,
                follows_load: false,
                holds_others_back: false,
                is_coarse: false,
                scope: Network,
                cuts_off: false,
                action: "Look for what uses the host's CPUs beside its job (data loading, CPU limits of control groups, a process that \
                 runs away). Transfers that need the CPU, such as those of TCP or storage, are late too.",
                docs: "verdicts.md",
            },
            Self::StuckCollective => &KindSpec {
                name: "stuck_collective",
                severity: ByVictims,
                observed_by: Location,
                freezes_baseline: false,
                explains: &[],
                may_spread: false,
                recurs: false,
                follows_load: false,
                holds_others_back: false,
                is_coarse: false,
                scope: Job,
                cuts_off: false,
                action: "Look at the rank that the others wait for: its log, its process and GPU, and the kernel log of its host. If it \
                 is dead, stop the job and restart it from its last checkpoint: it only wastes its other hosts.",
                docs: "runbooks/stuck-collective.md",
            },
            Self::ApplicationStraggler => &KindSpec {
                name: "application_straggler",
                severity: ByVictims,
                observed_by: Location,
                freezes_baseline: false,
                explains: &[],
                may_spread: false,
                recurs: false,
                follows_load: false,
                holds_others_back: false,
                is_coarse: false,
                scope: Job,
                cuts_off: false,
                action: "Look at what the rank's process does: data loading, checkpoints, CPU limits, a slow or throttled GPU. The job's owner can \
                 tell; the network is not the reason.",
                docs: "verdicts.md",
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_equal_json_values() {
        for (at, kind) in IncidentKind::ALL.into_iter().enumerate() {
            assert_eq!(kind as usize, at, "{kind:?} is out of order");
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.spec().name);
        }
    }

    #[test]
    fn every_kind_is_documented() {
        let docs = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
        for spec in IncidentKind::ALL.map(IncidentKind::spec) {
            assert!(docs.join(spec.docs).exists(), "{} is described by {}, which does not exist", spec.name, spec.docs);
        }
    }
}
