//! What a valid request holds. A collector refuses all else, in words.

use crate::messages::{AdapterPort, Adaptive, SwitchTables, TellRequest};
use crate::{LIDS, NO_ROUTE};
use std::collections::BTreeSet;

/// Highest number of a physical port.
const LAST_PORT: u32 = 254;
/// Longest name, bytes.
const NAME: usize = 255;
/// Most pairs of ports with virtual lanes, as a multiple of the ports.
const LANES: usize = 4;
/// Highest LID mask control.
const LMC: u32 = 7;

/// A request is not valid; the text names the node and what is wrong with it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Invalid {
    /// A GUID of 0.
    #[error("a node has the GUID 0")]
    NoGuid,
    /// A name is missing, too long, or has control characters.
    #[error("0x{0:016x}: names must have 1 to {NAME} bytes without control characters")]
    Name(u64),
    /// A switch has no ports, or too many.
    #[error("0x{0:016x}: a switch has 1 to {LAST_PORT} ports, not {1}")]
    Ports(u64, u32),
    /// A forwarding table is longer than there are LIDs.
    #[error("0x{0:016x}: a forwarding table has at most {LIDS} LIDs, not {1}")]
    Table(u64, usize),
    /// A table, a cable or lanes name a port that the node lacks.
    #[error("0x{node:016x}: {of} names port {port}, and the switch has {ports}")]
    NoPort {
        /// The switch.
        node: u64,
        /// What names the port.
        of: &'static str,
        /// The port.
        port: u32,
        /// Number of ports of the switch.
        ports: u32,
    },
    /// A port has two cables, or the switch has too many tables of virtual lanes.
    #[error("0x{0:016x}: a port has two cables, or there are more than {LANES} tables of virtual lanes a port")]
    Twice(u64),
    /// The LIDs of an adapter port are not unicast LIDs.
    #[error("0x{node:016x} port {port}: LID {lid} with LMC {lmc} is no unicast LID")]
    Lid {
        /// The node.
        node: u64,
        /// Its port.
        port: u32,
        /// Base LID.
        lid: u32,
        /// LID mask control.
        lmc: u32,
    },
}

impl TellRequest {
    /// Checks each switch and adapter port by itself.
    ///
    /// # Errors
    /// [`Invalid`] for the first one that is not valid.
    pub fn check(&self) -> Result<(), Invalid> {
        self.switches.iter().try_for_each(SwitchTables::check)?;
        self.adapters.iter().try_for_each(AdapterPort::check)
    }
}

fn is_name(name: &str) -> bool {
    (1..=NAME).contains(&name.len()) && !name.chars().any(char::is_control)
}

impl SwitchTables {
    fn check(&self) -> Result<(), Invalid> {
        let Self { guid, ports, .. } = *self;
        if guid == 0 {
            return Err(Invalid::NoGuid);
        }
        if !is_name(&self.name) {
            return Err(Invalid::Name(guid));
        }
        if !(1..=LAST_PORT).contains(&ports) {
            return Err(Invalid::Ports(guid, ports));
        }
        if self.table.len() > LIDS {
            return Err(Invalid::Table(guid, self.table.len()));
        }
        let missing = |of, port| Invalid::NoPort { node: guid, of, port, ports };
        let is_port = |port: u32| (1..=ports).contains(&port);
        // Port 0 is the switch itself.
        let lacks = |entry: &u8| *entry != NO_ROUTE && u32::from(*entry) > ports;
        if let Some(port) = self.table.iter().copied().find(lacks) {
            return Err(missing("the forwarding table", port.into()));
        }
        if let Some(cable) = self.cables.iter().find(|cable| !is_port(cable.port)) {
            return Err(missing("a cable", cable.port));
        }
        if let Some(lanes) = self.lanes.iter().find(|lanes| lanes.ingress > ports || !is_port(lanes.egress)) {
            return Err(missing("a table of virtual lanes", lanes.ingress.max(lanes.egress)));
        }
        let cabled: BTreeSet<u32> = self.cables.iter().map(|cable| cable.port).collect();
        let is_bounded = cabled.len() == self.cables.len() && self.lanes.len() <= LANES * ports as usize;
        if is_bounded { Ok(()) } else { Err(Invalid::Twice(guid)) }
    }

    /// Whether it routes adaptively; unknown also for a value of a later release.
    pub fn adaptive_routing(&self) -> Adaptive {
        Adaptive::try_from(self.adaptive).unwrap_or(Adaptive::Unknown)
    }
}

impl AdapterPort {
    fn check(&self) -> Result<(), Invalid> {
        let Self { guid: node, port, lid, lmc, .. } = *self;
        if node == 0 {
            return Err(Invalid::NoGuid);
        }
        if !self.host.is_empty() && !is_name(&self.host) || !is_name(&self.name) {
            return Err(Invalid::Name(node));
        }
        let is_unicast = lid > 0 && lmc <= LMC && (lid as usize).saturating_add(1 << lmc.min(LMC)) <= LIDS;
        if is_unicast && (1..=LAST_PORT).contains(&port) { Ok(()) } else { Err(Invalid::Lid { node, port, lid, lmc }) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::messages::{Cable, Lanes};

    fn switch(change: impl Fn(&mut SwitchTables)) -> Result<(), Invalid> {
        let mut switch = SwitchTables {
            guid: 7,
            name: "leaf1".into(),
            ports: 4,
            table: vec![0, 1, 4, 255].into(),
            ..Default::default()
        };
        switch.cables = vec![Cable { port: 4, far_guid: 9, far_port: 1 }];
        switch.lanes = vec![Lanes { ingress: 1, egress: 4, by_service_level: 0 }];
        change(&mut switch);
        TellRequest { switches: vec![switch], ..Default::default() }.check()
    }

    fn adapter(lid: u32, lmc: u32, name: &str) -> Result<(), Invalid> {
        let port = AdapterPort { guid: 9, port: 1, lid, lmc, host: String::new(), name: name.into() };
        TellRequest { adapters: vec![port], ..Default::default() }.check()
    }

    #[test]
    fn ports_that_a_switch_lacks_are_refused() {
        assert_eq!(switch(|_| {}), Ok(()));
        let refused = |change: &dyn Fn(&mut SwitchTables)| switch(change).unwrap_err().to_string();
        let table = refused(&|s| s.table = vec![0, 1, 5].into());
        assert_eq!(table, "0x0000000000000007: the forwarding table names port 5, and the switch has 4");
        assert!(refused(&|s| s.cables[0].port = 5).contains("a cable names port 5"));
        assert!(refused(&|s| s.lanes[0].egress = 9).contains("virtual lanes names port 9"));
        assert!(refused(&|s| s.cables.push(s.cables[0])).contains("two cables"));
        assert!(refused(&|s| s.lanes = vec![s.lanes[0]; 17]).contains("more than 4"));
    }

    #[test]
    fn sizes_names_and_lids_are_bounded() {
        assert_eq!(switch(|s| s.table = vec![1; LIDS + 1].into()), Err(Invalid::Table(7, LIDS + 1)));
        assert_eq!(switch(|s| s.table = vec![1; LIDS].into()), Ok(()));
        assert_eq!(switch(|s| s.ports = 255), Err(Invalid::Ports(7, 255)));
        assert_eq!(switch(|s| s.name = "a\nb".into()), Err(Invalid::Name(7)));
        assert_eq!(switch(|s| s.guid = 0), Err(Invalid::NoGuid));
        assert_eq!(adapter(0xbfff, 0, "mlx5_0/1"), Ok(()));
        for (lid, lmc) in [(0, 0), (0xc000, 0), (0xbfff, 1), (4, 8), (u32::MAX, 7)] {
            assert_eq!(adapter(lid, lmc, "1"), Err(Invalid::Lid { node: 9, port: 1, lid, lmc }));
        }
        assert_eq!(adapter(4, 2, ""), Err(Invalid::Name(9)));
    }
}
