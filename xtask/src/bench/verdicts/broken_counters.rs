//! Breaks the counters of one host that is not part of the fault.

use super::ground_truth::Truth;
use super::row::{Row, RowChange};
use anyhow::Result;

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

/// Changes the samples of one of the hosts outside the fault; none if all hosts belong to it.
pub fn broken_host(defect: Defect, truth: &Truth) -> Option<RowChange> {
    let faulty = truth.nodes();
    let apart: Vec<&String> = truth.hosts.iter().filter(|host| !faulty.contains(*host)).collect();
    let host = (*apart.get(apart.len() / 2)?).clone();
    let (tick_ns, mut held) = (truth.tick_ns, None);
    Some(Box::new(move |row| {
        if row.node() == host && row.instant >= FROM {
            change(defect, row, &mut held, tick_ns)?;
        }
        Ok(true)
    }))
}

fn change(defect: Defect, row: &mut Row<'_>, held: &mut Option<Vec<String>>, tick_ns: i64) -> Result<()> {
    let counters = row.columns.places(|name| !GAUGES.iter().any(|gauge| name.starts_with(gauge)));
    let cells = &mut row.cells;
    match defect {
        Defect::Stuck(samples) => {
            let held = held.get_or_insert_with(|| cells.clone());
            if (FROM..FROM + samples).contains(&row.instant) {
                counters.iter().for_each(|at| cells[*at].clone_from(&held[*at]));
            }
        }
        Defect::Twice => {
            for at in counters {
                cells[at] = (2 * cells[at].parse::<i64>()?).to_string();
            }
        }
        Defect::Pauses => {
            let since = (row.instant + 1 - FROM) as i64;
            for (name, each) in [("tx_pfc_p3", 500), ("tx_pause_ns_p3", tick_ns / 100 * 99)] {
                for at in row.columns.places(|column| column == name) {
                    cells[at] = (cells[at].parse::<i64>()? + since * each).to_string();
                }
            }
        }
    }
    Ok(())
}
