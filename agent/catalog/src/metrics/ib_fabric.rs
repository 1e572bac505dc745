//! The reader of an InfiniBand subnet (`[ib_fabric]`), about itself. What it reads of ports has the metrics of ports.

use super::units::*;

metrics! {
    IB_FABRIC_READING, Gauge, Host, "fabriclens.agent.ib_fabric.reading", None, [],
        "1 if this host reads the InfiniBand subnet, 0 if it stands by while another host reads.";
    IB_FABRIC_LEASE, Gauge, Host, "fabriclens.agent.ib_fabric.lease", None, [],
        "1 if the collector has granted the lease of the InfiniBand subnet to this host. A host that reads at 0 asks for none, or no collector renews it.";
    IB_FABRIC_NODES, Gauge, Host, "fabriclens.agent.ib_fabric.nodes", Count("{node}"), ["type"],
        "Nodes of the InfiniBand subnet in the last sweep: `switch`, `adapter`, `router`.";
    IB_FABRIC_PORTS, Gauge, Host, "fabriclens.agent.ib_fabric.ports", Count("{port}"), [],
        "Ports whose counters are read.";
    IB_FABRIC_SILENT, Gauge, Host, "fabriclens.agent.ib_fabric.silent", Count("{node}"), [],
        "Nodes that did not answer in the last round.";
    IB_FABRIC_MADS, Counter, Host, "fabriclens.agent.ib_fabric.mads", Count("{mad}"), ["result"],
        "Management datagrams: `sent`, and of the requests those `answered`, `refused`, `timed_out`, `skipped`; datagrams that answer nothing are `foreign`.";
    IB_FABRIC_ROUND, Gauge, Host, "fabriclens.agent.ib_fabric.round", Seconds, ["kind"],
        "Duration of the last `sweep` of the subnet and of the last round of `counters`.";
    IB_FABRIC_TRUNCATED, Gauge, Host, "fabriclens.agent.ib_fabric.truncated", None, [],
        "1 if the subnet is larger than the limit of the reader, so that parts of it are not read.";
}
