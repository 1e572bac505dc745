//! Link state with the reason for being down, and the fastest supported mode, by ethtool netlink. Called by
//! [`super::LiveKernel`].

use super::ethtool::{Ethtool, EthtoolQuery};
use super::netlink::{attribute, attributes, text};
use crate::{CallError, LinkState};

const LINKSTATE_GET: u8 = 6;
const LINK: u16 = 2;
const EXT_STATE: u16 = 5;
const EXT_SUBSTATE: u16 = 6;

const LINKMODES_GET: u8 = 4;
const OURS: u16 = 3;
const BITS: u16 = 3;
const BIT_NAME: u16 = 2;

/// Reasons for being down, by number from 0, each with its details, by number from 1.
const REASONS: &[(&str, &[&str])] = &[
    (
        "autoneg",
        &[
            "no_partner_detected",
            "ack_not_received",
            "next_page_exchange_failed",
            "no_partner_detected_force_mode",
            "fec_mismatch_during_override",
            "no_hcd",
        ],
    ),
    (
        "link_training_failure",
        &[
            "kr_frame_lock_not_acquired",
            "kr_link_inhibit_timeout",
            "kr_link_partner_did_not_set_receiver_ready",
            "remote_fault",
        ],
    ),
    (
        "link_logical_mismatch",
        &[
            "pcs_did_not_acquire_block_lock",
            "pcs_did_not_acquire_am_lock",
            "pcs_did_not_get_align_status",
            "fc_fec_is_not_locked",
            "rs_fec_is_not_locked",
        ],
    ),
    (
        "bad_signal_integrity",
        &["large_number_of_physical_errors", "unsupported_rate", "serdes_reference_clock_lost", "serdes_alos"],
    ),
    ("no_cable", &[]),
    ("cable_issue", &["unsupported_cable", "cable_test_failure"]),
    ("eeprom_issue", &[]),
    ("calibration_failure", &[]),
    ("power_budget_exceeded", &[]),
    ("overheat", &[]),
    ("module", &["cmis_not_ready"]),
];

/// State of the link, with the reason for being down.
pub fn state(ethtool: &Ethtool, netdev: &str) -> Result<LinkState, CallError> {
    let what = format!("link state of {netdev}");
    let query = EthtoolQuery { what: &what, command: LINKSTATE_GET, header: 1, netdev, flags: 0 };
    ethtool.get(query, |r| r, |answer| Some(parse_state(answer)))
}

/// Fastest supported mode, bits per second.
pub fn max_rate_bits(ethtool: &Ethtool, netdev: &str) -> Result<u64, CallError> {
    let what = format!("link modes of {netdev}");
    // Without the flag for compact bitsets the kernel names each mode, so modes newer than this program are known, too.
    let query = EthtoolQuery { what: &what, command: LINKMODES_GET, header: 1, netdev, flags: 0 };
    let rate = ethtool.get(query, |r| r, |answer| Some(parse_modes(answer)))?;
    rate.ok_or(CallError::Unsupported { what, why: "the driver reports no link mode with a speed".into() })
}

pub(super) fn parse_state(answer: &[u8]) -> LinkState {
    let byte = |kind| attribute(answer, kind).and_then(|b| b.first().copied());
    let reason = byte(EXT_STATE);
    let known = reason.and_then(|number| REASONS.get(usize::from(number)));
    let detail = byte(EXT_SUBSTATE).map(|number| {
        let name = known.and_then(|row| row.1.get(usize::from(number).checked_sub(1)?));
        name.map_or_else(|| format!("detail_{number}"), |name| (*name).to_owned())
    });
    LinkState {
        up: byte(LINK).map(|up| up != 0),
        reason: reason.map(|number| known.map_or_else(|| format!("reason_{number}"), |row| row.0.to_owned())),
        detail,
    }
}

/// Speed in bits per second of the fastest mode, such as `100000baseCR4/Full`, in a verbose bitset of supported modes.
pub(super) fn parse_modes(answer: &[u8]) -> Option<u64> {
    let modes = attributes(attribute(attribute(answer, OURS)?, BITS)?);
    let names = modes.filter_map(|(_, bit)| Some(text(attribute(bit, BIT_NAME)?)));
    names.filter_map(|name| Some(name.split_once("base")?.0.parse::<u64>().ok()?.saturating_mul(1_000_000))).max()
}

#[cfg(test)]
mod tests {
    use super::super::netlink::Request;
    use super::*;

    fn state_of(build: impl FnOnce(Request) -> Request) -> (Option<bool>, String, String) {
        let state = parse_state(&build(Request::new(0, false, &[])).bytes()[16..]);
        (state.up, state.reason.unwrap_or_default(), state.detail.unwrap_or_default())
    }

    #[test]
    fn reason_for_being_down_is_parsed() {
        assert_eq!(state_of(|r| r.put(LINK, &[1])), (Some(true), "".into(), "".into()));
        assert_eq!(state_of(|r| r.put(LINK, &[0]).put(EXT_STATE, &[4])), (Some(false), "no_cable".into(), "".into()));
        let down =
            |state, detail| state_of(|r| r.put(LINK, &[0]).put(EXT_STATE, &[state]).put(EXT_SUBSTATE, &[detail]));
        assert_eq!(down(3, 4), (Some(false), "bad_signal_integrity".into(), "serdes_alos".into()));
        assert_eq!(down(0, 1).2, "no_partner_detected");
        assert_eq!(down(0, 0).2, "detail_0");
        assert_eq!(down(200, 9), (Some(false), "reason_200".into(), "detail_9".into()));
        assert_eq!(state_of(|r| r), (None, "".into(), "".into()));
    }

    #[test]
    fn the_fastest_supported_mode() {
        let modes = |names: &[&str]| {
            let request = Request::new(0, false, &[]).put_nest(OURS, |n| {
                n.put_nest(BITS, |mut n| {
                    for name in names {
                        n = n.put_nest(1, |bit| bit.put_u32(1, 5).put_text(BIT_NAME, name));
                    }
                    n
                })
            });
            parse_modes(&request.bytes()[16..])
        };
        assert_eq!(modes(&["Autoneg", "FIBRE", "100000baseCR4/Full", "25000baseCR/Full"]), Some(100_000_000_000));
        assert_eq!(modes(&["1600000baseDR8/Full"]), Some(1_600_000_000_000));
        assert_eq!(modes(&["Autoneg"]), None);
        assert_eq!(modes(&[]), None);
    }

    proptest::proptest! {
        #[test]
        fn arbitrary_bytes_do_not_panic(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..200)) {
            let _ = (parse_state(&bytes), parse_modes(&bytes));
        }
    }
}
