//! The section about the insides of hosts.

use crate::common::{Fabric, job};
use fabriclens_report::model::{Inside, Severity};
use fabriclens_report::{html, markdown};

const HOSTS: [(&str, &[&str]); 2] = [("h1", &[]), ("h2", &[])];

/// Two hosts with four GPUs, each with its adapter behind one switch.
fn fleet() -> Fabric {
    let fabric = Fabric::new();
    for host in ["h1", "h2"] {
        for n in 0..4 {
            let (gpu, device) = (n.to_string(), format!("mlx5_{n}"));
            for direction in ["transmit", "receive"] {
                fabric.port(host, &device, "fabric_port_io_bytes_total", direction, rate(host, n), 3660);
            }
            let of_gpu = |metric, value| put(&fabric, metric, &[("host", host), ("gpu", &gpu)], value);
            of_gpu("fabric_gpu_info", 1.0);
            of_gpu("fabric_gpu_pcie_width_max", 16.0);
            of_gpu("fabric_gpu_pcie_width", if (host, n) == ("h2", 1) { 8.0 } else { 16.0 });
            of_gpu("fabric_gpu_lost", 0.0);
            let pair = [("host", host), ("gpu", &gpu), ("device", &device)];
            put(&fabric, "fabric_gpu_nic_distance", &pair, if (host, n) == ("h1", 0) { 50.0 } else { 10.0 });
            put(&fabric, "fabric_gpu_nic_nearest", &pair, 1.0);
            let method = [("host", host), ("device", &device), ("method", "dma_buf")];
            put(&fabric, "fabric_gpudirect_available", &method, f64::from(u8::from((host, n) != ("h2", 2))));
            for link in ["2", "10"] {
                let labels = [("host", host), ("gpu", &gpu), ("link", link)];
                put(&fabric, "fabric_nvlink_down", &labels, f64::from(u8::from((host, n) == ("h1", 3))));
            }
        }
    }
    fabric
}

/// Bytes per second of an adapter: one carries nothing.
fn rate(host: &str, n: usize) -> f64 {
    if (host, n) == ("h2", 3) { 0.0 } else { 1e9 }
}

fn put(fabric: &Fabric, metric: &str, labels: &[(&str, &str)], value: f64) {
    let labels = [&[("__name__", metric)], labels].concat();
    fabric.put(&labels, (0..=3660).step_by(30), |_| value);
}

#[test]
fn what_is_wrong_inside_hosts_is_listed() {
    let fabric = fleet();
    let report = fabric.report(&job("1", "bert", (0, Some(3600)), &HOSTS), &[], 4000);
    assert_eq!(report.inside.gpus, 8);
    let found: Vec<(Severity, &str)> = report.inside.findings.iter().map(|f| (f.severity, f.place.as_str())).collect();
    assert_eq!(
        found,
        [
            (Severity::Critical, "h1 GPU 3"),
            (Severity::Warning, "h1 GPU 0"),
            (Severity::Warning, "h2 GPU 1"),
            (Severity::Warning, "h2 mlx5_2"),
            (Severity::Info, "h2 GPU 3"),
        ]
    );
    let text = |at: usize| report.inside.findings[at].text.as_str();
    assert!(text(0).ends_with("are down: 2, 10"), "{}", text(0));
    assert!(text(1).contains("mlx5_0 is SYS away, and that of 7 other GPUs of this job PIX"), "{}", text(1));
    assert!(text(2).contains("8 of 16 lanes"), "{}", text(2));
    for rendered in [html(&report), markdown(&report)] {
        assert!(rendered.contains("Inside the hosts") && rendered.contains("8 of 16 lanes"));
    }
}

/// A rank of each GPU of a host, in a process of its own with a queue pair on the adapter of this number.
fn ranks(fabric: &Fabric, host: &str, adapters: [usize; 4]) {
    for (n, adapter) in adapters.into_iter().enumerate() {
        let (gpu, pid, device) = (n.to_string(), (100 + n).to_string(), format!("mlx5_{adapter}"));
        let common = [("host", host), ("job", "1"), ("pid", &pid)];
        let rank = [("communicator", "c0"), ("rank", &gpu), ("gpu", &gpu)];
        put(fabric, "fabric_collective_rank_info", &[&common[..], &rank].concat(), 1.0);
        let pair = [("device", device.as_str()), ("port", "1"), ("local", &pid)];
        put(fabric, "fabric_queue_pair_info", &[&common[..], &pair].concat(), 1.0);
        for other in (0..4).filter(|other| *other != n) {
            let far = format!("mlx5_{other}");
            put(fabric, "fabric_gpu_nic_distance", &[("host", host), ("gpu", &gpu), ("device", &far)], 50.0);
        }
    }
}

/// What the report says of ranks' adapters.
fn farther(fabric: &Fabric) -> Vec<(Severity, String, String)> {
    let report = fabric.report(&job("1", "bert", (0, Some(3600)), &HOSTS), &[], 4000);
    let told = report.inside.findings.into_iter().filter(|f| f.text.starts_with("its rank "));
    told.map(|f| (f.severity, f.place, f.text)).collect()
}

#[test]
fn ranks_that_use_a_farther_adapter_are_named() {
    let fabric = fleet();
    ranks(&fabric, "h2", [0, 1, 0, 0]);
    let storage = [("host", "h2"), ("job", "1"), ("pid", "101"), ("device", "mlx5_9"), ("port", "1"), ("local", "9")];
    put(&fabric, "fabric_queue_pair_info", &storage, 1.0);
    let text =
        |rank| format!("its rank {rank} has queue pairs on mlx5_0 (SYS away) and none on mlx5_{rank} (PIX away)");
    assert_eq!(
        farther(&fabric),
        [2, 3].map(|rank| (Severity::Warning, format!("h2 GPU {rank}"), text(rank))),
        "and none for a rank that uses its own"
    );
    let report = fabric.report(&job("1", "bert", (0, Some(3600)), &HOSTS), &[], 4000);
    let of_gpu = report.inside.findings.iter().filter(|f| f.place == "h2 GPU 3");
    assert_eq!(of_gpu.count(), 1, "that its adapter is idle follows from it");
}

#[test]
fn ranks_whose_gpu_is_not_certain_are_not_named() {
    let fabric = fleet();
    ranks(&fabric, "h2", [0, 1, 0, 0]);
    put(&fabric, "fabric_gpu_info", &[("host", "h2"), ("gpu", "4")], 1.0);
    assert_eq!(farther(&fabric), [], "the job may see four of five GPUs, and number them from 0");
    let fabric = fleet();
    ranks(&fabric, "h2", [0, 1, 2, 0]);
    let second = [("host", "h2"), ("job", "1"), ("pid", "103"), ("communicator", "c0"), ("rank", "9"), ("gpu", "0")];
    put(&fabric, "fabric_collective_rank_info", &second, 1.0);
    assert_eq!(farther(&fabric), [], "a process of two GPUs has queue pairs of both");
}

#[test]
fn hosts_without_gpus_have_no_section() {
    let fabric = Fabric::new();
    fabric.port("h1", "mlx5_0", "fabric_port_io_bytes_total", "transmit", 1e9, 3660);
    let report = fabric.report(&job("1", "bert", (0, Some(3600)), &HOSTS), &[], 4000);
    assert_eq!(report.inside, Inside::default());
    assert!(!html(&report).contains("Inside the hosts") && !markdown(&report).contains("Inside the hosts"));
}
