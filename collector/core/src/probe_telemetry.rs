//! Metrics of traced paths and probes.

use prometheus::{Gauge, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry};

/// Plans and reports of agents that trace and probe.
#[derive(Clone)]
pub struct ProbeTelemetry {
    /// Hosts whose agents ask for plans.
    pub hosts: IntGauge,
    /// Offered ports by state.
    pub ports: IntGaugeVec,
    /// Pairs of ports in plans, by class.
    pub pairs: IntGaugeVec,
    /// Probes per second of all plans.
    pub probes_per_s: Gauge,
    /// Traces per second of all plans.
    pub traces_per_s: Gauge,
    /// Encoded bytes of all plans.
    pub plan_bytes: IntGauge,
    /// Seconds of the last planning.
    pub plan_seconds: Gauge,
    /// Reported paths and results, by kind.
    pub taken: IntCounterVec,
    /// Refused paths and results, by reason.
    pub refused: IntCounterVec,
    /// Traces by outcome.
    pub traces: IntCounterVec,
    /// Results that agents dropped.
    pub agents_dropped: IntCounter,
    /// Updates that the live evaluation did not take in time.
    pub feed_dropped: IntCounter,
    /// Updates that wait.
    pub waiting: IntGauge,
    /// Directions of links, by place and whether traced paths cross them.
    pub links: IntGaugeVec,
}

impl ProbeTelemetry {
    /// Declares the metrics.
    ///
    /// # Errors
    /// If a name is taken.
    pub(crate) fn new(registry: &Registry) -> Result<Self, prometheus::Error> {
        let counters = |name: &str, help: &str, labels: &[&str]| {
            let all = IntCounterVec::new(Opts::new(name, help), labels)?;
            registry.register(Box::new(all.clone()))?;
            Ok::<_, prometheus::Error>(all)
        };
        let counter = |name: &str, help: &str| {
            let one = IntCounter::new(name, help)?;
            registry.register(Box::new(one.clone()))?;
            Ok::<_, prometheus::Error>(one)
        };
        let gauges = |name: &str, help: &str, labels: &[&str]| {
            let all = IntGaugeVec::new(Opts::new(name, help), labels)?;
            registry.register(Box::new(all.clone()))?;
            Ok::<_, prometheus::Error>(all)
        };
        let whole = |name: &str, help: &str| {
            let one = IntGauge::new(name, help)?;
            registry.register(Box::new(one.clone()))?;
            Ok::<_, prometheus::Error>(one)
        };
        let gauge = |name: &str, help: &str| {
            let one = Gauge::new(name, help)?;
            registry.register(Box::new(one.clone()))?;
            Ok::<_, prometheus::Error>(one)
        };
        Ok(Self {
            hosts: whole("fabriclens_probe_hosts", "Hosts whose agents trace or probe.")?,
            ports: gauges(
                "fabriclens_probe_ports",
                "Ports that agents offer for tracing and probing: used, or the reason why not (no_address, not_unicast, \
                 address_shared).",
                &["state"],
            )?,
            pairs: gauges(
                "fabriclens_probe_pairs",
                "Pairs of ports in the plans of agents, by class: job, same_leaf, cross_leaf, unknown.",
                &["class"],
            )?,
            probes_per_s: gauge(
                "fabriclens_probe_planned_per_second",
                "Probes per second that the plans of all agents allow, TCP twins included.",
            )?,
            traces_per_s: gauge(
                "fabriclens_probe_traces_planned_per_second",
                "Traces of source ports per second that the plans of all agents allow.",
            )?,
            plan_bytes: whole("fabriclens_probe_plan_bytes", "Bytes of the plans of all agents.")?,
            plan_seconds: gauge("fabriclens_probe_plan_seconds", "Time of the last computation of all plans.")?,
            taken: counters(
                "fabriclens_probe_results_total",
                "Reported paths and results of probes: path, rdma, tcp, or busy (the prober's host was too slow to count).",
                &["kind"],
            )?,
            refused: counters(
                "fabriclens_probe_results_refused_total",
                "Reported paths and results that were refused, by reason: future, old, pair, rate, source_port, time, transport.",
                &["reason"],
            )?,
            traces: counters(
                "fabriclens_probe_traces_total",
                "Traces that are a path through the known topology, or why not: incomplete, silent, several, no_cable, \
                 unknown_address, no_link, parallel, contradiction.",
                &["outcome"],
            )?,
            agents_dropped: counter(
                "fabriclens_probe_agent_dropped_total",
                "Results that agents dropped because they could not report them in time.",
            )?,
            feed_dropped: counter(
                "fabriclens_probe_feed_dropped_total",
                "Paths and results that were dropped because the evaluation did not keep up.",
            )?,
            waiting: whole("fabriclens_probe_feed_waiting", "Paths and results that wait for the evaluation.")?,
            links: gauges(
                "fabriclens_probe_links",
                "Directions of links that the topology knows, by what they connect (hosts: a host and a switch; switches) and \
                 whether a traced path of the last half hour crosses them.",
                &["between", "crossed"],
            )?,
        })
    }
}
