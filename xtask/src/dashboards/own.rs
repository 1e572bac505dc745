//! Can what is seen be believed? The health of Fabriclens itself.

use super::common::HEARD;
use super::panel::{Dashboard, Link, Row, Unit, Var, lines, row, stacked, stat, table};

pub fn dashboard() -> Dashboard {
    Dashboard {
        name: "own",
        title: "Fabriclens: Itself",
        says: "Can what is seen be believed? Agents that tell nothing, samples that were dropped, what it costs. While anything is \
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
            stat("Agents that tell", Unit::Count)
                .says("Agents heard of in the last minute.")
                .ask(format!("count({HEARD}) or vector(0)"), "agents"),
            stat("Agents gone quiet", Unit::Count)
                .says("Heard of in the last six hours, and not in the last minute: the table below names them.")
                .ask(
                    format!(
                        "count(max by (host) (max_over_time(fabriclens_agent_start_time_seconds[6h:5m])) unless on (host) \
                         ({HEARD})) or vector(0)"
                    ),
                    "quiet",
                )
                .step(1.0, "red"),
            stat("Samples a second", Unit::PerSecond)
                .says("Made durable by the collector.")
                .ask("sum(rate(fabriclens_ingest_samples_total[$__rate_interval]))", "samples"),
            stat("Samples not taken", Unit::PerSecond)
                .says("Refused by the collector: by reason below.")
                .ask("sum(rate(fabriclens_ingest_rejected_total[$__rate_interval])) or vector(0)", "refused")
                .step(0.001, "red"),
            stat("Store fails", Unit::Count)
                .says("1: samples cannot be made durable, or blocks cannot be written. Look at the disk and the collector's log now.")
                .ask("max(fabriclens_store_log_failing) + max(fabriclens_store_maintenance_failing)", "fails")
                .step(1.0, "red"),
            stat("Runs since", Unit::Seconds)
                .says("Age of the collector's process. Often small: it is killed (memory?) and started again.")
                .ask("time() - max(fabriclens_start_time_seconds)", "age"),
        ],
    )
}

fn agents() -> Row {
    let h = r#"host=~"$host""#;
    row(
        "Agents",
        vec![
            table("Quiet, or wrong clocks", Unit::Seconds)
                .says("Seconds since each of these agents was heard of. Always about the same: its clock is behind. Growing: it is away. \
                       `systemctl status fabriclens-agent`, `fabriclens-agent doctor`, `chronyc tracking`.")
                .ask(
                    format!(
                        "max by (host) (time() - timestamp(fabriclens_agent_start_time_seconds{{{h}}})) > 30 or on (host) \
                         max by (host) (time() - max_over_time(timestamp(fabriclens_agent_start_time_seconds{{{h}}})[6h:5m])) \
                         unless on (host) fabriclens_agent_start_time_seconds{{{h}}}"
                    ),
                    "since",
                )
                .link(Link::Host)
                .wide(8)
                .none("All tell, and their clocks are right."),
            table("Samplers that do not read", Unit::Count)
                .says("Sources that fail or hang. `fabriclens-agent doctor` on that host says why, and what would help.")
                .ask(
                    format!(
                        "max by (host, sampler, target, state) (fabriclens_agent_sampler_state{{state=~\"error|stalled\",{h}}}) > 0"
                    ),
                    "is",
                )
                .link(Link::Host)
                .wide(16)
                .none("All samplers read, or have nothing to read."),
            lines("Lost on the way", Unit::PerSecond)
                .says("Points that agents dropped. ring: memory was full (collector away or slow, and no spool that takes them). spool_size, \
                       spool_age: it was away longer than the spool lasts. Others: what was sent was refused.")
                .ask(
                    format!("sum by (host, reason) (rate(fabriclens_agent_uplink_dropped_total{{{h}}}[$__rate_interval])) > 0"),
                    "{{host}} {{reason}}",
                )
                .ask(
                    format!("sum by (host) (rate(fabriclens_agent_uplink_rejected_total{{{h}}}[$__rate_interval])) > 0"),
                    "{{host}} refused",
                )
                .link(Link::Host)
                .wide(8)
                .none("Nothing is lost."),
            lines("Waits on agents' disks", Unit::Count)
                .says("Points in spools: the collector was away, and they are delivered at a pace now. Growing: it does not take them.")
                .ask(format!("sum by (host) (fabriclens_agent_uplink_waiting{{place=\"spool\",{h}}}) > 0"), "{{host}}")
                .link(Link::Host)
                .wide(8)
                .none("Nothing waits."),
            table("Accounts that are off, disks that fail", Unit::Count)
                .says("accounts: points sampled that are neither delivered, nor waiting, nor counted as dropped: an error of the agent. \
                       spool: its disk takes nothing; samples wait in memory alone. `/healthz` of that agent says why.")
                .ask(format!("max by (host) (fabriclens_agent_uplink_unaccounted{{{h}}}) > 0"), "accounts")
                .ask(format!("max by (host) (fabriclens_agent_spool_failing{{{h}}}) > 0"), "spool")
                .link(Link::Host)
                .wide(8)
                .none("All points are accounted for."),
            lines("Processor time of agents", Unit::Share)
                .says("Of one core; the costliest.")
                .ask(
                    format!("topk(10, rate(fabriclens_agent_process_cpu_seconds_total{{{h}}}[$__rate_interval]))"),
                    "{{host}}",
                )
                .link(Link::Host)
                .wide(8),
            lines("Memory of agents", Unit::Bytes)
                .says("Resident; the largest.")
                .ask(format!("topk(10, fabriclens_agent_process_memory_bytes{{{h}}})"), "{{host}}")
                .link(Link::Host)
                .wide(8),
            lines("Counters that did not simply grow", Unit::PerSecond)
                .says("Resets, wraps and values that cannot be. Many resets: somebody clears counters (perfquery -R).")
                .ask(
                    format!("sum by (reason) (rate(fabriclens_agent_discontinuities_total{{{h}}}[$__rate_interval]))"),
                    "{{reason}}",
                )
                .wide(8)
                .none("All grew."),
            table("Counters that cannot be right", Unit::Count)
                .says("Verdicts leave them out where others show better. stands_still: the agent, the driver or the job there is stuck. \
                       leaps: more than twice what the link carries. pause_not_felt, pause_not_counted: NIC and switch say different of \
                       pause. The runbook counters-doubted says what to do.")
                .ask("max by (node, port, reason) (fabriclens_doubted_counters) > 0", "ports")
                .wide(8)
                .none("None are in doubt."),
            lines("Time from sending to acknowledgement", Unit::Seconds)
                .says("The slowest agents' last request. Above their sampling period they fall behind.")
                .ask(format!("topk(10, fabriclens_agent_uplink_latency_seconds{{{h}}})"), "{{host}}")
                .link(Link::Host)
                .wide(8),
            lines("Clocks that stepped", Unit::Count)
                .says("Steps in the last hour. More than one: NTP does not hold this clock, and order in post-mortems is not to be \
                       trusted.")
                .ask(format!("increase(fabriclens_agent_clock_steps_total{{{h}}}[1h]) > 0"), "{{host}}")
                .link(Link::Host)
                .wide(8)
                .none("No clock stepped."),
        ],
    )
}

fn ingest() -> Row {
    row(
        "What comes in",
        vec![
            stacked("Samples, by the way they came", Unit::PerSecond)
                .says("A step down is agents that are away.")
                .ask("sum by (source) (rate(fabriclens_ingest_samples_total[$__rate_interval])) > 0", "{{source}}")
                .wide(8),
            lines("Refused, by reason", Unit::PerSecond)
                .says("future: a sender's clock is ahead. too_old: older than retention. conflict: two agents under one name. \
                       series_limit: too many series.")
                .ask("sum by (reason) (rate(fabriclens_ingest_rejected_total[$__rate_interval])) > 0", "{{reason}}")
                .wide(8)
                .none("All is taken."),
            lines("Told to come back, by reason", Unit::PerSecond)
                .says("Requests, not samples: senders keep them and come again. busy: more than it can do; memory: near limits.memory; \
                       senders: no memory for more hosts; \
                       stopping: a restart. late are old samples, which go last.")
                .ask(
                    "sum by (rank, reason) (rate(fabriclens_ingest_shed_total[$__rate_interval])) > 0",
                    "{{rank}} {{reason}}",
                )
                .wide(8)
                .none("All is taken at once."),
            lines("Memory of the collector", Unit::Bytes)
                .says("Resident, what it may have, and what of it indexes of blocks take that questions look into. \
                       From 70 % on new hosts are told to come back, from 85 % on old samples, from 95 % on all.")
                .ask("max(fabriclens_memory_bytes)", "used")
                .ask("max(fabriclens_memory_limit_bytes)", "limit")
                .ask("max(fabriclens_store_index_bytes)", "indexes of blocks")
                .wide(8),
            lines("Senders", Unit::Count)
                .says("Hosts, or addresses for who sends for several. There is no memory for those told to come back: \
                       limits.memory, or fewer series.")
                .ask("sum(fabriclens_ingest_senders)", "served")
                .ask("sum(fabriclens_ingest_senders_away) > 0", "told to come back")
                .wide(8),
            lines("Time to make a request durable", Unit::Seconds)
                .says("Median and 99 %. A slow disk shows here.")
                .ask(
                    "histogram_quantile(0.5, sum by (le) (rate(fabriclens_ingest_append_seconds_bucket[$__rate_interval])))",
                    "median",
                )
                .ask(
                    "histogram_quantile(0.99, sum by (le) (rate(fabriclens_ingest_append_seconds_bucket[$__rate_interval])))",
                    "99 %",
                )
                .wide(8),
            lines("Forwarded to other engines", Unit::PerSecond)
                .says("Samples that each remote took.")
                .ask("sum by (queue) (rate(fabriclens_forward_samples_total[$__rate_interval]))", "{{queue}}")
                .wide(8)
                .none("Nothing is forwarded."),
            lines("Waits to be forwarded", Unit::Bytes)
                .says("On disk. Growing: the remote is away or too slow; what does not fit is dropped and counted.")
                .ask("max by (queue) (fabriclens_forward_pending_bytes)", "{{queue}}")
                .wide(8)
                .none("Nothing is forwarded."),
            lines("Messages about incidents", Unit::PerSecond)
                .says("To Alertmanagers and webhooks. failed: tried again; refused: the receiver does not want it, look at its log.")
                .ask(
                    "sum by (receiver, outcome) (rate(fabriclens_notifications_total[$__rate_interval]))",
                    "{{receiver}} {{outcome}}",
                )
                .wide(8)
                .none("Nobody is told."),
        ],
    )
}

fn store() -> Row {
    row(
        "Store",
        vec![
            lines("Series in memory", Unit::Count)
                .says("Steps up: new hosts, jobs, or a label that changes too often.")
                .ask("max(fabriclens_store_head_series)", "series")
                .wide(8),
            lines("On disk", Unit::Bytes)
                .says("Blocks and the log that is not yet in blocks.")
                .ask("max(fabriclens_store_block_bytes)", "blocks")
                .ask("max(fabriclens_store_wal_bytes)", "log")
                .wide(8),
            lines("Damaged places", Unit::Count)
                .says("Found since the start. Not 0: the disk lost something; the log of the collector names it.")
                .ask("max(fabriclens_store_damage)", "damaged")
                .step(1.0, "red")
                .wide(8),
        ],
    )
}

fn queries() -> Row {
    row(
        "Queries and verdicts",
        vec![
            lines("Time of queries, 99 %", Unit::Seconds)
                .says("By endpoint. Dashboards wait for these; above a second, ask for less or give the collector more.")
                .ask(
                    "histogram_quantile(0.99, sum by (endpoint, le) (rate(fabriclens_query_seconds_bucket[$__rate_interval])))",
                    "{{endpoint}}",
                )
                .wide(8),
            lines("Memory of queries", Unit::Bytes)
                .says("What queries hold. At its limit others wait.")
                .ask("max(fabriclens_query_memory_bytes)", "memory")
                .wide(8),
            lines("Time to judge", Unit::Seconds)
                .says("Mean time of one look at live data. Above half a second verdicts come late.")
                .ask(
                    "sum by (part) (rate(fabriclens_verdict_seconds_sum[$__rate_interval])) \
                     / sum by (part) (rate(fabriclens_verdict_seconds_count[$__rate_interval]))",
                    "{{part}}",
                )
                .step(0.5, "red")
                .wide(8),
        ],
    )
}
