//! Reports over a store that the test fills, compared with the stored samples.

use crate::common::{Fabric, job};
use fabriclens_report::model::{CauseKind, Figure, Grade, Method, Over, Pattern, Shares, StandsOut};
use fabriclens_report::{html, json, markdown, schema};

const IO: &str = "fabric_port_io_bytes_total";

#[track_caller]
fn close(figure: &Figure, grade: Grade, want: f64) {
    let got = figure.part(grade).unwrap_or(f64::NAN);
    assert!((got - want).abs() <= want.abs() * 1e-6, "{got}, not {want}: {figure:?}");
}

/// Two of three hosts send 1 GB/s per port for an hour; the third has no agent.
fn hour(fabric: &Fabric) {
    for (host, device) in [("h1", "mlx5_0"), ("h1", "mlx5_1"), ("h2", "mlx5_0"), ("h2", "mlx5_1")] {
        fabric.port(host, device, IO, "transmit", 1e9, 3660);
        fabric.port(host, device, IO, "receive", 2e9, 3660);
        fabric.port(host, device, "fabric_rdma_io_bytes_total", "transmit", 9e8, 3660);
    }
}

const HOSTS: [(&str, &[&str]); 3] = [("h1", &[]), ("h2", &[]), ("h3", &[])];

#[test]
fn totals_exclude_shared_ports() {
    let fabric = Fabric::new();
    hour(&fabric);
    // The first port is paused for six seconds in each of ten minutes; h2 pauses its switch half of the time.
    let labels = |host, direction| {
        let name = ("__name__", "fabric_pfc_pause_seconds_total");
        [name, ("host", host), ("device", "mlx5_0"), ("port", "1"), ("direction", direction), ("priority", "3")]
    };
    let paused = |s: i64| ((s - 1800).clamp(0, 600) as f64) / 10.0;
    fabric.put(&labels("h1", "receive"), (-60..=3660).step_by(10), paused);
    fabric.put(&labels("h2", "receive"), (-60..=3660).step_by(10), |_| 7.0);
    fabric.put(&labels("h2", "transmit"), (-60..=3660).step_by(10), |s| s as f64 * 0.5);
    let own = job("1", "bert", (0, Some(3600)), &HOSTS);
    let others =
        [job("2", "noise", (1800, None), &[("h2", &["mlx5_1"])]), job("3", "later", (3599, None), &HOSTS), own.clone()];
    let report = fabric.report(&own, &others, 4000);

    assert_eq!((report.range.method, report.range.step_seconds), (Method::Samples, 60.0));
    close(&report.traffic.transmitted, Grade::Exclusive, 3.0 * 3.6e12);
    close(&report.traffic.transmitted, Grade::Shared, 3.6e12);
    close(&report.traffic.received, Grade::Exclusive, 3.0 * 7.2e12);
    close(&report.traffic.mean_rate, Grade::Exclusive, 3e9);
    close(&report.traffic.peak_rate, Grade::Exclusive, 3e9);
    let rail = &report.traffic.rails[1];
    assert_eq!((rail.rail.as_str(), rail.ports, rail.of_mean), ("mlx5_1", 2, Some(1.0)));
    close(&rail.transmitted, Grade::Shared, 3.6e12);
    let lines: Vec<_> = report.traffic.plot.lines.iter().map(|l| (l.name.as_str(), l.grade, l.points.len())).collect();
    assert_eq!(
        lines,
        [("mlx5_0", Grade::Exclusive, 60), ("mlx5_1", Grade::Exclusive, 60), ("mlx5_1", Grade::Shared, 60)]
    );

    close(&report.summary.cost.at_most, Grade::Exclusive, 60.0);
    close(&report.summary.cost.at_most_share, Grade::Exclusive, 1.0 / 60.0);
    close(&report.summary.cost.mean, Grade::Exclusive, 30.0);
    let worst = report.congestion.suffered[0].lines.iter().find(|l| l.name == "worst port").unwrap();
    assert!(worst.points[29] == Some(0.0) && (worst.points[30].unwrap() - 0.1).abs() < 1e-9, "{:?}", worst.points);
    // The port that causes congestion ranks first.
    assert_eq!((report.congestion.ports[0].host.as_str(), report.summary.cause.kind), ("h2", CauseKind::SlowReceiver));
    assert!(report.summary.cause.text.contains("h2 mlx5_0"), "{}", report.summary.cause.text);

    assert_eq!((report.quality.exclusive_ports, report.quality.shared_ports), (3, 1));
    let n = &report.neighbours;
    assert_eq!(n.len(), 1, "one second is not sharing: {n:?}");
    assert_eq!((n[0].id.as_str(), n[0].shares, n[0].hosts, n[0].seconds), ("2", Shares::Devices, 1, 1800));
}

#[test]
fn unmeasured_hosts_are_not_zero() {
    let fabric = Fabric::new();
    hour(&fabric);
    let report = fabric.report(&job("1", "bert", (0, Some(3600)), &HOSTS), &[], 4000);
    assert_eq!((report.quality.measured, &report.quality.missing[..]), (2, &["h3".to_owned()][..]));
    let h3 = report.traffic.hosts.iter().find(|h| h.host == "h3").unwrap();
    assert!(!h3.measured && h3.transmitted.parts.is_empty());
    // Without counters of pauses there is no figure.
    assert!(report.congestion.paused.parts.is_empty() && report.summary.cost.at_most.parts.is_empty());
    assert_eq!((report.summary.cause.kind, report.peers.pattern), (CauseKind::Unknown, Pattern::Unknown));
    let (html, markdown) = (html(&report), markdown(&report));
    assert!(html.contains("1 of 3 hosts were not measured") && html.contains("not measured</span>"));
    assert!(markdown.contains("| Time lost, at most | not measured |"));

    let nothing = fabric.report(&job("2", "", (0, None), &[("h9", &[])]), &[], 100);
    assert!(nothing.traffic.transmitted.parts.is_empty() && nothing.traffic.plot.lines.is_empty());
    assert_eq!((nothing.quality.measured, nothing.job.end_ns), (0, None));
    assert!(super_short(&fabric).traffic.received.parts.is_empty());
}

/// A job that ends when it starts.
fn super_short(fabric: &Fabric) -> fabriclens_report::Report {
    fabric.report(&job("4", "", (7, Some(7)), &[("h9", &[])]), &[], 100)
}

#[test]
fn running_job_covers_its_own_devices() {
    let fabric = Fabric::new();
    hour(&fabric);
    let report = fabric.report(&job("1", "", (100, None), &[("h1", &["mlx5_1"]), ("h2", &[])]), &[], 700);
    close(&report.traffic.transmitted, Grade::Exclusive, 3.0 * 600e9);
    assert!(report.job.end_ns.is_none() && html(&report).contains("still running"));
}

#[test]
fn long_jobs_use_checkpoints_and_rollups() {
    let fabric = Fabric::new();
    let day = 200_000;
    for host in ["h1", "h2"] {
        let labels = [("__name__", IO), ("host", host), ("device", "mlx5_0"), ("port", "1"), ("direction", "transmit")];
        // The counter resets at three quarters.
        fabric.put(
            &labels,
            (0..=day).step_by(100),
            |s| if s < 150_000 { s as f64 } else { (s - 150_000) as f64 } * 1e6,
        );
    }
    let rollup = [
        ("__name__", "fabric_job_pause_share_max_ratio"),
        ("job_id", "1"),
        ("attribution", "exclusive"),
        ("direction", "receive"),
    ];
    fabric.put(&rollup, (0..=day).step_by(100), |_| 0.25);
    let rate = [
        ("__name__", "fabric_job_io_bytes_per_second"),
        ("job_id", "1"),
        ("attribution", "exclusive"),
        ("direction", "transmit"),
        ("rail", "r0"),
    ];
    fabric.put(&rate, (0..=day).step_by(100), |_| 2e6);
    let report = fabric.report(&job("1", "", (0, Some(day)), &[("h1", &[]), ("h2", &[]), ("h3", &[])]), &[], day + 100);
    assert_eq!(report.range.method, Method::Samples, "two ports are few");
    close(&report.traffic.transmitted, Grade::Exclusive, 2.0 * 199_900.0 * 1e6);

    for n in 0..2 {
        let labels = [
            ("__name__", IO),
            ("host", "h3"),
            ("device", "mlx5_0"),
            ("port", ["1", "2"][n]),
            ("direction", "transmit"),
        ];
        fabric.put(&labels, (0..=day).step_by(100), |s| s as f64 * 1e6);
    }
    let report = fabric.report(&job("1", "", (0, Some(day)), &[("h1", &[]), ("h2", &[]), ("h3", &[])]), &[], day + 100);
    assert_eq!(report.range.method, Method::Checkpoints);
    // A reset between checkpoints is seen, but what was counted before it is not: up to 150,000 s, then from 0.
    let known = 2.0 * 150_000e6 + 2.0 * 200_000e6;
    assert!(report.traffic.transmitted.part(Grade::Exclusive).unwrap() <= 800_000e6 + 1.0);
    assert!(
        report.traffic.transmitted.part(Grade::Exclusive).unwrap() >= known - 1.0,
        "{:?}",
        report.traffic.transmitted
    );
    close(&report.summary.cost.at_most, Grade::Exclusive, 0.25 * day as f64);
    let line = &report.traffic.plot.lines[0];
    assert_eq!((line.name.as_str(), line.points.last().unwrap()), ("r0", &Some(2e6)));
    assert!(report.quality.gaps.is_empty(), "{:?}", report.quality.gaps);
}

#[test]
fn leaf_neighbors_use_the_topology_of_the_time() {
    let fabric = Fabric::new();
    for (host, switch) in [("h1", "leaf1"), ("h2", "leaf2"), ("h3", "leaf1")] {
        let labels = [("__name__", "fabric_port_info"), ("host", host), ("device", "mlx5_0"), ("switch", switch)];
        fabric.put(&labels, (0..=3600).step_by(30), |_| 1.0);
    }
    let own = job("1", "", (0, Some(3600)), &[("h1", &[])]);
    let others = [job("2", "", (0, Some(3600)), &[("h2", &[])]), job("3", "", (0, Some(3600)), &[("h3", &[])])];
    let neighbours = |leaves: &[(&str, &str)]| {
        let leaves = leaves.iter().map(|(host, leaf)| ((*host).to_owned(), [(*leaf).to_owned()].into())).collect();
        let found = fabric.report_in(leaves, &own, &others, 4000).neighbours;
        found.into_iter().map(|n| n.id).collect::<Vec<_>>()
    };
    assert_eq!(neighbours(&[]), ["3"], "labels tell where no topology does");
    assert_eq!(neighbours(&[("h1", "leaf9"), ("h2", "leaf9")]), ["2"], "h1 was cabled otherwise than labels say now");
}

#[test]
fn tcp_job_is_flagged() {
    let fabric = Fabric::new();
    hour(&fabric);
    // The job's own group is there from its first second on, and has counted by then.
    for (group, rate, span) in [("job_1/step_0", 8e9, 1..=3600), ("system.slice", 5e9, -60..=3660)] {
        let labels = [
            ("__name__", "fabric_tcp_io_bytes_total"),
            ("host", "h1"),
            ("cgroup", group),
            ("destination", "rack"),
            ("direction", "transmit"),
        ];
        fabric.put(&labels, span, |s| rate * s as f64);
    }
    let seen =
        [("__name__", "fabric_job_processes"), ("host", "h1"), ("job", "1"), ("task", "1"), ("cgroup", "job_1/step_0")];
    fabric.put(&seen, (0..=3600).step_by(10), |_| 4.0);
    let report = fabric.report(&job("1", "", (0, Some(3600)), &[("h1", &[])]), &[], 4000);
    close(&report.transport.tcp, Grade::PerProcess, 8e9 * 3600.0);
    assert_eq!(report.transport.tcp.parts.len(), 1, "the host's own groups are not the job's");
    assert!(report.transport.red_flag.as_ref().unwrap().contains("over sockets"));
    assert_eq!(report.summary.cause.kind, CauseKind::Sockets);
}

#[test]
fn cnp_senders_reveal_an_incast() {
    let fabric = Fabric::new();
    hour(&fabric);
    for (host, device, rate) in [("h1", "mlx5_0", 10.0), ("h1", "mlx5_1", 10.0), ("h2", "mlx5_0", 500.0)] {
        fabric.port(host, device, "fabric_cnp_packets_total", "transmit", rate, 3660);
    }
    let labels = |host| {
        let name = ("__name__", "fabric_pfc_pause_seconds_total");
        [name, ("host", host), ("device", "mlx5_0"), ("port", "1"), ("direction", "receive"), ("priority", "3")]
    };
    fabric.put(&labels("h1"), (-60..=3660).step_by(10), |s| s as f64 * 0.05);
    let report = fabric.report(&job("1", "", (0, Some(3600)), &HOSTS), &[], 4000);
    let stands_out = report.traffic.straggler.as_ref().unwrap();
    assert_eq!(
        (stands_out.host.as_str(), stands_out.device.as_deref(), stands_out.by),
        ("h2", Some("mlx5_0"), StandsOut::Incast)
    );
    assert_eq!(report.summary.cause.kind, CauseKind::Incast);
    assert!(
        report.summary.points[0]
            .text
            .starts_with("The network cost this job at most 3 min (5.0 %, exclusive) of its 1 h.")
    );
}

#[test]
fn differing_settings_and_links_are_found() {
    let fabric = Fabric::new();
    hour(&fabric);
    let at = |metric, host, device, more: (&'static str, &'static str), value: f64| {
        let labels = [("__name__", metric), ("host", host), ("device", device), ("port", "1"), more];
        fabric.put(&labels, (0..=3600).step_by(10), |_| value);
    };
    for (host, device) in [("h1", "mlx5_0"), ("h1", "mlx5_1"), ("h2", "mlx5_0"), ("h2", "mlx5_1")] {
        let odd = (host, device) == ("h2", "mlx5_1");
        at("fabric_pfc_enabled", host, device, ("priority", "3"), if odd { 0.0 } else { 1.0 });
        at("fabric_port_rate_bytes_per_second", host, device, ("", ""), if odd { 25e9 } else { 50e9 });
        at("fabric_port_rate_max_bytes_per_second", host, device, ("", ""), 50e9);
    }
    let downs = [("__name__", "fabric_link_downs_total"), ("host", "h1"), ("device", "mlx5_0"), ("port", "1")];
    fabric.put(&downs, (-60..=3660).step_by(10), |s| if s > 100 { 2.0 } else { 0.0 });
    let report = fabric.report(&job("1", "", (0, Some(3600)), &HOSTS), &[], 4000);
    let found: Vec<String> = report.health.findings.iter().map(|f| format!("{}: {}", f.place, f.text)).collect();
    assert_eq!(
        found,
        [
            "h1 mlx5_0: the link went down 2 times",
            "h2 mlx5_1: the link runs below the maximum speed of the port: 200 of 400 Gb/s",
            "h2 mlx5_1: PFC (priority 3) is off here and on at 3 other ports of this job",
            "h2 mlx5_1: the link speed is 200 Gb/s here and 400 Gb/s at 3 other ports of this job",
        ]
    );
}

#[test]
fn hostile_names_are_escaped() {
    let fabric = Fabric::new();
    hour(&fabric);
    let name = "<script>alert(1)</script>\"'|`x`\u{202e}*b*";
    let report = fabric.report(&job("1<b>", name, (0, Some(3600)), &[("h1", &[]), ("h|2\"<i>", &[])]), &[], 4000);
    let page = html(&report);
    assert!(!page.contains("<script") && !page.contains("1<b>") && !page.contains("<i>") && !page.contains('\u{202e}'));
    assert!(page.contains("&lt;script&gt;alert(1)&lt;/script&gt;&quot;&#39;|`x`"));
    assert!(
        !page.contains("http://") && !page.contains("https://") && !page.contains("src="),
        "nothing from elsewhere"
    );
    let text = markdown(&report);
    assert!(
        text.starts_with(
            "# Communication report: 1&lt;b&gt; &lt;script&gt;alert(1)&lt;/script&gt;\"'\\|\\`x\\`\u{fffd}\\*b\\*\n"
        ),
        "{text}"
    );
    assert!(text.contains("h\\|2\"&lt;i&gt;"));
}

#[test]
fn tcp_job_has_pattern_and_slow_pair() {
    let fabric = Fabric::new();
    let put = |metric: &str, host: usize, peer: &str, job: &str, value: f64| {
        let (name, local) = (format!("h{host}"), format!("10.0.0.{host}"));
        let labels = [
            ("__name__", metric),
            ("host", &name),
            ("job", job),
            ("local", &local),
            ("peer", peer),
            ("scheduler", "slurm"),
        ];
        fabric.put(&labels, (30..=3570).step_by(30), |s| value * s as f64 / 3570.0);
    };
    let (io, rtt) = ("fabric_job_tcp_peer_io_bytes_total", "fabric_job_tcp_peer_rtt_seconds");
    // A ring of six, how it came together, a storage server, and a neighbour's connection.
    for host in 1..=6 {
        let next = format!("10.0.0.{}", host % 6 + 1);
        put(io, host, &next, "1", 5e12);
        put(rtt, host, &next, "1", if host == 4 { 2e-3 } else { 1e-4 });
        if (2..6).contains(&host) {
            put(io, host, "10.0.0.1", "1", 1e5);
        }
        put(io, host, "192.0.2.9", "1", 9e12);
        put(io, host, "10.0.0.2", "2", 5e12);
    }
    let hosts = ["h1", "h2", "h3", "h4", "h5", "h6"].map(|host| (host, &[][..]));
    let report = fabric.report(&job("1", "", (0, Some(3600)), &hosts), &[], 4000);
    let p = &report.peers;
    assert_eq!((p.pattern, p.pairs, p.unmatched), (Pattern::Ring, 6, 6), "{p:?}");
    assert_eq!(p.suspects, ["h4 to h5 (round trip 2.00 ms, the median of pairs is 100 µs)"]);
    let first = &p.list[0];
    assert_eq!((first.over, first.grade, first.bytes), (Over::Tcp, Grade::PerProcess, Some(5e12)));
    let (page, text) = (html(&report), markdown(&report));
    assert!(page.contains("<b>ring</b>: TCP connections with at least 30.0 TB between 6 pairs of hosts (and 3 with"));
    assert!(text.contains("| h4 | h5 | TCP | per process | 5.00 TB (per process) | 2.00 ms"), "{text}");
}

#[test]
fn schema_matches_the_report() {
    let fabric = Fabric::new();
    hour(&fabric);
    let report = fabric.report(&job("1", "", (0, Some(3600)), &HOSTS), &[], 4000);
    let back: fabriclens_report::Report = serde_json::from_str(&json(&report)).unwrap();
    assert_eq!(json(&back), json(&report));
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/report.schema.json");
    fabriclens_testing::golden(path, &schema());
}

#[test]
fn settings_that_drifted_are_findings_with_their_time() {
    let fabric = Fabric::new();
    for device in ["mlx5_0", "mlx5_1"] {
        fabric.port("h1", device, "fabric_port_io_bytes_total", "transmit", 1e9, 3660);
    }
    let drift = |device, setting, severity, reason, from: i64| {
        let labels = [
            ("__name__", "fabric_setting_drift"),
            ("host", "h1"),
            ("device", device),
            ("port", "1"),
            ("setting", setting),
            ("severity", severity),
            ("reason", reason),
        ];
        fabric.put(&labels, (from..3660).step_by(60), |_| 1.0);
    };
    drift("mlx5_0", "pfc_priorities", "critical", "far_end", 1800);
    drift("mlx5_0", "mtu", "warning", "majority", -60);
    drift("mlx5_1", "mtu", "warning", "majority", -60);
    drift("mlx5_0", "firmware", "info", "majority", -60);
    drift("mlx5_9", "mtu", "critical", "majority", -60);
    let report = fabric.report(&job("1", "bert", (0, Some(3600)), &[("h1", &["mlx5_0", "mlx5_1"])]), &[], 4000);
    let found: Vec<(&str, &str)> = report.health.findings.iter().map(|f| (f.place.as_str(), f.text.as_str())).collect();
    let pfc = "the setting pfc_priorities is not what the other end of the cable has, since 22:43:20";
    let mtu = "the setting mtu is not what most ports of the rail have";
    assert_eq!(found, [("h1 mlx5_0", pfc), ("h1 mlx5_0, h1 mlx5_1", mtu)]);
}
