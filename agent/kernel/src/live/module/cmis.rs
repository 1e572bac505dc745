//! QSFP-DD, OSFP and other modules with CMIS: up to four banks of eight lanes. The module advertises its monitors.

use super::{ModulePage, amperes, celsius, upper, volts, watts, word};
use crate::{ModuleDiagnostics, ModuleLane};

/// Lower memory: bit 7 is set if the module has only the lower memory and page 0.
const FLAT: usize = 2;
/// Page 0: one bit per media lane that the module does *not* have.
const LANES_MISSING: usize = 210;
/// Page 0: media technology.
const TECHNOLOGY: usize = 212;
const COPPER: std::ops::RangeInclusive<u8> = 0x0a..=0x0f;
/// Page 1: number of banks, and the monitors that exist.
const BANKS: usize = 142;
const MODULE_MONITORS: usize = 159;
const LANE_MONITORS: usize = 160;
const TX_BIAS: u8 = 1;
const TX_POWER: u8 = 2;
const RX_POWER: u8 = 4;
const LANES_PER_BANK: usize = 8;

/// Whether the module has no page except 0.
pub fn is_flat(lower: &ModulePage) -> bool {
    lower[FLAT] & 0x80 != 0
}

/// Banks of lanes: 1, 2 or 4.
pub fn banks(page1: &ModulePage) -> u8 {
    match upper(page1, BANKS) & 3 {
        0 => 1,
        1 => 2,
        _ => 4,
    }
}

/// Decodes the lower memory, page 0 and, unless flat, page 1 and page 0x11 of every bank.
pub fn decode(
    lower: &ModulePage,
    page0: &ModulePage,
    page1: Option<&ModulePage>,
    page11: &[ModulePage],
) -> ModuleDiagnostics {
    let monitors = page1.map(|page| upper(page, MODULE_MONITORS));
    let raw = word(lower, 14);
    let supply = volts(word(lower, 16)).filter(|_| monitors.is_none_or(|m| m & 2 != 0));
    let temperature = match monitors {
        Some(monitors) => (monitors & 1 != 0).then(|| celsius(raw)),
        None => (raw != 0).then(|| celsius(raw)),
    };
    let has = page1.map_or(0, |page| upper(page, LANE_MONITORS));
    let bias_scale = match has >> 3 & 3 {
        1 => 2.0,
        2 => 4.0,
        _ => 1.0,
    };
    let copper = COPPER.contains(&upper(page0, TECHNOLOGY));
    let lanes = page11.iter().enumerate().flat_map(|(bank, page)| {
        (0..LANES_PER_BANK).filter(move |lane| bank > 0 || upper(page0, LANES_MISSING) >> lane & 1 == 0).map(
            move |lane| {
                let raw = |address: usize| word(page, address - 128 + lane * 2);
                ModuleLane {
                    rx_power: (has & RX_POWER != 0).then(|| watts(raw(186))),
                    tx_power: (has & TX_POWER != 0).then(|| watts(raw(154))),
                    tx_bias: (has & TX_BIAS != 0).then(|| amperes(raw(170)) * bias_scale),
                }
            },
        )
    });
    let measured = !copper && has & (TX_BIAS | TX_POWER | RX_POWER) != 0;
    ModuleDiagnostics { temperature, supply, lanes: if measured { lanes.collect() } else { Vec::new() } }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(half: &mut ModulePage, address: usize, value: u16) {
        half[address..address + 2].copy_from_slice(&value.to_be_bytes());
    }

    #[test]
    fn a_four_lane_module_in_an_eight_lane_cage() {
        let (mut lower, mut page0, mut page1, mut page11) = ([0; 128], [0; 128], [0; 128], [0; 128]);
        set(&mut lower, 14, 0x2a80); // 42.5 degrees
        set(&mut lower, 16, 33_000);
        page0[LANES_MISSING - 128] = 0xf0;
        page1[MODULE_MONITORS - 128] = 3;
        page1[LANE_MONITORS - 128] = TX_BIAS | RX_POWER | 1 << 3;
        set(&mut page11, 154 - 128, 9);
        set(&mut page11, 170 - 128 + 2, 1_000);
        set(&mut page11, 186 - 128 + 6, 7_000);
        let module = decode(&lower, &page0, Some(&page1), &[page11]);
        assert_eq!((module.temperature, module.supply, module.lanes.len()), (Some(42.5), Some(3.3), 4));
        assert_eq!(module.lanes[1].tx_bias, Some(0.004));
        assert_eq!(module.lanes[3].rx_power, Some(0.0007));
        assert!(module.lanes.iter().all(|lane| lane.tx_power.is_none()), "not advertised");
        page0[TECHNOLOGY - 128] = 0x0a;
        assert_eq!(decode(&lower, &page0, Some(&page1), &[page11]).lanes, []);
    }

    #[test]
    fn monitors_that_are_not_advertised_are_absent() {
        let mut lower = [0; 128];
        set(&mut lower, 14, 0x2a80);
        set(&mut lower, 16, 33_000);
        assert_eq!(decode(&lower, &[0; 128], Some(&[0; 128]), &[[0; 128]]), ModuleDiagnostics::default());
        lower[FLAT] = 0x80;
        assert!(is_flat(&lower));
        assert_eq!(decode(&lower, &[0; 128], None, &[]).temperature, Some(42.5));
    }

    #[test]
    fn banks_of_lanes() {
        let mut page1 = [0; 128];
        page1[LANE_MONITORS - 128] = RX_POWER;
        for (code, count) in [(0, 1), (1, 2), (2, 4), (3, 4)] {
            page1[BANKS - 128] = 0xfc | code;
            assert_eq!(banks(&page1), count);
        }
        assert_eq!(decode(&[0; 128], &[0; 128], Some(&page1), &[[0; 128]; 4]).lanes.len(), 32);
    }
}
