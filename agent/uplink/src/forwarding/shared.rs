//! The tables as last read, each with the number of its last change, so that a task knows what a collector does not know.

use fabriclens_forwarding_tables::{AdapterPort, PortId, REQUEST, SwitchTables, TellRequest};
use parking_lot::Mutex;
use prost::Message as _;
use std::collections::BTreeMap;
use tokio::sync::watch;

/// Tables of a subnet, shared by the thread that reads it and the tasks that tell it.
#[derive(Debug)]
pub struct SharedTables {
    state: Mutex<Tables>,
    changed: watch::Sender<u64>,
}

impl Default for SharedTables {
    fn default() -> Self {
        Self { state: Mutex::default(), changed: watch::Sender::new(0) }
    }
}

/// A value and the number of its last change; `None`: it is gone.
type Entry<T> = (u64, Option<T>);

#[derive(Debug, Default)]
struct Tables {
    /// Number of the last change.
    changes: u64,
    /// Whether they are whole, and this host reads.
    is_known: bool,
    switches: BTreeMap<u64, Entry<SwitchTables>>,
    adapters: BTreeMap<(u64, u32), Entry<AdapterPort>>,
}

impl SharedTables {
    /// Replaces the tables. What is as before does not count as a change.
    pub fn set(&self, switches: Vec<SwitchTables>, adapters: Vec<AdapterPort>) {
        let mut state = self.state.lock();
        let Tables { changes, is_known, switches: known_switches, adapters: known_adapters } = &mut *state;
        replace(changes, known_switches, switches.into_iter().map(|switch| (switch.guid, switch)).collect());
        replace(changes, known_adapters, adapters.into_iter().map(|port| ((port.guid, port.port), port)).collect());
        *is_known = true;
        let changes = *changes;
        drop(state);
        self.changed.send_replace(changes);
    }

    /// Forgets the tables: this host no longer reads the subnet.
    pub fn clear(&self) {
        let mut state = self.state.lock();
        let changes = state.changes + 1;
        *state = Tables { changes, ..Tables::default() };
        drop(state);
        self.changed.send_replace(changes);
    }

    /// Notifies of changes.
    pub(super) fn changed(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    /// The next request, without host and numbers, to a collector that knows all up to change `known`, and the number of the last
    /// change in it. `None` while the tables are not known.
    pub(super) fn after(&self, known: u64) -> Option<(TellRequest, u64)> {
        let state = self.state.lock();
        if !state.is_known {
            return None;
        }
        // In order of their changes, so that what was told is all up to a number.
        let mut order: BTreeMap<u64, Id> = BTreeMap::new();
        let is_new = |change: u64| change > known;
        // A collector that knows nothing need not be told what is gone.
        let tell = |change, is_gone: bool| is_new(change) && !(is_gone && known == 0);
        order.extend(
            state
                .switches
                .iter()
                .filter(|(_, (c, v))| tell(*c, v.is_none()))
                .map(|(guid, (c, _))| (*c, Id::Switch(*guid))),
        );
        order.extend(
            state
                .adapters
                .iter()
                .filter(|(_, (c, v))| tell(*c, v.is_none()))
                .map(|(id, (c, _))| (*c, Id::Adapter(*id))),
        );
        let (mut request, mut last, mut bytes) =
            (TellRequest { complete: true, ..TellRequest::default() }, state.changes, 0);
        for (change, id) in order {
            if bytes >= REQUEST {
                request.complete = false;
                return Some((request, last));
            }
            bytes += state.add(&mut request, id);
            last = change;
        }
        Some((request, state.changes))
    }
}

/// A switch or an adapter port.
#[derive(Clone, Copy)]
enum Id {
    Switch(u64),
    Adapter((u64, u32)),
}

impl Tables {
    /// Adds a change to a request; returns its size, bytes.
    fn add(&self, request: &mut TellRequest, id: Id) -> usize {
        match id {
            Id::Switch(guid) => match &self.switches[&guid].1 {
                Some(switch) => {
                    request.switches.push(switch.clone());
                    switch.encoded_len()
                }
                None => {
                    request.gone_switches.push(guid);
                    size_of::<u64>()
                }
            },
            Id::Adapter((guid, port)) => match &self.adapters[&(guid, port)].1 {
                Some(adapter) => {
                    request.adapters.push(adapter.clone());
                    adapter.encoded_len()
                }
                None => {
                    let port = PortId { guid, port };
                    request.gone_adapters.push(port);
                    port.encoded_len()
                }
            },
        }
    }
}

/// Numbers the differences between what is known and what is new.
fn replace<K: Ord + Copy, T: PartialEq>(changes: &mut u64, known: &mut BTreeMap<K, Entry<T>>, mut new: BTreeMap<K, T>) {
    for (id, (change, value)) in &mut *known {
        let new = new.remove(id);
        if *value != new {
            *changes += 1;
            (*change, *value) = (*changes, new);
        }
    }
    for (id, value) in new {
        *changes += 1;
        known.insert(id, (*changes, Some(value)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn switch(guid: u64, size: usize, port: u8) -> SwitchTables {
        SwitchTables { guid, table: vec![port; size].into(), ..SwitchTables::default() }
    }

    fn adapter(lid: u32) -> AdapterPort {
        AdapterPort { guid: 100, port: 1, lid, ..AdapterPort::default() }
    }

    fn guids(request: &TellRequest) -> Vec<u64> {
        request.switches.iter().map(|switch| switch.guid).collect()
    }

    #[test]
    fn only_changes_are_told() {
        let tables = SharedTables::default();
        assert!(tables.after(0).is_none(), "nothing was read yet");
        tables.set(vec![switch(1, 9, 1), switch(2, 9, 1)], vec![adapter(7)]);
        let (all, known) = tables.after(0).unwrap();
        assert_eq!((guids(&all), all.adapters.len(), all.complete), (vec![1, 2], 1, true));
        let (none, still) = tables.after(known).unwrap();
        assert_eq!((none, still), (TellRequest { complete: true, ..TellRequest::default() }, known));
        tables.set(vec![switch(1, 9, 2), switch(2, 9, 1)], vec![]);
        let (changed, known) = tables.after(known).unwrap();
        assert_eq!((guids(&changed), changed.gone_adapters), (vec![1], vec![PortId { guid: 100, port: 1 }]));
        tables.set(vec![switch(1, 9, 2)], vec![adapter(7)]);
        let (changed, _) = tables.after(known).unwrap();
        assert_eq!((changed.gone_switches, changed.adapters.len()), (vec![2], 1), "it came back");
        let (anew, _) = tables.after(0).unwrap();
        assert_eq!((guids(&anew), anew.gone_switches.len()), (vec![1], 0));
        tables.clear();
        assert!(tables.after(0).is_none());
    }

    #[test]
    fn large_tables_are_told_in_parts_that_fit() {
        let tables = SharedTables::default();
        tables.set((1..=40).map(|guid| switch(guid, 49_152, 1)).collect(), vec![adapter(7)]);
        let (mut known, mut seen, mut requests) = (0, Vec::new(), 0);
        loop {
            let (request, last) = tables.after(known).unwrap();
            assert!(request.encoded_len() <= fabriclens_forwarding_tables::LARGEST_REQUEST);
            seen.extend(guids(&request));
            (known, requests) = (last, requests + 1);
            if requests == 3 {
                // A change in between is told at the end, and once.
                tables.set(
                    (1..=40).map(|guid| switch(guid, 49_152, 1 + u8::from(guid == 2))).collect(),
                    vec![adapter(7)],
                );
            }
            if request.complete {
                break;
            }
        }
        assert_eq!(seen, (1..=40).chain([2]).collect::<Vec<u64>>());
        assert_eq!(requests, 7);
    }
}
