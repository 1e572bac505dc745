//! File names of a recording; the only list of them. Used by readers, `capture` and simulators.

use std::path::PathBuf;

/// `rdma -j link show -d`.
pub fn rdma_link() -> PathBuf {
    "rdma/link.json".into()
}

/// `rdma -j dev show -d`; optional, adds firmware and GUID to the links.
pub fn rdma_dev() -> PathBuf {
    "rdma/dev.json".into()
}

/// `rdma -j statistic show`.
pub fn rdma_statistic() -> PathBuf {
    "rdma/statistic.json".into()
}

/// `rdma -j resource show qp -d`.
pub fn res_qp() -> PathBuf {
    "rdma/res-qp.json".into()
}

/// `rdma -j resource show cm_id`.
pub fn res_cm_id() -> PathBuf {
    "rdma/res-cm_id.json".into()
}

/// `rdma -j statistic qp show`.
pub fn qp_statistic() -> PathBuf {
    "rdma/statistic-qp.json".into()
}

/// Port attributes by verbs, own format: see [`super::write::verbs`].
pub fn verbs() -> PathBuf {
    "rdma/verbs.json".into()
}

/// Devices with memory registration by dma-buf, own format: see [`super::write::dma_buf`].
pub fn dma_buf() -> PathBuf {
    "rdma/dma_buf.json".into()
}

/// GPUs by NVML, own format: [`crate::nvml::NvmlReport`].
pub fn nvml() -> PathBuf {
    "nvml/report.json".into()
}

/// Established TCP sockets of jobs, own format: see [`super::write::tcp_sockets`].
pub fn tcp_sockets() -> PathBuf {
    "tcp/sockets.json".into()
}

/// `ethtool -i`.
pub fn ethtool_i(netdev: &str) -> PathBuf {
    of("ethtool", netdev, "i.txt")
}

/// `ethtool -S`.
pub fn ethtool_s(netdev: &str) -> PathBuf {
    of("ethtool", netdev, "S.txt")
}

/// Standard statistics, own format: see [`super::write::std_stats`].
pub fn std_stats(netdev: &str) -> PathBuf {
    of("ethtool", netdev, "std.json")
}

/// Link state, own format: see [`super::write::link`].
pub fn link(netdev: &str) -> PathBuf {
    of("ethtool", netdev, "link.json")
}

/// Settings of a netdev, own format: see [`super::write::netdev_settings`].
pub fn netdev_settings(netdev: &str) -> PathBuf {
    of("ethtool", netdev, "settings.json")
}

/// Module diagnostics, own format: see [`super::write::module`].
pub fn module(netdev: &str) -> PathBuf {
    of("ethtool", netdev, "module.json")
}

/// `dcb -j -s` of `pfc`, `ets`, `app` and `buffer`: see [`super::write::dcb`].
pub fn dcb(netdev: &str) -> PathBuf {
    of("dcb", netdev, "json")
}

/// `lldpctl -f json0`.
pub fn lldp(netdev: &str) -> PathBuf {
    of("lldp", netdev, "json")
}

/// File of a netdev. Its name may contain anything except `/` and blanks; `..` must not leave the recording.
fn of(folder: &str, netdev: &str, extension: &str) -> PathBuf {
    format!("{folder}/{}.{extension}", netdev.replace('/', "_")).into()
}
