//! Series as a fleet's agents send them.

use fabriclens_model::{Layout, SharedLabels};
use fabriclens_store::{Options, SeriesLimits};
use std::sync::Arc;

pub const PORTS: usize = 8;
/// Columns of the row groups of a port.
pub const GROUPS: [usize; 4] = [6, 12, 18, 24];
/// Time of the first row, Unix ms.
pub const START: i64 = 1_700_000_000_000;

/// The row groups of all ports, by host.
pub fn layouts(hosts: usize) -> Vec<Layout> {
    let mut shared = SharedLabels::default();
    let mut all = Vec::new();
    for (host, port) in (0..hosts).flat_map(|host| (0..PORTS).map(move |port| (host, port))) {
        for (group, columns) in GROUPS.iter().enumerate() {
            let mut labels = |column: usize| {
                shared.of([
                    ("__name__", &*format!("fabric_group_{group}_counter_{:02}_total", column / 2)),
                    ("device", &*format!("mlx5_{port}")),
                    ("direction", ["receive", "transmit"][column % 2]),
                    ("host", &*format!("gpu-node-{host:05}")),
                    ("port", "1"),
                ])
            };
            all.push((0..*columns).map(&mut labels).collect());
        }
    }
    all
}

/// No background threads: what happens when is measured.
pub fn options() -> Options {
    let clock = Arc::new(|| START + 30 * 86_400_000);
    let series = SeriesLimits { all: usize::MAX, ..SeriesLimits::default() };
    Options { retention: None, clock, background: false, head_bytes: 8 << 30, series, ..Options::default() }
}
