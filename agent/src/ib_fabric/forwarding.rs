//! Reads the forwarding tables of the subnet, a part after each round of counters, and shares them with the tasks that tell the
//! collector. After a change of the subnet they are read faster for a while, because the subnet manager then routes anew.

use super::IbFabric;
use super::names::SwitchNames;
use super::timetable::Timetable;
use bytes::Bytes;
use fabriclens_agent_mad::exchange::Counts;
use fabriclens_agent_mad::subnet::{Node, PortId, Subnet};
use fabriclens_agent_mad::tables::TableReader;
use fabriclens_agent_mad::transport::Mad;
use fabriclens_agent_uplink::SharedTables;
use fabriclens_forwarding_tables::{AdapterPort, Adaptive, Cable, Lanes, SwitchTables};
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Time after a change in which tables are read faster: a subnet manager notices it and routes anew.
const SETTLES: Duration = Duration::from_secs(60);

/// Reader of the tables.
pub struct ForwardingReader<'a> {
    /// Who is told; `None`: the tables are not read.
    shared: Option<&'a SharedTables>,
    tables: TableReader,
    /// Until when the tables are read faster.
    changing: Option<Instant>,
    /// Base LID of each port, and its LMC.
    lids: BTreeMap<PortId, (u16, u8)>,
}

impl<'a> ForwardingReader<'a> {
    /// A reader that has not read yet.
    pub fn new(shared: Option<&'a SharedTables>) -> Self {
        Self { shared, tables: TableReader::default(), changing: None, lids: BTreeMap::new() }
    }

    /// Forgets all: this host no longer reads the subnet.
    pub fn clear(&mut self) {
        if let Some(shared) = self.shared {
            shared.clear();
        }
        *self = Self::new(self.shared);
    }

    /// Takes a sweep; `links_changed` says whether it found other nodes or links than the one before.
    pub fn swept(&mut self, subnet: &Subnet, names: &SwitchNames, links_changed: bool) {
        if self.shared.is_none() {
            return;
        }
        let lids = lids(subnet);
        if links_changed || lids != self.lids {
            self.changing = Some(Instant::now() + SETTLES);
        }
        self.lids = lids;
        if self.tables.is_whole() {
            self.share(subnet, names);
        }
    }

    /// Reads the next part; returns the counts and the number of the next transaction.
    pub fn turn(
        &mut self,
        mad: &mut dyn Mad,
        config: &IbFabric,
        (subnet, timetable): (&Subnet, &Timetable),
        first: u32,
    ) -> io::Result<(Counts, u32)> {
        if self.shared.is_none() {
            return Ok((Counts::default(), first));
        }
        let is_changing = !self.tables.is_whole() || self.changing.is_some_and(|until| Instant::now() < until);
        let was_whole = self.tables.is_whole();
        let turn = self.tables.turn(mad, config.pace, (subnet, timetable.tables(is_changing)), first)?;
        if turn.changed {
            self.changing = Some(Instant::now() + SETTLES);
        }
        if turn.changed || turn.is_whole && !was_whole {
            self.share(subnet, &SwitchNames::of(subnet));
        }
        Ok((turn.counts, turn.next_transaction))
    }

    fn share(&self, subnet: &Subnet, names: &SwitchNames) {
        let Some(shared) = self.shared else { return };
        let switches = subnet.switches().filter_map(|(guid, node)| self.switch(subnet, (guid, node), names)).collect();
        let adapters = self.lids.iter().filter_map(|(id, lids)| adapter(subnet, *id, *lids, names)).collect();
        shared.set(switches, adapters);
    }

    fn switch(&self, subnet: &Subnet, (guid, node): (u64, &Node), names: &SwitchNames) -> Option<SwitchTables> {
        let read = self.tables.switches().get(&guid)?;
        let ports = node.info.ports;
        let lanes = read.lanes.iter().filter(|(egress, _)| **egress <= ports);
        let lanes = lanes.filter_map(|(egress, lanes)| {
            let (ingress, by_level) = (*lanes)?;
            let packed = by_level.iter().rev().fold(0, |all, lane| all << 4 | u64::from(lane & 15));
            Some(Lanes { ingress: ingress.into(), egress: (*egress).into(), by_service_level: packed })
        });
        let cables = subnet.links.range((guid, 1)..=(guid, ports));
        let cable = |(&(_, port), &(far_guid, far_port)): (&PortId, &PortId)| Cable {
            port: port.into(),
            far_guid,
            far_port: far_port.into(),
        };
        let adaptive = match read.adaptive {
            None => Adaptive::Unknown,
            Some(false) => Adaptive::Off,
            Some(true) => Adaptive::On,
        };
        Some(SwitchTables {
            guid,
            name: names.get(guid)?.to_string(),
            ports: ports.into(),
            table: table(&read.table, ports),
            lanes: lanes.collect(),
            cables: cables.map(cable).collect(),
            adaptive: adaptive.into(),
        })
    }
}

/// A table that shares its memory with the reader's. Entries for ports that the switch lacks are no routes.
fn table(read: &Arc<Vec<u8>>, ports: u8) -> Bytes {
    struct Shared(Arc<Vec<u8>>);
    impl AsRef<[u8]> for Shared {
        fn as_ref(&self) -> &[u8] {
            &self.0
        }
    }
    let is_route = |port: &u8| *port <= ports;
    if read.iter().all(|port| is_route(port) || *port == fabriclens_forwarding_tables::NO_ROUTE) {
        return Bytes::from_owner(Shared(Arc::clone(read)));
    }
    let entry = |port: &u8| if is_route(port) { *port } else { fabriclens_forwarding_tables::NO_ROUTE };
    read.iter().map(entry).collect::<Vec<u8>>().into()
}

/// LIDs of adapter ports.
fn lids(subnet: &Subnet) -> BTreeMap<PortId, (u16, u8)> {
    let adapters = subnet.nodes.iter().filter(|(_, node)| !node.is_switch());
    let ports = adapters.flat_map(|(guid, node)| node.ports.iter().map(move |(port, info)| (*guid, node, *port, info)));
    ports.filter_map(|(guid, node, port, info)| Some(((guid, port), (node.lid(port)?, info.lmc)))).collect()
}

fn adapter(subnet: &Subnet, (guid, port): PortId, (lid, lmc): (u16, u8), names: &SwitchNames) -> Option<AdapterPort> {
    let resource = names.resource(subnet.nodes.get(&guid)?, port);
    let host = resource.as_ref().map(|resource| resource.host.to_string()).unwrap_or_default();
    let device = resource.and_then(|resource| resource.device);
    let name = device.map_or_else(|| port.to_string(), |device| format!("{device}/{port}"));
    // A port whose LIDs are not unicast is not valid yet.
    let is_unicast = lmc <= 7 && usize::from(lid) + (1 << lmc) <= fabriclens_forwarding_tables::LIDS;
    is_unicast.then(|| AdapterPort { guid, port: port.into(), lid: lid.into(), lmc: lmc.into(), host, name })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_for_ports_that_a_switch_lacks_are_no_routes() {
        let read = Arc::new(vec![0, 4, 5, 255]);
        assert_eq!(&table(&read, 4)[..], [0, 4, 255, 255]);
        let shared = table(&read, 5);
        assert_eq!((&shared[..], shared.as_ptr()), (&read[..], read.as_ptr()), "the same memory");
    }
}
