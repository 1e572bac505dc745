//! Jobs on a host: their processes, queue pairs and traffic.

use super::units::*;

metrics! {
    JOB_PROCESSES, Gauge, Host, "fabric.job.processes", Count("{process}"),
        ["cgroup", "cluster", "job", "scheduler", "task", "user"],
        "Processes of a job by control group. The label `cgroup` is absent if the job is known only from cgroup version 1 or from the environment of its processes. The series begin and end with the job.";
    JOB_GROUPS_OMITTED, Gauge, Host, "fabric.job.omitted", Count("{group}"), [],
        "Control groups of jobs that are not exported because there are too many.";
    JOB_QUEUE_PAIRS, Gauge, Port, "fabric.job.queue_pairs", Count("{queue_pair}"), ["cluster", "job", "scheduler"],
        "User queue pairs on the port by job; queue pairs of processes outside any job have no `job` and `scheduler`.";
    QUEUE_PAIR_INFO, Info, Port, "fabric.queue_pair.info", None,
        ["job", "local", "peer", "pid", "remote", "scheduler", "source_port", "type"],
        "A connected user queue pair: its number, the peer's number, the process, its job, and the peer's address if the connection manager knows it. `source_port` is the UDP source port of its packets, computed by the driver's rule; absent if it cannot be known, and on InfiniBand. Two series describe the ends of one connection if `remote` of each equals `local` of the other. At most 512 per port.";
    QUEUE_PAIRS_OMITTED, Gauge, Port, "fabric.queue_pair.omitted", Count("{queue_pair}"), [],
        "Connected user queue pairs that have no series of their own because there are too many.";
    TCP_PEER_IO, Counter, Host, "fabric.job.tcp.peer.io", Bytes, ["cluster", "job", "local", "peer", "scheduler"],
        "Bytes in both directions of the job's TCP connections between a local address and a remote address, without headers. Connections are listed every 30 s or less often; connections that open and close in between are missing. At most 128 address pairs per job, those with the most bytes.";
    TCP_PEER_RTT, Gauge, Host, "fabric.job.tcp.peer.rtt", Seconds, ["cluster", "job", "local", "peer", "scheduler"],
        "Mean smoothed round-trip time of the job's TCP connections between two addresses.";
    TCP_PEERS_OMITTED, Gauge, Host, "fabric.job.tcp.peer.omitted", Count("{pair}"), ["cluster", "job", "scheduler"],
        "Address pairs of the job that are not exported because there are too many.";
    JOB_RDMA_IO, Counter, Port, "fabric.job.rdma.io", Bytes, ["cluster", "direction", "job", "scheduler"],
        "RDMA bytes of the job's queue pairs. Like all RDMA counters by job, it exists only where counters are bound to queue pairs (`rdma statistic qp`).";
    JOB_RDMA_PACKETS, Counter, Port, "fabric.job.rdma.packets", PACKETS, ["cluster", "direction", "job", "scheduler"],
        "RDMA packets of the job's queue pairs.";
    JOB_RDMA_OPERATIONS, Counter, Port, "fabric.job.rdma.operations", Count("{operation}"),
        ["cluster", "direction", "job", "operation", "scheduler"],
        "RDMA operations of the job's queue pairs by kind.";
    JOB_RNR_NAKS, Counter, Port, "fabric.job.rdma.rnr_naks", PACKETS, ["cluster", "direction", "job", "scheduler"],
        "Receiver-not-ready NAKs of the job's queue pairs.";
    JOB_SEQUENCE_NAKS, Counter, Port, "fabric.job.rdma.sequence_naks", PACKETS,
        ["cluster", "direction", "job", "scheduler"],
        "Sequence-error NAKs of the job's queue pairs.";
    JOB_OUT_OF_SEQUENCE, Counter, Port, "fabric.job.rdma.out_of_sequence", PACKETS, ["cluster", "job", "scheduler"],
        "Packets that the job's queue pairs received out of order.";
    JOB_ACK_TIMEOUTS, Counter, Port, "fabric.job.rdma.ack_timeouts", EVENTS, ["cluster", "job", "scheduler"],
        "Retransmission timers of the job's queue pairs that expired.";
    JOB_OUT_OF_BUFFER, Counter, Port, "fabric.job.rdma.out_of_buffer", PACKETS, ["cluster", "job", "scheduler"],
        "Packets of the job's queue pairs dropped because no receive work request was posted.";
    JOB_DUPLICATE_REQUESTS, Counter, Port, "fabric.job.rdma.duplicate_requests", PACKETS,
        ["cluster", "job", "scheduler"],
        "Requests that the job's queue pairs received again.";
    JOB_RETRIES_EXCEEDED, Counter, Port, "fabric.job.rdma.retries_exceeded", EVENTS,
        ["cluster", "job", "reason", "scheduler"],
        "Queue pairs of the job that gave up.";
    JOB_CNP_PACKETS, Counter, Port, "fabric.job.rdma.cnp.packets", PACKETS,
        ["cluster", "direction", "job", "scheduler"],
        "Congestion notification packets of the job's queue pairs.";
    JOB_ECN_PACKETS, Counter, Port, "fabric.job.rdma.ecn.packets", PACKETS, ["cluster", "job", "scheduler"],
        "Packets that the job's queue pairs received congestion-marked.";
}

/// Pairs of a port's metric and its counterpart by job, which has the job's labels in addition. Exported if counters are
/// bound to queue pairs.
pub static BY_JOB: &[(&crate::metric::Metric, &crate::metric::Metric)] = &[
    (&super::traffic::RDMA_IO, &JOB_RDMA_IO),
    (&super::traffic::RDMA_PACKETS, &JOB_RDMA_PACKETS),
    (&super::traffic::RDMA_OPERATIONS, &JOB_RDMA_OPERATIONS),
    (&super::transport::RNR_NAKS, &JOB_RNR_NAKS),
    (&super::transport::SEQUENCE_NAKS, &JOB_SEQUENCE_NAKS),
    (&super::transport::OUT_OF_SEQUENCE, &JOB_OUT_OF_SEQUENCE),
    (&super::transport::ACK_TIMEOUTS, &JOB_ACK_TIMEOUTS),
    (&super::transport::OUT_OF_BUFFER, &JOB_OUT_OF_BUFFER),
    (&super::transport::DUPLICATE_REQUESTS, &JOB_DUPLICATE_REQUESTS),
    (&super::transport::RETRIES_EXCEEDED, &JOB_RETRIES_EXCEEDED),
    (&super::congestion::CNP_PACKETS, &JOB_CNP_PACKETS),
    (&super::congestion::ECN_PACKETS, &JOB_ECN_PACKETS),
];
