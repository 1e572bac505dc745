//! Entry point for `fuzz`: parsers of the files of a recorded host. No disk.

use crate::nvml::NvmlReport;

use super::{dcb, ethtool, lldp, rdma, sockets, statistic};
use std::path::Path;

/// Parses a file as output of `ethtool`, `rdma -j` and `dcb -j`.
pub fn file(text: &str) {
    _ = ethtool::driver(text);
    _ = ethtool::statistics(text, |_, _| {});
    _ = dcb::parse(text);
    _ = lldp::neighbor(text);
    _ = serde_json::from_str::<NvmlReport>(text);
    _ = statistic::of_port(text, "mlx5_0", 1, &mut Vec::new());
    let Ok(rows) = rdma::rows(text) else { return };
    for link in rdma::links(&rows, &rows) {
        _ = rdma::of_port(rdma::qps(&rows), Some(&link), |qp| (&qp.device, qp.port));
        _ = rdma::verbs(&rows, &link.device, link.port);
    }
    _ = rdma::cm_ids(&rows);
    _ = rdma::qp_counters(&rows);
    _ = sockets::tcp(&rows, Path::new("/nonexistent"));
}
