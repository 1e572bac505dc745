//! Standard statistics by ethtool netlink: pause, FEC, PHY, MAC, MAC control and RMON. Called by [`super::LiveKernel`].
//!
//! Statistics that the driver does not report are left out.

use std::sync::Arc;

use super::ethtool::{Ethtool, EthtoolQuery, FEC_GET, FLAG_STATS, PAUSE_GET};
use super::netlink::{Request, attribute, attributes, u32_at, u64_at, uint};
use crate::{CallError, intern};

type Out = Vec<(Arc<str>, u64)>;

const PAUSE_STATS: u16 = 5;
const PAUSE_NAMES: &[(u16, &str)] = &[(2, "tx_pause_frames"), (3, "rx_pause_frames")];

const FEC_STATS: u16 = 5;
const FEC_NAMES: &[(u16, &str)] = &[(2, "corrected_blocks"), (3, "uncorrectable_blocks"), (4, "corrected_bits")];

const STATS_GET: u8 = 32;
const STATS_GROUPS: u16 = 3;
const GROUP: u16 = 4;
const GROUP_ID: u16 = 2;
const GROUP_STAT: u16 = 4;
const HISTOGRAMS: &[(u16, &str)] = &[(5, "hist_rx"), (6, "hist_tx")];
const BUCKET_LOW: u16 = 7;
const BUCKET_HIGH: u16 = 8;
const BUCKET_VALUE: u16 = 9;
const BITSET_NOMASK: u16 = 1;
const BITSET_SIZE: u16 = 2;
const BITSET_VALUE: u16 = 4;

/// Group number, group name, names of its statistics by number: the kernel's string sets. A test below compares them
/// with the running kernel.
pub const GROUPS: &[(u32, &str, &[&str])] = &[
    (0, "eth-phy", &["SymbolErrorDuringCarrier"]),
    (
        1,
        "eth-mac",
        &[
            "FramesTransmittedOK",
            "SingleCollisionFrames",
            "MultipleCollisionFrames",
            "FramesReceivedOK",
            "FrameCheckSequenceErrors",
            "AlignmentErrors",
            "OctetsTransmittedOK",
            "FramesWithDeferredXmissions",
            "LateCollisions",
            "FramesAbortedDueToXSColls",
            "FramesLostDueToIntMACXmitError",
            "CarrierSenseErrors",
            "OctetsReceivedOK",
            "FramesLostDueToIntMACRcvError",
            "MulticastFramesXmittedOK",
            "BroadcastFramesXmittedOK",
            "FramesWithExcessiveDeferral",
            "MulticastFramesReceivedOK",
            "BroadcastFramesReceivedOK",
            "InRangeLengthErrors",
            "OutOfRangeLengthField",
            "FrameTooLongErrors",
        ],
    ),
    (2, "eth-ctrl", &["MACControlFramesTransmitted", "MACControlFramesReceived", "UnsupportedOpcodesReceived"]),
    (3, "rmon", &["etherStatsUndersizePkts", "etherStatsOversizePkts", "etherStatsFragments", "etherStatsJabbers"]),
];

/// Reads all groups and skips those whose query fails. Fails if no group was read, with `Unsupported` if kernel or
/// driver support none of them.
pub fn read(ethtool: &Ethtool, netdev: &str, out: &mut Out) -> Result<(), CallError> {
    out.clear();
    let wanted = GROUPS.iter().fold(0, |bits, group| bits | 1_u32 << group.0);
    let size = u32::BITS - wanted.leading_zeros();
    let no_more = |r| r;
    let groups = |r: Request| {
        r.put_nest(STATS_GROUPS, |n| n.put(BITSET_NOMASK, &[]).put_u32(BITSET_SIZE, size).put_u32(BITSET_VALUE, wanted))
    };
    let mut ask = |what, (command, header, flags), more: &dyn Fn(Request) -> Request, parse: fn(&[u8], &mut Out)| {
        let what = format!("{what} statistics of {netdev}");
        let query = EthtoolQuery { what: &what, command, header, netdev, flags };
        ethtool.get(query, more, |answer| {
            parse(answer, out);
            Some(())
        })
    };
    let answers = [
        ask("pause", (PAUSE_GET, 1, FLAG_STATS), &no_more, parse_pause),
        ask("FEC", (FEC_GET, 1, FLAG_STATS), &no_more, parse_fec),
        ask("standard", (STATS_GET, 2, 0), &groups, parse_groups),
    ];
    if !out.is_empty() {
        return Ok(());
    }
    let error = answers.into_iter().filter_map(Result::err).find(|e| !matches!(e, CallError::Unsupported { .. }));
    Err(error.unwrap_or_else(|| CallError::Unsupported {
        what: format!("standard statistics of {netdev}"),
        why: "the driver reports none of them".into(),
    }))
}

/// Appends a value, unless it is all ones, which means that the driver does not report it.
fn add(out: &mut Out, name: &str, value: Option<u64>) {
    if let Some(value) = value.filter(|v| *v != u64::MAX) {
        out.push((intern::shared(name), value));
    }
}

pub(super) fn parse_pause(answer: &[u8], out: &mut Out) {
    let stats = attribute(answer, PAUSE_STATS).unwrap_or_default();
    for (kind, name) in PAUSE_NAMES {
        add(out, &format!("pause/{name}"), attribute(stats, *kind).and_then(uint));
    }
}

/// Each value is an array: the total, then one entry per lane.
pub(super) fn parse_fec(answer: &[u8], out: &mut Out) {
    let stats = attribute(answer, FEC_STATS).unwrap_or_default();
    for (kind, name) in FEC_NAMES {
        let values = attribute(stats, *kind).unwrap_or_default();
        add(out, &format!("fec/{name}"), u64_at(values, 0));
        for (lane, bytes) in values.chunks_exact(8).skip(1).enumerate() {
            add(out, &format!("fec/{name}_lane{lane}"), u64_at(bytes, 0));
        }
    }
}

pub(super) fn parse_groups(answer: &[u8], out: &mut Out) {
    for (_, group) in attributes(answer).filter(|(kind, _)| *kind == GROUP) {
        let number = attribute(group, GROUP_ID).and_then(|b| u32_at(b, 0));
        let Some((_, group_name, names)) = GROUPS.iter().find(|row| Some(row.0) == number) else { continue };
        for (kind, payload) in attributes(group) {
            if kind == GROUP_STAT {
                for (index, value) in attributes(payload) {
                    if let Some(name) = names.get(usize::from(index)) {
                        add(out, &format!("{group_name}/{name}"), uint(value));
                    }
                }
            } else if let Some((_, histogram)) = HISTOGRAMS.iter().find(|row| row.0 == kind) {
                let number = |kind| attribute(payload, kind).and_then(|b| u32_at(b, 0)).unwrap_or(0);
                let low = number(BUCKET_LOW);
                let range = match number(BUCKET_HIGH) {
                    0 => format!("{low}-"),
                    high => format!("{low}-{high}"),
                };
                let value = attribute(payload, BUCKET_VALUE).and_then(uint);
                add(out, &format!("{group_name}/{histogram}[{range}]"), value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(parse: fn(&[u8], &mut Out), build: impl FnOnce(Request) -> Request) -> Vec<(String, u64)> {
        let mut out = Vec::new();
        parse(&build(Request::new(0, false, &[])).bytes()[16..], &mut out);
        out.into_iter().map(|(n, v)| (n.to_string(), v)).collect()
    }

    fn row(name: &str, value: u64) -> (String, u64) {
        (name.into(), value)
    }

    #[test]
    fn pause_and_absent_pause() {
        let stat = |n: Request, kind, v: u64| n.put(kind, &v.to_ne_bytes());
        let out = run(parse_pause, |r| r.put_nest(PAUSE_STATS, |n| stat(stat(n, 2, 7), 3, u64::MAX)));
        assert_eq!(out, [row("pause/tx_pause_frames", 7)]);
        assert_eq!(run(parse_pause, |r| r.put(2, &[1])), []);
    }

    #[test]
    fn fec_total_and_lanes() {
        let lanes: Vec<u8> = [10_u64, 4, 6].iter().flat_map(|v| v.to_ne_bytes()).collect();
        let out = run(parse_fec, |r| r.put_nest(FEC_STATS, |n| n.put(2, &lanes).put(3, &3_u64.to_ne_bytes())));
        let expected = [
            row("fec/corrected_blocks", 10),
            row("fec/corrected_blocks_lane0", 4),
            row("fec/corrected_blocks_lane1", 6),
            row("fec/uncorrectable_blocks", 3),
        ];
        assert_eq!(out, expected);
    }

    #[test]
    fn groups_and_histogram() {
        let bucket = |n: Request, low, high, value: u64| {
            n.put_nest(5, |b| {
                b.put_u32(BUCKET_LOW, low).put_u32(BUCKET_HIGH, high).put(BUCKET_VALUE, &value.to_ne_bytes())
            })
        };
        let out = run(parse_groups, |r| {
            r.put_nest(GROUP, |g| {
                g.put_u32(GROUP_ID, 1)
                    .put_nest(GROUP_STAT, |s| s.put(4, &9_u64.to_ne_bytes()))
                    .put_nest(GROUP_STAT, |s| s.put(99, &9_u64.to_ne_bytes()))
            })
            .put_nest(GROUP, |g| bucket(bucket(g.put_u32(GROUP_ID, 3), 0, 64, 5), 10240, 0, 6))
            .put_nest(GROUP, |g| g.put_u32(GROUP_ID, 77).put_nest(GROUP_STAT, |s| s.put(0, &[0; 8])))
        });
        let expected =
            [row("eth-mac/FrameCheckSequenceErrors", 9), row("rmon/hist_rx[0-64]", 5), row("rmon/hist_rx[10240-]", 6)];
        assert_eq!(out, expected);
    }

    /// Compares with the names of the running kernel.
    #[test]
    #[ignore = "needs: linux-5.13"]
    fn names_are_those_of_the_kernel() {
        use super::super::netlink::text;
        const STRSET_GET: u8 = 1;
        let ethtool = Ethtool::default();
        for (group, group_name, names) in GROUPS {
            // ETH_SS_STATS_ETH_PHY is 17, the others follow.
            let set = 17 + group;
            let query = EthtoolQuery { what: "string set", command: STRSET_GET, header: 1, netdev: "", flags: 0 };
            let more = |r: Request| r.put_nest(2, |sets| sets.put_nest(1, |one| one.put_u32(1, set)));
            let answer = ethtool.get(query, more, |answer| {
                let strings = attribute(attribute(attribute(answer, 2)?, 1)?, 3)?;
                Some(attributes(strings).filter_map(|(_, s)| attribute(s, 2).map(text)).collect::<Vec<_>>())
            });
            match answer {
                Ok(kernel) => assert!(names.iter().zip(&kernel).all(|(a, b)| a == b), "{group_name}: {kernel:?}"),
                Err(error) => panic!("{group_name}: the kernel gives no string set: {error}"),
            }
        }
    }

    proptest::proptest! {
        #[test]
        fn arbitrary_bytes_do_not_panic(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..300)) {
            let mut out = Vec::new();
            parse_pause(&bytes, &mut out);
            parse_fec(&bytes, &mut out);
            parse_groups(&bytes, &mut out);
        }
    }
}
