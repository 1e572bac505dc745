//! Shared by the InfiniBand formats: GUIDs, node descriptions, rates, and cables between numbered ports.

use super::source::{Cable, CableEnd, TopologySource};
use super::types::{GBPS, Provenance, Role};
pub(super) use fabriclens_base::infiniband::{hex, host};
use fabriclens_base::infiniband::{switch, unique_switch};
use std::collections::{BTreeSet, HashMap, HashSet};

/// Type of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NodeType {
    Ca,
    Switch,
}

impl NodeType {
    /// Parses `CA`, `SW`, `Ca`, `Switch`. Routers count as channel adapters, because their ports are like those of
    /// HCAs.
    pub(super) fn of(word: &str) -> Option<Self> {
        match word.to_ascii_uppercase().as_str() {
            "CA" | "RT" => Some(Self::Ca),
            "SW" | "SWITCH" => Some(Self::Switch),
            _ => None,
        }
    }
}

/// An end of a cable.
#[derive(Clone, Debug, Default)]
pub(super) struct IbPort {
    /// `None` if the format does not state it.
    pub kind: Option<NodeType>,
    /// GUID of the node first, then of the port.
    pub guids: Vec<u64>,
    pub description: String,
    pub port: u32,
}

/// All cables of a dump.
#[derive(Default)]
pub(super) struct IbDump(Vec<(usize, [IbPort; 2], Option<f64>)>);

impl IbDump {
    /// Adds a cable found on a line.
    pub(super) fn cable(&mut self, line: usize, ends: [IbPort; 2], rate: Option<f64>) {
        self.0.push((line, ends, rate));
    }

    /// Names all nodes and adds the cables between them to `out`.
    pub(super) fn finish(mut self, out: &mut TopologySource) {
        self.tell_kinds();
        let names = self.switch_names();
        let sorted: BTreeSet<&String> = names.values().collect();
        out.nodes.extend(sorted.into_iter().map(|name| (name.clone(), Role::Spine)));
        for (line, ends, rate) in self.0 {
            // SHARP's aggregation node inside a switch is neither host nor cable.
            if ends.iter().any(|jack| jack.description.contains("Aggregation Node")) {
                continue;
            }
            let sides = ends.map(|jack| side(jack, &names));
            out.cable(line, Cable { sides, rate, rail: None, known: Provenance::SubnetManager });
        }
    }

    /// Works out node types for formats that lack them: a GUID with several ports is a switch, and so is a node whose
    /// description does not look like a host's.
    fn tell_kinds(&mut self) {
        let mut ports: HashMap<u64, HashSet<u32>> = HashMap::new();
        for jack in self.0.iter().flat_map(|(_, ends, _)| ends) {
            if let Some(guid) = jack.guids.first() {
                ports.entry(*guid).or_default().insert(jack.port);
            }
        }
        for jack in self.0.iter_mut().flat_map(|(_, ends, _)| ends) {
            let several = jack.guids.first().and_then(|g| ports.get(g)).is_some_and(|p| p.len() > 1);
            let host = !several && (host(&jack.description).is_some_and(|(_, device)| !device.is_empty()));
            jack.kind = jack.kind.or(Some(if host { NodeType::Ca } else { NodeType::Switch }));
        }
    }

    /// Switch names by GUID. Switches with equal descriptions get their GUID appended.
    fn switch_names(&self) -> HashMap<u64, String> {
        let mut of: HashMap<u64, String> = HashMap::new();
        for jack in self.0.iter().flat_map(|(_, ends, _)| ends).filter(|j| j.kind == Some(NodeType::Switch)) {
            if let Some(guid) = jack.guids.first() {
                let name = of.entry(*guid).or_default();
                if name.is_empty() {
                    *name = switch(&jack.description);
                }
            }
        }
        let mut times: HashMap<String, usize> = HashMap::new();
        for name in of.values() {
            *times.entry(name.clone()).or_default() += 1;
        }
        for (guid, name) in &mut of {
            *name = unique_switch(name, *guid, times[name] > 1);
        }
        of
    }
}

fn side(jack: IbPort, switches: &HashMap<u64, String>) -> CableEnd {
    let IbPort { kind, guids, description, port } = jack;
    let port = port.to_string();
    if kind == Some(NodeType::Ca) {
        let (node, device) = host(&description).unwrap_or_default();
        let (node, device) = (node.to_owned(), device.to_owned());
        return CableEnd { node, device, port, guids, description };
    }
    let named = guids.first().and_then(|g| switches.get(g)).cloned();
    let node = named.unwrap_or_else(|| switch(&description));
    CableEnd { node, port, ..CableEnd::default() }
}

/// Parses `0x2c90300c00081`, `0002c90300c00081` and `0c42:a103:0065:0001`; `None` for 0.
pub(super) fn guid(text: &str) -> Option<u64> {
    let digits: String = text.trim().trim_start_matches("0x").chars().filter(|c| *c != ':').collect();
    u64::from_str_radix(&digits, 16).ok().filter(|g| *g != 0)
}

/// Bytes per second of `4xHDR`, or of `4X` and `53.125`, by the kernel's nominal lane rates.
pub(super) fn rate(width: &str, speed: &str) -> Option<f64> {
    let lanes: u32 = width.trim_end_matches(['x', 'X']).parse().ok()?;
    let lane = LANES.iter().find(|(name, signal, _)| *name == speed || *signal == speed)?.2;
    Some(f64::from(lanes) * lane * GBPS)
}

/// Lane speeds: name, signaling rate as iblinkinfo prints it, and Gb/s as in the kernel's `rate` file.
const LANES: [(&str, &str, f64); 9] = [
    ("SDR", "2.5", 2.5),
    ("DDR", "5.0", 5.0),
    ("QDR", "10.0", 10.0),
    ("FDR10", "10.3125", 10.0),
    ("FDR", "14.0625", 14.0),
    ("EDR", "25.78125", 25.0),
    ("HDR", "53.125", 50.0),
    ("NDR", "106.25", 100.0),
    ("XDR", "212.5", 200.0),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guids_and_rates_parse() {
        let all = ["0x0002c90300c00081", "2c90300c00081", "0002:c903:00c0:0081"];
        assert_eq!(all.map(guid), [Some(0x2_c903_00c0_0081); 3]);
        assert_eq!([guid(""), guid("0x0"), guid("zz")], [None; 3]);
        assert_eq!([rate("4x", "HDR"), rate("4X", "53.125")], [Some(25e9); 2]);
        assert_eq!([rate("4x", "???"), rate("x", "HDR")], [None; 2]);
    }
}
