//! Network cost of a job, over a store that the test fills.

use crate::common::{BEGIN, Fabric, job};
use fabriclens_report::model::{CauseKind, Cost, Grade, Incident, Method, Severity, Why};
use fabriclens_report::{Report, html, json, markdown};

/// A counter of a port, sampled each second from one minute before to seven minutes after the start; it increases by
/// `rate` per second.
fn put(fabric: &Fabric, host: &str, metric: &str, direction: &str, rate: impl Fn(i64) -> f64) {
    let labels = [("__name__", metric), ("host", host), ("device", "mlx5_0"), ("port", "1"), ("direction", direction)];
    let mut sums = vec![1e12];
    (-60..420).for_each(|s| sums.push(sums.last().unwrap() + rate(s)));
    fabric.put(&labels, -60..=420, |s| sums[(s + 60) as usize]);
}

/// Two hosts with this many bytes per second in both directions, and this many notifications handled.
fn roce(moved: impl Fn(i64) -> f64, cnps: impl Fn(i64) -> f64) -> Fabric {
    let fabric = Fabric::new();
    for host in ["h1", "h2"] {
        for direction in ["transmit", "receive"] {
            put(&fabric, host, "fabric_port_io_bytes_total", direction, &moved);
        }
        put(&fabric, host, "fabric_cnp_packets_total", "receive", &cnps);
    }
    fabric
}

const HOSTS: [(&str, &[&str]); 2] = [("h1", &[]), ("h2", &[])];

fn report(fabric: &Fabric, end: Option<i64>, now: i64) -> Report {
    fabric.report(&job("1", "", (0, end), &HOSTS), &[], now)
}

#[track_caller]
fn bounds(cost: &Cost, grade: Grade, least: f64, most: f64) {
    let got = [&cost.at_least, &cost.at_most].map(|figure| figure.part(grade).unwrap_or(f64::NAN));
    assert!((got[0] - least).abs() < 0.05 && (got[1] - most).abs() < 0.05, "{got:?}, not {least} and {most}: {cost:?}");
}

fn within(from: i64, to: i64, there: f64, else_: f64) -> impl Fn(i64) -> f64 {
    move |s| if (from..to).contains(&s) { there } else { else_ }
}

#[test]
fn slowed_senders_are_a_cost() {
    let fabric = roce(within(100, 130, 1e8, 1e9), within(100, 130, 2000.0, 0.0));
    let got = report(&fabric, Some(300), 400);
    let cost = &got.summary.cost;
    bounds(cost, Grade::Exclusive, 27.0, 27.0);
    assert!(cost.held.parts.is_empty(), "no counter of pauses");
    let slowed = &cost.slowed[0];
    let at = |s: i64| (BEGIN + s * 1000) * 1_000_000;
    assert_eq!((cost.slowed.len(), slowed.start_ns, slowed.end_ns), (1, at(100), at(130)));
    assert_eq!(slowed.why, [Why::ToldToSlowDown]);
    let rate = |got: f64, want: f64| (got / want - 1.0).abs() < 1e-6;
    assert!(rate(slowed.moved, 4e8) && rate(slowed.usual.unwrap(), 4e9), "{slowed:?}");
    let first = &got.summary.points[0];
    let want = "The network cost this job 27 s (9.0 %, exclusive) of its 5 min. Most of that from 22:15:00 to 22:15:30: it \
        moved 10.0 % of its usual throughput (congestion notifications (CNPs)).";
    assert_eq!((first.text.as_str(), first.severity), (want, Severity::Warning));
    assert_eq!(got.summary.cause.kind, CauseKind::Fabric);
    assert!(got.summary.cause.text.contains("congestion notifications"), "{}", got.summary.cause.text);
    let (page, text) = (html(&got), markdown(&got));
    assert!(page.contains("<h3>When the network slowed it down</h3>") && page.contains("22:15:00 to 22:15:30"));
    assert!(text.contains("| Time lost, at least | 27 s (exclusive) |"), "{text}");
    assert!(json(&got).contains("\"why\":[\"told_to_slow_down\"]"));

    // The job is still running, within the slow period.
    bounds(&report(&fabric, None, 115).summary.cost, Grade::Exclusive, 13.5, 13.5);
    // Another job shares the ports: the loss is their total.
    let own = job("1", "", (0, Some(300)), &HOSTS);
    let shared = fabric.report(&own, &[job("2", "", (0, None), &HOSTS)], 400);
    bounds(&shared.summary.cost, Grade::Shared, 27.0, 27.0);
    assert!(shared.summary.points[0].text.contains("(9.0 %, shared)"), "{}", shared.summary.points[0].text);
}

#[test]
fn compute_phases_cost_nothing() {
    let cases: [&dyn Fn(i64) -> f64; 3] =
        [&within(100, 160, 0.0, 1e9), &within(0, 240, 1e9, 0.0), &|s| if s % 10 < 6 { 1e9 } else { 0.0 }];
    for moved in cases {
        let got = report(&roce(moved, |_| 3.0), Some(300), 400);
        bounds(&got.summary.cost, Grade::Exclusive, 0.0, 0.0);
        assert!(got.summary.cost.slowed.is_empty());
        assert_eq!(got.summary.points[0].text, "Nothing that was counted held this job back in its 5 min.");
    }
}

#[test]
fn losses_and_incidents_delay_a_job() {
    let fabric = roce(within(100, 130, 6e8, 1e9), |_| 0.0);
    put(&fabric, "h2", "fabric_rdma_sequence_naks_total", "receive", within(100, 130, 50.0, 0.0));
    let cost = report(&fabric, Some(300), 400).summary.cost;
    bounds(&cost, Grade::Exclusive, 12.0, 12.0);
    assert_eq!(cost.slowed[0].why, [Why::SentAgain]);
    let fabric = roce(|_| 1e9, |_| 0.0);
    put(&fabric, "h2", "fabric_rdma_sequence_naks_total", "receive", |_| 1.0);
    let first = report(&fabric, Some(300), 400).summary.points.swap_remove(0);
    assert!(first.text.ends_with("too few at a time to estimate their cost."), "{}", first.text);
    assert_eq!(first.severity, Severity::Info);

    let fabric = roce(within(100, 130, 6e8, 1e9), |_| 0.0);
    let at = |s: i64| (BEGIN + s * 1000) * 1_000_000;
    let incident = |role: &str| Incident {
        id: "i".into(),
        kind: "incast".into(),
        severity: Severity::Critical,
        start_ns: at(100),
        end_ns: Some(at(130)),
        explanation: String::new(),
        action: String::new(),
        role: role.into(),
        path: None,
    };
    let own = job("1", "", (0, Some(300)), &HOSTS);
    let with = |role: &str| fabric.report_with(vec![incident(role)], &own, 400).summary.cost;
    bounds(&with("victim"), Grade::Exclusive, 12.0, 12.0);
    assert_eq!(with("victim").slowed[0].why, [Why::Incident]);
    bounds(&with("bystander"), Grade::Exclusive, 0.0, 0.0);
}

#[test]
fn credit_wait_counts_once() {
    let fabric = Fabric::new();
    for host in ["h1", "h2"] {
        put(&fabric, host, "fabric_port_io_bytes_total", "transmit", within(100, 130, 3e9, 1e10));
        put(&fabric, host, "fabric_port_xmit_wait_bytes_total", "", within(100, 130, 2.5e10, 0.0));
        let rate =
            [("__name__", "fabric_port_rate_bytes_per_second"), ("host", host), ("device", "mlx5_0"), ("port", "1")];
        fabric.put(&rate, (-60..=420).step_by(10), |_| 5e10);
    }
    let cost = report(&fabric, Some(300), 400).summary.cost;
    bounds(&cost, Grade::Exclusive, 21.0, 21.0);
    assert!((cost.held.part(Grade::Exclusive).unwrap() - 15.0).abs() < 1e-6, "{:?}", cost.held);
    assert_eq!(cost.slowed[0].why, [Why::NoCredits]);
}

#[test]
fn large_and_old_jobs_use_rollups() {
    let fabric = Fabric::new();
    let day = 86_400;
    let rollup = |job: &str, metric: &str, direction: &str, from: i64, rate: fn(i64) -> f64| {
        let labels = [("__name__", metric), ("job_id", job), ("attribution", "exclusive"), ("direction", direction)];
        let mut sums = vec![0.0];
        (0..day / 30).for_each(|n| sums.push(sums.last().unwrap() + 30.0 * rate(n * 30)));
        fabric.put(&labels, (from..=from + day).step_by(30), |s| sums[((s - from) / 30) as usize]);
    };
    fn moved(s: i64) -> f64 {
        within(36_000, 39_600, 2e8, 1e9)(s)
    }
    fn cnps(s: i64) -> f64 {
        within(36_000, 39_600, 9e4, 0.0)(s)
    }
    for (job, from) in [("before", 0), ("1", day)] {
        rollup(job, "fabric_job_io_bytes_total", "transmit", from, moved);
        rollup(job, "fabric_job_cnp_packets_total", "receive", from, if job == "1" { cnps } else { |_| 0.0 });
    }
    for n in 0..6 {
        let port = n.to_string();
        let labels = [
            ("__name__", "fabric_port_io_bytes_total"),
            ("host", "h1"),
            ("device", "mlx5_0"),
            ("port", &port),
            ("direction", "transmit"),
        ];
        fabric.put(&labels, (day..=2 * day).step_by(600), |s| s as f64);
    }
    let own = job("1", "", (day, Some(2 * day)), &[("h1", &[])]);
    let before = job("before", "", (0, Some(day)), &[("h1", &[])]);
    let got = fabric.report(&own, &[before], 2 * day + 60);
    assert_eq!(got.range.method, Method::Checkpoints);
    bounds(&got.summary.cost, Grade::Exclusive, 2880.0, 2880.0);
    assert_eq!(got.summary.earlier[0].at_most_share.part(Grade::Exclusive), Some(0.0), "no notification, no loss");
    let texts: Vec<_> = got.summary.points.iter().map(|p| p.text.as_str()).collect();
    let want = "That is at most 3.3 % of its time, more than in the job before it of this user and size (at most 0 %).";
    assert!(texts.contains(&want), "{texts:?}");
}
