//! Which host ports the rules of paths need queue pairs of: a fleet has millions, so they are read for few ports only.

use crate::detectors::context::{DetectorContext, SlowdownCache};
use crate::detectors::fault_domain::FaultDomain;
use crate::model::signal::Signal;
use crate::tracker::incident_tracker::IncidentTracker;
use std::collections::BTreeSet;

/// Window in which ports lose packets, seconds: that of the rules.
const WINDOW_S: f64 = 20.0;
/// Share of its usual bytes from which a job has lost throughput.
const LOST: f64 = 0.1;

impl IncidentTracker {
    /// Host ports that lose packets, those with most losses first; then the other ports of their jobs, which may have none on a
    /// way that they share; then ports of jobs that lost throughput. At most `most`. None where switches are read: they show
    /// themselves where packets are lost.
    pub fn path_suspects(&mut self, most: usize) -> Vec<usize> {
        let fabric = &self.eval.fabric;
        let baseline = self.eval.history.baseline(fabric, self.baseline_from_ns);
        let window = self.eval.history.last_since(self.eval.ticks(WINDOW_S), i64::MIN);
        let (slowdowns, step_s, whole) = (SlowdownCache::new(), self.eval.history.step_s(), FaultDomain::whole(fabric));
        let windows = [&window, &window];
        let ctx = DetectorContext::new(fabric, &self.eval.thresholds, windows, &baseline, step_s, &whole, &slowdowns);
        if ctx.switches_report(Signal::Tx) {
            return Vec::new();
        }
        let losses = |port: usize| ctx.mean(Signal::SequenceNaks, port).filter(|naks| *naks > 0.0);
        let mut losing: Vec<(usize, f64)> = ctx.host_ports().filter_map(|port| Some((port, losses(port)?))).collect();
        losing.sort_by(|a, b| b.1.total_cmp(&a.1));
        let of_losing: BTreeSet<usize> = losing.iter().filter_map(|(port, _)| fabric.job_of(*port)).collect();
        let slow = ctx.slowdowns().filter(|(job, slowdown)| slowdown.lost_more_than(LOST) && !of_losing.contains(job));
        let jobs = of_losing.iter().copied().chain(slow.map(|(job, _)| job));
        let ports = losing.iter().map(|(port, _)| *port).chain(jobs.flat_map(|job| fabric.jobs[job].ports.clone()));
        let mut known = BTreeSet::new();
        ports.filter(|port| known.insert(*port)).take(most).collect()
    }
}
