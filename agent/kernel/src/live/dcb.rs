//! IEEE DCB state by rtnetlink. Called by [`super::LiveKernel`].
//!
//! mlx5 serves `requests` and `indications` from a cache that only `ethtool -S` refreshes: read PFC counts of mlx5 from
//! the ethtool statistics.

use super::netlink::{ReopeningChannel, Request, attribute, attributes, messages, text, u16_at, u64_at};
use crate::{CallError, Dcb};

const GETDCB: u16 = 78;
const SETDCB: u16 = 79;
const IEEE_GET: u8 = 21;
const IFNAME: u16 = 1;
const IEEE: u16 = 13;
const ETS: u16 = 1;
const PFC: u16 = 2;
const APP_TABLE: u16 = 3;
const BUFFER: u16 = 10;
/// Family, command and padding of `struct dcbmsg`.
const HEADER: usize = 4;

/// PFC, ETS, APP table and buffer map of a netdev.
pub fn get(rtnetlink: &ReopeningChannel, netdev: &str) -> Result<Dcb, CallError> {
    let request = Request::new(GETDCB, false, &[0, IEEE_GET, 0, 0]).put_text(IFNAME, netdev);
    let what = format!("DCB state of {netdev}");
    let dcb = rtnetlink
        .get(&what, request, |answer| Some(attribute(answer.get(HEADER..)?, IEEE).map(parse).unwrap_or_default()))?;
    if dcb == Dcb::default() {
        return Err(CallError::Unsupported { what, why: "the driver reports no IEEE DCB attribute".into() });
    }
    Ok(dcb)
}

/// Names of netdevs whose DCB configuration somebody has set, by the kernel's notifications.
pub(super) fn changed(bytes: &[u8]) -> impl Iterator<Item = String> {
    let notices = messages(bytes).filter(|message| [GETDCB, SETDCB].contains(&message.kind));
    notices.filter_map(|notice| Some(text(attribute(notice.payload.get(HEADER..)?, IFNAME)?)))
}

pub(super) fn parse(ieee: &[u8]) -> Dcb {
    let mut dcb = Dcb::default();
    for (kind, bytes) in attributes(ieee) {
        match kind {
            ETS => {
                dcb.tc_bandwidth = eight(bytes, 3);
                dcb.tc_algorithm = eight(bytes, 19);
                dcb.prio_tc = eight(bytes, 27);
            }
            PFC => {
                dcb.pfc_capable = bytes.first().copied();
                dcb.pfc_enabled = bytes.get(1).copied();
                dcb.macsec_bypass = bytes.get(2).map(|flag| *flag != 0);
                dcb.pfc_delay = u16_at(bytes, 4);
                dcb.requests = eight_u64(bytes, 8);
                dcb.indications = eight_u64(bytes, 72);
            }
            // The table has one attribute per entry: `struct dcb_app`, of two kinds.
            APP_TABLE => dcb
                .apps
                .extend(attributes(bytes).filter_map(|(_, app)| Some((*app.first()?, u16_at(app, 2)?, *app.get(1)?)))),
            BUFFER => {
                dcb.prio_buffer = eight(bytes, 0);
                dcb.buffer_size = eight_u32(bytes, 8);
            }
            _ => {}
        }
    }
    dcb
}

fn eight(bytes: &[u8], at: usize) -> Option<[u8; 8]> {
    bytes.get(at..)?.first_chunk().copied()
}

fn eight_u32(bytes: &[u8], at: usize) -> Option<[u32; 8]> {
    let words = bytes.get(at..at + 32)?.chunks_exact(4);
    let mut out = [0; 8];
    for (slot, word) in out.iter_mut().zip(words) {
        *slot = u32::from_ne_bytes(word.try_into().ok()?);
    }
    Some(out)
}

fn eight_u64(bytes: &[u8], at: usize) -> Option<[u64; 8]> {
    let mut out = [0; 8];
    for (index, slot) in out.iter_mut().enumerate() {
        *slot = u64_at(bytes, at + index * 8)?;
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_attribute_is_parsed() {
        let mut ets = vec![1, 8, 0];
        ets.extend([50, 50, 0, 0, 0, 0, 0, 0]);
        ets.extend([0; 8]);
        ets.extend([2, 2, 0, 0, 0, 0, 0, 255]);
        ets.extend([0, 1, 2, 3, 4, 5, 6, 7]);
        ets.extend([0; 24]);
        let mut pfc = vec![8, 0b1000, 1, 0];
        pfc.extend(7_u16.to_ne_bytes());
        pfc.extend([0; 2]);
        for n in 0..16_u64 {
            pfc.extend(n.to_ne_bytes());
        }
        let mut buffer = vec![0, 0, 0, 1, 0, 0, 0, 0];
        for size in [4096_u32, 8192, 0, 0, 0, 0, 0, 512, 12_800] {
            buffer.extend(size.to_ne_bytes());
        }
        let request = Request::new(0, false, &[])
            .put(ETS, &ets)
            .put(PFC, &pfc)
            .put_nest(APP_TABLE, |n| n.put(1, &[5, 3, 24, 0]).put(1, &[1, 2, 0, 0]).put(1, &[9]))
            .put(BUFFER, &buffer);
        let dcb = parse(&request.bytes()[16..]);
        assert_eq!((dcb.pfc_capable, dcb.pfc_enabled, dcb.pfc_delay), (Some(8), Some(8), Some(7)));
        assert_eq!(dcb.requests, Some([0, 1, 2, 3, 4, 5, 6, 7]));
        assert_eq!(dcb.indications, Some([8, 9, 10, 11, 12, 13, 14, 15]));
        assert_eq!(dcb.tc_bandwidth, Some([50, 50, 0, 0, 0, 0, 0, 0]));
        assert_eq!(dcb.tc_algorithm, Some([2, 2, 0, 0, 0, 0, 0, 255]));
        assert_eq!(dcb.prio_tc, Some([0, 1, 2, 3, 4, 5, 6, 7]));
        assert_eq!(dcb.apps, [(5, u16::from_ne_bytes([24, 0]), 3), (1, 0, 2)]);
        assert_eq!(dcb.prio_buffer, Some([0, 0, 0, 1, 0, 0, 0, 0]));
        assert_eq!(dcb.buffer_size, Some([4096, 8192, 0, 0, 0, 0, 0, 512]));
        assert_eq!(dcb.macsec_bypass, Some(true));
    }

    #[test]
    fn a_short_structure_is_absent_not_zero() {
        let request = Request::new(0, false, &[]).put(PFC, &[8, 1, 0, 0, 0, 0, 0, 0, 1]);
        let dcb = parse(&request.bytes()[16..]);
        assert_eq!((dcb.pfc_enabled, dcb.requests, dcb.indications), (Some(1), None, None));
    }

    #[test]
    fn notices_name_the_netdev() {
        let notice = |kind, netdev: &str| {
            Request::new(kind, false, &[0, 20, 0, 0]).put_text(IFNAME, netdev).put(IEEE, &[0; 8]).finished()
        };
        let both = [notice(SETDCB, "eth4"), notice(16, "eth5")].concat();
        assert_eq!(changed(&both).collect::<Vec<_>>(), ["eth4"], "the other is of a link");
        assert_eq!(changed(&notice(GETDCB, "eth4")[..18]).count(), 0, "cut short");
    }

    proptest::proptest! {
        #[test]
        fn arbitrary_bytes_do_not_panic(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..300)) {
            let _ = changed(&bytes).count();
            let _ = parse(&bytes);
        }
    }
}
