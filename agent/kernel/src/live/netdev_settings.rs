//! Settings of a netdev by ethtool netlink: forward error correction, sizes of its rings, 802.3x pause. Called by
//! [`super::LiveKernel`].

use super::ethtool::{Ethtool, EthtoolQuery, FEC_GET, PAUSE_GET};
use super::netlink::{attribute, u32_at};
use crate::{CallError, NetdevSettings};

const RINGS_GET: u8 = 15;
const RINGS_RX: u16 = 6;
const RINGS_TX: u16 = 9;

const PAUSE_RX: u16 = 3;
const PAUSE_TX: u16 = 4;

const FEC_ACTIVE: u16 = 4;

/// Encodings by the bit of their link mode (`ETHTOOL_LINK_MODE_FEC_…_BIT`).
const ENCODINGS: &[(u32, &str)] = &[(49, "off"), (50, "rs"), (51, "baser"), (74, "llrs")];

/// Reads what the driver reports. Fails if it reports nothing: with `Unsupported` if it offers no setting, else with the
/// error of the first query that failed.
pub fn read(ethtool: &Ethtool, netdev: &str) -> Result<NetdevSettings, CallError> {
    let mut settings = NetdevSettings::default();
    let mut ask = |what: &str, command, parse: fn(&[u8], &mut NetdevSettings)| {
        let what = format!("{what} of {netdev}");
        let query = EthtoolQuery { what: &what, command, header: 1, netdev, flags: 0 };
        ethtool.get(
            query,
            |request| request,
            |answer| {
                parse(answer, &mut settings);
                Some(())
            },
        )
    };
    let answers = [
        ask("forward error correction", FEC_GET, parse_fec),
        ask("ring sizes", RINGS_GET, parse_rings),
        ask("pause settings", PAUSE_GET, parse_pause),
    ];
    if settings != NetdevSettings::default() {
        return Ok(settings);
    }
    let error = answers.into_iter().filter_map(Result::err).find(|e| !matches!(e, CallError::Unsupported { .. }));
    Err(error.unwrap_or_else(|| CallError::Unsupported {
        what: format!("settings of {netdev}"),
        why: "the driver reports none of them".into(),
    }))
}

/// The encoding in use. Absent while the link is down, and where the driver does not tell.
pub(super) fn parse_fec(answer: &[u8], settings: &mut NetdevSettings) {
    let bit = attribute(answer, FEC_ACTIVE).and_then(|bytes| u32_at(bytes, 0));
    settings.fec = bit.map(|bit| {
        let known = ENCODINGS.iter().find(|row| row.0 == bit);
        known.map_or_else(|| format!("mode_{bit}"), |row| row.1.to_owned())
    });
}

pub(super) fn parse_rings(answer: &[u8], settings: &mut NetdevSettings) {
    let size = |kind| attribute(answer, kind).and_then(|bytes| u32_at(bytes, 0));
    (settings.receive_ring, settings.transmit_ring) = (size(RINGS_RX), size(RINGS_TX));
}

pub(super) fn parse_pause(answer: &[u8], settings: &mut NetdevSettings) {
    let on = |kind| attribute(answer, kind).and_then(|bytes| bytes.first()).map(|on| *on != 0);
    (settings.receive_pause, settings.transmit_pause) = (on(PAUSE_RX), on(PAUSE_TX));
}

#[cfg(test)]
mod tests {
    use super::super::netlink::Request;
    use super::*;

    fn parsed(parse: fn(&[u8], &mut NetdevSettings), build: impl FnOnce(Request) -> Request) -> NetdevSettings {
        let mut settings = NetdevSettings::default();
        parse(&build(Request::new(0, false, &[])).bytes()[16..], &mut settings);
        settings
    }

    #[test]
    fn encodings_have_names() {
        let fec = |bit| parsed(parse_fec, |r| r.put_u32(2, 7).put_u32(FEC_ACTIVE, bit)).fec;
        assert_eq!(fec(50).as_deref(), Some("rs"));
        assert_eq!(fec(49).as_deref(), Some("off"));
        assert_eq!(fec(200).as_deref(), Some("mode_200"), "an encoding that this program does not know");
        assert_eq!(parsed(parse_fec, |r| r).fec, None, "the link is down");
    }

    #[test]
    fn sizes_and_pause_are_absent_where_the_driver_does_not_tell() {
        let rings = parsed(parse_rings, |r| r.put_u32(2, 8192).put_u32(RINGS_RX, 1024));
        assert_eq!((rings.receive_ring, rings.transmit_ring), (Some(1024), None));
        let pause = parsed(parse_pause, |r| r.put(2, &[1]).put(PAUSE_RX, &[1]).put(PAUSE_TX, &[0]));
        assert_eq!((pause.receive_pause, pause.transmit_pause), (Some(true), Some(false)));
    }

    proptest::proptest! {
        #[test]
        fn arbitrary_bytes_do_not_panic(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..200)) {
            for parse in [parse_fec, parse_rings, parse_pause] {
                parse(&bytes, &mut NetdevSettings::default());
            }
        }
    }
}
