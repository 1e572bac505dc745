//! Evicts ports and nodes that are gone, so that their indices are reused: fleets replace and rename hosts for months.

use crate::baseline::removed_ports::RemovedPorts;
use crate::model::location::LocationId;
use crate::tracker::incident_tracker::IncidentTracker;
use crate::tracker::open_incident::OpenIncident;
use std::collections::HashSet;

impl IncidentTracker {
    /// Removes ports without samples, as `is_heard` reports, unless they have a cable, a job or an open incident; and
    /// nodes without ports. Returns the removed ports, whose indices will be reused.
    pub fn forget(&mut self, is_heard: impl Fn(usize) -> bool) -> Vec<usize> {
        let roots: Vec<&LocationId> = self.open.iter().flat_map(OpenIncident::roots).collect();
        let named: HashSet<usize> = roots.iter().flat_map(|root| root.ports(&self.eval.fabric)).collect();
        let held = self.open.iter().flat_map(OpenIncident::paused);
        let of_jobs = self.eval.fabric.jobs.iter().flat_map(|job| job.ports.iter().copied());
        let stays: HashSet<usize> = named.into_iter().chain(held).chain(of_jobs).collect();
        let node = |root: &&LocationId| match root {
            LocationId::Switch(node) | LocationId::Host(node) => Some(*node),
            _ => None,
        };
        let nodes: HashSet<usize> = roots.iter().filter_map(node).collect();
        let silent = self.eval.fabric.ports.known().filter(|port| !is_heard(*port) && !stays.contains(port));
        let mut silent: Vec<usize> = silent.collect();
        silent.sort_unstable();
        self.cables.forget_ports(&silent);
        silent.retain(|port| self.eval.fabric.ports.list[*port].link.is_none());
        if silent.is_empty() {
            return silent;
        }
        self.eval.fabric.remove_ports(&silent, |node| nodes.contains(&node));
        self.implausible.remove_ports(&silent);
        let mut removed = RemovedPorts::new(silent);
        self.eval.history.remove_ports(&mut removed);
        self.open.iter_mut().for_each(|incident| incident.baseline = removed.baseline(&incident.baseline));
        removed.ports
    }
}
