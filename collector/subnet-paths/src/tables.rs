//! Tables of one subnet: switches by GUID, adapter ports, and how they are found by name.

use fabriclens_forwarding_tables::{AdapterPort, Adaptive, Cable, Lanes, NO_ROUTE, SwitchTables};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// A port by its node's GUID and its number.
pub(crate) type Port = (u64, u32);

/// Memory of a switch or an adapter port besides its lists, bytes.
const OVERHEAD: usize = 256;

/// A switch.
#[derive(Clone, Debug)]
pub(crate) struct Switch {
    /// Name as in samples.
    pub name: Arc<str>,
    /// Whether its table is one of several ways.
    pub is_adaptive: bool,
    table: Box<[u8]>,
    /// In order of egress, then ingress.
    lanes: Box<[Lanes]>,
    /// In order of the ports.
    cables: Box<[Cable]>,
}

impl Switch {
    pub(crate) fn new(mut told: SwitchTables) -> Self {
        // A switch that does not say so may route adaptively.
        let is_adaptive = told.adaptive_routing() != Adaptive::Off;
        told.lanes.sort_unstable_by_key(|lanes| (lanes.egress, lanes.ingress));
        told.cables.sort_unstable_by_key(|cable| cable.port);
        // The bytes of the message would keep the whole request in memory.
        let (table, lanes, cables) = (told.table.as_ref().into(), told.lanes.into(), told.cables.into());
        Self { name: told.name.into(), is_adaptive, table, lanes, cables }
    }

    /// Egress port to a LID; `None` without a route.
    pub(crate) fn egress(&self, lid: u16) -> Option<u32> {
        let entry = self.table.get(usize::from(lid)).copied();
        entry.filter(|port| !matches!(*port, NO_ROUTE | 0)).map(u32::from)
    }

    /// The other end of a port's cable.
    pub(crate) fn far(&self, port: u32) -> Option<Port> {
        let at = self.cables.binary_search_by_key(&port, |cable| cable.port).ok()?;
        Some((self.cables[at].far_guid, self.cables[at].far_port))
    }

    /// Ports with a cable, and its other end.
    pub(crate) fn cables(&self) -> impl Iterator<Item = (u32, Port)> {
        self.cables.iter().map(|cable| (cable.port, (cable.far_guid, cable.far_port)))
    }

    /// Virtual lanes by service level from one port to another, and whether they were read for just these two ports; otherwise
    /// they are those of packets from another port.
    pub(crate) fn lanes(&self, ingress: u32, egress: u32) -> Option<(u64, bool)> {
        let first = self.lanes.partition_point(|lanes| lanes.egress < egress);
        let of_egress = self.lanes[first..].iter().take_while(|lanes| lanes.egress == egress);
        let own = of_egress.clone().find(|lanes| lanes.ingress == ingress).map(|lanes| (lanes.by_service_level, true));
        own.or_else(|| of_egress.clone().next().map(|lanes| (lanes.by_service_level, false)))
    }

    /// Memory, bytes.
    pub(crate) fn bytes(&self) -> usize {
        OVERHEAD + self.name.len() + self.table.len() + size_of_val(&*self.lanes) + size_of_val(&*self.cables)
    }

    /// Memory of a switch as told, bytes.
    pub(crate) fn bytes_of(told: &SwitchTables) -> usize {
        OVERHEAD + told.name.len() + told.table.len() + size_of_val(&*told.lanes) + size_of_val(&*told.cables)
    }
}

/// Switches and adapter ports.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tables {
    pub switches: BTreeMap<u64, Arc<Switch>>,
    pub adapters: BTreeMap<Port, Arc<AdapterPort>>,
}

/// Memory of an adapter port, bytes.
pub(crate) fn adapter_bytes(port: &AdapterPort) -> usize {
    OVERHEAD + port.host.len() + port.name.len()
}

/// How ports are found, for one state of the tables.
#[derive(Debug, Default)]
pub(crate) struct Index {
    /// Switch by name.
    switches: HashMap<Arc<str>, u64>,
    /// Adapter port by host and name; `None` if several have these names.
    adapters: HashMap<(String, String), Option<Port>>,
    /// Switch port of each adapter port.
    attached: HashMap<Port, Port>,
}

impl Index {
    pub(crate) fn new(tables: &Tables) -> Self {
        let mut index = Self::default();
        for (guid, switch) in &tables.switches {
            index.switches.insert(Arc::clone(&switch.name), *guid);
            let adapters = switch.cables().filter(|(_, far)| tables.adapters.contains_key(far));
            index.attached.extend(adapters.map(|(port, far)| (far, (*guid, port))));
        }
        for (port, adapter) in tables.adapters.iter().filter(|(_, adapter)| !adapter.host.is_empty()) {
            let name = (adapter.host.clone(), adapter.name.clone());
            index.adapters.entry(name).and_modify(|known| *known = None).or_insert(Some(*port));
        }
        index
    }

    /// The adapter port at a port of a switch.
    pub(crate) fn at(&self, tables: &Tables, switch: &str, port: u32) -> Option<Port> {
        let far = tables.switches.get(self.switches.get(switch)?)?.far(port)?;
        tables.adapters.contains_key(&far).then_some(far)
    }

    /// The adapter port with these names.
    pub(crate) fn named(&self, host: &str, name: &str) -> Option<Port> {
        self.adapters.get(&(host.to_owned(), name.to_owned())).copied().flatten()
    }

    /// The switch port that an adapter port is connected to.
    pub(crate) fn attached(&self, port: Port) -> Option<Port> {
        self.attached.get(&port).copied()
    }
}
