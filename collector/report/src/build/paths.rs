//! Paths of the job's flows: the links between switches that they share with each other and with other jobs.

use super::ReportContext;
use super::cable::{Link, name};
use super::flows::{self, Flows};
use crate::model::{FlowCount, FlowPaths, LinkFlows, OtherFlows, Path, PathPort, Paths, SharedLink, WorstLink};
use fabriclens_correlate::{FlowName, PortName};
use fabriclens_jobs::Job;
use fabriclens_promql::QueryError;
use std::collections::{BTreeMap, HashMap, HashSet};

/// Maximum number of listed links, flows, and paths of a flow.
const LINKS: usize = 20;
const LISTED: usize = 12;
const ALTERNATIVES: usize = 4;
/// Reasons that are told.
const REASONS: usize = 8;
/// Links of paths whose counters are read.
const READ: usize = 4096;

/// Looks up the paths of flows.
pub trait PathLookup {
    /// Paths of a flow.
    ///
    /// # Errors
    /// Why they are not known, in words that many flows have in common.
    fn paths(&self, flow: &FlowName) -> Result<KnownPaths, String>;

    /// The link that begins at an egress port.
    fn link(&self, egress: &PortName) -> Option<Link>;
}

/// Paths of a flow.
pub struct KnownPaths {
    /// How they are known, such as `traced`.
    pub known: &'static str,
    /// Egress ports of each, from the sender's port on; at least one path.
    pub paths: Vec<Vec<PortName>>,
    /// Whether the flow takes the one path; otherwise it takes one of them, or yet another one.
    pub is_exact: bool,
}

/// Flows over one direction of a link.
#[derive(Default)]
struct Crossing {
    senders: HashSet<PortName>,
    own: LinkFlows,
    /// By position among the concurrent jobs.
    others: BTreeMap<usize, LinkFlows>,
    /// Whether it leads to a switch.
    is_between: bool,
}

/// Paths of all flows.
pub(super) struct FoundPaths<'a> {
    paths: Paths,
    crossings: HashMap<PortName, Crossing>,
    /// Links of the crossings.
    links: HashMap<PortName, Link>,
    found: Vec<(FlowName, KnownPaths)>,
    concurrent: &'a [&'a Job],
}

/// Looks up the flows of the job and of `concurrent` jobs; `None` if the job has none.
pub(super) fn find<'a>(
    context: &ReportContext<'_>,
    lookup: &dyn PathLookup,
    concurrent: &'a [&'a Job],
    now_ns: i64,
) -> Result<Option<FoundPaths<'a>>, QueryError> {
    let Flows { of_job, unread } = flows::flows(context, concurrent)?;
    if of_job.first().is_none_or(HashSet::is_empty) {
        return Ok(None);
    }
    let mut all = FoundPaths {
        paths: Paths {
            flows: of_job[0].len(),
            known: 0,
            one_of: 0,
            sources: Vec::new(),
            unknown: Vec::new(),
            unread_hosts: unread[0],
            other_unread_hosts: unread[1],
            later_seconds: (now_ns / 1_000_000 - context.source.end_ms).max(0).unsigned_abs() / 1000,
            shared: Vec::new(),
            list: Vec::new(),
        },
        crossings: HashMap::new(),
        links: HashMap::new(),
        found: Vec::new(),
        concurrent,
    };
    let (mut sources, mut unknown) = (BTreeMap::new(), BTreeMap::new());
    for (n, flows) in of_job.into_iter().enumerate() {
        let mut flows: Vec<FlowName> = flows.into_iter().collect();
        // By receiver, rail by rail: paths to one switch after the other are found faster.
        flows.sort_by_cached_key(|flow| (flow.to.port.clone(), flow.to.node.clone(), flows::key(flow)));
        for flow in flows {
            if context.source.is_canceled() {
                return Err(QueryError::Cancelled);
            }
            let found = lookup.paths(&flow);
            if n > 0 {
                found.iter().for_each(|found| all.cross(n - 1, &flow, found, true));
                continue;
            }
            match found {
                Ok(found) => {
                    let (count, text) = match found.is_exact {
                        true => (&mut all.paths.known, found.known),
                        false => (&mut all.paths.one_of, "one of several paths"),
                    };
                    *count += 1;
                    *sources.entry(text.to_owned()).or_insert(0) += 1;
                    all.cross(0, &flow, &found, false);
                    all.found.push((flow, found));
                }
                Err(why) => *unknown.entry(why).or_insert(0) += 1,
            }
        }
    }
    let counts = |counts: BTreeMap<String, usize>| {
        let mut counts: Vec<_> = counts.into_iter().map(|(text, flows)| FlowCount { text, flows }).collect();
        counts.sort_by_key(|count| std::cmp::Reverse(count.flows));
        counts.truncate(REASONS);
        counts
    };
    (all.paths.sources, all.paths.unknown) = (counts(sources), counts(unknown));
    for (egress, crossing) in &mut all.crossings {
        if let Some(link) = lookup.link(egress) {
            crossing.is_between = link.ends.iter().all(|end| end.is_switch);
            all.links.insert(egress.clone(), link);
        }
    }
    Ok(Some(all))
}

impl FoundPaths<'_> {
    /// Counts a flow at the egress ports of its paths. Flows of other jobs count only where those of the job do.
    fn cross(&mut self, n: usize, flow: &FlowName, found: &KnownPaths, is_other: bool) {
        let mut times: HashMap<&PortName, usize> = HashMap::new();
        for hops in &found.paths {
            hops.iter().collect::<HashSet<_>>().into_iter().for_each(|hop| *times.entry(hop).or_default() += 1);
        }
        for (hop, times) in times {
            // What is on each of the paths is taken for sure, unless there may be others.
            let is_sure = found.is_exact || (times == found.paths.len() && *hop == flow.from);
            if is_other && !self.crossings.contains_key(hop) {
                continue;
            }
            let crossing = self.crossings.entry(hop.clone()).or_default();
            let count = if is_other { crossing.others.entry(n).or_default() } else { &mut crossing.own };
            *(if is_sure { &mut count.flows } else { &mut count.one_of }) += 1;
            if is_sure && !is_other {
                crossing.senders.insert(flow.from.clone());
            }
        }
    }

    /// Links of paths between switches that are not among `known`.
    pub fn more_links(&self, known: &[Link]) -> Vec<Link> {
        let mut names: HashSet<String> = known.iter().flat_map(both_names).collect();
        let mut between: Vec<_> = self.links.iter().filter(|(egress, _)| self.crossings[*egress].is_between).collect();
        between.sort_by_cached_key(|(egress, _)| (egress.node.clone(), egress.port.clone()));
        let new = between.into_iter().map(|(_, link)| link).filter(|link| {
            let is_new = !names.contains(&name(link));
            names.extend(both_names(link));
            is_new
        });
        new.take(READ).cloned().collect()
    }

    /// Flows of the job over a link, both directions.
    pub fn over(&self, link: &Link) -> LinkFlows {
        let mut sum = LinkFlows::default();
        for end in &link.ends {
            let Some(port) = &end.port else { continue };
            let crossing = self.crossings.get(&PortName { node: end.node.clone(), port: port.clone() });
            if let Some(Crossing { own, .. }) = crossing {
                sum.flows += own.flows;
                sum.one_of += own.one_of;
            }
        }
        sum
    }

    /// Whether all paths of the job are known for sure, so that a link without a flow has none.
    pub fn is_complete(&self) -> bool {
        let Paths { flows, known, unread_hosts, .. } = &self.paths;
        known == flows && *unread_hosts == 0
    }

    /// The section. `figures` are those of the links by name, `worst` the names of links that harmed traffic, the worst first.
    pub fn section(mut self, figures: &HashMap<String, WorstLink>, worst: &[String]) -> Paths {
        let mut shared: Vec<(&PortName, &Crossing)> = self
            .crossings
            .iter()
            .filter(|(_, c)| c.is_between && c.own.flows > 0)
            .filter(|(_, c)| c.senders.len() > 1 || c.others.values().any(|other| other.flows > 0))
            .collect();
        let other_flows = |c: &Crossing| c.others.values().map(|other| other.flows).sum::<usize>();
        shared.sort_by_cached_key(|(egress, c)| {
            let rank = (other_flows(c) > 0, c.senders.len(), c.own.flows);
            (std::cmp::Reverse(rank), egress.node.clone(), egress.port.clone())
        });
        shared.truncate(LINKS);
        let link = |(egress, crossing): &(&PortName, &Crossing)| {
            let figures =
                self.links.get(*egress).and_then(|link| both_names(link).iter().find_map(|name| figures.get(name)));
            let others = crossing.others.iter().map(|(n, own)| {
                let job = self.concurrent[*n];
                OtherFlows { cluster: job.cluster.clone(), id: job.id.clone(), own: *own }
            });
            SharedLink {
                link: directed(egress, self.links.get(*egress)),
                senders: crossing.senders.len(),
                own: crossing.own,
                others: others.collect(),
                load: figures.and_then(|figures| figures.load),
                held: figures.and_then(|figures| figures.held),
            }
        };
        let links: Vec<SharedLink> = shared.iter().map(link).collect();
        let interesting = |egress: &PortName| -> Option<usize> {
            let names = || self.links.get(egress).into_iter().flat_map(both_names);
            let of_worst = names().find_map(|name| worst.iter().position(|other| *other == name));
            let of_shared = || shared.iter().position(|(other, _)| *other == egress).map(|at| worst.len() + at);
            of_worst.or_else(of_shared)
        };
        let ranks: HashMap<&PortName, usize> =
            self.crossings.keys().filter_map(|egress| Some((egress, interesting(egress)?))).collect();
        let rank = |(_, found): &(FlowName, KnownPaths)| {
            found.paths.iter().flatten().filter_map(|hop| ranks.get(hop)).min().copied().unwrap_or(usize::MAX)
        };
        let mut list: Vec<(usize, &(FlowName, KnownPaths))> = self.found.iter().map(|one| (rank(one), one)).collect();
        list.sort_by_cached_key(|(rank, (flow, _))| (*rank, flows::key(flow)));
        // A few of each link, so that one link does not fill the list.
        let mut of_rank: BTreeMap<usize, usize> = BTreeMap::new();
        list.retain(|(rank, _)| {
            let count = of_rank.entry(*rank).or_default();
            *count += 1;
            *count <= 2
        });
        self.paths.list = list.into_iter().take(LISTED).map(|(_, one)| flow_paths(one)).collect();
        self.paths.shared = links;
        self.paths
    }
}

fn flow_paths((flow, found): &(FlowName, KnownPaths)) -> FlowPaths {
    let port = |port: &PortName| PathPort { node: port.node.clone(), port: port.port.clone() };
    let known = if found.is_exact { found.known } else { "one of several paths" };
    let path = |hops: &Vec<PortName>| Path {
        ports: hops.iter().chain([&flow.to]).map(port).collect(),
        known: known.to_owned(),
    };
    FlowPaths {
        from: port(&flow.from),
        to: port(&flow.to),
        source_port: flow.source_port,
        paths: found.paths.iter().take(ALTERNATIVES).map(path).collect(),
    }
}

/// The name of a link, from either end.
fn both_names(link: &Link) -> [String; 2] {
    [name(link), link.name_from_second()]
}

/// Both ends of a link, the egress port first.
fn directed(egress: &PortName, link: Option<&Link>) -> String {
    let own = format!("{} {}", egress.node, egress.port);
    let Some(link) = link else { return own };
    let [first, _] = &link.ends;
    let is_first = first.node == egress.node && first.port.as_ref() == Some(&egress.port);
    if is_first { name(link) } else { link.name_from_second() }
}
