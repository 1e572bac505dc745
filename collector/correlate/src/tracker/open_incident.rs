//! An open incident: what each evaluation found, how often, and which jobs lost throughput.

use crate::baseline::reference::Baseline;
use crate::detectors::application_straggler::acquitted;
use crate::detectors::backpressure;
use crate::detectors::context::DetectorContext;
use crate::detectors::paging::pages;
use crate::detectors::senders::senders;
use crate::detectors::victims::{Reach, low, victims};
use crate::detectors::waiting_ports::{places, waiting};
use crate::model::fabric::Fabric;
use crate::model::finding::Finding;
use crate::model::incident::{Incident, IncidentPath, Sender};
use crate::model::kind::{Scope, Severity};
use crate::model::location::Location;
use crate::model::location::LocationId;
use crate::model::routes::path::Path;
use crate::tracker::considered_causes::ConsideredCauses;
use crate::tracker::past_incidents::{PastIncidents, Recurrence};
use crate::tracker::timing::{QUIET_S, RECURS_S};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Ports held back that are named, those held back most.
const NAMED: usize = 256;

/// Seconds of samples whose evaluations must agree on a verdict that is inferred before it pages: with samples of a second,
/// two evaluations.
const SETTLED_S: f64 = 1.5;

/// An open incident.
pub(super) struct OpenIncident {
    pub id: String,
    /// Baseline from before it began.
    pub baseline: Arc<Baseline>,
    /// The baseline holds the ports of its location only.
    settled: bool,
    pub start_ns: i64,
    pub detected_ns: i64,
    /// Last instant with a finding.
    pub last_ns: i64,
    /// Last instant at which it was not over.
    pub alive_ns: i64,
    /// Last instant with a finding at its own location, as opposed to a part of it.
    pub whole_ns: i64,
    /// Id of the incident that it was attributed to before.
    pub split_from: Option<String>,
    /// Id of another incident, if that owns all recent findings.
    pub part_of: Option<String>,
    /// Instant of the newest frame at its last evaluation.
    pub evaluated_ns: i64,
    /// Consecutive evaluations without a finding.
    pub quiet: usize,
    /// It was certain enough to page at some time; otherwise it is an observation.
    pub paged: bool,
    /// Why nobody is notified although it is certain enough.
    recurrence: Option<Recurrence>,
    /// Findings, each with the sum of its confidences.
    verdicts: Vec<(Finding, f64)>,
    /// Everything that was found at it.
    considered: ConsideredCauses,
    /// Throughput, relative to the baseline, of jobs that were low already before it began.
    before: BTreeMap<usize, f64>,
    /// Evaluated ticks in which each job lost throughput.
    suffer: BTreeMap<usize, f64>,
    /// Evaluated ticks.
    weight: f64,
    paused: Vec<usize>,
    senders: Vec<usize>,
}

impl OpenIncident {
    pub fn new(id: String, baseline: Arc<Baseline>, finding: &Finding, start_ns: i64, now_ns: i64) -> Self {
        Self {
            id,
            baseline,
            settled: false,
            start_ns: finding.began_ns.unwrap_or(start_ns),
            detected_ns: now_ns,
            last_ns: now_ns,
            alive_ns: now_ns,
            whole_ns: now_ns,
            split_from: None,
            part_of: None,
            evaluated_ns: now_ns,
            quiet: 0,
            paged: false,
            recurrence: None,
            verdicts: Vec::new(),
            considered: ConsideredCauses::default(),
            before: BTreeMap::new(),
            suffer: BTreeMap::new(),
            weight: 0.0,
            paused: Vec::new(),
            senders: Vec::new(),
        }
    }

    /// Resumes an incident from before a restart; its verdict counts as one finding.
    pub fn resume(incident: &Incident, fabric: &Fabric, baseline: Arc<Baseline>) -> Option<Self> {
        let job = |id: &String| fabric.jobs.iter().position(|job| job.id == *id);
        let finding = Finding {
            kind: incident.kind,
            root: incident.root.find(fabric)?,
            confidence: incident.confidence,
            culprits: incident.culprit_jobs.iter().filter_map(job).collect(),
            victims: match incident.kind.spec().scope {
                Scope::Job => incident.victim_jobs.iter().filter_map(job).collect(),
                Scope::Network => Vec::new(),
            },
            receivers: Vec::new(),
            priorities: incident.priorities,
            began_ns: Some(incident.start_ns),
            evidence: incident.evidence.clone(),
            explanation: incident.explanation.clone(),
            action: incident.action.clone(),
            inferred: !incident.kind.is_observed(),
            observed_at: None,
            harmless: None,
            path: None,
        };
        let mut resumed = Self::new(incident.id.clone(), baseline, &finding, incident.start_ns, incident.detected_ns);
        resumed.weight = 1.0;
        resumed.considered = ConsideredCauses::resume(&incident.considered);
        resumed.paged = incident.severity != Severity::Info;
        resumed.split_from.clone_from(&incident.split_from);
        let port = |sender: &Sender| match sender.port.find(fabric)? {
            LocationId::Port(port) => Some(port),
            _ => None,
        };
        resumed.senders = incident.senders.iter().filter_map(port).collect();
        resumed.suffer = incident.victim_jobs.iter().filter_map(job).map(|job| (job, 1.0)).collect();
        resumed.before = incident.low_before.iter().filter_map(|(id, part)| Some((job(id)?, *part))).collect();
        let score = finding.confidence;
        resumed.verdicts.push((finding, score));
        Some(resumed)
    }

    /// Counts as found at an instant.
    pub fn confirm(&mut self, now_ns: i64) {
        (self.alive_ns, self.last_ns, self.whole_ns) = (now_ns, now_ns, now_ns);
    }

    /// Reduces the baseline to the ports of its location, if it is observed there. Otherwise incidents that last for
    /// weeks would each keep a minute of all ports.
    pub fn shrink_baseline(&mut self, fabric: &Fabric) {
        let Finding { kind, root, .. } = self.verdict();
        if self.settled || !kind.is_observed() || kind.spec().may_spread || *root == LocationId::Fabric {
            return;
        }
        let near = |port: &usize| LocationId::Port(*port).overlaps(root, fabric);
        let ports: Vec<usize> = (0..fabric.ports.list.len()).filter(near).collect();
        self.baseline = Arc::new(self.baseline.only_ports(&ports));
        self.settled = true;
    }

    /// A new incident for a part of the location of this one, which is over.
    pub fn split_off(&self, id: String, finding: &Finding, now_ns: i64) -> Self {
        let mut part = Self::new(id, self.baseline.clone(), finding, self.start_ns, now_ns);
        part.before.clone_from(&self.before);
        part.split_from = Some(self.id.clone());
        part
    }

    /// Removes a minority finding that has become an incident of its own; returns whether there was one.
    pub fn give_up(&mut self, finding: &Finding) -> bool {
        let had = !self.verdict().is_same_as(finding) && self.verdicts.iter().any(|v| v.0.is_same_as(finding));
        if had {
            self.verdicts.retain(|v| !v.0.is_same_as(finding));
        }
        had
    }

    /// Takes the losses in this context as those from before it began.
    pub fn with_losses_before(mut self, ctx: &DetectorContext<'_>) -> Self {
        self.before = low(ctx);
        self
    }

    /// Records the finding with the highest confidence, and the jobs that lose throughput. `other_places` are ports of other
    /// incidents that hold senders back.
    pub fn record(
        &mut self,
        findings: impl IntoIterator<Item = Finding>,
        other_places: &BTreeSet<usize>,
        ctx: &DetectorContext<'_>,
    ) {
        // At equal confidence the known finding wins, so that a second problem does not rename the first.
        let known =
            |f: &Finding| self.verdicts.iter().max_by(|a, b| a.1.total_cmp(&b.1)).is_some_and(|v| v.0.is_same_as(f));
        let (own, others): (Vec<Finding>, Vec<Finding>) = findings.into_iter().partition(known);
        let of_jobs = match others.iter().chain(&own).next().map(|found| found.kind.spec().scope) {
            Some(Scope::Network) => acquitted(ctx, ctx.jobs()),
            _ => Vec::new(),
        };
        self.considered.record(own.iter().chain(&others).chain(&of_jobs), ctx.fabric);
        let Some(mut found) = best(own.into_iter().chain(others)) else { return };
        let known = self.verdicts.iter().find(|(old, _)| old.is_same_as(&found));
        found.harmless = found.harmless.or(known.and_then(|(old, _)| old.harmless));
        let weight = ctx.window.ticks() as f64;
        self.weight += weight;
        let scope = found.kind.spec().scope;
        let held = || waiting(ctx, found.priorities, &places(ctx.fabric, &found), other_places);
        self.paused = if scope == Scope::Job { Vec::new() } else { held() };
        if scope == Scope::Job {
            found.victims.iter().for_each(|job| *self.suffer.entry(*job).or_insert(0.0) += weight);
        } else if !found.is_harmless() {
            let reach = Reach::of(ctx.fabric, &found, &self.paused);
            for job in victims(ctx, &reach, &found.culprits, &self.before) {
                *self.suffer.entry(job).or_insert(0.0) += weight;
            }
        }
        most(&mut self.paused, ctx);
        let (kind, root, receivers) = (found.kind, found.root.clone(), found.receivers.clone());
        match self.verdicts.iter_mut().find(|(old, _)| old.is_same_as(&found)) {
            Some((old, score)) => {
                *score += found.confidence;
                let began_ns = old.began_ns.or(found.began_ns);
                *old = Finding { began_ns, ..found };
            }
            None => {
                let score = found.confidence;
                self.verdicts.push((found, score));
            }
        }
        if (self.verdict().kind, &self.verdict().root) == (kind, &root) {
            self.senders = senders(ctx, &receivers);
        }
    }

    /// Counts as paged once the verdict is settled and certain enough. Nobody is notified while it comes back by the clock and
    /// lasts no longer than usual, but it explains what follows from it all the same.
    pub fn decide_paging(&mut self, ctx: &DetectorContext<'_>, past: &PastIncidents) {
        let verdict = self.verdict();
        let certain = self.is_settled(ctx.step_s) && pages(verdict, ctx.thresholds);
        if !certain || self.paged && self.recurrence.is_none() {
            return;
        }
        let (begin_ns, now_ns) = (self.begin_ns(), ctx.window.time_range_ns()[1]);
        let root = Location::of(ctx.fabric, &verdict.root);
        let recurrence = past.recurrence((verdict.kind, &root), begin_ns, ctx.thresholds);
        self.recurrence = recurrence.filter(|usual| now_ns - begin_ns <= usual.longest_ns);
        if !self.paged || self.recurrence.is_none() {
            self.detected_ns = now_ns.max(self.detected_ns);
        }
        self.paged = true;
    }

    /// The finding with the highest total confidence.
    pub fn verdict(&self) -> &Finding {
        let verdict = self.verdicts.iter().max_by(|a, b| a.1.total_cmp(&b.1)).map(|v| &v.0);
        #[expect(clippy::expect_used, reason = "an episode begins with a finding")]
        verdict.expect("a first finding")
    }

    /// Whether its verdict will hardly change: what is inferred from effects takes some evaluations to show its form. One long
    /// sample says for how long ports were paused, but not that a comparison holds, or that no finer kind explains it.
    fn is_settled(&self, step_s: f64) -> bool {
        let verdict = self.verdict();
        let votes = self.verdicts.iter().find(|(finding, _)| finding.is_same_as(verdict)).map_or(0.0, |v| v.1);
        let each_s = if verdict.kind.spec().holds_others_back { step_s.max(1.0) } else { 1.0 };
        !verdict.inferred || votes * each_s >= SETTLED_S * verdict.confidence
    }

    /// Whether the baseline stops learning while it lasts.
    pub fn freezes_baseline(&self) -> bool {
        self.paged && self.verdict().kind.spec().freezes_baseline
    }

    /// Seconds without a finding after which it is over.
    pub fn quiet_s(&self) -> f64 {
        let verdict = self.verdict();
        if !self.paged && verdict.is_harmless() && verdict.kind.spec().recurs { RECURS_S } else { QUIET_S }
    }

    /// When it began according to the verdict, Unix nanoseconds.
    pub fn begin_ns(&self) -> i64 {
        self.verdict().began_ns.unwrap_or(self.start_ns)
    }

    /// Moves the start back.
    pub fn backdate(&mut self, at_ns: i64) {
        self.start_ns = self.start_ns.min(at_ns);
        if let Some((verdict, _)) = self.verdicts.iter_mut().max_by(|a, b| a.1.total_cmp(&b.1)) {
            verdict.began_ns = Some(at_ns);
        }
    }

    /// Whether a finding has the kind or location of an earlier one.
    pub fn recognizes(&self, finding: &Finding) -> bool {
        self.verdicts.iter().any(|(v, _)| v.kind == finding.kind || v.root == finding.root)
    }

    /// Whether a finding is a different problem at another location. Directly observed faults never change location,
    /// unless they spread, or a port that pauses turns out to be paused by another. Other priorities are other
    /// problems.
    pub fn is_elsewhere(&self, finding: &Finding, fabric: &Fabric) -> bool {
        let scopes = [self.verdict().kind, finding.kind].map(|kind| kind.spec().scope);
        if scopes.contains(&Scope::Job) {
            return self.verdict().kind != finding.kind || self.verdict().victims != finding.victims;
        }
        let both = |is: fn(&Finding) -> bool| is(self.verdict()) && is(finding);
        let apart = !self.verdict().priorities.meets(finding.priorities);
        (apart || both(|f| !f.inferred) && !both(|f| f.kind.spec().may_spread || f.kind.spec().holds_others_back))
            && !self.verdict().root.overlaps(&finding.root, fabric)
    }

    /// Locations of all its findings.
    pub fn roots(&self) -> impl Iterator<Item = &LocationId> {
        self.verdicts.iter().map(|(finding, _)| &finding.root)
    }

    /// Ports that were held back at the last evaluation.
    pub fn paused(&self) -> impl Iterator<Item = usize> + '_ {
        self.paused.iter().copied()
    }

    /// Jobs that it names.
    pub fn jobs(&self) -> impl Iterator<Item = usize> + '_ {
        let seen = self.suffer.keys().chain(self.before.keys()).copied();
        self.verdicts.iter().flat_map(|v| v.0.culprits.iter().copied()).chain(seen)
    }

    /// Updates link indices after the topology has changed.
    pub fn renumber(&mut self, link: impl Fn(usize) -> LocationId) {
        for (finding, _) in &mut self.verdicts {
            if let LocationId::Link(at) = finding.root {
                finding.root = link(at);
            }
        }
    }

    /// Jobs that lost throughput in most evaluations.
    fn suffering(&self) -> impl Iterator<Item = usize> + '_ {
        self.suffer.iter().filter(|(_, weight)| **weight * 2.0 > self.weight).map(|(job, _)| *job)
    }

    /// The incident as the API returns it.
    pub fn to_incident(&self, fabric: &Fabric, over: bool) -> Incident {
        let verdict = self.verdict();
        let id = |job: &usize| fabric.jobs[*job].id.clone();
        let sender = |port: &usize| Sender {
            port: Location::of(fabric, &LocationId::Port(*port)),
            job: fabric.job_of(*port).map(|job| id(&job)),
        };
        let root = Location::of(fabric, &verdict.root);
        let suffer: Vec<String> =
            self.suffering().filter(|job| !verdict.culprits.contains(job)).map(|job| id(&job)).collect();
        Incident {
            id: self.id.clone(),
            kind: verdict.kind,
            start_ns: self.begin_ns().min(self.detected_ns),
            detected_ns: self.detected_ns,
            end_ns: over.then_some(self.last_ns),
            merged_into: self.part_of.clone().filter(|_| over),
            split_from: self.split_from.clone(),
            severity: if self.paged && self.recurrence.is_none() {
                verdict.kind.spec().severity.severity(suffer.len())
            } else {
                Severity::Info
            },
            confidence: verdict.confidence,
            considered: self.considered.besides(verdict.kind, &root),
            root,
            priorities: verdict.priorities,
            culprit_jobs: verdict.culprits.iter().map(id).collect(),
            victim_jobs: suffer,
            low_before: self.before.iter().map(|(job, part)| (id(job), *part)).collect(),
            victim_ports: self.paused.iter().map(|p| Location::of(fabric, &LocationId::Port(*p))).collect(),
            senders: self.senders.iter().map(sender).collect(),
            path: verdict.path.as_ref().map(|path| incident_path(fabric, path)),
            evidence: verdict.evidence.clone(),
            explanation: verdict.explanation.clone() + &self.recurrence.map_or_else(String::new, |usual| usual.text()),
            action: verdict.action.clone(),
        }
    }
}

/// A path by names.
fn incident_path(fabric: &Fabric, path: &Path) -> IncidentPath {
    let last = path.hops.last().and_then(|hop| fabric.ports.list[*hop].peer);
    let port = |port: usize| Location::of(fabric, &LocationId::Port(port));
    IncidentPath { ports: path.hops.iter().copied().chain(last).map(port).collect(), known: path.source }
}

/// Keeps the `NAMED` ports that are held back most.
fn most(held: &mut Vec<usize>, ctx: &DetectorContext<'_>) {
    if held.len() > NAMED {
        held.sort_by_cached_key(|port| Reverse(backpressure::held(ctx, *port).unwrap_or(0.0).to_bits()));
        held.truncate(NAMED);
    }
}

/// The finding with the highest confidence; of equal ones the first.
pub(super) fn best(findings: impl IntoIterator<Item = Finding>) -> Option<Finding> {
    findings.into_iter().reduce(|best, next| if next.confidence > best.confidence { next } else { best })
}
