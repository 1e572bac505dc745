//! Which host ports the rules of paths need queue pairs of: a fleet has millions, so they are read for few ports only.

use crate::detectors::context::DetectorContext;
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
        let ticks = self.eval.ticks(WINDOW_S);
        self.eval.ask_of_fabric(ticks, self.baseline_from_ns, |ctx| suspects(ctx, most))
    }

    /// Bytes per second that each host port lately sent and received.
    pub fn host_bytes(&mut self) -> Vec<(usize, [f64; 2])> {
        let ticks = self.eval.ticks(WINDOW_S);
        self.eval.ask_of_fabric(ticks, self.baseline_from_ns, |ctx| {
            let both = |port: usize| Some((port, [ctx.mean(Signal::Tx, port)?, ctx.mean(Signal::Rx, port)?]));
            ctx.host_ports().filter_map(both).collect()
        })
    }

    /// Forgets traced paths that nobody told again since an instant, Unix nanoseconds.
    pub fn forget_paths_before(&mut self, time_ns: i64) {
        self.eval.fabric.routes.forget_paths_before(time_ns);
    }
}

fn suspects(ctx: &DetectorContext<'_>, most: usize) -> Vec<usize> {
    if ctx.switches_report(Signal::Tx) {
        return Vec::new();
    }
    let losses = |port: usize| ctx.mean(Signal::SequenceNaks, port).filter(|naks| *naks > 0.0);
    let mut losing: Vec<(usize, f64)> = ctx.host_ports().filter_map(|port| Some((port, losses(port)?))).collect();
    losing.sort_by(|a, b| b.1.total_cmp(&a.1));
    let of_losing: BTreeSet<usize> = losing.iter().filter_map(|(port, _)| ctx.fabric.job_of(*port)).collect();
    let slow = ctx.slowdowns().filter(|(job, slowdown)| slowdown.lost_more_than(LOST) && !of_losing.contains(job));
    let jobs = of_losing.iter().copied().chain(slow.map(|(job, _)| job));
    let ports = losing.iter().map(|(port, _)| *port).chain(jobs.flat_map(|job| ctx.fabric.jobs[job].ports.clone()));
    let mut known = BTreeSet::new();
    ports.filter(|port| known.insert(*port)).take(most).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::detectors::thresholds::Thresholds;
    use crate::model::fabric::{Fabric, Job};
    use crate::model::frame::Frame;
    use crate::model::ports::Ports;
    use crate::model::topology::{Node, Role, Topology};

    /// Names of the suspects, after 20 s in which `h0` and `h1` lost packets and `h4` slowed down.
    fn suspect_names(most: usize, switch_is_read: bool) -> Vec<String> {
        let leaf = Node { name: "leaf".into(), role: Role::Leaf };
        let fabric = Fabric::new(Topology::new(vec![leaf], Vec::new()), Ports::default(), Vec::new());
        let mut tracker = IncidentTracker::new(fabric, Thresholds::default());
        let names = ["h0", "h1", "h2", "h3", "h4", "h5", "leaf"];
        let ports = names.map(|name| tracker.measured_port(name, "1").unwrap());
        let job = |id: &str, at: &[usize]| Job {
            id: id.into(),
            ports: at.iter().map(|at| ports[*at]).collect(),
            since_ns: 0,
        };
        tracker.set_jobs(vec![job("loses", &[1, 2]), job("slow", &[4]), job("healthy", &[5])]);
        for second in 0..100 {
            let mut frame = Frame::new(second * 1_000_000_000);
            for (at, port) in ports.iter().enumerate().filter(|(at, _)| *at < 6 || switch_is_read) {
                let bytes = if at == 4 && second >= 80 { 3e9 } else { 1e10 };
                [Signal::Tx, Signal::Rx].into_iter().for_each(|signal| frame.set(signal, *port, bytes));
                let naks = [1.0, 5.0].get(at).filter(|_| second >= 80).copied().unwrap_or(0.0);
                frame.set(Signal::SequenceNaks, *port, naks);
            }
            tracker.push(frame);
        }
        let suspects = tracker.path_suspects(most);
        let at = |port: usize| ports.iter().position(|known| *known == port).unwrap();
        suspects.into_iter().map(|port| names[at(port)].to_owned()).collect()
    }

    #[test]
    fn ports_that_lose_come_before_their_jobs_and_slow_jobs() {
        assert_eq!(suspect_names(9, false), ["h1", "h0", "h2", "h4"]);
        assert_eq!(suspect_names(2, false), ["h1", "h0"]);
        assert_eq!(suspect_names(9, true), [""; 0], "the switch shows where packets are lost");
    }
}
