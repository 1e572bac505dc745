//! The rollups of jobs, one row per metric: name, help, query, and how the values of ports are combined.

/// Entity that the values of a query belong to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum By {
    /// A port, by labels `host` and `device`.
    Port,
    /// A whole host, by label `host`.
    Host,
    /// A control group, by labels `host` and `cgroup`.
    Cgroup,
}

/// How the values of a job's ports or hosts are combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Join {
    /// Sum.
    Sum,
    /// Maximum.
    Max,
    /// Arithmetic mean.
    Mean,
}

/// How the values of rounds are combined over time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fold {
    /// Gauge: the current value.
    Now,
    /// Counter: adds the increases since the previous round.
    Total,
    /// Gauge: maximum since the job's start.
    Peak,
    /// Gauge: mean since the job's start.
    Mean,
}

/// One metric of jobs.
pub(super) struct Row {
    pub name: &'static str,
    pub help: &'static str,
    pub unit: &'static str,
    /// Query over all ports or hosts at one instant; for [`Fold::Total`] a plain selector of counters.
    pub promql: &'static str,
    pub by: By,
    pub join: Join,
    pub fold: Fold,
    /// Whether each rail has its own series.
    pub rail: bool,
    /// Label of the queried series that the job's series keep.
    pub keep: Option<&'static str>,
    /// Label that distinguishes rows with the same name.
    pub fixed: Option<(&'static str, &'static str)>,
}

impl Row {
    /// Type in `/api/v1/metadata`.
    pub(super) fn kind(&self) -> &'static str {
        if self.fold == Fold::Total { "counter" } else { "gauge" }
    }
}

const fn total(name: &'static str, unit: &'static str, promql: &'static str, help: &'static str) -> Row {
    Row {
        name,
        help,
        unit,
        promql,
        by: By::Port,
        join: Join::Sum,
        fold: Fold::Total,
        rail: false,
        keep: None,
        fixed: None,
    }
}

const fn gauge(name: &'static str, unit: &'static str, promql: &'static str, help: &'static str) -> Row {
    Row { join: Join::Mean, fold: Fold::Now, ..total(name, unit, promql, help) }
}

impl Row {
    const fn directed(self) -> Self {
        Self { keep: Some("direction"), ..self }
    }

    const fn by_rail(self) -> Self {
        Self { rail: true, ..self }
    }

    const fn because(self, reason: &'static str) -> Self {
        Self { fixed: Some(("reason", reason)), ..self }
    }

    const fn join(self, join: Join) -> Self {
        Self { join, ..self }
    }

    const fn fold(self, fold: Fold) -> Self {
        Self { fold, ..self }
    }

    const fn by(self, by: By) -> Self {
        Self { by, ..self }
    }
}

/// RDMA ports only, since management ports belong to no job. One minute, so that two scrapes at 30 s intervals suffice.
const RATE: &str = "rate(fabric_port_io_bytes_total{port!=\"\"}[1m])";
const PAUSE: &str = "max by (host, device, port, direction) (rate(fabric_pfc_pause_seconds_total{port!=\"\"}[1m]) \
                     or rate(fabric_pause_duration_seconds_total{port!=\"\"}[1m]))";
const PER_SECOND: &str = "By/s";

/// All metrics of jobs.
pub(super) const ROWS: &[Row] = &[
    total("fabric_job_io_bytes_total", "By", "fabric_port_io_bytes_total{port!=\"\"}", "Bytes of the job's ports.")
        .directed()
        .by_rail(),
    gauge("fabric_job_io_bytes_per_second", PER_SECOND, RATE, "Rate of the job's ports together, of the last minute.")
        .join(Join::Sum)
        .directed()
        .by_rail(),
    gauge("fabric_job_io_peak_bytes_per_second", PER_SECOND, RATE, "Highest rate since the job began.")
        .join(Join::Sum)
        .fold(Fold::Peak)
        .directed()
        .by_rail(),
    gauge("fabric_job_io_mean_bytes_per_second", PER_SECOND, RATE, "Mean rate since the job began.")
        .join(Join::Sum)
        .fold(Fold::Mean)
        .directed()
        .by_rail(),
    gauge(
        "fabric_job_pause_share_ratio",
        "1",
        PAUSE,
        "Share of time paused: receive, the job's ports could not send; mean over ports.",
    )
    .directed(),
    gauge("fabric_job_pause_share_max_ratio", "1", PAUSE, "Share of time paused of the port that was paused longest.")
        .join(Join::Max)
        .directed(),
    total(
        "fabric_job_pause_seconds_total",
        "s",
        "fabric_pfc_pause_seconds_total{port!=\"\"}",
        "Time paused, of all ports and priorities together.",
    )
    .directed(),
    gauge(
        "fabric_job_xmit_wait_share_ratio",
        "1",
        "fabric_port_xmit_wait_share_ratio{port!=\"\"}",
        "Share of the line rate lost to waiting for credits; mean over ports.",
    ),
    gauge(
        "fabric_job_xmit_wait_share_max_ratio",
        "1",
        "fabric_port_xmit_wait_share_ratio{port!=\"\"}",
        "Share of the line rate lost to waiting for credits of the port that lost most.",
    )
    .join(Join::Max),
    total(
        "fabric_job_xmit_wait_bytes_total",
        "By",
        "fabric_port_xmit_wait_bytes_total{port!=\"\"}",
        "Bytes that the job's ports could not send for lack of credits.",
    ),
    total(
        "fabric_job_ecn_packets_total",
        "{packet}",
        "fabric_ecn_packets_total{port!=\"\"}",
        "Packets received with a congestion mark.",
    ),
    total(
        "fabric_job_cnp_packets_total",
        "{packet}",
        "fabric_cnp_packets_total{port!=\"\"}",
        "Congestion notifications: received ones ask the job to slow down, transmitted ones ask others.",
    )
    .directed(),
    total("fabric_job_retransmits_total", "{event}", RETRANSMITS, RETRANSMITS_HELP).because("packet"),
    total(
        "fabric_job_retransmits_total",
        "{event}",
        "fabric_rdma_sequence_naks_total{port!=\"\",direction=\"receive\"}",
        RETRANSMITS_HELP,
    )
    .because("sequence_nak"),
    total("fabric_job_retransmits_total", "{event}", "fabric_rdma_ack_timeouts_total{port!=\"\"}", RETRANSMITS_HELP)
        .because("ack_timeout"),
    total("fabric_job_link_errors_total", "{error}", "fabric_link_symbol_errors_total{port!=\"\"}", LINK_HELP)
        .because("symbol"),
    total("fabric_job_link_errors_total", "{error}", "fabric_link_crc_errors_total{port!=\"\"}", LINK_HELP)
        .because("crc"),
    total("fabric_job_link_errors_total", "{error}", "fabric_link_receive_errors_total{port!=\"\"}", LINK_HELP)
        .because("receive"),
    total("fabric_job_link_errors_total", "{error}", "fabric_link_downs_total{port!=\"\"}", LINK_HELP).because("down"),
    total(
        "fabric_job_discards_total",
        "{packet}",
        "fabric_port_discards_total{port!=\"\"}",
        "Packets without error that the job's ports dropped.",
    )
    .directed(),
    total(
        "fabric_job_tcp_io_bytes_total",
        "By",
        "fabric_tcp_io_bytes_total{destination!=\"local\"}",
        "TCP bytes to and from other hosts: of the job's control groups (attribution per_process), or of its hosts.",
    )
    .by(By::Cgroup)
    .directed(),
    gauge(
        "fabric_job_tcp_rtt_seconds",
        "s",
        RTT,
        "Median round trip of TCP to other hosts in the last minute; mean over the job's hosts.",
    )
    .by(By::Host),
];

const RETRANSMITS: &str = "fabric_rdma_retransmits_total{port!=\"\"}";
const RETRANSMITS_HELP: &str = "RDMA retransmissions, by the counter of the adapter: packets, sequence errors reported by the peer, or expired timers.";
const LINK_HELP: &str = "Errors of the job's links; reasons overlap.";
const RTT: &str =
    "histogram_quantile(0.5, sum by (host, le) (rate(fabric_tcp_rtt_seconds_bucket{destination!=\"local\"}[1m])))";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_parse_and_counters_are_plain_selectors() {
        for row in ROWS {
            assert!(fabriclens_promql::check(row.promql).is_ok(), "{}: {:?}", row.name, row.promql);
            let plain = fabriclens_promql::selector(row.promql, &mut fabriclens_model::Patterns::default()).is_ok();
            assert!(row.fold != Fold::Total || (plain && row.join == Join::Sum), "{}", row.name);
            assert!(fabriclens_model::names::is_reserved(row.name), "hosts could write {}", row.name);
            assert_eq!(row.name.ends_with("_total"), row.kind() == "counter", "{}", row.name);
        }
    }
}
