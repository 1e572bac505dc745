//! The agent watching itself; ordinary rows, sent and stored like the rest.

use super::words::*;

metrics! {
    AGENT_INFO, Info, Host, "fabriclens.agent.info", None, ["version"],
        "The agent's version.";
    AGENT_START, Gauge, Host, "fabriclens.agent.start.time", Seconds, [],
        "When the agent started, seconds since 1970.";
    SAMPLER_BUSY, Counter, Host, "fabriclens.agent.sampler.busy", Seconds, ["sampler", "target"],
        "Wall time spent reading, by sampler and what it reads.";
    SAMPLER_READ_LAST, Gauge, Host, "fabriclens.agent.sampler.read.last", Seconds, ["sampler", "target"],
        "Cost of the last read.";
    SAMPLER_READS, Counter, Host, "fabriclens.agent.sampler.reads", Count("{read}"), ["sampler", "target"],
        "Reads done.";
    SAMPLER_ERRORS, Counter, Host, "fabriclens.agent.sampler.errors", ERRORS, ["sampler", "target"],
        "Reads that failed.";
    SAMPLER_STALLS, Counter, Host, "fabriclens.agent.sampler.stalls", EVENTS, ["sampler", "target"],
        "Reads that passed their deadline.";
    SAMPLER_PANICS, Counter, Host, "fabriclens.agent.sampler.panics", EVENTS, ["sampler", "target"],
        "Panics caught in a sampler; it is retried with back-off.";
    SAMPLER_STATE, Gauge, Host, "fabriclens.agent.sampler.state", None, ["sampler", "state", "target"],
        "1 for the sampler's present state: `data`, `absent`, `error`, `stalled`.";
    SAMPLER_COUNTERS, Gauge, Host, "fabriclens.agent.sampler.counters", Count("{counter}"), ["sampler", "target"],
        "Counters that the last read gave.";
    SAMPLER_MISSED, Counter, Host, "fabriclens.agent.sampler.missed", EVENTS, ["sampler", "target"],
        "Full samples of the target that did not happen because this read took longer than their period.";
    PROBE_RUNS, Counter, Host, "fabriclens.agent.probe.runs", Count("{run}"), ["probe"],
        "Runs of a probe's programs in the kernel; only while the kernel counts them (`sysctl kernel.bpf_stats_enabled=1`).";
    PROBE_BUSY, Counter, Host, "fabriclens.agent.probe.busy", Seconds, ["probe"],
        "Time the kernel spent in a probe's programs; only while it counts it.";
    PROBE_DROPS, Counter, Host, "fabriclens.agent.probe.drops", EVENTS, ["probe"],
        "Events that a probe saw and could not count, or that the kernel kept from it because a program was at work on that CPU.";
    DISCONTINUITIES, Counter, Host, "fabriclens.agent.discontinuities", EVENTS, ["reason", "target"],
        "Counters that did not simply grow: `reset`, `wrap`, `saturated`, `implausible`, `invalid` (the pattern of a device that cannot tell).";
    UNKNOWN_COUNTERS, Gauge, Host, "fabriclens.agent.unknown.counters", Count("{counter}"), ["sampler", "target"],
        "Vendor counters that no catalog row knows.";
    PASSTHROUGH_LEFT_OUT, Gauge, Host, "fabriclens.agent.passthrough.left_out", Count("{counter}"), ["sampler", "target"],
        "Vendor counters that `passthrough` names and that were left out, because it names too many of one port.";
    CLOCK_STEPS, Counter, Host, "fabriclens.agent.clock.steps", EVENTS, [],
        "Times the wall clock stepped.";
    DEVICES, Gauge, Host, "fabriclens.agent.devices", Count("{device}"), ["state"],
        "Devices by how the agent treats them: `sampled`, `restricted` (only state is read), `gone` (since the start).";
    RING_DEPTH, Gauge, Host, "fabriclens.agent.ring.depth", Count("{section}"), ["ring"],
        "Sections waiting in the ring.";
    RING_DROPPED, Counter, Host, "fabriclens.agent.ring.dropped", Count("{section}"), ["ring"],
        "Sections dropped from the ring, oldest first, because it was full.";
    SAMPLE_AGE, Gauge, Host, "fabriclens.agent.sample.age", Seconds, ["sampler", "target"],
        "Age of the latest sample.";
    PROCESS_CPU, Counter, Host, "fabriclens.agent.process.cpu", Seconds, [],
        "CPU time of the agent.";
    PROCESS_MEMORY, Gauge, Host, "fabriclens.agent.process.memory", Bytes, [],
        "Resident memory of the agent.";
    PROCESS_FDS, Gauge, Host, "fabriclens.agent.process.fds", Count("{descriptor}"), [],
        "Open file descriptors of the agent.";
    PROCESS_THREADS, Gauge, Host, "fabriclens.agent.process.threads", Count("{thread}"), [],
        "Threads of the agent.";
    SLOWED, Gauge, Host, "fabriclens.agent.slowed.steps", None, [],
        "Steps by which the agent samples less often than it is told, because it costs more than its budget: 1 no congestion samples, 2 and more a full sample in 2, 4 or 8 periods.";
    CPU_SHARE, Gauge, Host, "fabriclens.agent.process.cpu.share", Ratio, [],
        "Cores that the agent used, averaged over its last whole minute.";
    SANDBOX, Gauge, Host, "fabriclens.agent.sandbox", None, ["part"],
        "1 where the agent's threads are shut in, 0 where the kernel does not allow it, by part: `files` (Landlock), `calls` (seccomp).";
    UPLINK_SENT, Counter, Host, "fabriclens.agent.uplink.sent", Count("{point}"), ["collector"],
        "Points sent to the collector, retries included.";
    UPLINK_SENT_IO, Counter, Host, "fabriclens.agent.uplink.sent.io", Bytes, ["collector"],
        "Bytes of requests sent to the collector, before compression.";
    UPLINK_TAKEN, Counter, Host, "fabriclens.agent.uplink.taken", Count("{point}"), ["collector", "origin"],
        "Points to be delivered: what this agent sampled (`samplers`), and what its spool held when it started (`spool`). \
         Always as many as are acknowledged, rejected, dropped and waiting.";
    UPLINK_WAITING, Gauge, Host, "fabriclens.agent.uplink.waiting", Count("{point}"), ["collector", "place"],
        "Points that are not delivered yet, in `memory` (the ring and the request under way) and in the `spool` on disk.";
    UPLINK_UNACCOUNTED, Gauge, Host, "fabriclens.agent.uplink.unaccounted", Count("{point}"), ["collector"],
        "Points by which the agent's accounts are off. Anything but 0 is an error of the agent; its log has the sums.";
    UPLINK_ACKED, Counter, Host, "fabriclens.agent.uplink.acked", Count("{point}"), ["collector"],
        "Points the collector acknowledged.";
    UPLINK_REJECTED, Counter, Host, "fabriclens.agent.uplink.rejected", Count("{point}"), ["collector"],
        "Points the collector refused in partial success.";
    UPLINK_REQUESTS, Counter, Host, "fabriclens.agent.uplink.requests", Count("{request}"), ["collector", "outcome"],
        "Requests to the collector by outcome.";
    UPLINK_RETRIED, Counter, Host, "fabriclens.agent.uplink.retried", Count("{request}"), ["collector"],
        "Requests sent again.";
    UPLINK_DROPPED, Counter, Host, "fabriclens.agent.uplink.dropped", Count("{point}"), ["collector", "reason"],
        "Points given up, by reason: `ring` (memory was full), `spool_size`, `spool_age` (bounds of the spool), `spool_damaged`, \
         `spool_unreadable` (the disk), `shutdown`, and what the collector refused: `too_large`, `invalid`, or a gRPC status.";
    UPLINK_LATENCY, Gauge, Host, "fabriclens.agent.uplink.latency", Seconds, ["collector"],
        "Time from sending the last acknowledged request to its acknowledgement.";
    UPLINK_LAST_ACK, Gauge, Host, "fabriclens.agent.uplink.last_ack.time", Seconds, ["collector"],
        "When the collector last acknowledged, seconds since 1970.";
    UPLINK_CONNECTED, Gauge, Host, "fabriclens.agent.uplink.connected", None, ["collector"],
        "1 while requests reach the collector, 0 otherwise.";
    UPLINK_ACTIVE, Gauge, Host, "fabriclens.agent.uplink.active", None, ["collector"],
        "1 for the one of several collectors that is asked now, 0 for the others; only with `mode = \"failover\"`.";
    SPOOL_LIMIT, Gauge, Host, "fabriclens.agent.spool.limit", Bytes, ["collector"],
        "Bytes that the spool on disk may take; 0 where there is none.";
    SPOOL_SIZE, Gauge, Host, "fabriclens.agent.spool.size", Bytes, ["collector"],
        "Bytes that the spool takes on disk.";
    SPOOL_OLDEST, Gauge, Host, "fabriclens.agent.spool.oldest.time", Seconds, ["collector"],
        "When the oldest request in the spool was written, seconds since 1970; not there while it is empty.";
    SPOOL_ASIDE, Gauge, Host, "fabriclens.agent.spool.aside", Count("{part}"), ["collector"],
        "Parts of the spool that are set aside: a later release wrote them, or the disk does not give them. The next start tries again.";
    SPOOL_FAILING, Gauge, Host, "fabriclens.agent.spool.failing", None, ["collector"],
        "1 while the spool's disk takes or gives nothing; samples wait in memory alone.";
    SPOOL_ERRORS, Counter, Host, "fabriclens.agent.spool.errors", ERRORS, ["collector"],
        "Times that the spool's disk took or gave nothing.";
    SPOOL_IO, Counter, Host, "fabriclens.agent.spool.io", Bytes, ["collector", "direction"],
        "Bytes written to the spool (`write`) and read from it (`read`), as they travel.";
    HTTP_REQUESTS, Counter, Host, "fabriclens.agent.http.requests", Count("{request}"), ["path", "status"],
        "Requests to the agent's own HTTP server.";
    HTTP_DURATION, Counter, Host, "fabriclens.agent.http.duration", Seconds, ["path"],
        "Time spent answering requests to the agent's own HTTP server.";
}
