//! Counter sources, one file each. [`ALL`] is the only list of them: configuration keys, `doctor`, self-metrics and the
//! schedule follow from its rows.
//!
//! A sampler only reads its source; `plan` decides whether a value becomes a series and which one, `device` handles
//! failures.

mod dcb;
mod device_counters;
mod ethtool;
mod ethtool_std;
mod gpu;
mod gpu_affinity;
mod gpudirect;
mod interrupts;
mod kernel_log;
mod lldp;
mod microburst;
mod netdev;
mod netdev_settings;
mod nvml;
mod optics;
mod pcie;
mod pcie_settings;
mod port_counters;
mod port_info;
mod port_state;
mod queue_pairs;
mod rdma_counters;
mod settings;
mod tcp_connections;
mod tcp_loss;
mod tcp_peers;
mod tcp_rtt;
pub mod tcp_traffic;
mod tcpip;
mod verbs;
mod workload;

use crate::sampler::Spec;

/// Table of all samplers.
pub const ALL: &[Spec] = &[
    port_state::SPEC,
    rdma_counters::SPEC,
    port_counters::SPEC,
    device_counters::SPEC,
    ethtool::SPEC,
    ethtool_std::SPEC,
    netdev::SPEC,
    tcpip::SPEC,
    tcp_rtt::SPEC,
    tcp_loss::SPEC,
    tcp_connections::SPEC,
    tcp_traffic::SPEC,
    workload::SPEC,
    tcp_peers::SPEC,
    kernel_log::SPEC,
    microburst::SPEC,
    dcb::SPEC,
    netdev_settings::SPEC,
    pcie::SPEC,
    interrupts::SPEC,
    pcie_settings::SPEC,
    gpu::SPEC,
    gpu_affinity::SPEC,
    gpudirect::SPEC,
    nvml::SPEC,
    lldp::SPEC,
    port_info::SPEC,
    verbs::SPEC,
    queue_pairs::SPEC,
    settings::SPEC,
    optics::SPEC,
];

/// Sampler by name.
pub fn by_name(name: &str) -> Option<&'static Spec> {
    ALL.iter().find(|spec| spec.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_directory_is_the_table() {
        let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/src/sources");
        let mut files: Vec<String> = std::fs::read_dir(dir)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter_map(|name| name.strip_suffix(".rs").map(str::to_string))
            .filter(|name| name != "mod")
            .collect();
        let mut rows: Vec<String> = ALL.iter().map(|spec| spec.name.to_string()).collect();
        files.sort();
        rows.sort();
        assert_eq!(files, rows);
    }
}
