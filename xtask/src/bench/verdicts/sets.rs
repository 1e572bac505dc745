//! Sets of recordings with known truth, and what is read of each.

use super::modes::{self, Mode};
use crate::steps::root;
use anyhow::Result;
use std::path::PathBuf;

/// How a set is judged.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Judge {
    /// Simulations of faults, a millisecond of which stands for a second.
    Faults,
    /// Ordinary life of a fleet with rare faults, in real time.
    Life,
}

/// A set of recordings.
pub struct Set {
    /// Name on the command line.
    pub name: &'static str,
    /// What is recorded.
    pub what: &'static str,
    /// Environment variable that names its directory.
    variable: &'static str,
    /// How it is judged.
    pub judge: Judge,
    /// Modes that are measured beside [`modes::MAIN`].
    further: &'static [Mode],
}

/// All sets.
pub const ALL: [Set; 4] = [
    Set {
        name: "scenarios",
        what: "RoCE, one NIC a host, one fault, steady jobs",
        variable: "FABRICLENS_SCENARIOS",
        judge: Judge::Faults,
        further: &modes::OTHERS,
    },
    Set {
        name: "scenarios-probed",
        what: "RoCE, four NICs a host, job phases, up to two faults",
        variable: "FABRICLENS_SCENARIOS_PROBED",
        judge: Judge::Faults,
        further: &modes::ROUTES,
    },
    Set {
        name: "scenarios-ib",
        what: "InfiniBand, one or four HCAs a host, one fault",
        variable: "FABRICLENS_SCENARIOS_IB",
        judge: Judge::Faults,
        further: &[],
    },
    Set {
        name: "scenarios-life",
        what: "ordinary life of a fleet, rare faults",
        variable: "FABRICLENS_SCENARIOS_LIFE",
        judge: Judge::Life,
        further: &[],
    },
];

/// Made-up fleets.
pub const FLEETS: Set = Set {
    name: "fleets",
    what: "nothing but ordinary life of made-up fleets",
    variable: "",
    judge: Judge::Life,
    further: &[],
};

impl Set {
    /// Its recordings; empty with a message if there are none.
    ///
    /// # Errors
    /// When the directory cannot be listed.
    pub fn dirs(&self) -> Result<Vec<PathBuf>> {
        let default = || root().join("../shared").join(self.name);
        let dir = std::env::var_os(self.variable).map_or_else(default, PathBuf::from);
        let Ok(entries) = std::fs::read_dir(&dir) else {
            eprintln!("SKIPPED: no recordings at {}; set {}", dir.display(), self.variable);
            return Ok(Vec::new());
        };
        let mut dirs = entries.map(|e| Ok(e?.path())).collect::<Result<Vec<_>>>()?;
        dirs.retain(|d| d.join("truth.json").is_file());
        dirs.sort();
        Ok(dirs)
    }

    /// Factor of its times.
    pub fn stretch(&self) -> i64 {
        match self.judge {
            Judge::Faults => 1000,
            Judge::Life => 1,
        }
    }

    /// Modes that are measured.
    pub fn modes(&self) -> impl Iterator<Item = &'static Mode> {
        modes::MAIN.iter().chain(self.further)
    }
}
