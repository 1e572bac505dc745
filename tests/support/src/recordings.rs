//! Directories of recordings and simulations. The large ones are not in the repository: each has an environment variable, and
//! defaults to a directory of `../shared`, next to the repository.

use std::path::{Path, PathBuf};

fn beside(variable: &str, name: &str) -> PathBuf {
    let default = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared").join(name);
    std::env::var_os(variable).map_or_else(default, PathBuf::from)
}

/// Recorded hosts and tool outputs: `FABRICLENS_FIXTURES`. May not exist.
pub fn recordings() -> PathBuf {
    beside("FABRICLENS_FIXTURES", "fixtures")
}

/// Reference lists of vendor counters: `FABRICLENS_REFERENCE`. May not exist.
pub fn reference() -> PathBuf {
    beside("FABRICLENS_REFERENCE", "reference")
}

/// Packet-level simulations with ground truth: `FABRICLENS_SCENARIOS`. May not exist.
pub fn simulations() -> PathBuf {
    beside("FABRICLENS_SCENARIOS", "scenarios")
}

/// The same of InfiniBand: `FABRICLENS_SCENARIOS_IB`. May not exist.
pub fn infiniband_simulations() -> PathBuf {
    beside("FABRICLENS_SCENARIOS_IB", "scenarios-ib")
}

/// Scripts of PromQL cases in Prometheus' own format: `FABRICLENS_PROMQLTEST`. May not exist.
pub fn prometheus_scripts() -> PathBuf {
    beside("FABRICLENS_PROMQLTEST", "promql-3")
}

/// The small simulated scenarios of the repository, which always exist.
pub fn scenarios() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/scenarios")
}
