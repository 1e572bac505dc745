//! Alerts on Fabriclens itself. While one of these fires, other alerts may be missing.

use super::Severity::{Critical, Warning};
use super::{Alert, fires, silent};

const HEARD: &str = "fabriclens_agent_start_time_seconds";
const H1: &str = r#"host="h1""#;

pub fn rules() -> Vec<Alert> {
    vec![
        agent_missing(),
        switch_silent(),
        subnet_reader_missing(),
        clock_skew(),
        counters_doubted(),
        agent_data_loss(),
        collector_data_loss(),
        collector_overloaded(),
        store_failing(),
        judge_missing(),
        certificate_expires(),
    ]
}

fn agent_missing() -> Alert {
    Alert {
        name: "FabriclensAgentMissing",
        severity: Warning,
        hold: "1m",
        expr: format!(
            "max by (host) (time() - timestamp({HEARD})) > 60\nor on (host)\nmax by (host) (time() - max_over_time(timestamp({HEARD})[6h:5m])) unless on (host) {HEARD}"
        ),
        summary: "{{ $labels.host }}: agent is silent",
        description: "The agent sent samples within six hours, and none for more than a minute. Is the host up? `systemctl \
                    status fabriclens-agent` there; can it reach the collector?",
        cases: vec![
            // Two minutes after the last sample, and an hour after.
            fires("7m", &[H1], &[(r#"fabriclens_agent_start_time_seconds{host="h1"}"#, "1x16 _x60")]),
            fires("65m", &[H1], &[(r#"fabriclens_agent_start_time_seconds{host="h1"}"#, "1x16 _x300")]).slow(),
            silent(
                "10m",
                &[
                    (r#"fabriclens_agent_start_time_seconds{host="h1"}"#, "1x60"),
                    (r#"fabriclens_agent_start_time_seconds{host="h2"}"#, "1x38 _x10"),
                ],
            ),
        ],
    }
}

fn switch_silent() -> Alert {
    const PUSHED: &str = "fabriclens_switch_last_received_timestamp_seconds";
    const S1: &str = r#"switch="leaf1""#;
    Alert {
        name: "FabriclensSwitchSilent",
        severity: Warning,
        hold: "1m",
        // By name only: a switch of which one source still tells is not silent. Three minutes are three scrapes of an exporter
        // that is read once a minute.
        expr: format!(
            "# Pushed before.\n(time() - max by (switch) (max_over_time({PUSHED}[6h])) > 180) < 6 * 3600\nor on (switch)\n# Is to be read by gNMI.\nmax by (switch) (fabriclens_gnmi_streams) == 0"
        ),
        summary: "{{ $labels.switch }}: no samples of the switch",
        description: "The switch sent samples within six hours and none for three minutes, or no gNMI stream of it works. \
                    Verdicts do not see its ports. `fabriclens switches` shows the source and, for gNMI, the reason.",
        cases: vec![
            // It sent the time of arrival until the sixth minute.
            fires(
                "12m",
                &[S1],
                &[(
                    r#"fabriclens_switch_last_received_timestamp_seconds{switch="leaf1",source="cumulus"}"#,
                    "0+15x24 360x40",
                )],
            ),
            // The collector restarted in the sixth minute, and its list of switches began anew.
            fires(
                "12m",
                &[S1],
                &[(
                    r#"fabriclens_switch_last_received_timestamp_seconds{switch="leaf1",source="cumulus"}"#,
                    "0+15x24 _x40",
                )],
            ),
            fires("10m", &[S1], &[(r#"fabriclens_gnmi_streams{switch="leaf1"}"#, "8x10 0x40")]),
            silent(
                "12m",
                &[
                    // One source ended, another goes on; and a switch that one of two collectors reads.
                    (
                        r#"fabriclens_switch_last_received_timestamp_seconds{switch="leaf1",source="cumulus"}"#,
                        "0+15x24 360x40",
                    ),
                    (
                        r#"fabriclens_switch_last_received_timestamp_seconds{switch="leaf1",source="snmp_exporter"}"#,
                        "0+15x60",
                    ),
                    (r#"fabriclens_gnmi_streams{switch="leaf2",instance="a"}"#, "0x60"),
                    (r#"fabriclens_gnmi_streams{switch="leaf2",instance="b"}"#, "3x60"),
                ],
            ),
            // Removed seven hours ago.
            silent(
                "450m",
                &[(r#"fabriclens_switch_last_received_timestamp_seconds{switch="leaf1",source="cumulus"}"#, "0x2000")],
            )
            .slow(),
        ],
    }
}

fn subnet_reader_missing() -> Alert {
    const CANDIDATES: &str = "fabriclens_subnet_reader_candidates";
    const SUBNET: &str = r#"subnet="0x1""#;
    const BY_H1: &str = r#"fabriclens_subnet_reader_candidates{subnet="0x1",host="h1"}"#;
    const BY_H2: &str = r#"fabriclens_subnet_reader_candidates{subnet="0x1",host="h2"}"#;
    Alert {
        name: "FabriclensSubnetReaderMissing",
        severity: Warning,
        hold: "2m",
        // A site with a single reader from the start has chosen so.
        expr: format!(
            "# One reads, and the others of the last hours are gone.\nmax by (subnet) ({CANDIDATES}) == 1 and on (subnet) max by (subnet) (max_over_time({CANDIDATES}[6h])) > 1\nor on (subnet)\n# Nobody reads.\n0 * max by (subnet) (max_over_time({CANDIDATES}[6h])) unless on (subnet) {CANDIDATES}"
        ),
        summary: "{{ $labels.subnet }}: {{ if eq $value 0.0 }}no host reads the InfiniBand subnet{{ else }}no other host can take over the reading of the InfiniBand subnet{{ end }}",
        description: "Within six hours more hosts could read the subnet whose lowest switch GUID is in the label. If the last \
                    one fails, verdicts do not see its switches. `fabriclens-agent doctor` on the hosts that have \
                    [ib_fabric] enabled, line ib_fabric.",
        cases: vec![
            fires("20m", &[SUBNET], &[(BY_H1, "2x40 1x60")]),
            // The reader failed, and the other one took over.
            fires("20m", &[SUBNET], &[(BY_H1, "2x40 _x60"), (BY_H2, "_x41 1x60")]),
            fires("20m", &[SUBNET], &[(BY_H1, "1x40 _x60")]),
            // Always alone; and another one reads since.
            silent("20m", &[(BY_H1, "1x100")]),
            silent("20m", &[(BY_H1, "3x40 _x60"), (BY_H2, "_x41 2x60")]),
        ],
    }
}

fn clock_skew() -> Alert {
    Alert {
        name: "FabriclensClockSkew",
        severity: Warning,
        // Longer than a silent agent looks like one with a clock that is behind.
        hold: "2m",
        expr: format!(
            "# Ahead: samples from the future (in a replay over the past every host has them).\nmax by (host) (timestamp({HEARD} offset -1m) - time()) > 5\nor on (host)\n\
             # Behind: frequent samples, of which the newest is old (a replay cannot see that they came late).\n(\n  max by (host) (time() - timestamp({HEARD})) > 15\n  and on (host)\n  max by (host) (count_over_time({HEARD}[1m] offset 1m)) >= 6\n  unless on (host)\n  max by (host) (time() - timestamp({HEARD})) > 60\n)\nor on (host)\n\
             # Repeated steps.\nmax by (host) (clamp_min(fabriclens_agent_clock_steps_total - fabriclens_agent_clock_steps_total offset 1h, 0)) >= 2"
        ),
        summary: "{{ $labels.host }}: clock is wrong",
        description: "Its samples have wrong times, so verdicts about it are late and post-mortems show a wrong order. \
                    `chronyc tracking` there; restart chronyd or ntpd.",
        cases: vec![
            // promtool has no samples from the future and no late ones: a live vmalert tests those clocks (collector/tests/integration/dashboards.rs).
            fires("70m", &[H1], &[(r#"fabriclens_agent_clock_steps_total{host="h1"}"#, "0x200 1x20 2x80")]).slow(),
            // Current samples; a single step; and a host that has just become silent.
            silent(
                "70m",
                &[
                    (r#"fabriclens_agent_start_time_seconds{host="h1"}"#, "1x280"),
                    (r#"fabriclens_agent_clock_steps_total{host="h1"}"#, "3x200 4x100"),
                    (r#"fabriclens_agent_start_time_seconds{host="h2"}"#, "1x262 _x30"),
                ],
            )
            .slow(),
        ],
    }
}

fn counters_doubted() -> Alert {
    const DOUBTED: &str = r#"fabriclens_doubted_counters{node="h1",port="mlx5_0/1",reason="leaps"}"#;
    Alert {
        name: "FabriclensCountersDoubted",
        severity: Warning,
        hold: "10m",
        expr: "max by (node, port, reason) (fabriclens_doubted_counters) == 1".to_owned(),
        summary: "{{ $labels.node }} {{ $labels.port }}: implausible counters ({{ $labels.reason }})",
        description: "Verdicts ignore these counters if others show better, so a problem of this port may stay undetected. \
                    stands_still: the agent, the driver or the job there is stuck. leaps: more than twice the line rate. \
                    pause_not_felt, pause_not_counted: NIC and switch disagree about pause.",
        cases: vec![
            fires("20m", &[r#"node="h1",port="mlx5_0/1",reason="leaps""#], &[(DOUBTED, "1x80")]),
            // It comes and goes.
            silent("20m", &[(DOUBTED, "1x20 _x40 1x35")]),
        ],
    }
}

fn agent_data_loss() -> Alert {
    let lost = |counter: &str| format!("sum by (host) (increase({counter}[5m])) > 0");
    Alert {
        name: "FabriclensAgentDataLoss",
        severity: Warning,
        hold: "0s",
        expr: format!(
            "{}\nor on (host)\n{}\nor on (host)\n{}\nor on (host)\nmax by (host) (fabriclens_agent_uplink_unaccounted) > 0",
            lost("fabriclens_agent_ring_dropped_total"),
            lost("fabriclens_agent_uplink_dropped_total{reason!=\"shutdown\"}"),
            lost("fabriclens_agent_uplink_rejected_total"),
        ),
        summary: "{{ $labels.host }}: samples are lost",
        description: "The agent dropped samples (the collector was away or slow), or the collector rejected them. The \
                    dashboard Fabriclens: Itself shows which; the agent's log names rejected ones.",
        cases: vec![
            fires("10m", &[H1], &[(r#"fabriclens_agent_ring_dropped_total{host="h1",ring="uplink"}"#, "0x30 40x20")]),
            fires("10m", &[H1], &[(r#"fabriclens_agent_uplink_rejected_total{host="h1"}"#, "0+1x50")]),
            fires(
                "10m",
                &[H1],
                &[(r#"fabriclens_agent_uplink_dropped_total{host="h1",reason="spool_size"}"#, "0x30 40x20")],
            ),
            fires("10m", &[H1], &[(r#"fabriclens_agent_uplink_unaccounted{host="h1"}"#, "0x30 7x20")]),
            // Long ago; and at a shutdown.
            silent(
                "20m",
                &[
                    (r#"fabriclens_agent_ring_dropped_total{host="h1",ring="uplink"}"#, "0x10 40x80"),
                    (r#"fabriclens_agent_uplink_dropped_total{host="h1",reason="shutdown"}"#, "0+1x80"),
                    (r#"fabriclens_agent_uplink_unaccounted{host="h1"}"#, "0x80"),
                ],
            ),
        ],
    }
}

fn collector_data_loss() -> Alert {
    Alert {
        name: "FabriclensCollectorDataLoss",
        severity: Warning,
        hold: "0s",
        expr: "sum by (reason) (increase(fabriclens_ingest_rejected_total[5m])) > 0\nor\nsum by (queue, reason) (increase(fabriclens_forward_dropped_total[5m])) > 0".to_owned(),
        summary: "The collector rejects or drops samples: {{ $labels.reason }} {{ $labels.queue }}",
        description: "With queue: samples queued for that remote engine were dropped. Without: samples of senders were \
                    rejected (future: a wrong clock; series_limit: too many series; conflict: two agents with one name).",
        cases: vec![
            fires("10m", &[r#"reason="future""#], &[(r#"fabriclens_ingest_rejected_total{source="otlp_grpc",reason="future"}"#, "0+9x50")]),
            fires("10m", &[r#"queue="mimir",reason="size""#], &[(r#"fabriclens_forward_dropped_total{queue="mimir",reason="size"}"#, "0x30 900x20")]),
            silent(
                "10m",
                &[
                    (r#"fabriclens_ingest_rejected_total{source="otlp_grpc",reason="future"}"#, "9x50"),
                    (r#"fabriclens_forward_dropped_total{queue="mimir",reason="size"}"#, "0x50"),
                ],
            ),
        ],
    }
}

fn collector_overloaded() -> Alert {
    Alert {
        name: "FabriclensCollectorOverloaded",
        severity: Warning,
        hold: "2m",
        expr: "sum by (reason) (rate(fabriclens_ingest_shed_total{reason!=\"stopping\"}[1m])) > 0".to_owned(),
        summary: "The collector is overloaded: {{ $labels.reason }}",
        description: "The load exceeds what the collector can take (busy, room), or memory is near its limit (memory). \
                    Nothing is lost while agents can keep their samples. Live samples have priority; old samples wait \
                    longest.",
        cases: vec![
            fires(
                "10m",
                &[r#"reason="memory""#],
                &[(r#"fabriclens_ingest_shed_total{source="otlp_grpc",rank="late",reason="memory"}"#, "0+9x80")],
            ),
            silent(
                "10m",
                &[
                    (r#"fabriclens_ingest_shed_total{source="otlp_grpc",rank="unknown",reason="stopping"}"#, "0+9x80"),
                    (r#"fabriclens_ingest_shed_total{source="otlp_grpc",rank="live",reason="busy"}"#, "9x80"),
                ],
            ),
        ],
    }
}

fn store_failing() -> Alert {
    Alert {
        name: "FabriclensStoreFailing",
        severity: Critical,
        hold: "0s",
        // Needs a scrape: neither its own store nor what it forwards has samples of a collector that cannot write.
        expr: "max(fabriclens_store_log_failing) == 1 or max(fabriclens_store_maintenance_failing) == 1".to_owned(),
        summary: "The collector cannot write",
        description: "Samples cannot be made durable, or blocks cannot be written: the disk is full, read-only or broken. \
                    Agents keep samples for minutes. Check the disk and the collector's log now. This rule needs a \
                    scrape of the collector: its own store and what it forwards stop at this moment.",
        cases: vec![
            fires("5m", &[""], &[("fabriclens_store_log_failing", "0x10 1x20")]),
            silent("5m", &[("fabriclens_store_log_failing", "0x30"), ("fabriclens_store_maintenance_failing", "0x30")]),
        ],
    }
}

fn judge_missing() -> Alert {
    const ACTIVE: &str = r#"fabriclens_judge_active{instance="ingest-1"}"#;
    const INGEST: &str = r#"instance="ingest-1""#;
    Alert {
        name: "FabriclensJudgeMissing",
        severity: Critical,
        // A standby takes over within ten seconds.
        hold: "30s",
        expr: "max by (instance) (fabriclens_judge_active) != 1".to_owned(),
        summary: "{{ $labels.instance }}: {{ if eq $value 0.0 }}no active judge{{ else }}{{ $value }} active judges{{ end }}",
        description: "This ingest collector finds no active judge, or more than one. Without one nothing is judged and samples \
                    wait; with two, each sees a part. /readyz of the ingest collector and of the judges says what each answers.",
        cases: vec![
            fires("8m", &[INGEST], &[(ACTIVE, "1x20 0x40")]),
            fires("8m", &[INGEST], &[(ACTIVE, "1x20 2x40")]),
            // A take-over; and another collector, which finds it all the time.
            silent("8m", &[(ACTIVE, "1x20 0 1x40"), (r#"fabriclens_judge_active{instance="ingest-2"}"#, "1x60")]),
        ],
    }
}

fn certificate_expires() -> Alert {
    const ENDS: &str = "fabriclens_tls_certificate_expiry_timestamp_seconds";
    Alert {
        name: "FabriclensCertificateExpires",
        severity: Warning,
        hold: "0s",
        expr: format!("min({ENDS} > 0) - time() < 14 * 86400\nor\nmax by (what) (fabriclens_reload_failing) > 0"),
        summary: "The collector's {{ if $labels.what }}new {{ $labels.what }} cannot be used{{ else }}certificate expires within two weeks{{ end }}",
        description: "When the certificate expires, the collector loses every agent and Grafana at once. Replace the files \
                    of tls.cert and tls.key; no restart is needed. With the label what: the new files (tls, tokens, \
                    server_ca: authorities of other servers) cannot be used, and the previous ones stay in force; the \
                    collector's log shows why.",
        cases: vec![
            fires("10m", &[""], &[(ENDS, "1000000x60")]),
            fires("10m", &[r#"what="tokens""#], &[(r#"fabriclens_reload_failing{what="tokens"}"#, "0x10 1x80")]),
            // Two years from now; and without TLS.
            silent("10m", &[(ENDS, "63072000x60"), (r#"fabriclens_reload_failing{what="tls"}"#, "0x60")]),
            silent("10m", &[(ENDS, "0x60")]),
        ],
    }
}
