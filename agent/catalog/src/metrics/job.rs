//! Whose traffic it is: jobs on a host, their processes, their queue pairs.

use super::words::*;

metrics! {
    JOB_PROCESSES, Gauge, Host, "fabric.job.processes", Count("{process}"),
        ["cgroup", "cluster", "job", "scheduler", "task", "user"],
        "Processes of a job by control group, as the kernel shows them; the group is left out where version 1 alone tells, and where only the environment of the processes does. A job that begins or ends, begins or ends these series.";
    JOB_GROUPS_OMITTED, Gauge, Host, "fabric.job.omitted", Count("{group}"), [],
        "Control groups of jobs that are not told because there are too many.";
    JOB_QUEUE_PAIRS, Gauge, Port, "fabric.job.queue_pairs", Count("{queue_pair}"), ["cluster", "job", "scheduler"],
        "User queue pairs on the port by job; those of processes of no job without job and scheduler.";
    QUEUE_PAIR_INFO, Info, Port, "fabric.queue_pair.info", None,
        ["job", "local", "peer", "pid", "remote", "scheduler", "type"],
        "A connected user queue pair: its number and the other end's, the process, its job, and the other end's address where the connection manager knows it. Two are a pair when each one's remote is the other's local. At most 512 of a port.";
    QUEUE_PAIRS_OMITTED, Gauge, Port, "fabric.queue_pair.omitted", Count("{queue_pair}"), [],
        "Connected user queue pairs that are counted and not told one by one because there are too many.";
    TCP_PEER_IO, Counter, Host, "fabric.job.tcp.peer.io", Bytes, ["cluster", "job", "local", "peer", "scheduler"],
        "Bytes, both directions, of the job's TCP connections between an own address and another host's, without headers: who talks to whom. Connections are listed each 30 s or more seldom, and what others carried in between is missing. At most 128 pairs of a job, those with most.";
    TCP_PEER_RTT, Gauge, Host, "fabric.job.tcp.peer.rtt", Seconds, ["cluster", "job", "local", "peer", "scheduler"],
        "Smoothed round trip of those connections, their mean.";
    TCP_PEERS_OMITTED, Gauge, Host, "fabric.job.tcp.peer.omitted", Count("{pair}"), ["cluster", "job", "scheduler"],
        "Pairs of addresses of the job that are not told because there are too many.";
    JOB_RDMA_IO, Counter, Port, "fabric.job.rdma.io", Bytes, ["cluster", "direction", "job", "scheduler"],
        "RDMA bytes of the job's queue pairs; like all by job only where somebody has bound counters to queue pairs (`rdma statistic qp`).";
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

/// Metrics of a port that are told by job as well, where counters are bound to queue pairs: the same labels and those of
/// the job.
pub static BY_JOB: &[(&crate::Metric, &crate::Metric)] = &[
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
