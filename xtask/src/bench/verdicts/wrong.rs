//! One host, with no part in the fault, whose counters are wrong.

use anyhow::Result;
use std::collections::BTreeSet;
use std::ops::Range;

/// Sample from which on they are: after what is usual is known.
const FROM: usize = 60;
/// Columns that are no counters.
const GAUGES: [&str; 6] = ["tick_ns", "node", "port", "q_", "sw_shared", "speed_gbps"];

/// How they are wrong.
#[derive(Clone, Copy)]
pub enum Wrong {
    /// They stand still for so many samples.
    Stuck(usize),
    /// They count everything twice.
    Twice,
    /// They tell of pause, nearly all the time, that nobody felt.
    Pauses,
}

/// Makes the samples of one port wrong, one after the other.
pub struct Wronged {
    how: Wrong,
    host: String,
    held: Option<Vec<String>>,
}

impl Wronged {
    /// Of one of these hosts.
    pub fn new(how: Wrong, hosts: &[String], faulty: &BTreeSet<String>) -> Option<Self> {
        let apart: Vec<&String> = hosts.iter().filter(|host| !faulty.contains(*host)).collect();
        apart.get(apart.len() / 2).map(|host| Self { how, host: (*host).clone(), held: None })
    }

    /// Changes the cells of a sample, the so-many-eth of its port, if they are of this host.
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
        match self.how {
            Wrong::Stuck(samples) => {
                let still: Range<usize> = FROM..FROM + samples;
                let held = self.held.get_or_insert_with(|| cells.to_vec());
                counters().filter(|_| still.contains(&sample)).for_each(|at| cells[at].clone_from(&held[at]));
            }
            Wrong::Twice => {
                for at in counters() {
                    cells[at] = (2 * cells[at].parse::<i64>()?).to_string();
                }
            }
            Wrong::Pauses => {
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
