//! Probes between ports (`[probes]`): what they measure, by class of pair and transport, and how they are kept honest.

use super::units::*;

metrics! {
    PROBE_PROBES, Counter, Port, "fabric.probe.probes", Count("{probe}"), ["class", "transport"],
        "Probes sent from the port that have a result, by class of the pair (`same_leaf`, `cross_leaf`, `job`, `unknown`) and transport: `rdma` (timed by the NIC), `rdma_software_time` (timed by the host), `tcp` (its TCP twin).";
    PROBE_LOST, Counter, Port, "fabric.probe.lost", Count("{probe}"), ["class", "transport"],
        "Of these probes, those without an answer within 2 s.";
    PROBE_RTT, Histogram, Port, "fabric.probe.rtt", Seconds, ["class", "transport"],
        "Round trips of answered probes: time on the network without both hosts; for `tcp` with the responder's host.";
    PROBE_HOST_DELAY, Histogram, Port, "fabric.probe.host.delay", Seconds, ["end"],
        "Time that the hosts took for answered RDMA probes: `prober` is this host, `responder` the others.";
    PROBE_REFUSED, Counter, Port, "fabric.probe.refused", Count("{datagram}"), ["reason"],
        "Datagrams that the port refused: `malformed`, `forged`, `repeated`, `late`, `other_run` (answers to an earlier run of the agent), `impossible_times`; probes of others above the limits: `sender_limit`, `port_limit`.";
    PROBE_DISCARDED, Counter, Port, "fabric.probe.discarded", Count("{probe}"), ["reason"],
        "Probes without a result: `own_host_stalled`, `half_answered` (the second answer is missing), `not_sent` (the port does not drain), `no_route`, `limit`.";
    PROBE_ANSWERED, Counter, Port, "fabric.probe.answered", Count("{probe}"), ["transport"],
        "Probes of other hosts that the port answered: `rdma`, `tcp`.";
    PROBE_SHARE, Gauge, Port, "fabric.probe.rate.share", Ratio, [],
        "Share of the planned rate at which the port probes: 1, or 0.5, 0.25, 0.1 while the port is congested or the host is short of CPU.";
    PROBE_OPEN, Gauge, Port, "fabric.probe.open", None, [],
        "1 if the port sends and answers RDMA probes, 0 if it cannot; `fabriclens-agent doctor` says why.";
}
