//! Tracing and probing (`[probes]`), about themselves. Paths and results of probes are reported to the collector, not as metrics.

use super::units::*;

metrics! {
    PROBE_PLAN_TARGETS, Gauge, Host, "fabriclens.agent.probes.targets", Count("{target}"), [],
        "Targets of the probe plan that this host follows; 0 without a plan.";
    PROBE_REQUESTS, Counter, Host, "fabriclens.agent.probes.requests", Count("{request}"), ["kind", "result"],
        "Requests to collectors about probes: for a `plan` or to `report` what was found, that were `answered` or `failed`.";
    PROBE_LOST, Counter, Host, "fabriclens.agent.probes.lost", Count("{result}"), ["reason"],
        "Paths and results of probes that no collector has: `dropped`, because none took them in time, or `refused` by a collector.";
    TRACE_DATAGRAMS, Counter, Host, "fabriclens.agent.trace.datagrams", Count("{datagram}"), ["result"],
        "Datagrams of path tracing: `sent`, and of those `answered` by a switch or `silent`; answers to no datagram that waited are `ignored`, and traces that the kernel did not permit `not_sent`.";
    TRACE_PATHS, Gauge, Host, "fabriclens.agent.trace.paths", Count("{path}"), ["state"],
        "Paths of the probe plan: `known` up to the target, `partial`, `unknown`, and `left_out` beyond what one host traces.";
    TRACE_CHANGES, Counter, Host, "fabriclens.agent.trace.changes", Count("{change}"), [],
        "Traces that met other switches than the trace before.";
}
