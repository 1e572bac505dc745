//! Columns of a simulated port: 60 series with the catalog's names, sorted by how often they change.

use anyhow::{Context as _, Result};
use fabriclens_catalog::metrics;
use fabriclens_wire::Column;
use std::sync::Arc;

/// How a column changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// Each second, by varying amounts.
    Busy,
    /// Occasionally.
    Sparse,
    /// Never.
    Constant,
}

/// Change, metric and labels of a column.
type Row = (Pace, &'static str, &'static [(&'static str, &'static str)]);

/// Columns of each port; `*` stands for each priority without RDMA traffic.
const TABLE: &[Row] = &[
    (Pace::Busy, "fabric.port.io", &[("direction", "receive")]),
    (Pace::Busy, "fabric.port.io", &[("direction", "transmit")]),
    (Pace::Busy, "fabric.port.packets", &[("direction", "receive")]),
    (Pace::Busy, "fabric.port.packets", &[("direction", "transmit")]),
    (Pace::Busy, "fabric.rdma.io", &[("direction", "receive")]),
    (Pace::Busy, "fabric.rdma.io", &[("direction", "transmit")]),
    (Pace::Busy, "fabric.rdma.packets", &[("direction", "receive")]),
    (Pace::Busy, "fabric.rdma.packets", &[("direction", "transmit")]),
    (Pace::Busy, "fabric.port.priority.io", &[("direction", "receive"), ("priority", "3")]),
    (Pace::Sparse, "fabric.cnp.packets", &[("direction", "receive")]),
    (Pace::Sparse, "fabric.cnp.packets", &[("direction", "transmit")]),
    (Pace::Sparse, "fabric.ecn.packets", &[]),
    (Pace::Sparse, "fabric.fec.corrected.blocks", &[]),
    (Pace::Sparse, "fabric.link.symbol_errors", &[]),
    (Pace::Sparse, "fabric.pfc.frames", &[("direction", "receive"), ("priority", "3")]),
    (Pace::Sparse, "fabric.pfc.frames", &[("direction", "receive"), ("priority", "4")]),
    (Pace::Sparse, "fabric.pfc.frames", &[("direction", "transmit"), ("priority", "3")]),
    (Pace::Sparse, "fabric.pfc.frames", &[("direction", "transmit"), ("priority", "4")]),
    (Pace::Sparse, "fabric.pfc.pause", &[("direction", "receive"), ("priority", "3")]),
    (Pace::Sparse, "fabric.pfc.pause", &[("direction", "receive"), ("priority", "4")]),
    (Pace::Sparse, "fabric.pfc.pause", &[("direction", "transmit"), ("priority", "3")]),
    (Pace::Sparse, "fabric.pfc.pause", &[("direction", "transmit"), ("priority", "4")]),
    (Pace::Sparse, "fabric.port.discards", &[("direction", "receive"), ("reason", "out_of_buffer")]),
    (Pace::Sparse, "fabric.rdma.ack_timeouts", &[]),
    (Pace::Sparse, "fabric.rdma.out_of_sequence", &[]),
    (Pace::Sparse, "fabric.rdma.retransmits", &[]),
    (Pace::Sparse, "fabric.rdma.sequence_naks", &[("direction", "receive")]),
    (Pace::Constant, "fabric.fec.uncorrectable.blocks", &[]),
    (Pace::Constant, "fabric.link.crc_errors", &[("direction", "receive")]),
    (Pace::Constant, "fabric.link.downs", &[]),
    (Pace::Constant, "fabric.pfc.frames", &[("direction", "receive"), ("priority", "*")]),
    (Pace::Constant, "fabric.pfc.frames", &[("direction", "transmit"), ("priority", "*")]),
    (Pace::Constant, "fabric.pfc.pause", &[("direction", "receive"), ("priority", "*")]),
    (Pace::Constant, "fabric.pfc.pause", &[("direction", "transmit"), ("priority", "*")]),
    (Pace::Constant, "fabric.rdma.duplicate_requests", &[]),
    (Pace::Constant, "fabric.rdma.icrc_errors", &[]),
    (Pace::Constant, "fabric.rdma.implied_naks", &[]),
    (Pace::Constant, "fabric.rdma.out_of_buffer", &[]),
    (Pace::Constant, "fabric.rdma.rnr_naks", &[("direction", "receive")]),
    (Pace::Constant, "fabric.port.info", &[]),
];
/// Additional columns of a fleet, so that 2,000 hosts make a million samples per second.
const MORE: &[Row] = &[(Pace::Constant, "fabric.port.mtu", &[]), (Pace::Constant, "fabric.port.rate", &[])];
const IDLE_PRIORITIES: [&str; 6] = ["0", "1", "2", "5", "6", "7"];

/// The columns of port `rail` of any host: 60, or 62 for a fleet.
///
/// # Errors
/// When the catalog does not have a metric of the table.
pub fn of_rail(rail: usize, fleet: bool) -> Result<Vec<(Pace, Column)>> {
    let mut out = Vec::new();
    for (pace, name, labels) in TABLE.iter().chain(if fleet { MORE } else { &[] }) {
        let metric = metrics::by_name(name).with_context(|| format!("the catalog has no {name}"))?;
        let starred = labels.iter().any(|l| l.1 == "*");
        for priority in IDLE_PRIORITIES.iter().take(if starred { IDLE_PRIORITIES.len() } else { 1 }) {
            let value = |v: &str| if v == "*" { Arc::from(*priority) } else { Arc::from(v) };
            let mut labels: Vec<(Arc<str>, Arc<str>)> = labels.iter().map(|(n, v)| (Arc::from(*n), value(v))).collect();
            if *name == "fabric.port.info" {
                let pod = ["pod0", "pod1"][rail / 4 % 2];
                let facts = [("driver", "mlx5_core"), ("firmware", "28.41.1000"), ("link_layer", "Ethernet")];
                labels.extend(facts.map(|(n, v)| (n.into(), v.into())));
                labels.extend([("netdev".into(), format!("eth{rail}").into()), ("pod".into(), pod.into())]);
                labels.push(("rail".into(), rail.to_string().into()));
            }
            out.push((*pace, Column { metric, labels }));
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_has_60_different_series_of_which_9_are_busy_and_18_sparse() {
        let columns = of_rail(3, false).unwrap();
        let count = |pace| columns.iter().filter(|c| c.0 == pace).count();
        assert_eq!((columns.len(), count(Pace::Busy), count(Pace::Sparse)), (60, 9, 18));
        for (i, (_, c)) in columns.iter().enumerate() {
            assert!(c.labels.is_sorted(), "{c:?}");
            let kept = |name: &str| c.metric.labels.contains(&name) || c.metric.name == "fabric.port.info";
            assert!(c.labels.iter().all(|(n, _)| kept(n)), "{c:?}");
            assert!(columns[..i].iter().all(|(_, d)| c != d), "{c:?}");
        }
    }
}
