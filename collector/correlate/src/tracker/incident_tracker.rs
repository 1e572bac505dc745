//! From frames to incidents: opens one when a detector is sure that something began, keeps what was usual before as its
//! yardstick, lets the detectors judge again at each tick, and closes it when nothing has been found for a while.
//!
//! Several may be open. Trouble that is seen where it is (a NIC that pauses, a link with errors) is one for each place.
//! What is inferred from what others suffer has many faces, so it belongs to what is open already.

mod calm;
mod episode;
mod leave;
mod look;
mod open;

use crate::cables::{self, Cables};
use crate::detect::Detector;
use crate::district::{District, Touched};
use crate::doubt::{Doubts, Reason};
use crate::fabric::{Fabric, Job};
use crate::finding::{Finding, Kind, Root};
use crate::history::{Frame, History, Stretch};
use crate::incident::Incident;
use crate::limits::Limits;
use crate::priority::Priorities;
use crate::scene::{Fares, Scene};
use crate::signal::Signal;
use crate::topology::{Described, Topology};
use crate::usual::Usual;
use episode::Episode;
use look::Looked;
use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::sync::Arc;

/// Seconds without a finding after which an incident is over.
const QUIET_S: f64 = 12.0;
/// Seconds without samples of its place after which nobody waits any more for word of it, and seconds that tell whether there
/// are any.
const SILENT_S: f64 = 600.0;
const HEARD_S: f64 = 5.0;
/// Seconds after the end of an incident that are not usual yet.
const SETTLE_S: f64 = 20.0;
/// Of the time that a detector needs to see a beginning: the time in which it must find something again.
const ALIVE: f64 = 2.0;
/// Seconds until what was measured is usual: trouble that begins slowly must be seen before it is its own yardstick.
const LAG_S: f64 = 20.0;
/// Seconds before an incident in which jobs that are low have another reason for that.
const BEFORE_S: f64 = 10.0;
/// Seconds after which what fills a frame is late: it was judged without that.
const FILLED_S: f64 = 10.0;
/// Seconds from one look for cables to the next.
const LOOK_S: f64 = 10.0;
/// Ticks that may still be on their way.
const NEWEST: i64 = 2;
/// Ticks that are looked at for counters that leapt: what comes later is late by more than agents are.
const CHECKED: usize = 5;
/// Least ticks of any stretch.
const LEAST: usize = 2;
/// Ticks that are judged at most: what was long ago says little of what is wrong now.
const LONGEST: usize = 60;
/// The same for who suffers: jobs take turns, and need some time to show what they lose.
const SUFFERED: usize = 120;
/// Seconds in which the first finding may give way to another kind: trouble shows itself bit by bit.
const YOUNG_S: f64 = 10.0;
/// Seconds without the whole of a place after which its parts are each for themselves: a switch that restarts takes its time.
const SPLIT_S: f64 = 30.0;
/// Seconds after which trouble is a part of what is usual for all others: a link may be bad for weeks.
const STANDING_S: f64 = 300.0;
/// The same where a host is down: in a large fleet one always reboots, and it concerns its own job.
const HOST_DOWN_S: f64 = 60.0;
/// Incidents that are open at most, of those that bend what is usual and of the others each: hundreds of adapters that
/// are slow for weeks must not hide a storm. What comes then is told by none.
const MOST: usize = 64;
/// Old and young incidents that are judged at one look; the others wait for their turn.
const TURNS: [usize; 2] = [1, 8];
/// Receivers of an incident of which is asked who is connected to them.
const ASKED: usize = 16;
/// Seconds of calm that a detector needs to tell trouble beside what is open: it compares, so what is usual by now says
/// nothing.
const COMPARES_S: f64 = 10.0;

/// Ticks of a stretch, and whether it may begin before the incident.
type Length = (usize, bool);

/// What an open incident says to the others.
struct Other {
    id: String,
    root: Root,
    kind: Kind,
    priorities: Priorities,
    /// It has been bad for long and bends nothing.
    chronic: bool,
    /// Parts of the fabric.
    at: Touched,
}

impl Other {
    /// Whether a finding is of its place. What is chronic hides no storm there.
    fn covers(&self, finding: &Finding, fabric: &Fabric) -> bool {
        let hides = !self.chronic || !finding.kind.bends();
        let all = self.root == Root::Fabric && self.kind.spreads() && self.kind == finding.kind;
        hides && (all || self.root == finding.root || self.root.meets(&finding.root, fabric))
    }

    /// Whether a finding is of its place, or only felt, which it explains.
    fn owns(&self, finding: &Finding, fabric: &Fabric) -> bool {
        let holds = || self.kind.holds() && self.priorities.meets(finding.priorities);
        (self.root != Root::Fabric && self.covers(finding, fabric)) || (finding.kind.is_coarse() && holds())
    }
}

/// What a look at an open incident comes to.
enum Look {
    Open,
    Over,
    /// Over as a whole; these parts of it go on.
    Parts(Vec<Finding>),
}

/// See the module.
pub struct Watch {
    fabric: Fabric,
    limits: Limits,
    history: History,
    /// The oldest first.
    open: Vec<Episode>,
    opened: usize,
    /// From when on all is usual again.
    calm_ns: i64,
    /// Ports of the places of incidents that are over, and when they were, Unix ns, the last ones.
    ended: VecDeque<(Vec<usize>, i64)>,
    /// Whose turn it is.
    turn: usize,
    cables: Cables,
    /// When cables were looked for last.
    looked_ns: i64,
    doubts: Doubts,
    full: bool,
}

impl Watch {
    /// Of a fabric.
    pub fn new(fabric: Fabric, limits: Limits) -> Self {
        let (history, never) = (History::default(), i64::MIN);
        Self {
            fabric,
            limits,
            history,
            open: Vec::new(),
            opened: 0,
            calm_ns: never,
            ended: VecDeque::new(),
            turn: 0,
            cables: Cables::default(),
            looked_ns: never,
            doubts: Doubts::default(),
            full: false,
        }
    }

    /// A port that gets too much by what is open, of which nobody has told yet who is connected to it.
    pub fn unconnected(&mut self) -> Option<usize> {
        let receivers = |episode: &Episode| episode.verdict().receivers.iter().take(ASKED).copied().collect::<Vec<_>>();
        let all: Vec<usize> = self.open.iter().flat_map(receivers).collect();
        self.fabric.unconnected(&all)
    }

    /// Takes down who is connected to one.
    pub fn connect(&mut self, port: usize, others: BTreeSet<usize>) {
        self.fabric.connect(port, others);
    }

    /// Takes the next frame and judges; what it returns is over.
    pub fn tick(&mut self, frame: Frame) -> Vec<Incident> {
        self.push(frame);
        self.judge()
    }

    /// Takes the next frame.
    pub fn push(&mut self, frame: Frame) {
        let lag = self.ticks(LAG_S);
        let calm_ns = self.straight_ns(self.open.iter(), self.calm_ns);
        self.history.push(frame, lag, calm_ns);
    }

    /// The newest instant that was pushed, Unix nanoseconds.
    pub fn now_ns(&self) -> i64 {
        self.history.now_ns()
    }

    /// The frame of an instant that was pushed, for data that comes late.
    pub fn frame(&mut self, time_ns: i64) -> Option<&mut Frame> {
        let late = self.history.now_ns().saturating_sub(time_ns) as f64 > FILLED_S * 1e9;
        let frame = self.history.at(time_ns)?;
        frame.late |= late;
        Some(frame)
    }

    /// Gives a rate that came with the frame of an instant to frames just before it that have none: it is theirs too.
    pub fn fill(&mut self, time_ns: i64, signal: Signal, port: usize, rate: f64) {
        self.history.fill(time_ns, signal, port, rate);
    }

    /// A frame of before all others, of which it is known that nothing was wrong.
    pub fn was_calm(&mut self, frame: Frame) {
        self.history.take_for_usual(Arc::new(frame));
    }

    /// The fabric.
    pub fn fabric(&self) -> &Fabric {
        &self.fabric
    }

    /// A port that is measured, from now on if nobody knew it.
    pub fn measured_port(&mut self, node: &str, port: &str) -> Option<usize> {
        self.fabric.measured_port(node, port)
    }

    /// Looks for cables that nobody tells, now and then; what is known if that has changed. `is_switch` tells nodes that
    /// forward, of those that the fabric takes for hosts too.
    pub fn cables(&mut self, is_switch: impl Fn(&Fabric, usize) -> bool) -> Option<Described> {
        let (due, step) = (self.nanoseconds(LOOK_S), (self.history.step_s() * 1e9) as i64);
        if self.history.now_ns().saturating_sub(self.looked_ns) < due {
            return None;
        }
        self.looked_ns = self.history.now_ns();
        // The newest are not whole: agents are still telling.
        let to_ns = self.looked_ns - NEWEST * step;
        let now = self.history.between(to_ns - (cables::TICKS as i64) * step, to_ns);
        let is_switch = |node: usize| is_switch(&self.fabric, node);
        self.cables.look(&now, &self.fabric, is_switch).then(|| self.cables.described(&self.fabric, is_switch))
    }

    /// Takes over the cables of another topology.
    pub fn rewire(&mut self, topology: &Topology) {
        let old: Vec<_> = self.fabric.topology.links.iter().map(|link| link.ends.clone()).collect();
        self.fabric.rewire(topology);
        let new: HashMap<_, usize> =
            self.fabric.topology.links.iter().enumerate().map(|(at, link)| (link.ends.clone(), at)).collect();
        // One that nobody tells of any more (a cable was pulled, or leads elsewhere) is what is left of it: a port.
        let list = &self.fabric.ports.list;
        let left = |link: usize| {
            let ports: Vec<usize> = old[link].iter().filter_map(|end| self.fabric.ports.at(end)).collect();
            let linked = ports.iter().find_map(|port| list[*port].link).map(Root::Link);
            let host = || ports.iter().find(|port| self.fabric.is_host(**port)).or(ports.first());
            linked.or_else(|| host().map(|port| Root::Port(*port))).unwrap_or(Root::Fabric)
        };
        for episode in &mut self.open {
            episode.renumber(|link| new.get(&old[link]).map_or_else(|| left(link), |at| Root::Link(*at)));
        }
    }

    /// These jobs run now and no others.
    pub fn employ(&mut self, jobs: Vec<Job>) {
        let pinned: HashSet<usize> = self.open.iter().flat_map(Episode::jobs).collect();
        self.fabric.employ(jobs, &pinned);
    }

    /// Takes up at an instant (Unix ns) what was open before a restart; those whose place the fabric does not have are
    /// returned.
    pub fn resume<'a>(&mut self, incidents: &'a [Incident], now_ns: i64) -> Vec<&'a Incident> {
        let usual = self.history.usual(&self.fabric, self.calm_ns);
        let mut lost = Vec::new();
        for incident in incidents {
            match Episode::resume(incident, &self.fabric, usual.clone()) {
                Some(mut episode) => {
                    episode.goes_on(now_ns);
                    self.open.push(episode);
                }
                None => lost.push(incident),
            }
        }
        lost
    }

    /// Takes up one that is found to go on, beside what was calm before it; false if the fabric does not have its place.
    pub fn resume_beside(&mut self, incident: &Incident, calm: Vec<Frame>, now_ns: i64) -> bool {
        let calm = Stretch::new(calm.into_iter().map(Arc::new).collect());
        let usual = Arc::new(Usual::of(calm, &self.fabric, i64::MIN));
        let Some(mut episode) = Episode::resume(incident, &self.fabric, usual) else { return false };
        episode.goes_on(now_ns);
        self.open.push(episode);
        true
    }

    /// The incidents that are open, the oldest first.
    pub fn open(&self) -> Vec<Incident> {
        self.open.iter().map(|episode| episode.tell(&self.fabric, false)).collect()
    }

    /// Ports whose counters cannot be right, and why.
    pub fn doubts(&self) -> impl Iterator<Item = (usize, Reason)> + '_ {
        self.doubts.all()
    }

    /// Whether there was trouble lately that is told by no incident, because so many are open.
    pub fn is_full(&self) -> bool {
        self.full
    }

    fn doubt(&mut self) {
        let now_ns = self.history.now_ns();
        for port in self.history.take_back(CHECKED) {
            self.doubts.note(port, Reason::Leaps, now_ns);
        }
        if let Some(ticks) = self.doubts.due(now_ns) {
            let usual = self.history.usual(&self.fabric, self.calm_ns);
            let now = self.history.last_since(ticks, i64::MIN);
            let (fares, step_s) = (Fares::new(), self.history.step_s());
            let whole = District::whole(&self.fabric);
            let scene = Scene::new(&self.fabric, &self.limits, [&now, &now], &usual, step_s, &whole, &fares);
            self.doubts.look(&scene);
        }
    }

    /// Judges what the frames show by now; what it returns is over.
    pub fn judge(&mut self) -> Vec<Incident> {
        self.doubt();
        let looked = self.look();
        self.judge_by(&looked)
    }

    fn judge_by(&mut self, looked: &Looked) -> Vec<Incident> {
        let all = std::mem::take(&mut self.open);
        let due = self.due(&all);
        let verdicts: Vec<Other> = all.iter().map(|episode| self.other(looked, episode)).collect();
        let (mut open, mut over, mut calmed) = (Vec::new(), Vec::new(), Vec::new());
        for (at, mut episode) in all.into_iter().enumerate() {
            if self.standing(&episode) {
                episode.settle(&self.fabric);
            }
            let here = self.touched(looked, &episode);
            let other = |other: &&Other| other.id != episode.id && other.at.meets(&here);
            let others: Vec<&Other> = verdicts.iter().filter(other).collect();
            let look = if due.contains(&at) { self.look_again(looked, &mut episode, &others) } else { Look::Open };
            match look {
                Look::Open => open.push(episode),
                Look::Over => {
                    over.push(episode.tell(&self.fabric, true));
                    calmed.push(self.is_over(looked, &episode));
                }
                Look::Parts(parts) => {
                    over.push(episode.tell(&self.fabric, true));
                    calmed.push(self.is_over(looked, &episode));
                    parts.into_iter().for_each(|part| self.open_part(looked, &mut open, &episode, part));
                }
            }
        }
        self.begin(looked, &mut open, &calmed);
        for mut episode in open {
            // More than one place is the same only for the same trouble.
            let same = |a: &Finding, b: &Finding| a.root == b.root && (a.root != Root::Fabric || a.kind == b.kind);
            let one = |other: &&Episode| {
                self.touched(looked, other).meets(&self.touched(looked, &episode))
                    && same(other.verdict(), episode.verdict())
                    && self.other(looked, other).covers(episode.verdict(), &self.fabric)
            };
            match self.open.iter().find(one) {
                Some(other) => {
                    episode.part_of = Some(other.id.clone());
                    over.push(episode.tell(&self.fabric, true));
                }
                None => self.open.push(episode),
            }
        }
        over
    }

    /// Which are judged now: some of the old and of the young, in turns.
    fn due(&mut self, open: &[Episode]) -> Vec<usize> {
        let (old, young): (Vec<usize>, Vec<usize>) = (0..open.len()).partition(|at| self.standing(&open[*at]));
        self.turn = self.turn.wrapping_add(1);
        let some = |(all, turns): (Vec<usize>, usize)| {
            let first = self.turn.wrapping_mul(turns);
            (0..turns.min(all.len())).map(|k| all[first.wrapping_add(k) % all.len()]).collect::<Vec<_>>()
        };
        [old, young].into_iter().zip(TURNS).flat_map(some).collect()
    }

    fn other(&self, looked: &Looked, episode: &Episode) -> Other {
        let verdict = episode.verdict();
        Other {
            id: episode.id.clone(),
            root: verdict.root.clone(),
            kind: verdict.kind,
            priorities: verdict.priorities,
            chronic: self.standing(episode) && !verdict.kind.bends(),
            at: looked.touched(verdict, &self.fabric),
        }
    }

    fn standing(&self, episode: &Episode) -> bool {
        self.age(episode) > self.ticks(self.stands_s(episode.verdict()))
    }

    /// Seconds after which trouble is a part of what is usual.
    fn stands_s(&self, finding: &Finding) -> f64 {
        if self.fabric.is_reboot(finding.kind, &finding.root) { HOST_DOWN_S } else { STANDING_S }
    }

    fn young(&self, episode: &Episode) -> bool {
        self.age(episode) <= self.ticks(YOUNG_S)
    }

    /// In ticks, since it was seen.
    fn age(&self, episode: &Episode) -> usize {
        self.since(episode.detected_ns)
    }

    fn since(&self, time_ns: i64) -> usize {
        let seconds = (self.history.now_ns() - time_ns) as f64 / 1e9;
        (seconds / self.history.step_s()).round().max(0.0) as usize
    }

    /// Judges an open episode, without what belongs to others.
    fn look_again(&self, looked: &Looked, episode: &mut Episode, others: &[&Other]) -> Look {
        self.look_before(looked, episode);
        let (young, at) = (self.young(episode), self.touched(looked, episode));
        let root = episode.verdict().root.clone();
        let owner = |f: &Finding| others.iter().find(|other| other.root != root && other.owns(f, &self.fabric));
        let found = |part: f64| {
            let ticks = |d: &Detector| self.ticks(part * d.needs_s);
            let keep = |f: &Finding| (young || episode.knows(f)) && !episode.is_elsewhere(f, &self.fabric);
            self.findings(looked, (&episode.usual, episode.start_ns, &at), ticks, keep)
        };
        let mut own = found(1.0);
        own.retain(|f| owner(f).is_none());
        let (now, all) = (!own.is_empty(), found(ALIVE));
        if own.iter().any(|f| f.root == root) || !episode.verdict().is_whole() {
            episode.whole_ns = self.history.now_ns();
        }
        if now && self.since(episode.whole_ns) > self.ticks(SPLIT_S) {
            let kind = episode.verdict().kind;
            own.retain(|f| f.kind == kind);
            (episode.last_ns, episode.part_of) = (episode.whole_ns, None);
            return Look::Parts(own);
        }
        let lately = all.iter().any(|f| owner(f).is_none());
        episode.part_of = all.iter().filter(|_| !lately).find_map(owner).map(|other| other.id.clone());
        episode.quiet += 1;
        if lately {
            episode.quiet = 0;
            episode.alive_ns = self.history.now_ns();
        }
        if now {
            episode.last_ns = self.history.now_ns();
            let usual = episode.usual.clone();
            let whole = |d: &Detector| if d.looks_back { self.ticks(d.needs_s) } else { LONGEST };
            // What is left of a whole for a while makes it no other.
            let is_whole = episode.verdict().is_whole();
            let of_it = |f: &Finding| !is_whole || f.root == root || f.kind != episode.verdict().kind;
            let keep = |f: &Finding| owner(f).is_none() && !episode.is_elsewhere(f, &self.fabric) && of_it(f);
            let own = self.findings(looked, (&usual, episode.start_ns, &at), whole, keep);
            let long = self.see(looked, self.history.span_since(SUFFERED, episode.start_ns), &usual, &at);
            episode.note(own, &self.scene(&long));
        }
        // Who hears nothing of a place knows nothing of its end.
        if !lately && self.since(episode.last_ns) <= self.ticks(SILENT_S) && !self.hears(episode) {
            (episode.quiet, episode.alive_ns) = (0, self.history.now_ns());
        }
        let over = episode.quiet > LEAST && self.since(episode.alive_ns) > self.ticks(QUIET_S);
        if over { Look::Over } else { Look::Open }
    }

    /// Whether anything was measured lately of the ports of an incident's place that were measured before it.
    fn hears(&self, episode: &Episode) -> bool {
        let now = self.history.last_since(self.ticks(HEARD_S), i64::MIN);
        let tells = |stretch: &Stretch, port: usize| {
            [Signal::Tx, Signal::Rx, Signal::Up].iter().any(|signal| stretch.values(*signal, port).next().is_some())
        };
        let ports = self.fabric.ports_of(&episode.verdict().root);
        let known: Vec<usize> = ports.into_iter().filter(|port| tells(&episode.usual.stretch, *port)).collect();
        if known.is_empty() {
            return now.frames().iter().any(|frame| !frame.is_empty());
        }
        known.into_iter().any(|port| tells(&now, port))
    }
}
