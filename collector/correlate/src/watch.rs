//! From frames to incidents: opens one when a detector is sure that something began, keeps what was usual before as its
//! yardstick, lets the detectors judge again at each tick, and closes it when nothing has been found for a while.

use crate::detect;
use crate::fabric::Fabric;
use crate::finding::{Finding, Root};
use crate::history::{Frame, History, Stretch, Usual};
use crate::incident::{Incident, Place, Severity, action};
use crate::limits::Limits;
use crate::scene::Scene;
use crate::victims::victims;
use crate::wait::is_held;
use std::collections::BTreeMap;

/// Seconds without a finding after which an incident is over.
const QUIET_S: f64 = 12.0;
/// Seconds after the end of an incident that are not usual yet.
const SETTLE_S: f64 = 20.0;
/// Of the time that a detector needs to see a beginning: the time in which it must find something again.
const ALIVE: f64 = 2.0;
/// Seconds until what was measured is usual: trouble that begins slowly must be seen before it is its own yardstick.
const LAG_S: f64 = 20.0;
/// Least ticks of any stretch.
const LEAST: usize = 2;
/// Ticks that are judged at most: what was long ago says little of what is wrong now.
const LONGEST: usize = 60;
/// Seconds in which the first finding may give way to another kind: trouble shows itself bit by bit.
const YOUNG_S: f64 = 10.0;

/// See the module.
pub struct Watch {
    fabric: Fabric,
    limits: Limits,
    history: History,
    open: Option<Episode>,
    opened: usize,
    /// From when on all is usual again.
    calm_ns: i64,
    /// When the last incident was over.
    over_ns: i64,
}

struct Episode {
    id: String,
    usual: Usual,
    start_ns: i64,
    detected_ns: i64,
    /// The last instant at which something was found.
    last_ns: i64,
    ticks: usize,
    quiet: usize,
    verdicts: Vec<(Finding, f64)>,
    /// How long each job was seen to suffer, in ticks judged.
    suffer: BTreeMap<usize, f64>,
    /// Ticks judged.
    weight: f64,
    paused: Vec<usize>,
}

impl Watch {
    /// Of a fabric.
    pub fn new(fabric: Fabric, limits: Limits) -> Self {
        let history = History::default();
        Self { fabric, limits, history, open: None, opened: 0, calm_ns: i64::MIN, over_ns: i64::MIN }
    }

    /// Takes the next frame; what it returns is over.
    pub fn tick(&mut self, frame: Frame) -> Option<Incident> {
        let lag = self.ticks(LAG_S);
        self.history.push(frame, lag, if self.open.is_some() { i64::MAX } else { self.calm_ns });
        let Some(mut episode) = self.open.take() else {
            self.open = self.begin();
            return None;
        };
        episode.ticks += 1;
        episode.quiet += 1;
        let since = self.history.since(episode.start_ns);
        let young = episode.ticks <= self.ticks(YOUNG_S);
        let known = |f: &Finding| young || episode.verdicts.iter().any(|(v, _)| v.kind == f.kind || v.root == f.root);
        let found = |part: f64| self.judge(&episode.usual, |s| since.last(self.ticks(part * s))).iter().any(known);
        let (now, lately) = (found(1.0), found(ALIVE));
        if lately {
            episode.quiet = 0;
        }
        if now {
            episode.last_ns = self.history.now_ns();
            let whole = since.last(LONGEST);
            let findings = self.judge(&episode.usual, |_| whole.clone());
            self.note(&mut episode, findings.into_iter(), &whole);
        }
        if episode.quiet > self.ticks(QUIET_S) {
            self.over_ns = self.history.now_ns();
            self.calm_ns = self.over_ns + (SETTLE_S * 1e9) as i64;
            return Some(self.tell(&episode, true));
        }
        self.open = Some(episode);
        None
    }

    /// The incident that is open.
    pub fn open(&self) -> Option<Incident> {
        self.open.as_ref().map(|episode| self.tell(episode, false))
    }

    fn begin(&mut self) -> Option<Episode> {
        let usual = self.history.usual(&self.fabric, self.calm_ns);
        let first = self.able(&usual).filter_map(|detector| {
            // What needs no comparison needs no calm before it.
            let from_ns = if detector.usual_s > 0.0 { self.calm_ns } else { self.over_ns };
            let now = self.history.last_since(self.ticks(detector.needs_s), from_ns);
            if now.ticks() < LEAST {
                return None;
            }
            let found = best((detector.run)(&self.scene(&usual, &now)));
            found.map(|finding| (finding, now))
        });
        let (finding, now) = first.max_by(|a, b| a.0.confidence.total_cmp(&b.0.confidence))?;
        self.opened += 1;
        let detected_ns = self.history.now_ns();
        let mut episode = Episode {
            id: format!("{}-{}", detected_ns / 1_000_000, self.opened),
            usual,
            start_ns: finding.began_ns.unwrap_or(now.window_ns()[0]),
            detected_ns,
            last_ns: detected_ns,
            ticks: 0,
            quiet: 0,
            verdicts: Vec::new(),
            suffer: BTreeMap::new(),
            weight: 0.0,
            paused: Vec::new(),
        };
        self.note(&mut episode, std::iter::once(finding), &now);
        Some(episode)
    }

    fn scene<'a>(&'a self, usual: &'a Usual, now: &'a Stretch) -> Scene<'a> {
        Scene { fabric: &self.fabric, now, usual, step_s: self.history.step_s(), limits: &self.limits }
    }

    /// Detectors for which enough is known of what is usual.
    fn able<'a>(&'a self, usual: &'a Usual) -> impl Iterator<Item = &'static detect::Detector> + 'a {
        detect::ALL.iter().filter(|d| d.usual_s <= 0.0 || usual.fresh >= self.ticks(d.usual_s))
    }

    /// So many seconds in ticks. Ticks of less than a second count as seconds: simulators are fast.
    fn ticks(&self, seconds: f64) -> usize {
        ((seconds / self.history.step_s().max(1.0)).ceil() as usize).max(LEAST)
    }

    /// What all detectors find, each in the stretch `of` the ticks that it needs.
    fn judge(&self, usual: &Usual, of: impl Fn(f64) -> Stretch) -> Vec<Finding> {
        self.able(usual).flat_map(|d| (d.run)(&self.scene(usual, &of(d.needs_s)))).collect()
    }

    /// Adds the best finding to what was found before, and looks who suffers.
    fn note(&self, episode: &mut Episode, findings: impl Iterator<Item = Finding>, whole: &Stretch) {
        let Some(found) = best(findings) else { return };
        let scene = self.scene(&episode.usual, whole);
        let weight = whole.ticks() as f64;
        episode.weight += weight;
        for job in victims(&scene, &found.culprits) {
            *episode.suffer.entry(job).or_insert(0.0) += weight;
        }
        episode.paused = (0..self.fabric.ports.list.len()).filter(|p| is_held(&scene, *p)).collect();
        match episode.verdicts.iter_mut().find(|(old, _)| old.kind == found.kind && old.root == found.root) {
            Some((old, score)) => {
                *score += found.confidence;
                let began_ns = old.began_ns.or(found.began_ns);
                *old = Finding { began_ns, ..found };
            }
            None => {
                let score = found.confidence;
                episode.verdicts.push((found, score));
            }
        }
    }

    fn tell(&self, episode: &Episode, over: bool) -> Incident {
        let verdict = episode.verdicts.iter().max_by(|a, b| a.1.total_cmp(&b.1)).map(|v| &v.0);
        // An episode begins with a finding.
        #[expect(clippy::expect_used, reason = "begin() notes the first")]
        let verdict = verdict.expect("a first finding");
        let id = |job: &usize| self.fabric.jobs[*job].id.clone();
        let suffer: Vec<String> =
            suffering(episode).filter(|job| !verdict.culprits.contains(job)).map(|job| id(&job)).collect();
        Incident {
            id: episode.id.clone(),
            kind: verdict.kind,
            start_ns: verdict.began_ns.unwrap_or(episode.start_ns),
            detected_ns: episode.detected_ns,
            end_ns: over.then_some(episode.last_ns),
            severity: if suffer.is_empty() { Severity::Warning } else { Severity::Critical },
            confidence: verdict.confidence,
            root: Place::of(&self.fabric, &verdict.root),
            culprit_jobs: verdict.culprits.iter().map(id).collect(),
            victim_jobs: suffer,
            victim_ports: episode.paused.iter().map(|p| Place::of(&self.fabric, &Root::Port(*p))).collect(),
            evidence: verdict.evidence.clone(),
            explanation: verdict.explanation.clone(),
            action: action(verdict.kind).to_owned(),
        }
    }
}

/// Jobs that were seen to suffer most of the time.
fn suffering(episode: &Episode) -> impl Iterator<Item = usize> + '_ {
    episode.suffer.iter().filter(|(_, weight)| **weight * 2.0 > episode.weight).map(|(job, _)| *job)
}

/// The surest; of those as sure as each other the first.
fn best(findings: impl IntoIterator<Item = Finding>) -> Option<Finding> {
    findings.into_iter().reduce(|best, next| if next.confidence > best.confidence { next } else { best })
}
