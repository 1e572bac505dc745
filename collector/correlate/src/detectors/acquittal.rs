//! Jobs whose own rank holds them back, so that their loss accuses no network.
//!
//! A rank that the network holds back still launches operations, until its queue is full and all ranks of the communicator stop
//! alike. A rank that stays behind in launched operations has a process that does something else: it waits for its CPU, its GPU,
//! its data. That counts only if the host of each such rank is known and the counters of its ports show nothing.

use crate::baseline::window::Window;
use crate::detectors::port_trouble::{PortTrouble, port_trouble};
use crate::detectors::thresholds::{Thresholds, thresholds};
use crate::model::fabric::Fabric;
use fabriclens_collectives::{Communicator, Straggler, StragglerReason};

thresholds! {
    /// answers in a row in which a rank must be behind before its job is no victim of the network
    ANSWERS = "application_straggler.answers", 2.0, "answers";
}

/// Time before a window in which counters are looked at too, nanoseconds: two answers.
const BEFORE_NS: i64 = 60_000_000_000;

/// A communicator that ranks of the job itself hold back.
pub struct Acquittal<'a> {
    /// The communicator.
    pub communicator: &'a Communicator,
    /// All ranks that are behind.
    pub ranks: Vec<&'a Straggler>,
    /// Host node of each.
    pub hosts: Vec<usize>,
}

/// What acquits the network of a job's loss in a window that begins at an instant, Unix nanoseconds.
pub fn acquittal<'a>(
    fabric: &'a Fabric,
    limits: &Thresholds,
    history: &Window,
    begin_ns: i64,
    job: usize,
) -> Option<Acquittal<'a>> {
    let collectives = fabric.collectives.get(&fabric.jobs[job].id)?;
    let own = collectives.communicators.iter().filter_map(|one| ranks_behind(fabric, limits, one));
    let clean = |found: &Acquittal<'_>| {
        let shows = |host: &usize| port_trouble(history, limits, fabric.ports.of_node(*host), begin_ns - BEFORE_NS);
        found.hosts.iter().all(|host| shows(host) == PortTrouble::None)
    };
    own.filter(clean).max_by_key(|found| found.communicator.size)
}

/// The ranks that are behind, if each is named with its host and others are not behind.
fn ranks_behind<'a>(fabric: &Fabric, limits: &Thresholds, communicator: &'a Communicator) -> Option<Acquittal<'a>> {
    let is_behind = |rank: &&Straggler| rank.reason == StragglerReason::Behind;
    let ranks: Vec<&Straggler> = communicator.stragglers.iter().filter(is_behind).collect();
    let sure = ranks.iter().any(|rank| f64::from(rank.answers) >= limits.get(&ANSWERS));
    let all = ranks.len() == communicator.behind as usize && communicator.in_state("running") > communicator.behind;
    if !sure || !all || ranks.len() != communicator.stragglers.len() {
        return None;
    }
    let host = |rank: &&Straggler| fabric.topology.node(rank.host.as_deref()?);
    let hosts: Option<Vec<usize>> = ranks.iter().map(host).collect();
    Some(Acquittal { communicator, hosts: hosts?, ranks })
}
