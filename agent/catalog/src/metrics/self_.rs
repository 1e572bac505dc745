//! The agent's own health, exported like every other metric.

use super::units::*;

metrics! {
    AGENT_INFO, Info, Host, "fabriclens.agent.info", None, ["version"],
        "The agent's version.";
    AGENT_START, Gauge, Host, "fabriclens.agent.start.time", Seconds, [],
        "When the agent started, seconds since 1970.";
    SAMPLER_BUSY, Counter, Host, "fabriclens.agent.sampler.busy", Seconds, ["sampler", "target"],
        "Wall time spent reading, by sampler and what it reads.";
    SAMPLER_READ_LAST, Gauge, Host, "fabriclens.agent.sampler.read.last", Seconds, ["sampler", "target"],
        "Duration of the last read.";
    SAMPLER_READS, Counter, Host, "fabriclens.agent.sampler.reads", Count("{read}"), ["sampler", "target"],
        "Reads done.";
    SAMPLER_ERRORS, Counter, Host, "fabriclens.agent.sampler.errors", ERRORS, ["sampler", "target"],
        "Reads that failed.";
    SAMPLER_STALLS, Counter, Host, "fabriclens.agent.sampler.stalls", EVENTS, ["sampler", "target"],
        "Reads that passed their deadline.";
    SAMPLER_PANICS, Counter, Host, "fabriclens.agent.sampler.panics", EVENTS, ["sampler", "target"],
        "Panics caught in a sampler; it is retried with back-off.";
    SAMPLER_STATE, Gauge, Host, "fabriclens.agent.sampler.state", None, ["sampler", "state", "target"],
        "1 for the sampler's current state: `data`, `absent`, `error`, `stalled`.";
    SAMPLER_COUNTERS, Gauge, Host, "fabriclens.agent.sampler.counters", Count("{counter}"), ["sampler", "target"],
        "Counters returned by the last read.";
    SAMPLER_MISSED, Counter, Host, "fabriclens.agent.sampler.missed", EVENTS, ["sampler", "target"],
        "Full samples of the target that were skipped because this read took longer than their period.";
    PROBE_RUNS, Counter, Host, "fabriclens.agent.probe.runs", Count("{run}"), ["probe"],
        "Runs of a probe's programs in the kernel; only with `sysctl kernel.bpf_stats_enabled=1`.";
    PROBE_BUSY, Counter, Host, "fabriclens.agent.probe.busy", Seconds, ["probe"],
        "Time the kernel spent in a probe's programs; only with `sysctl kernel.bpf_stats_enabled=1`.";
    PROBE_DROPS, Counter, Host, "fabriclens.agent.probe.drops", EVENTS, ["probe"],
        "Events that a probe could not count, or that the kernel did not deliver because a program was already running on that CPU.";
    DISCONTINUITIES, Counter, Host, "fabriclens.agent.discontinuities", EVENTS, ["reason", "target"],
        "Counter readings that were not a plain increase: `reset`, `wrap`, `saturated`, `implausible`, `invalid` (all ones: the device could not answer).";
    UNKNOWN_COUNTERS, Gauge, Host, "fabriclens.agent.unknown.counters", Count("{counter}"), ["sampler", "target"],
        "Vendor counters without a catalog row.";
    PASSTHROUGH_LEFT_OUT, Gauge, Host, "fabriclens.agent.passthrough.left_out", Count("{counter}"), ["sampler", "target"],
        "Vendor counters selected by `passthrough` that were left out because it selects too many on one port.";
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
        "Throttling steps taken because the agent exceeds its budget: 0 none; 1 no congestion samples; 2 and more: a full sample only every 2, 4 or 8 periods.";
    CPU_SHARE, Gauge, Host, "fabriclens.agent.process.cpu.share", Ratio, [],
        "Cores that the agent used, averaged over its last whole minute.";
    SANDBOX, Gauge, Host, "fabriclens.agent.sandbox", None, ["part"],
        "1 if the agent's threads are sandboxed, 0 if the kernel does not support it, by part: `files` (Landlock), `calls` (seccomp).";
    UPLINK_SENT, Counter, Host, "fabriclens.agent.uplink.sent", Count("{point}"), ["collector"],
        "Points sent to the collector, retries included.";
    UPLINK_SENT_IO, Counter, Host, "fabriclens.agent.uplink.sent.io", Bytes, ["collector"],
        "Bytes of requests sent to the collector, before compression.";
    UPLINK_TAKEN, Counter, Host, "fabriclens.agent.uplink.taken", Count("{point}"), ["collector", "origin"],
        "Points accepted for delivery: sampled by this agent (`samplers`), or found in its spool at start (`spool`). \
         Always the sum of acknowledged, rejected, dropped and waiting points.";
    UPLINK_WAITING, Gauge, Host, "fabriclens.agent.uplink.waiting", Count("{point}"), ["collector", "place"],
        "Points not yet delivered: in `memory` (the ring and the request in flight) and in the `spool` on disk.";
    UPLINK_UNACCOUNTED, Gauge, Host, "fabriclens.agent.uplink.unaccounted", Count("{point}"), ["collector"],
        "Points by which the agent's delivery accounting is off. Any value but 0 is a bug in the agent; its log has the sums.";
    UPLINK_ACKED, Counter, Host, "fabriclens.agent.uplink.acked", Count("{point}"), ["collector"],
        "Points the collector acknowledged.";
    UPLINK_REJECTED, Counter, Host, "fabriclens.agent.uplink.rejected", Count("{point}"), ["collector"],
        "Points the collector refused in partial success.";
    UPLINK_REQUESTS, Counter, Host, "fabriclens.agent.uplink.requests", Count("{request}"), ["collector", "outcome"],
        "Requests to the collector by outcome.";
    UPLINK_RETRIED, Counter, Host, "fabriclens.agent.uplink.retried", Count("{request}"), ["collector"],
        "Requests sent again.";
    UPLINK_DROPPED, Counter, Host, "fabriclens.agent.uplink.dropped", Count("{point}"), ["collector", "reason"],
        "Points discarded, by reason: `ring` (memory was full), `spool_size`, `spool_age` (limits of the spool), `spool_damaged`, \
         `spool_unreadable` (disk error), `shutdown`, or refused by the collector: `too_large`, `invalid`, or a gRPC status.";
    UPLINK_LATENCY, Gauge, Host, "fabriclens.agent.uplink.latency", Seconds, ["collector"],
        "Time from sending the last acknowledged request to its acknowledgement.";
    UPLINK_LAST_ACK, Gauge, Host, "fabriclens.agent.uplink.last_ack.time", Seconds, ["collector"],
        "When the collector last acknowledged, seconds since 1970.";
    UPLINK_CONNECTED, Gauge, Host, "fabriclens.agent.uplink.connected", None, ["collector"],
        "1 while requests reach the collector, 0 otherwise.";
    UPLINK_ACTIVE, Gauge, Host, "fabriclens.agent.uplink.active", None, ["collector"],
        "1 for the one of several collectors that is asked now, 0 for the others; only with `mode = \"failover\"` or `\"spread\"`.";
    SPOOL_LIMIT, Gauge, Host, "fabriclens.agent.spool.limit", Bytes, ["collector"],
        "Maximum size of the spool on disk; 0 without a spool.";
    SPOOL_SIZE, Gauge, Host, "fabriclens.agent.spool.size", Bytes, ["collector"],
        "Size of the spool on disk.";
    SPOOL_OLDEST, Gauge, Host, "fabriclens.agent.spool.oldest.time", Seconds, ["collector"],
        "When the oldest request in the spool was written, seconds since 1970; absent while the spool is empty.";
    SPOOL_ASIDE, Gauge, Host, "fabriclens.agent.spool.aside", Count("{part}"), ["collector"],
        "Quarantined segments of the spool: written by a later release, or unreadable on disk. The next start tries them again.";
    SPOOL_FAILING, Gauge, Host, "fabriclens.agent.spool.failing", None, ["collector"],
        "1 while the spool's disk fails reads or writes; samples then wait in memory only.";
    SPOOL_ERRORS, Counter, Host, "fabriclens.agent.spool.errors", ERRORS, ["collector"],
        "Failed reads and writes of the spool.";
    SPOOL_IO, Counter, Host, "fabriclens.agent.spool.io", Bytes, ["collector", "direction"],
        "Bytes written to the spool (`write`) and read from it (`read`), as transmitted.";
    HTTP_REQUESTS, Counter, Host, "fabriclens.agent.http.requests", Count("{request}"), ["path", "status"],
        "Requests to the agent's own HTTP server.";
    HTTP_DURATION, Counter, Host, "fabriclens.agent.http.duration", Seconds, ["path"],
        "Time spent answering requests to the agent's own HTTP server.";
}
