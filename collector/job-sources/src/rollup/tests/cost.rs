//! Cost of a round in a large fleet. A measurement, not a test; `cargo xtask bench report` runs it:
//! `cargo test --release -p fabriclens --lib rollup::tests::cost -- --ignored --nocapture`.

use super::*;

const HOSTS: usize = 2000;
const PORTS: usize = 8;
const JOBS: usize = 200;
/// Seconds of samples, one each.
const SECONDS: i64 = 75;

/// Series of a port: name, values of `direction`, values of `priority`.
const SERIES: &[(&str, &[&str], usize)] = &[
    ("fabric_port_io_bytes_total", &["receive", "transmit"], 1),
    ("fabric_pfc_pause_seconds_total", &["receive", "transmit"], 8),
    ("fabric_cnp_packets_total", &["receive", "transmit"], 1),
    ("fabric_port_discards_total", &["receive", "transmit"], 1),
    ("fabric_ecn_packets_total", &[""], 1),
    ("fabric_rdma_sequence_naks_total", &["receive"], 1),
    ("fabric_rdma_ack_timeouts_total", &[""], 1),
    ("fabric_link_symbol_errors_total", &[""], 1),
    ("fabric_link_crc_errors_total", &[""], 1),
    ("fabric_link_downs_total", &[""], 1),
];

fn fill(lab: &Lab) {
    let times: Vec<i64> = (0..SECONDS).map(|s| lab.begin + s * 1000).collect();
    for host in 0..HOSTS {
        let host = format!("gpu-{host:04}");
        let mut series = Vec::new();
        for port in 0..PORTS {
            let (device, rail) = (format!("mlx5_{port}"), port.to_string());
            let of = |name: &str, direction: &str, priority: &str| {
                let place = [("__name__", name), ("host", &host), ("device", &device), ("port", "1")];
                Labels::new([&place[..], &[("direction", direction), ("priority", priority)]].concat())
            };
            for (name, directions, priorities) in SERIES {
                for direction in *directions {
                    let of_priority = |p: usize| if *priorities > 1 { p.to_string() } else { String::new() };
                    series.extend((0..*priorities).map(|p| of(name, direction, &of_priority(p))));
                }
            }
            series.push(Labels::new([
                ("__name__", "fabric_port_info"),
                ("host", &host),
                ("device", &device),
                ("port", "1"),
                ("rail", &rail),
            ]));
        }
        // Most counters stand; those of bytes and of one priority run.
        let runs: Vec<bool> =
            series.iter().map(|l| l.get("__name__").contains("_io_") || l.get("priority") == "3").collect();
        let value = |runs: bool, s: i64| if runs { (s * 1_000_003) as f64 } else { 1.0 };
        let values = runs.iter().flat_map(|runs| (0..SECONDS).map(|s| value(*runs, s))).collect();
        lab.store.append(&[RowGroup { series: series.into(), times: times.clone(), values }]).unwrap();
    }
}

/// Processor time of this process so far, seconds.
fn processor() -> f64 {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap();
    let ticks: u64 =
        text.rsplit_once(')').unwrap().1.split(' ').skip(12).take(2).map(|t| t.parse::<u64>().unwrap()).sum();
    ticks as f64 / 100.0
}

#[test]
#[ignore = "a measurement"]
fn what_a_round_costs() {
    let lab = Lab::new();
    fill(&lab);
    let mut rollup = lab.rollup();
    rollup.engine = fabriclens_data::engine(&Config::default().query);
    let names: Vec<String> = (0..HOSTS).map(|host| format!("gpu-{host:04}")).collect();
    for job in 0..JOBS {
        let each = HOSTS / JOBS;
        let hosts: Vec<(&str, &[&str])> = names[job * each..(job + 1) * each].iter().map(|h| (&**h, &[][..])).collect();
        lab.report(&rollup, &job.to_string(), 0, &hosts);
    }
    for second in [60, 66, 70, 74] {
        let (began, before) = (Instant::now(), processor());
        lab.round(&mut rollup, second);
        assert!(!rollup.failed, "a round failed");
        let (took, used) = (began.elapsed().as_secs_f64(), processor() - before);
        let period = ROUND_INTERVAL.as_secs_f64().max(took * f64::from(PAUSE_FACTOR + 1));
        let series = lab.at("count({job_id!=\"\"})", second)[0].1;
        println!(
            "{HOSTS} hosts, {PORTS} ports each, {JOBS} jobs: a round takes {took:.2} s, {used:.2} s of a processor: {:.1} % of a \
             core; {series} series",
            used / period * 100.0
        );
    }
}
