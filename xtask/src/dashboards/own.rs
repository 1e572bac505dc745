//! Dashboard "Itself": health of agents and collector.

use super::common::HEARD;
use super::panel::{Dashboard, Link, Row, Unit, Var, lines, row, stacked, stat, table};

pub fn dashboard() -> Dashboard {
    Dashboard {
        name: "own",
        title: "Fabriclens: Itself",
        description: "Are the data complete? Silent agents, dropped samples, and the cost of Fabriclens. While anything is \
                    red here, an empty panel elsewhere means nothing.",
        since: "now-1h",
        vars: vec![Var::Host],
        rows: vec![now(), agents(), ingest(), store(), queries()],
    }
}

fn now() -> Row {
    row(
        "Now",
        vec![
            stat("Agents with samples", Unit::Count)
                .description("Agents that sent samples in the last minute.")
                .query(format!("count({HEARD}) or vector(0)"), "agents"),
            stat("Silent agents", Unit::Count)
                .description("Agents with samples in the last six hours but none in the last minute. The table below lists them.")
                .query(
                    format!(
                        "count(max by (host) (max_over_time(fabriclens_agent_start_time_seconds[6h:5m])) unless on (host) \
                         ({HEARD})) or vector(0)"
                    ),
                    "quiet",
                )
                .threshold(1.0, "red"),
            stat("Samples a second", Unit::PerSecond)
                .description("Samples per second that the collector made durable.")
                .query("sum(rate(fabriclens_ingest_samples_total[$__rate_interval]))", "samples"),
            stat("Samples rejected", Unit::PerSecond)
                .description("Samples rejected by the collector. A panel below shows the reasons.")
                .query("sum(rate(fabriclens_ingest_rejected_total[$__rate_interval])) or vector(0)", "rejected")
                .threshold(0.001, "red"),
            stat("Store failing", Unit::Count)
                .description("1: samples cannot be made durable, or blocks cannot be written. Check the disk and the collector's \
                    log now.")
                .query("max(fabriclens_store_log_failing) + max(fabriclens_store_maintenance_failing)", "fails")
                .threshold(1.0, "red"),
            stat("Uptime", Unit::Seconds)
                .description("Uptime of the collector. Often small: it is killed (memory?) and restarted.")
                .query("time() - max(fabriclens_start_time_seconds)", "age"),
        ],
    )
}

fn agents() -> Row {
    let h = r#"host=~"$host""#;
    row(
        "Agents",
        vec![
            table("Silent agents and wrong clocks", Unit::Seconds)
                .description("Age of the newest sample of these agents. Constant: its clock is behind. Growing: it is silent. \
                    `systemctl status fabriclens-agent`, `fabriclens-agent doctor`, `chronyc tracking`.")
                .query(
                    format!(
                        "max by (host) (time() - timestamp(fabriclens_agent_start_time_seconds{{{h}}})) > 30 or on (host) \
                         max by (host) (time() - max_over_time(timestamp(fabriclens_agent_start_time_seconds{{{h}}})[6h:5m])) \
                         unless on (host) fabriclens_agent_start_time_seconds{{{h}}}"
                    ),
                    "since",
                )
                .link(Link::Host)
                .wide(8)
                .no_data("All agents send samples with the right time."),
            table("Failing samplers", Unit::Count)
                .description("Samplers that fail or hang. `fabriclens-agent doctor` on that host shows why, and the remedy.")
                .query(
                    format!(
                        "max by (host, sampler, target, state) (fabriclens_agent_sampler_state{{state=~\"error|stalled\",{h}}}) > 0"
                    ),
                    "is",
                )
                .link(Link::Host)
                .wide(16)
                .no_data("No sampler fails."),
            lines("Lost samples", Unit::PerSecond)
                .description("Points that agents dropped. ring: the memory queue was full (collector away or slow, no spool). \
                    spool_size, spool_age: the outage was longer than the spool lasts. Others: the collector rejected \
                    them.")
                .query(
                    format!("sum by (host, reason) (rate(fabriclens_agent_uplink_dropped_total{{{h}}}[$__rate_interval])) > 0"),
                    "{{host}} {{reason}}",
                )
                .query(
                    format!("sum by (host) (rate(fabriclens_agent_uplink_rejected_total{{{h}}}[$__rate_interval])) > 0"),
                    "{{host}} rejected",
                )
                .link(Link::Host)
                .wide(8)
                .no_data("No code word was lost."),
            lines("Spooled on agents", Unit::Count)
                .description("Points in spools after an outage of the collector, which are sent at a limited rate. Growing: the \
                    collector does not accept them.")
                .query(format!("sum by (host) (fabriclens_agent_uplink_waiting{{place=\"spool\",{h}}}) > 0"), "{{host}}")
                .link(Link::Host)
                .wide(8)
                .no_data("Nothing is spooled."),
            table("Unaccounted points and failing spools", Unit::Count)
                .description("accounts: points that are neither delivered, waiting nor counted as dropped: a defect of the agent. \
                    spool: the disk cannot be written and samples wait in memory only. `/healthz` of the agent shows \
                    why.")
                .query(format!("max by (host) (fabriclens_agent_uplink_unaccounted{{{h}}}) > 0"), "accounts")
                .query(format!("max by (host) (fabriclens_agent_spool_failing{{{h}}}) > 0"), "spool")
                .link(Link::Host)
                .wide(8)
                .no_data("All points are accounted for."),
            lines("CPU of agents", Unit::Share)
                .description("Share of one core, of the agents with the highest use.")
                .query(
                    format!("topk(10, rate(fabriclens_agent_process_cpu_seconds_total{{{h}}}[$__rate_interval]))"),
                    "{{host}}",
                )
                .link(Link::Host)
                .wide(8),
            lines("Memory of agents", Unit::Bytes)
                .description("Resident memory of the largest agents.")
                .query(format!("topk(10, fabriclens_agent_process_memory_bytes{{{h}}})"), "{{host}}")
                .link(Link::Host)
                .wide(8),
            lines("Counter discontinuities", Unit::PerSecond)
                .description("Resets, wraps and implausible values. Many resets: counters are cleared by a tool (perfquery -R).")
                .query(
                    format!("sum by (reason) (rate(fabriclens_agent_discontinuities_total{{{h}}}[$__rate_interval]))"),
                    "{{reason}}",
                )
                .wide(8)
                .no_data("No discontinuity."),
            table("Implausible counters", Unit::Count)
                .description("Implausible counters, which verdicts ignore if other counters show better. stands_still: the agent, \
                    the driver or the job is stuck. leaps: more than twice the line rate. pause_not_felt, \
                    pause_not_counted: NIC and switch disagree about pause. The runbook counters-doubted explains what \
                    to do.")
                .query("max by (node, port, reason) (fabriclens_doubted_counters) > 0", "ports")
                .wide(8)
                .no_data("No implausible counter."),
            lines("Latency from sending to acknowledgement", Unit::Seconds)
                .description("Latency of the last request of the slowest agents. Above their sampling interval they fall behind.")
                .query(format!("topk(10, fabriclens_agent_uplink_latency_seconds{{{h}}})"), "{{host}}")
                .link(Link::Host)
                .wide(8),
            lines("Clock steps", Unit::Count)
                .description("Clock steps in the last hour. More than one: NTP does not control this clock, and the order in \
                    post-mortems is unreliable.")
                .query(format!("increase(fabriclens_agent_clock_steps_total{{{h}}}[1h]) > 0"), "{{host}}")
                .link(Link::Host)
                .wide(8)
                .no_data("No clock stepped."),
        ],
    )
}

fn ingest() -> Row {
    row(
        "Ingest",
        vec![
            stacked("Samples, by protocol", Unit::PerSecond)
                .description("Samples by protocol. A step down means that agents are silent.")
                .query("sum by (source) (rate(fabriclens_ingest_samples_total[$__rate_interval])) > 0", "{{source}}")
                .wide(8),
            lines("Samples rejected, by reason", Unit::PerSecond)
                .description("future: the clock of a sender is ahead. too_old: older than retention. conflict: two agents with one \
                    name. series_limit: too many series.")
                .query("sum by (reason) (rate(fabriclens_ingest_rejected_total[$__rate_interval])) > 0", "{{reason}}")
                .wide(8)
                .no_data("No sample is rejected."),
            lines("Requests refused, by reason", Unit::PerSecond)
                .description("Refused requests, not samples: senders keep them and retry. busy: the collector is at its limit; \
                    memory: near limits.memory; senders: no memory for more hosts; stopping: a restart. late are old \
                    samples, which have the lowest priority.")
                .query(
                    "sum by (rank, reason) (rate(fabriclens_ingest_shed_total[$__rate_interval])) > 0",
                    "{{rank}} {{reason}}",
                )
                .wide(8)
                .no_data("No request is refused."),
            lines("Memory of the collector", Unit::Bytes)
                .description("Resident memory, its limit, and the part used by block indexes for queries. From 70 % on new hosts \
                    are refused, from 85 % on old samples, from 95 % on everything.")
                .query("max(fabriclens_memory_bytes)", "used")
                .query("max(fabriclens_memory_limit_bytes)", "limit")
                .query("max(fabriclens_store_index_bytes)", "indexes of blocks")
                .wide(8),
            lines("Senders", Unit::Count)
                .description("Hosts, or addresses for senders of several hosts. Refused senders do not fit in memory: raise \
                    limits.memory, or reduce series.")
                .query("sum(fabriclens_ingest_senders)", "served")
                .query("sum(fabriclens_ingest_senders_away) > 0", "refused")
                .wide(8),
            lines("Time to make a request durable", Unit::Seconds)
                .description("Median and 99th percentile. A slow disk shows here.")
                .query(
                    "histogram_quantile(0.5, sum by (le) (rate(fabriclens_ingest_append_seconds_bucket[$__rate_interval])))",
                    "median",
                )
                .query(
                    "histogram_quantile(0.99, sum by (le) (rate(fabriclens_ingest_append_seconds_bucket[$__rate_interval])))",
                    "99 %",
                )
                .wide(8),
            lines("Appends, one at a time", Unit::Share)
                .description("Share of the time in which an append held the lock of the log. Near 100 %, more cores do not \
                    store more samples: spread them over several collectors.")
                .query("sum(rate(fabriclens_store_append_held_seconds_total[$__rate_interval]))", "holding the lock")
                .query("sum(rate(fabriclens_store_append_wait_seconds_total[$__rate_interval]))", "waiting, all together")
                .wide(8),
            lines("Forwarded to remote engines", Unit::PerSecond)
                .description("Samples accepted by each remote engine.")
                .query("sum by (queue) (rate(fabriclens_forward_samples_total[$__rate_interval]))", "{{queue}}")
                .wide(8)
                .no_data("Nothing is forwarded."),
            lines("Forward queue", Unit::Bytes)
                .description("Bytes on disk. Growing: the remote engine is away or too slow; what does not fit is dropped and \
                    counted.")
                .query("max by (queue) (fabriclens_forward_pending_bytes)", "{{queue}}")
                .wide(8)
                .no_data("Nothing is forwarded."),
            lines("Active judges", Unit::Count)
                .description("What each ingest collector finds: 1 is right. 0: nothing is judged; more: each judges a part.")
                .query("max by (instance) (fabriclens_judge_active)", "{{instance}}")
                .wide(8)
                .no_data("No collector has the role ingest."),
            lines("Messages about incidents", Unit::PerSecond)
                .description("Messages to Alertmanagers and webhooks. failed: will be retried; refused: rejected by the receiver, \
                    check its log.")
                .query(
                    "sum by (receiver, outcome) (rate(fabriclens_notifications_total[$__rate_interval]))",
                    "{{receiver}} {{outcome}}",
                )
                .wide(8)
                .no_data("No message is sent."),
        ],
    )
}

fn store() -> Row {
    row(
        "Store",
        vec![
            lines("Series in memory", Unit::Count)
                .description("Series in the head. Steps up: new hosts, jobs, or a label that changes too often.")
                .query("max(fabriclens_store_head_series)", "series")
                .wide(8),
            lines("On disk", Unit::Bytes)
                .description("Blocks, and the log that is not yet in blocks.")
                .query("max(fabriclens_store_block_bytes)", "blocks")
                .query("max(fabriclens_store_wal_bytes)", "log")
                .wide(8),
            lines("Damage", Unit::Count)
                .description("Damaged data found since the start. Not 0: the disk lost data; the collector's log names the files.")
                .query("max(fabriclens_store_damage)", "damaged")
                .threshold(1.0, "red")
                .wide(8),
        ],
    )
}

fn queries() -> Row {
    row(
        "Queries and verdicts",
        vec![
            lines("Query latency, 99 %", Unit::Seconds)
                .description("Latency by endpoint. Above a second, query less or give the collector more CPU.")
                .query(
                    "histogram_quantile(0.99, sum by (endpoint, le) (rate(fabriclens_query_seconds_bucket[$__rate_interval])))",
                    "{{endpoint}}",
                )
                .wide(8),
            lines("Memory of queries", Unit::Bytes)
                .description("Memory held by queries. At its limit further queries wait.")
                .query("max(fabriclens_query_memory_bytes)", "memory")
                .wide(8),
            lines("Evaluation time", Unit::Seconds)
                .description("Mean time of one evaluation of live data. Above half a second verdicts are late.")
                .query(
                    "sum by (part) (rate(fabriclens_verdict_seconds_sum[$__rate_interval])) \
                     / sum by (part) (rate(fabriclens_verdict_seconds_count[$__rate_interval]))",
                    "{{part}}",
                )
                .threshold(0.5, "red")
                .wide(8),
        ],
    )
}
