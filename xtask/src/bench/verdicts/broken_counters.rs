//! Breaks the counters of one host that is not part of the fault.

use anyhow::Result;
use std::collections::BTreeSet;
use std::ops::Range;

/// First broken sample, after the baselines are learned.
const FROM: usize = 60;
/// Columns that are not counters.
const GAUGES: [&str; 6] = ["tick_ns", "node", "port", "q_", "sw_shared", "speed_gbps"];

/// How the counters are broken.
#[derive(Clone, Copy)]
pub enum Defect {
    /// The counters stand still for a number of samples.
    Stuck(usize),
    /// The counters count everything twice.
    Twice,
    /// The counters claim nearly continuous pause that no port received.
    Pauses,
}

/// Changes the samples of one host in turn.
pub struct BrokenHost {
    defect: Defect,
    host: String,
    held: Option<Vec<String>>,
}

impl BrokenHost {
    /// Selects one of the hosts outside the fault.
    pub fn new(defect: Defect, hosts: &[String], faulty: &BTreeSet<String>) -> Option<Self> {
        let apart: Vec<&String> = hosts.iter().filter(|host| !faulty.contains(*host)).collect();
        apart.get(apart.len() / 2).map(|host| Self { defect, host: (*host).clone(), held: None })
    }

    /// Changes the cells of a sample if they belong to this host; `sample` is its number at the port.
    ///
    /// # Errors
    /// When a counter is not a number.
    pub fn change(
        &mut self,
        names: &[&str],
        cells: &mut [String],
        node: usize,
        sample: usize,
        tick_ns: i64,
    ) -> Result<()> {
        if cells[node] != self.host || sample < FROM {
            return Ok(());
        }
        let counters = || (0..names.len()).filter(|at| !GAUGES.iter().any(|gauge| names[*at].starts_with(gauge)));
        match self.defect {
            Defect::Stuck(samples) => {
                let still: Range<usize> = FROM..FROM + samples;
                let held = self.held.get_or_insert_with(|| cells.to_vec());
                counters().filter(|_| still.contains(&sample)).for_each(|at| cells[at].clone_from(&held[at]));
            }
            Defect::Twice => {
                for at in counters() {
                    cells[at] = (2 * cells[at].parse::<i64>()?).to_string();
                }
            }
            Defect::Pauses => {
                let since = (sample + 1 - FROM) as i64;
                for (name, each) in [("tx_pfc_p3", 500), ("tx_pause_ns_p3", tick_ns / 100 * 99)] {
                    for at in counters().filter(|at| names[*at] == name) {
                        cells[at] = (cells[at].parse::<i64>()? + since * each).to_string();
                    }
                }
            }
        }
        Ok(())
    }
}
