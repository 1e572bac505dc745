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
    UPLINK_SENT, Counter, Host, "fabriclens.agent.uplink.sent", Count("{point}"), [],
        "Points sent to the collector, retries included.";
    UPLINK_SENT_IO, Counter, Host, "fabriclens.agent.uplink.sent.io", Bytes, [],
        "Bytes of requests sent to the collector, before compression.";
    UPLINK_ACKED, Counter, Host, "fabriclens.agent.uplink.acked", Count("{point}"), [],
        "Points the collector acknowledged.";
    UPLINK_REJECTED, Counter, Host, "fabriclens.agent.uplink.rejected", Count("{point}"), [],
        "Points the collector refused in partial success.";
    UPLINK_REQUESTS, Counter, Host, "fabriclens.agent.uplink.requests", Count("{request}"), ["outcome"],
        "Requests to the collector by outcome.";
    UPLINK_RETRIED, Counter, Host, "fabriclens.agent.uplink.retried", Count("{request}"), [],
        "Requests sent again.";
    UPLINK_DROPPED, Counter, Host, "fabriclens.agent.uplink.dropped", Count("{point}"), ["reason"],
        "Points given up, by reason: `shutdown`, `too_large`, `invalid`.";
    UPLINK_LATENCY, Gauge, Host, "fabriclens.agent.uplink.latency", Seconds, [],
        "Time from sending the last acknowledged request to its acknowledgement.";
    UPLINK_LAST_ACK, Gauge, Host, "fabriclens.agent.uplink.last_ack.time", Seconds, [],
        "When the collector last acknowledged, seconds since 1970.";
    UPLINK_CONNECTED, Gauge, Host, "fabriclens.agent.uplink.connected", None, [],
        "1 while requests reach the collector, 0 otherwise.";
    HTTP_REQUESTS, Counter, Host, "fabriclens.agent.http.requests", Count("{request}"), ["path", "status"],
        "Requests to the agent's own HTTP server.";
    HTTP_DURATION, Counter, Host, "fabriclens.agent.http.duration", Seconds, ["path"],
        "Time spent answering requests to the agent's own HTTP server.";
}
