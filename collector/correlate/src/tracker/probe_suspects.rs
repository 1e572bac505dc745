//! Which flows are worth more probes, because probes over links of their paths are lost: at their usual rate, few probes meet a
//! link that loses one packet in a hundred.

use crate::detectors::context::DetectorContext;
use crate::detectors::loss_votes::{LossVotes, Suspect, USUAL_LOSS};
use crate::model::fabric::Fabric;
use crate::model::routes::probes::ProbeWindow;
use crate::model::signal::Signal;
use crate::model::stats::at_least;
use crate::signals::queue_pairs::HostPort;
use crate::tracker::incident_tracker::IncidentTracker;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

/// Time in which losses make a link suspect, seconds.
const WINDOW_S: f64 = 60.0;
/// Probability of as many losses by chance from which a link is not suspect. More probes cost little, so it is high.
const CHANCE: f64 = 0.1;
/// How much likelier the likeliest place may be than a link that is still suspect.
const BEHIND: f64 = 10.0;
/// Links that are suspect at once.
const LINKS: usize = 8;
/// Pairs of ports that are probed more, in the whole fabric and of one port.
const PAIRS: usize = 128;
const PAIRS_OF_PORT: usize = 8;

/// Two ports, and the source ports whose paths cross a suspect link.
pub type SuspectFlows = HashMap<(HostPort, HostPort), Vec<u16>>;

impl IncidentTracker {
    /// Flows over links between switches that may lose probes. Results count as soon as they are known, because a verdict waits for
    /// complete windows anyway. None where switches are read: they show themselves where packets are lost.
    pub fn suspect_flows(&mut self) -> SuspectFlows {
        let ticks = self.eval.ticks(WINDOW_S);
        self.eval.ask_of_fabric(ticks, self.baseline_from_ns, |ctx| {
            let links = suspect_links(ctx);
            if links.is_empty() { SuspectFlows::new() } else { flows_over(ctx.fabric, &links) }
        })
    }
}

/// Egress ports of the links between switches that may lose probes.
fn suspect_links(ctx: &DetectorContext<'_>) -> HashSet<usize> {
    let (mut links, probes) = (HashSet::new(), &ctx.fabric.routes.probes);
    let [begin_ns, end_ns] = ctx.window.time_range_ns();
    let is_lost = || probes.waiting(begin_ns).any(|probe| probe.rtt_ns.is_none());
    let windows: Vec<&Arc<ProbeWindow>> = probes.within([begin_ns, end_ns]).collect();
    if windows.iter().all(|window| window.lost.is_empty()) && !is_lost() || ctx.switches_report(Signal::Tx) {
        return links;
    }
    let mut votes = LossVotes::new(ctx.fabric, &windows, probes.waiting(begin_ns));
    let mut named = 0;
    while named < LINKS {
        let places = votes.places(ctx.fabric);
        let Some(best) = places.first().filter(|place| place.votes >= 1.0) else { break };
        for place in places.iter().take_while(|place| place.gain > best.gain - BEHIND.ln()) {
            let is_chance = at_least(place.votes, place.probes * USUAL_LOSS) > CHANCE;
            if matches!(place.suspect, Suspect::Cable(_)) && named < LINKS && !is_chance {
                named += 1;
                let peers = place.egress.iter().filter_map(|port| ctx.fabric.ports.list[*port].peer);
                links.extend(place.egress.iter().copied().chain(peers));
            }
        }
        votes.take(best);
    }
    links
}

/// Flows whose path crosses any of these egress ports, of so many pairs and ports as are allowed.
fn flows_over(fabric: &Fabric, links: &HashSet<usize>) -> SuspectFlows {
    let mut of_pair: BTreeMap<[usize; 2], BTreeSet<u16>> = BTreeMap::new();
    for flow in fabric.routes.flows_over(links) {
        of_pair.entry([flow.from, flow.to]).or_default().extend(flow.source_port);
    }
    let (mut chosen, mut of_port) = (SuspectFlows::new(), HashMap::<usize, usize>::new());
    for (ends, source_ports) in of_pair {
        let is_full = ends.iter().any(|end| of_port.get(end).is_some_and(|pairs| *pairs >= PAIRS_OF_PORT));
        if is_full || chosen.len() >= PAIRS {
            continue;
        }
        ends.iter().for_each(|end| *of_port.entry(*end).or_default() += 1);
        let [from, to] = ends.map(|end| fabric.port_name(end));
        chosen.insert((from, to), source_ports.into_iter().collect());
    }
    chosen
}
