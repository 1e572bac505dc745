//! Collectives of jobs (`[collectives]`), as the communication library reports them. One host of a job reads them for all of it.

use super::units::*;

metrics! {
    COLLECTIVE_READABLE, Gauge, Host, "fabric.collective.readable", None, ["cluster", "job", "reason", "scheduler"],
        "1 if this host's last question to the RAS service of the job's NCCL was answered completely; 0 if not, with the reason: `refused`, `silent` (the process may be stopped), `slow`, `cut`, `too_large`, `denied`, `malformed`, `foreign_service`, `failed`, `unknown_job`. Other series of the job end while it is 0.";
    COLLECTIVE_COMMUNICATOR_INFO, Info, Host, "fabric.collective.communicator.info", None,
        ["cluster", "communicator", "job", "library_version", "scheduler", "size"],
        "A communicator of a job: its hash in NCCL, the number of ranks that it was created with, and the version of NCCL. At most 64 for each job, those with stragglers first, then the largest.";
    COLLECTIVE_OMITTED, Gauge, Host, "fabric.collective.omitted", Count("{communicator}"),
        ["cluster", "job", "scheduler"],
        "Communicators of the job without series of their own, because there are too many, or because a NCCL older than 2.28 only counts them.";
    COLLECTIVE_RANKS, Gauge, Host, "fabric.collective.ranks", Count("{rank}"),
        ["cluster", "communicator", "job", "scheduler", "state"],
        "Ranks of a communicator by state: `initializing`, `running`, `finalizing`, `aborted`, `failed`, `without_communicator` (the process answers and does not have the communicator), `unresponsive` (no answer in time), `dead` (as NCCL considers them).";
    COLLECTIVE_OPERATIONS, Counter, Host, "fabric.collective.operations", Count("{operation}"),
        ["bound", "cluster", "communicator", "job", "operation", "scheduler"],
        "Operations that ranks have launched, by kind of operation: of the rank with the most (`highest`) and the fewest (`lowest`). A rank without an answer counts as it last answered. Launched operations may still be waiting on the GPU. NCCL before 2.26 counts all kinds together as `all`.";
    COLLECTIVE_LAG, Gauge, Host, "fabric.collective.lag", Count("{operation}"),
        ["cluster", "communicator", "job", "operation", "scheduler"],
        "Operations by which the rank with the fewest is behind the rank with the most, in one answer. Ranks answer at slightly different times, so a few are normal; `fabric_collective_behind` tells of ranks that stay behind.";
    COLLECTIVE_BEHIND, Gauge, Host, "fabric.collective.behind", Count("{rank}"),
        ["cluster", "communicator", "job", "scheduler"],
        "Ranks that are behind: at two answers in a row they have not launched what another rank had launched one answer before.";
    COLLECTIVE_STRAGGLER_INFO, Info, Host, "fabric.collective.straggler.info", None,
        ["cluster", "communicator", "gpu", "job", "operation", "pid", "rank", "rank_host", "reason", "scheduler"],
        "A rank that holds back others or cannot work, as long as that is so: its number, the address of its host, its process and GPU, and the reason: `behind` in the operation of the label, `unresponsive` or `without_communicator` at two answers in a row, `dead`, `failed`, `aborted`. At most 16 for each communicator, the furthest behind first. Of MPI (`communicator` is `MPI_COMM_WORLD`) each host tells its own ranks that ended without `MPI_Finalize` (`dead`), for at most an hour.";
    COLLECTIVE_HOST_INFO, Info, Host, "fabric.collective.host.info", None, ["cluster", "job", "rank_host", "scheduler"],
        "Address by which NCCL names this host in the status of the job: `rank_host` of other series. Each host of the job tells its own.";
    COLLECTIVE_IDLE, Gauge, Host, "fabric.collective.idle", Seconds, ["cluster", "communicator", "job", "scheduler"],
        "Time since a rank of the communicator was first seen to have launched another operation.";
    COLLECTIVE_EXECUTIONS, Counter, Host, "fabric.collective.executions", Count("{operation}"),
        ["cluster", "communicator", "job", "operation", "scheduler", "size"],
        "Operations that ranks of this host have completed, each rank's counted, from files of NCCL's Inspector or counters of MPI (`communicator` is then `MPI_COMM_WORLD` for operations of all ranks, `other` for all else), by kind and class of message size (`size` is the smallest of the class). At most 128 combinations for each job.";
    COLLECTIVE_EXECUTION_TIME, Counter, Host, "fabric.collective.execution.time", Seconds,
        ["cluster", "communicator", "job", "operation", "scheduler", "size"],
        "Time of these operations, added up over the ranks of this host. It includes the wait for the last rank.";
    COLLECTIVE_EXECUTION_MEAN, Gauge, Host, "fabric.collective.execution.mean", Seconds,
        ["cluster", "communicator", "job", "operation", "scheduler", "size"],
        "Mean time of an operation in the last period with any, over the ranks of this host.";
    COLLECTIVE_BUS_BANDWIDTH, Gauge, Host, "fabric.collective.bus_bandwidth", BytesPerSecond,
        ["cluster", "communicator", "job", "operation", "scheduler", "size"],
        "Bus bandwidth of operations in the last period with any, as NCCL defines it: comparable with the rate of the slowest link. Mean over the ranks of this host, weighted by time.";
    COLLECTIVE_BUS_BYTES, Counter, Host, "fabric.collective.bus", Bytes,
        ["cluster", "communicator", "job", "operation", "scheduler", "size"],
        "Bus bandwidth times time of these operations, added up: divided by the increase of their time it is the bus bandwidth over any interval.";
    COLLECTIVE_WAIT, Gauge, Host, "fabric.collective.wait", Seconds,
        ["cluster", "communicator", "job", "operation", "scheduler", "size"],
        "Time by which an operation took longer, in the mean of the ranks of this host, than for the rank with the shortest: the time that they waited for the rank that came last. Absent with one rank; with MPI, only for operations on all ranks that no rank can leave before all have entered.";
    COLLECTIVE_LATE_INFO, Info, Host, "fabric.collective.late.info", None,
        ["cluster", "communicator", "job", "member", "operation", "scheduler", "size"],
        "The rank of this host (or GPU, where files have no rank) for which the others waited in more than 30 % of their time, at three periods in a row. With MPI also: it spent that time outside of MPI, so messages of MPI do not keep it, but what it computes, reads or writes.";
    COLLECTIVE_MESSAGE_BYTES, Counter, Host, "fabric.collective.message", Bytes,
        ["cluster", "communicator", "job", "operation", "scheduler", "size"],
        "Sizes of the messages of these operations, added up over the ranks of this host, from counters of MPI: what a rank puts in, or gets where only another one puts in. Receives that are started and waited for later count no bytes: the sender has them.";
    COLLECTIVE_MPI_INFO, Info, Host, "fabric.collective.mpi.info", None,
        ["cluster", "job", "library", "scheduler", "size"],
        "A program of the job that uses MPI and was started with `libfabriclens-mpi.so`: its MPI library, and the number of ranks. At most 8 for each job.";
    COLLECTIVE_MPI_SHARE, Gauge, Host, "fabric.collective.mpi.share", Ratio, ["cluster", "job", "rank", "scheduler"],
        "Share of the last period that a rank of this host was in MPI operations. Of ranks that work in step, the one with the smallest is waited for by the others. Absent if several threads of the process call MPI. At most 64 ranks of a job.";
    COLLECTIVE_MPI_ENTERED, Counter, Host, "fabric.collective.mpi.entered", Count("{operation}"),
        ["cluster", "job", "pid", "rank", "scheduler", "size"],
        "Operations on all ranks that a rank of this host has entered, among them the one that it is in. `pid` is its process, `size` the number of ranks. Absent if the host has two programs of the job at once, or several threads of the process call MPI. At most 64 ranks of a job.";
    COLLECTIVE_MPI_INSIDE, Gauge, Host, "fabric.collective.mpi.inside", Seconds,
        ["cluster", "job", "operation", "rank", "scheduler", "size"],
        "Time since a rank entered the operation that it is in, from 10 s on, for operations on all ranks that no rank can leave before all have entered: it waits for a rank that has not entered. Needs a `libfabriclens-mpi.so` of this version.";
    COLLECTIVE_RANK_INFO, Info, Host, "fabric.collective.rank.info", None,
        ["cluster", "communicator", "gpu", "job", "pid", "rank", "scheduler"],
        "A rank of this host: its process as the host numbers it, which is `pid` of `fabric_queue_pair_info`, and its GPU where the library tells. Each host of the job tells its own, of the largest communicator. At most 64 ranks of a job.";
    COLLECTIVE_LOG_LINES, Counter, Host, "fabric.collective.log.lines", Count("{line}"),
        ["cluster", "job", "kind", "rdma_device", "scheduler"],
        "Lines of the job's log (`collectives.log_files`) by kind: `slow_work_request`, `failed_work_request`, `no_device` (NCCL found no RDMA device), `network`, `devices`, `socket_interfaces`, `channel`, `abort`, `timeout`, `ras_port_taken`; with the RDMA device where the line names one.";
    COLLECTIVE_NETWORK_INFO, Info, Host, "fabric.collective.network.info", None,
        ["cluster", "job", "network", "scheduler"],
        "Network that NCCL chose for the job by its log: `IB` (RDMA), `Socket` (TCP), or the name of a plugin.";
    COLLECTIVE_QUEUE_PAIR_INFO, Info, Host, "fabric.collective.queue_pair.info", None,
        ["cluster", "job", "kind", "local", "peer", "rdma_device", "remote", "scheduler"],
        "A queue pair of a slow or failed work request in the job's log. `local` is the number in `fabric_queue_pair_info`. The last 16 of each job.";
    COLLECTIVE_FILES, Gauge, Host, "fabriclens.agent.collectives.files", Count("{file}"), [],
        "Files of NCCL's Inspector that are followed.";
    COLLECTIVE_FILES_SKIPPED, Counter, Host, "fabriclens.agent.collectives.files.skipped", Bytes, [],
        "Bytes of these files that were not read, because they grew faster than the agent reads.";
    COLLECTIVE_RECORDS_LOST, Counter, Host, "fabriclens.agent.collectives.records.lost", Count("{record}"), ["reason"],
        "Records of these files without a series: `unreadable` (cut, of another form, or without their communicator), `limit` (too many series).";
    COLLECTIVE_MPI_PROCESSES, Gauge, Host, "fabriclens.agent.collectives.mpi.processes", Count("{process}"), ["state"],
        "Processes of jobs with a file of MPI counters, by what became of it: `read`, `limit` (too many), `implausible` (a counter went back, or more time than there was), `foreign_owner`, `other_process`, `other_version` (of the library), `malformed`, `unreadable`.";
    COLLECTIVE_MPI_OMITTED, Counter, Host, "fabriclens.agent.collectives.mpi.omitted", Count("{operation}"), [],
        "Operations of MPI without a series, because a job has too many combinations of communicator, operation and size.";
    COLLECTIVE_QUESTIONS, Counter, Host, "fabriclens.agent.collectives.questions", Count("{question}"), ["result"],
        "Questions to RAS services of jobs by result: `answered`, or the reason of `fabric_collective_readable`.";
    COLLECTIVE_SERVICES, Gauge, Host, "fabriclens.agent.collectives.services", Count("{service}"), ["role"],
        "RAS services of jobs on this host: `asked` each period, `followed` (another host of the job asks), `foreign` (another service on the port, which is left alone).";
    COLLECTIVE_DURATION, Gauge, Host, "fabriclens.agent.collectives.duration", Seconds, [],
        "Longest question of the last round.";
}
