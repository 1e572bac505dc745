//! Counter sources, one file each. [`ALL`] is the only list of them: config keys, `doctor`, self-metrics and the
//! schedule follow from its rows.
//!
//! A sampler knows how to read its source and nothing else: whether a value becomes a series, which one, and what a
//! failure means, is decided by `plan` and `device`.

mod dcb;
mod device_counters;
mod ethtool;
mod ethtool_std;
mod lldp;
mod microburst;
mod netdev;
mod optics;
mod pcie;
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

use crate::batch::{Batch, SampleError};
use crate::subject::Subject;
use fabriclens_catalog::CounterSource;

/// How often a source is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Period {
    /// Each second, and every 100 ms where the catalog calls it fast on that driver.
    Full,
    /// Every 30 s.
    Slow,
}

/// A row of [`ALL`].
#[derive(Debug)]
pub struct Spec {
    /// Name in config, `doctor` and self-metrics; the file's name.
    pub name: &'static str,
    /// What it reads, in the catalog's words; decides binding and precedence.
    pub source: CounterSource,
    /// How often.
    pub period: Period,
    /// On unless configured otherwise.
    pub default: bool,
    /// Privilege or package that it needs; empty for none.
    pub needs: &'static str,
    /// Whether it applies to such a subject at all.
    pub applies: fn(&Subject) -> bool,
    /// Opens it; `Absent` when the subject does not have it.
    pub open: fn(&Subject) -> Result<Box<dyn Sampler>, SampleError>,
}

/// One source of one subject.
pub trait Sampler: Send {
    /// Reads. `mask` says which of the batch's names are wanted; with a mask of another length all are. Sources that
    /// tell everything at once ignore it.
    ///
    /// # Errors
    /// [`SampleError`]; what was put into `out` is then ignored.
    fn sample(&mut self, mask: &[bool], out: &mut Batch) -> Result<(), SampleError>;
}

/// Every sampler.
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
    microburst::SPEC,
    dcb::SPEC,
    pcie::SPEC,
    lldp::SPEC,
    port_info::SPEC,
    verbs::SPEC,
    queue_pairs::SPEC,
    settings::SPEC,
    optics::SPEC,
];

/// The row of that name.
pub fn by_name(name: &str) -> Option<&'static Spec> {
    ALL.iter().find(|spec| spec.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_directory_is_the_table() {
        let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/src/samplers");
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
