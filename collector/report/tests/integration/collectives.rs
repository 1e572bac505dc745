//! The section about collectives: operations, stragglers, and whether the library and the counters agree.

use crate::common::{BEGIN, Fabric, job};
use fabriclens_report::model::{CauseKind, EarlierOperation, Incident, RankNetwork, Report, Severity, WaitsFor};
use fabriclens_report::{html, markdown};

const HOSTS: [(&str, &[&str]); 4] = [("gpu-01", &[]), ("gpu-02", &[]), ("gpu-03", &[]), ("gpu-04", &[])];
const HOUR: i64 = 3600;

/// Counters of four hosts with one port each; `paused` returns the paused fraction of a host at a second.
fn ports(paused: impl Fn(&str, i64) -> f64 + Copy) -> Fabric {
    let fabric = Fabric::new();
    for (host, _) in HOSTS {
        // A job that is paused sends less.
        let speed = |s: i64| if HOSTS.iter().any(|(h, _)| paused(h, s) > 0.0) { 4e9 } else { 10e9 };
        for direction in ["transmit", "receive"] {
            counter(&fabric, host, "fabric_port_io_bytes_total", direction, speed);
        }
        counter(&fabric, host, "fabric_pfc_pause_seconds_total", "receive", |s| paused(host, s));
        counter(&fabric, host, "fabric_pfc_pause_seconds_total", "transmit", |_| 0.0);
        let rate =
            [("__name__", "fabric_port_rate_bytes_per_second"), ("host", host), ("device", "mlx5_0"), ("port", "1")];
        fabric.put(&rate, (-60..=HOUR + 60).step_by(30), |_| 50e9);
    }
    fabric
}

fn counter(fabric: &Fabric, host: &str, metric: &str, direction: &str, rate: impl Fn(i64) -> f64) {
    let labels = [
        ("__name__", metric),
        ("host", host),
        ("device", "mlx5_0"),
        ("port", "1"),
        ("direction", direction),
        ("priority", "3"),
    ];
    let sum = |until: i64| (-60..until).step_by(10).map(|s| 10.0 * rate(s)).sum::<f64>();
    fabric.put(&labels, (-60..=HOUR + 60).step_by(10), |s| 1e12 + sum(s));
}

/// Inspector series of a host: 8 ranks with 10 operations a second; `mean` returns seconds of an operation.
fn inspector(fabric: &Fabric, host: &str, mean: impl Fn(i64) -> f64 + Copy, bandwidth: impl Fn(i64) -> f64) {
    operations(fabric, "AllReduce", host, mean, bandwidth);
}

fn operations(
    fabric: &Fabric,
    operation: &str,
    host: &str,
    mean: impl Fn(i64) -> f64 + Copy,
    bandwidth: impl Fn(i64) -> f64,
) {
    let labels = |metric| {
        [
            ("__name__", metric),
            ("host", host),
            ("job", "1"),
            ("communicator", "c0"),
            ("operation", operation),
            ("size", "32MiB"),
        ]
    };
    let seconds = || (30..HOUR).step_by(30);
    fabric.put(&labels("fabric_collective_executions_total"), seconds(), |s| 80.0 * s as f64);
    let time = |until: i64| (0..until).step_by(30).map(|s| 80.0 * 30.0 * mean(s)).sum::<f64>();
    fabric.put(&labels("fabric_collective_execution_time_seconds_total"), seconds(), time);
    let bytes = |until: i64| (0..until).step_by(30).map(|s| 80.0 * 30.0 * mean(s) * bandwidth(s)).sum::<f64>();
    fabric.put(&labels("fabric_collective_bus_bytes_total"), seconds(), bytes);
    fabric.put(&labels("fabric_collective_wait_seconds"), seconds(), |_| 0.0005);
}

/// A straggler of RAS, seen from one second to another.
fn behind(fabric: &Fabric, host: &str, seconds: std::ops::Range<i64>) {
    let address =
        [("__name__", "fabric_collective_host_info"), ("host", host), ("job", "1"), ("rank_host", "10.0.0.3")];
    fabric.put(&address, (30..HOUR).step_by(30), |_| 1.0);
    let labels = [
        ("__name__", "fabric_collective_straggler_info"),
        ("host", "gpu-01"),
        ("job", "1"),
        ("communicator", "c0"),
        ("rank", "21"),
        ("rank_host", "10.0.0.3"),
        ("gpu", "5"),
        ("pid", "4242"),
        ("reason", "behind"),
        ("operation", "AllReduce"),
    ];
    fabric.put(&labels, seconds.step_by(30), |_| 1.0);
}

/// What an agent counted of all-reduces on a host in a job that ended at a second: operations, their time, and bytes.
fn earlier_run(fabric: &Fabric, (job, host): (&str, &str), end: i64, [count, time, bytes]: [f64; 3]) {
    for (metric, value) in
        [("executions_total", count), ("execution_time_seconds_total", time), ("bus_bytes_total", bytes)]
    {
        let labels = [
            ("__name__", &*format!("fabric_collective_{metric}")),
            ("host", host),
            ("job", job),
            ("communicator", "c1"),
            ("operation", "AllReduce"),
            ("size", "32MiB"),
        ];
        fabric.put(&labels, (end - 60..=end).step_by(30), |_| value);
    }
}

fn report(fabric: &Fabric) -> Report {
    fabric.report(&job("1", "bert", (0, Some(HOUR)), &HOSTS), &[], HOUR + 400)
}

fn never(_: &str, _: i64) -> f64 {
    0.0
}

#[test]
fn operations_have_counts_times_and_bandwidth() {
    let fabric = ports(never);
    HOSTS.iter().for_each(|(host, _)| inspector(&fabric, host, |_| 0.004, |_| 40e9));
    let info = [
        ("__name__", "fabric_collective_communicator_info"),
        ("host", "gpu-01"),
        ("job", "1"),
        ("communicator", "c0"),
        ("size", "32"),
        ("library_version", "2.30.4"),
    ];
    fabric.put(&info, (30..HOUR).step_by(30), |_| 1.0);
    let report = report(&fabric);
    let collectives = &report.collectives;
    let operation = &collectives.operations[0];
    // The last sample is of second 3570: 80 operations a second on each of four hosts.
    assert_eq!((operation.operation.as_str(), operation.size.as_str()), ("AllReduce", "32MiB"));
    assert!((operation.executions - 4.0 * 80.0 * 3570.0).abs() < 1.0, "{operation:?}");
    assert!((operation.mean_seconds - 0.004).abs() < 1e-6 && operation.share == 1.0, "{operation:?}");
    assert_eq!((operation.bandwidth.map(f64::round), operation.wait_seconds), (Some(40e9), Some(0.0005)));
    // 32 ranks, 10 operations a second of 4 ms each.
    let share = collectives.share.unwrap();
    assert!((share - 0.04).abs() < 0.001, "{share}");
    let bandwidth = collectives.bandwidth.as_ref().unwrap();
    assert_eq!((bandwidth.usual.map(f64::round), bandwidth.line_rate), (Some(40e9), Some(50e9)));
    assert_eq!(bandwidth.unexplained, None);
    let conclusion = collectives.conclusion.as_ref().unwrap();
    assert_eq!((conclusion.waits_for, conclusion.agree), (WaitsFor::Nothing, Some(true)), "{}", conclusion.text);
    for rendered in [html(&report), markdown(&report)] {
        assert!(rendered.contains("320 Gb/s, which is 80.0 % of the line rate"), "{rendered}");
    }
}

#[test]
fn bandwidth_is_compared_with_earlier_runs_of_the_same_program() {
    let fabric = ports(never);
    HOSTS.iter().for_each(|(host, _)| inspector(&fabric, host, |_| 0.004, |_| 30e9));
    // Two runs of this program, and one of another; each has counters of a host that is not its own, too.
    let ended = [("a", "bert", -7200), ("b", "bert", -3600), ("c", "other", -1800)];
    let before = ended.map(|(id, name, end)| job(id, name, (end - 600, Some(end)), &HOSTS));
    for (id, bandwidth) in [("a", 40e9), ("b", 50e9), ("c", 10e9)] {
        let end = ended.iter().find(|one| one.0 == id).unwrap().2;
        HOSTS.iter().for_each(|(host, _)| earlier_run(&fabric, (id, host), end, [1000.0, 2.0, 2.0 * bandwidth]));
        earlier_run(&fabric, (id, "elsewhere"), end, [1e9, 1e9, 1e9]);
    }
    let got = fabric.report(&job("1", "bert", (0, Some(HOUR)), &HOSTS), &before, HOUR + 400);
    let found: Vec<_> = got.summary.earlier.iter().map(|e| (&*e.id, e.operation.clone())).collect();
    let operation = |bandwidth| Some(EarlierOperation { mean_seconds: 0.002, bandwidth: Some(bandwidth) });
    assert_eq!(found, [("c", None), ("b", operation(50e9)), ("a", operation(40e9))]);
    let texts: Vec<_> = got.summary.points.iter().map(|p| p.text.as_str()).collect();
    let want = "AllReduce from 32MiB reached a bus bandwidth of 240 Gb/s, slower than in the 2 jobs before it of this user, name and \
                size (400 Gb/s).";
    assert!(texts.contains(&want), "{texts:?}");
    assert!(fabriclens_report::digest(&got).earlier.ends_with(want));
    let html = html(&got);
    for cell in ["Mean time and bus bandwidth are those of AllReduce from 32MiB.", ">2.00 ms<", ">400 Gb/s<"] {
        assert!(html.contains(cell), "{cell}");
    }
}

#[test]
fn a_rank_behind_without_trouble_of_its_ports_waits_for_its_own_work() {
    let fabric = ports(never);
    behind(&fabric, "gpu-03", 1200..1800);
    let report = report(&fabric);
    let [straggler] = &report.collectives.stragglers[..] else { panic!("{:?}", report.collectives) };
    assert_eq!((straggler.host.as_str(), straggler.rank.as_str()), ("gpu-03", "rank 21, GPU 5, process 4242"));
    assert_eq!((straggler.network, straggler.seconds), (RankNetwork::Clean, 570.0));
    assert_eq!(straggler.start_ns, (BEGIN + 1_200_000) * 1_000_000);
    let conclusion = report.collectives.conclusion.as_ref().unwrap();
    assert_eq!((conclusion.waits_for, conclusion.agree), (WaitsFor::OwnWork, Some(true)), "{}", conclusion.text);
    assert_eq!(report.summary.cause.kind, CauseKind::Application, "{}", report.summary.cause.text);
    assert!(report.summary.points.iter().any(|p| p.text.contains("gpu-03, rank 21")), "{:?}", report.summary.points);
}

#[test]
fn a_rank_behind_is_told_with_its_distance_at_that_time() {
    let fabric = ports(never);
    behind(&fabric, "gpu-03", 1200..1800);
    let lag = [("__name__", "fabric_collective_lag"), ("host", "gpu-01"), ("job", "1"), ("operation", "AllReduce")];
    let at = |s: i64| if (1200..1800).contains(&s) { (s - 1170) as f64 / 1.5 } else { 900.0 };
    fabric.put(&[&lag[..], &[("communicator", "c0")]].concat(), (30..HOUR).step_by(30), at);
    fabric.put(&[&lag[..], &[("communicator", "c1")]].concat(), (30..HOUR).step_by(30), |_| 5000.0);
    let report = report(&fabric);
    let straggler = &report.collectives.stragglers[0];
    assert_eq!(straggler.operations_behind, Some(400.0));
    let text = &report.collectives.conclusion.as_ref().unwrap().text;
    assert!(
        text.contains("it was up to 400 AllReduce operations behind others, which waited in it; no port"),
        "{text}"
    );
    assert!(markdown(&report).contains("up to 400 AllReduce operations behind"));
}

#[test]
fn a_rank_behind_whose_port_is_paused_has_its_reason_in_the_network() {
    let fabric = ports(|host, s| if host == "gpu-03" && (1200..1800).contains(&s) { 0.4 } else { 0.0 });
    behind(&fabric, "gpu-03", 1200..1800);
    let report = report(&fabric);
    let straggler = &report.collectives.stragglers[0];
    assert_eq!(straggler.network, RankNetwork::Troubled, "{}", straggler.text);
    assert!(straggler.text.contains("gpu-03 mlx5_0 was paused for 40.0 % of that time"), "{}", straggler.text);
    let conclusion = report.collectives.conclusion.as_ref().unwrap();
    assert_eq!((conclusion.waits_for, conclusion.agree), (WaitsFor::OnePeer, Some(true)));
}

#[test]
fn a_rank_has_the_ports_of_its_process() {
    let told = |device: &str| {
        let fabric = ports(|host, s| if host == "gpu-03" && (1200..1800).contains(&s) { 0.4 } else { 0.0 });
        behind(&fabric, "gpu-03", 1200..1800);
        let common = [("host", "gpu-03"), ("job", "1"), ("pid", "99")];
        let info = [("__name__", "fabric_collective_rank_info"), ("communicator", "c0"), ("rank", "21")];
        let pair = [("__name__", "fabric_queue_pair_info"), ("device", device), ("port", "1"), ("local", "7")];
        fabric.put(&[&common[..], &info].concat(), (30..HOUR).step_by(30), |_| 1.0);
        fabric.put(&[&common[..], &pair].concat(), (30..HOUR).step_by(30), |_| 1.0);
        report(&fabric)
    };
    let own = told("mlx5_0");
    let straggler = &own.collectives.stragglers[0];
    assert_eq!((straggler.network, &*straggler.ports), (RankNetwork::Troubled, &["gpu-03 mlx5_0".to_owned()][..]));
    let end = "gpu-03 mlx5_0 was paused for 40.0 % of that time, and nothing else of the job was held back";
    assert!(straggler.text.ends_with(end), "{}", straggler.text);
    let other = told("mlx5_1");
    let straggler = &other.collectives.stragglers[0];
    assert_eq!(straggler.network, RankNetwork::Unknown, "{}", straggler.text);
    assert!(straggler.text.ends_with("but the queue pairs of its process that are listed are on other ports"));
    assert_eq!(other.collectives.conclusion.as_ref().unwrap().agree, None);
}

#[test]
fn a_rank_behind_on_a_host_without_counters_is_not_explained() {
    let fabric = ports(never);
    behind(&fabric, "gpu-09", 1200..1800);
    let straggler = &report(&fabric).collectives.stragglers[0];
    assert_eq!((straggler.host.as_str(), straggler.network), ("10.0.0.3", RankNetwork::Unknown), "{}", straggler.text);
}

#[test]
fn an_address_that_two_hosts_have_names_neither() {
    let fabric = ports(never);
    behind(&fabric, "gpu-03", 1200..1800);
    let other =
        [("__name__", "fabric_collective_host_info"), ("host", "gpu-02"), ("job", "1"), ("rank_host", "10.0.0.3")];
    fabric.put(&other, (30..HOUR).step_by(30), |_| 1.0);
    let straggler = &report(&fabric).collectives.stragglers[0];
    assert_eq!((straggler.host.as_str(), straggler.network), ("10.0.0.3", RankNetwork::Unknown), "{}", straggler.text);
}

#[test]
fn a_late_rank_of_a_host_is_named_with_its_time() {
    let fabric = ports(never);
    let labels = [
        ("__name__", "fabric_collective_late_info"),
        ("host", "gpu-02"),
        ("job", "1"),
        ("communicator", "c0"),
        ("operation", "AllReduce"),
        ("size", "32MiB"),
        ("member", "9"),
    ];
    fabric.put(&labels, (600..1200).step_by(30), |_| 1.0);
    let [straggler] = &report(&fabric).collectives.stragglers[..] else { panic!("one straggler") };
    assert_eq!((straggler.host.as_str(), straggler.rank.as_str(), straggler.seconds), ("gpu-02", "rank 9", 570.0));
    assert!(
        straggler.text.starts_with("came last to AllReduce 32MiB, and others waited for it; no port"),
        "{}",
        straggler.text
    );
}

#[test]
fn ranks_that_end_with_the_job_held_nobody_back() {
    let fabric = ports(never);
    behind(&fabric, "gpu-03", HOUR - 50..HOUR);
    assert_eq!(report(&fabric).collectives.stragglers, []);
}

#[test]
fn slow_collectives_while_all_ports_are_paused_are_the_fabric() {
    let held = |s: i64| (1200..1800).contains(&s);
    let fabric = ports(move |_, s| if held(s) { 0.5 } else { 0.0 });
    for (host, _) in HOSTS {
        inspector(
            &fabric,
            host,
            move |s| if held(s) { 0.010 } else { 0.004 },
            move |s| if held(s) { 16e9 } else { 40e9 },
        );
    }
    let report = report(&fabric);
    let conclusion = report.collectives.conclusion.as_ref().unwrap();
    assert_eq!((conclusion.waits_for, conclusion.agree), (WaitsFor::Fabric, Some(true)), "{}", conclusion.text);
    let bandwidth = report.collectives.bandwidth.as_ref().unwrap();
    assert!(
        bandwidth.slowed.unwrap() < 20e9
            && bandwidth.usual.map(f64::round) == Some(40e9)
            && bandwidth.unexplained.is_none(),
        "{bandwidth:?}"
    );
    assert!(report.summary.points.iter().any(|p| p.text.starts_with("Collectives: All ranks waited alike")));
}

#[test]
fn an_operation_that_ends_after_the_pause_that_held_it_up_counts_to_it() {
    let held = |s: i64| (1200..1800).contains(&s);
    let fabric = ports(move |_, s| if held(s) { 0.99 } else { 0.0 });
    for (host, _) in HOSTS {
        let labels = |metric| {
            [
                ("__name__", metric),
                ("host", host),
                ("job", "1"),
                ("communicator", "c0"),
                ("operation", "AllReduce"),
                ("size", "32MiB"),
            ]
        };
        // One operation takes ten minutes; nothing ends in the meantime.
        let seconds = || (30..HOUR).step_by(30);
        let done = |s: i64| if s <= 1200 { s } else { 1200.max(s - 600) };
        fabric.put(&labels("fabric_collective_executions_total"), seconds(), |s| 10.0 * done(s) as f64);
        let long = |s: i64| if s > 1800 { 600.0 } else { 0.0 };
        let time = |s: i64| 0.4 * done(s) as f64 + long(s);
        fabric.put(&labels("fabric_collective_execution_time_seconds_total"), seconds(), time);
        let bytes = |s: i64| 0.4 * done(s) as f64 * 40e9 + long(s) * 1e7;
        fabric.put(&labels("fabric_collective_bus_bytes_total"), seconds(), bytes);
    }
    let report = report(&fabric);
    let bandwidth = report.collectives.bandwidth.as_ref().unwrap();
    let middle = bandwidth.plot.lines[0].points[25];
    assert_eq!(middle, None, "nothing ended then, which is no bandwidth of 0 and not that of before");
    assert!(bandwidth.slowed.unwrap() < 10e9 && bandwidth.usual.map(f64::round) == Some(40e9), "{bandwidth:?}");
    assert_eq!(report.collectives.conclusion.unwrap().waits_for, WaitsFor::Fabric);
}

#[test]
fn lost_time_that_collectives_do_not_feel_is_doubted() {
    let fabric = ports(|_, s| if (1200..1800).contains(&s) { 0.5 } else { 0.0 });
    HOSTS.iter().for_each(|(host, _)| inspector(&fabric, host, |_| 0.004, |_| 40e9));
    let conclusion = report(&fabric).collectives.conclusion.unwrap();
    assert_eq!((conclusion.waits_for, conclusion.agree), (WaitsFor::Nothing, Some(false)), "{}", conclusion.text);
}

#[test]
fn slow_collectives_without_a_reason_in_the_counters_are_told() {
    let fabric = ports(never);
    let low = |s: i64| if (1200..1800).contains(&s) { 16e9 } else { 40e9 };
    HOSTS.iter().for_each(|(host, _)| inspector(&fabric, host, |_| 0.004, low));
    let report = report(&fabric);
    let dip = report.collectives.bandwidth.as_ref().unwrap().unexplained.as_ref().unwrap();
    assert!((dip.seconds - 600.0).abs() < 61.0 && (dip.mean - 16e9).abs() < 1e6, "{dip:?}");
    let conclusion = report.collectives.conclusion.as_ref().unwrap();
    assert_eq!((conclusion.waits_for, conclusion.agree), (WaitsFor::Unknown, Some(false)), "{}", conclusion.text);
}

#[test]
fn the_host_whose_ranks_come_last_is_named() {
    let fabric = ports(never);
    for (host, _) in HOSTS {
        inspector(&fabric, host, move |_| if host == "gpu-02" { 0.001 } else { 0.004 }, |_| 40e9);
    }
    let report = report(&fabric);
    let [straggler] = &report.collectives.stragglers[..] else { panic!("{:?}", report.collectives.stragglers) };
    assert_eq!((straggler.host.as_str(), straggler.reason.as_str()), ("gpu-02", "late"));
    assert_eq!(straggler.network, RankNetwork::Clean);
    assert_eq!(report.collectives.conclusion.as_ref().unwrap().waits_for, WaitsFor::OwnWork);
}

#[test]
fn the_root_of_a_broadcast_is_done_first_and_not_late() {
    let fabric = ports(never);
    for (host, _) in HOSTS {
        operations(&fabric, "Broadcast", host, move |_| if host == "gpu-02" { 0.001 } else { 0.004 }, |_| 40e9);
    }
    assert_eq!(report(&fabric).collectives.stragglers, []);
}

#[test]
fn an_incident_outranks_the_rule_of_thumb() {
    let fabric = ports(|_, s| if (1200..1800).contains(&s) { 0.5 } else { 0.0 });
    let at = |s: i64| (BEGIN + s * 1000) * 1_000_000;
    let incident = |kind: &str, role: &str, from: i64| Incident {
        id: kind.to_owned(),
        kind: kind.to_owned(),
        severity: Severity::Critical,
        start_ns: at(from),
        end_ns: Some(at(from + 600)),
        explanation: format!("The explanation of {kind}."),
        action: "act".to_owned(),
        role: role.to_owned(),
        path: None,
    };
    let incidents = vec![
        incident("lossy_link", "victim", 0),
        incident("pfc_storm", "victim", 1200),
        incident("incast", "bystander", 1200),
    ];
    let report = fabric.report_with(incidents, &job("1", "bert", (0, Some(HOUR)), &HOSTS), HOUR + 400);
    let cause = &report.summary.cause;
    assert_eq!(cause.kind, CauseKind::Incident);
    assert!(
        cause.text.contains("(pfc storm, from") && cause.text.contains("The explanation of pfc_storm."),
        "{}",
        cause.text
    );
    assert!(cause.text.ends_with("One more incident concerns it."), "{}", cause.text);
}

#[test]
fn jobs_without_collectives_have_no_section() {
    let report = report(&ports(never));
    assert!(report.collectives.is_empty() && report.collectives.conclusion.is_none());
    assert!(!html(&report).contains("Collectives") && !markdown(&report).contains("Collectives"));
}

#[test]
fn work_requests_of_the_log_are_joined_with_queue_pairs_and_their_ports() {
    let fabric = ports(|host, _| if host == "gpu-03" { 0.3 } else { 0.0 });
    let pair = |host: &str, [local, remote]: [&str; 2]| {
        let labels = [
            ("__name__", "fabric_queue_pair_info"),
            ("host", host),
            ("device", "mlx5_0"),
            ("port", "1"),
            ("job", "1"),
            ("local", local),
            ("remote", remote),
        ];
        fabric.put(&labels, (30..HOUR).step_by(30), |_| 1.0);
    };
    pair("gpu-03", ["1204", "77"]);
    pair("gpu-02", ["77", "1204"]);
    // Of these two either may be the peer.
    pair("gpu-01", ["5", "6"]);
    pair("gpu-02", ["6", "5"]);
    pair("gpu-04", ["6", "5"]);
    let named = |kind: &str, host: &str, local: &str| {
        let labels = [
            ("__name__", "fabric_collective_queue_pair_info"),
            ("host", host),
            ("job", "1"),
            ("kind", kind),
            ("local", local),
            ("peer", "10.0.0.9"),
            ("rdma_device", "mlx5_0"),
        ];
        fabric.put(&labels, (600..1200).step_by(30), |_| 1.0);
    };
    named("slow_work_request", "gpu-03", "1204");
    named("failed_work_request", "gpu-01", "5");
    named("slow_work_request", "gpu-04", "999");
    let report = report(&fabric);
    let all: Vec<[&str; 5]> =
        report.collectives.work_requests.iter().map(|w| [&*w.kind, &*w.from, &*w.to, &*w.local, &*w.remote]).collect();
    let wanted = [
        ["failed", "gpu-01 mlx5_0/1", "10.0.0.9", "5", "6"],
        ["slow", "gpu-03 mlx5_0/1", "gpu-02 mlx5_0/1", "1204", "77"],
        ["slow", "gpu-04 mlx5_0", "10.0.0.9", "999", ""],
    ];
    assert_eq!(all, wanted);
    let said: Vec<(RankNetwork, &str)> =
        report.collectives.work_requests.iter().map(|w| (w.network, w.text.as_str())).collect();
    assert_eq!(said[0].0, RankNetwork::Clean, "{said:?}");
    assert!(
        said[1].0 == RankNetwork::Troubled && said[1].1.contains("gpu-03 mlx5_0 was paused for 30.0 %"),
        "{said:?}"
    );
    assert_eq!(said[2], (RankNetwork::Unknown, "the agent of gpu-04 does not list this queue pair"));
    for rendered in [html(&report), markdown(&report)] {
        assert!(rendered.contains("1204 to 77"), "{rendered}");
    }
}
