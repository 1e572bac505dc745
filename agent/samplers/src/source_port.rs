//! UDP source port of a connected RoCE v2 queue pair, by the rule of its driver. Called by the sampler `queue_pairs`.
//!
//! Switches hash the source port to choose among equal paths, and no kernel interface reports it. Most drivers derive it
//! from the numbers of the two queue pairs, so it can be computed. The rules are those of Linux 5.18 and later for flow
//! label 0, which NCCL uses; the connection manager sets another label, and so may other programs.

use fabriclens_catalog::DriverFamily;
use fabriclens_kernel::datagrams::rxe_source_port;

/// Lowest source port of RoCE v2, the begin of the dynamic ports.
const LOWEST: u16 = 0xC000;

/// How a driver chooses the source port of a connected queue pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SourcePortRule {
    /// From the flow label; of label 0, from a label made of both numbers (`rdma_get_udp_sport`). Both ends use the same
    /// port.
    FlowLabel,
    /// From both numbers, folded to 16 bits; the flow label is ignored. Both ends use the same port.
    FoldedNumbers,
    /// From the own number; the flow label is ignored. The ends use different ports.
    OwnNumber,
    /// Not known, and why.
    Unknown(&'static str),
}

use SourcePortRule::{FlowLabel, FoldedNumbers, OwnNumber, Unknown};

/// Rule of each driver family, by its name in the catalog.
static RULES: &[(&str, SourcePortRule)] = &[
    ("mlx5", FlowLabel),
    ("irdma", FlowLabel),
    ("ionic", FlowLabel),
    ("hns", FlowLabel),
    ("mana", FlowLabel),
    ("mlx4", FoldedNumbers),
    ("rxe", OwnNumber),
    ("bnxt", Unknown("the driver's rule is not documented")),
    ("qedr", Unknown("the driver's rule is not documented")),
    ("erdma", Unknown("the driver's rule is not documented")),
    ("efa", Unknown("SRD sprays packets over many paths")),
    ("cxgb4", Unknown("iWARP runs over TCP")),
    ("siw", Unknown("iWARP runs over TCP")),
    ("hfi1", Unknown("Omni-Path has none")),
    ("qib", Unknown("InfiniBand has none")),
];

impl SourcePortRule {
    /// Rule of a driver family; `None` for a device without a known family.
    pub fn of(family: Option<&DriverFamily>) -> Self {
        let row = |family: &DriverFamily| RULES.iter().find(|(name, _)| *name == family.name).map(|(_, rule)| *rule);
        family.and_then(row).unwrap_or(Unknown("the driver is not known"))
    }

    /// Source port of the packets of a queue pair with these numbers; `None` if it cannot be known. `labeled` is true if
    /// the flow label may be other than 0.
    pub fn source_port(self, local: u32, remote: u32, labeled: bool) -> Option<u16> {
        match self {
            FlowLabel if labeled => None,
            FlowLabel => Some(of_flow_label(flow_label(local, remote))),
            FoldedNumbers if local == remote => Some(LOWEST | folded(local)),
            FoldedNumbers => Some(LOWEST | (folded(local) ^ folded(remote))),
            OwnNumber => Some(rxe_source_port(local)),
            Unknown(_) => None,
        }
    }
}

/// The 20-bit flow label that the kernel makes of two queue pair numbers.
fn flow_label(local: u32, remote: u32) -> u32 {
    let mut v = u64::from(local) * u64::from(remote);
    v ^= v >> 20;
    v ^= v >> 40;
    (v & 0xF_FFFF) as u32
}

/// The source port that belongs to a 20-bit flow label.
fn of_flow_label(label: u32) -> u16 {
    LOWEST | ((label & 0x3FFF) ^ (label >> 14)) as u16
}

/// A 24-bit number with its highest byte folded into its lowest.
fn folded(number: u32) -> u16 {
    ((number & 0xFF) ^ ((number >> 16) & 0xFF) | (number & 0xFF00)) as u16
}

#[cfg(test)]
mod tests {
    use super::*;
    use fabriclens_catalog::counters::FAMILIES;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    /// Numbers of two queue pairs, and the port by each rule, computed from the kernel's definitions by another program.
    const VECTORS: &[(u32, u32, [u16; 3])] = &[
        (0x1, 0x1, [49_153, 49_153, 55_410]),
        (0x11, 0x12, [49_458, 49_155, 57_236]),
        (0xC9, 0x12D, [60_502, 49_636, 61_852]),
        (0x1234, 0x5678, [49_178, 50_252, 64_907]),
        (0x3039, 0xD431, [60_599, 58_376, 55_220]),
        (0xA_0B0C, 0xD_0E0F, [64_621, 50_436, 56_444]),
        (0xFF_FFFF, 0xFF_FFFE, [65_298, 49_153, 63_821]),
        (0xFF_FFFF, 0xFF_FFFF, [65_313, 65_280, 63_821]),
    ];

    #[test]
    fn ports_are_those_of_the_kernel() {
        for (local, remote, want) in VECTORS {
            let port = |rule: SourcePortRule| rule.source_port(*local, *remote, false).unwrap();
            assert_eq!([FlowLabel, FoldedNumbers, OwnNumber].map(port), *want, "{local:#x} {remote:#x}");
        }
    }

    #[test]
    fn every_driver_family_has_one_rule() {
        let mut rules: Vec<&str> = RULES.iter().map(|(name, _)| *name).collect();
        rules.sort_unstable();
        let mut families: Vec<&str> = FAMILIES.iter().map(|family| family.name).collect();
        families.sort_unstable();
        assert_eq!(rules, families);
        let rule = |driver| SourcePortRule::of(DriverFamily::for_driver(driver));
        assert_eq!([rule("mlx5_core"), rule("rdma_rxe"), rule("mlx4_ib")], [FlowLabel, OwnNumber, FoldedNumbers]);
        assert!(matches!([rule("bnxt_re"), rule("new_driver")], [Unknown(_), Unknown(_)]));
    }

    #[test]
    fn an_unknown_flow_label_hides_the_port_only_where_it_counts() {
        let ports =
            |labeled| [FlowLabel, FoldedNumbers, OwnNumber].map(|rule| rule.source_port(5, 6, labeled).is_some());
        assert_eq!((ports(false), ports(true)), ([true; 3], [false, true, true]));
        assert_eq!(Unknown("").source_port(5, 6, false), None);
    }

    /// Bit by bit: bit `n` of the label is the parity of the bits `n`, `n + 20`, `n + 40` and `n + 60` of the product, of
    /// which the last is always 0; two bits of the label meet in each of the port's lowest six.
    fn port_by_bits(local: u32, remote: u32) -> u16 {
        let product = u128::from(local) * u128::from(remote);
        let bit = |n: u32| (product >> n) & 1;
        let label = |n: u32| if n < 20 { bit(n) ^ bit(n + 20) ^ bit(n + 40) } else { 0 };
        let low = (0..14).map(|n| (label(n) ^ label(n + 14)) << n).sum::<u128>();
        0xC000 + low as u16
    }

    proptest! {
        #[test]
        fn port_of_the_flow_label_has_the_parity_of_the_product(local in 0u32..1 << 24, remote in 0u32..1 << 24) {
            let port = FlowLabel.source_port(local, remote, false);
            prop_assert_eq!(port, Some(port_by_bits(local, remote)));
            prop_assert_eq!(port, FlowLabel.source_port(remote, local, false));
        }

        #[test]
        fn every_port_is_dynamic(local in any::<u32>(), remote in any::<u32>()) {
            let ports: BTreeSet<_> =
                [FlowLabel, FoldedNumbers, OwnNumber].iter().map(|r| r.source_port(local, remote, false)).collect();
            prop_assert!(ports.iter().all(|port| port.is_some_and(|port| port >= LOWEST)));
        }
    }
}
