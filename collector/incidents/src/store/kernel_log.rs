//! Adds to open incidents the events that the kernel log of their hosts names.

use super::IncidentStore;
use crate::kernel_event::{KernelEvent, KernelLogCount};
use crate::record::State;
use std::cmp::Reverse;
use std::collections::BTreeSet;

use fabriclens_catalog::kernel_log::LogClass;
use fabriclens_correlate::Location;

/// Most events of an incident.
const MOST: usize = 8;

impl IncidentStore {
    /// Hosts whose kernel log may explain open incidents.
    pub fn hosts_of_open_incidents(&self) -> BTreeSet<String> {
        let inner = self.inner.lock();
        let open = inner.entries.values().map(|entry| &entry.record).filter(|record| record.is_open());
        let mut hosts = BTreeSet::new();
        for record in open {
            match &record.incident.root {
                Location::Port { node, .. } | Location::Host { node } => _ = hosts.insert(node.clone()),
                Location::Link { a, b, .. } => hosts.extend([a.clone(), b.clone()]),
                // The rank that lags is on one of these.
                Location::Job { .. } => hosts.extend(record.incident.victim_ports.iter().filter_map(host)),
                Location::Switch { .. } | Location::Fabric => {}
            }
        }
        hosts
    }

    /// Adds events to the open incidents of the same place and time, those that may be the reason first. An event that an incident
    /// has is not added again.
    pub fn add_kernel_events(&self, counts: &[KernelLogCount], now_ns: i64) {
        if counts.is_empty() {
            return;
        }
        let mut inner = self.inner.lock();
        let open: Vec<_> =
            inner.entries.values().map(|entry| &entry.record).filter(|record| record.is_open()).cloned().collect();
        for record in open {
            let is_new = |event: &KernelEvent| !record.kernel_log.iter().any(|known| known.is_same_as(event));
            let mut new: Vec<KernelEvent> =
                counts.iter().filter_map(|count| count.at(&record.incident)).filter(is_new).collect();
            new.sort_by_key(rank);
            new.truncate(MOST.saturating_sub(record.kernel_log.len()));
            if new.is_empty() {
                continue;
            }
            let mut record = (*record).clone();
            for event in new {
                record.note(now_ns, State::KernelLog, event.words());
                record.kernel_log.push(event);
            }
            record.kernel_log.sort_by_key(rank);
            if let Err(error) = self.put(&mut inner, record, now_ns, &[State::KernelLog]) {
                tracing::warn!(%error, "cannot store the kernel log of an incident");
            }
        }
        drop(inner);
        if let Err(error) = self.commit() {
            tracing::warn!(%error, "cannot store the kernel log of an incident");
        }
    }
}

/// Order in which events are told: those that may be the reason first, then the worst, then the earliest.
fn rank(event: &KernelEvent) -> impl Ord + use<> {
    let severity = LogClass::by_name(&event.class).map(|class| class.severity);
    (!event.may_be_reason, Reverse(severity), event.at_ms)
}

fn host(port: &Location) -> Option<String> {
    match port {
        Location::Port { node, .. } | Location::Host { node } => Some(node.clone()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::tests::{S, incident, incidents};

    fn count(class: &str, device: &str, at_ms: i64) -> KernelLogCount {
        KernelLogCount {
            node: "h3".into(),
            device: device.into(),
            pci: "0000:3b:00.0".into(),
            class: LogClass::by_name(class).unwrap(),
            code: String::new(),
            job: String::new(),
            grew_ms: vec![at_ms],
        }
    }

    #[test]
    fn open_incident_gets_its_events_once() {
        let dir = tempfile::tempdir().unwrap();
        let incidents = incidents(dir.path());
        incidents.update(3 * S, &[incident("a")]);
        assert_eq!(incidents.hosts_of_open_incidents(), BTreeSet::from(["h3".to_owned()]));
        let told = [
            count("out_of_memory", "", 900),
            count("pcie_uncorrected", "1", 1500),
            count("gpu_lost", "", 2000),
            count("gpu_lost", "2", 1),
        ];
        incidents.add_kernel_events(&told, 4 * S);
        incidents.add_kernel_events(&told, 5 * S);
        let record = incidents.get("a").unwrap();
        let classes: Vec<&str> = record.kernel_log.iter().map(|event| &*event.class).collect();
        assert_eq!(classes, ["gpu_lost", "pcie_uncorrected", "out_of_memory"], "reasons first, the worst of them");
        assert_eq!(record.history.iter().filter(|entry| entry.state == State::KernelLog).count(), 3);

        let many: Vec<_> =
            (0..20).map(|n| KernelLogCount { code: n.to_string(), ..count("gpu_lost", "", 1) }).collect();
        incidents.add_kernel_events(&many, 6 * S);
        assert_eq!(incidents.get("a").unwrap().kernel_log.len(), MOST);

        let mut ended = incident("b");
        ended.end_ns = Some(4 * S);
        incidents.update(7 * S, &[ended]);
        incidents.add_kernel_events(&told, 8 * S);
        assert_eq!(incidents.get("b").unwrap().kernel_log, [], "it is over");
    }
}
