//! QSFP, QSFP+ and QSFP28 modules (SFF-8636): four lanes in the lower memory.

use super::{ModulePage, amperes, celsius, upper, volts, watts, word};
use crate::{ModuleDiagnostics, ModuleLane};

/// Upper page 0: device technology; transmitter kinds from 10 on are copper.
const TECHNOLOGY: usize = 147;
const FIRST_COPPER: u8 = 10;
/// Upper page 0: diagnostic monitoring type.
const MONITORING: usize = 220;
const TX_POWER: u8 = 0x04;

/// Decodes the lower memory and upper page 0.
pub fn decode(lower: &ModulePage, page0: &ModulePage) -> ModuleDiagnostics {
    let supply = volts(word(lower, 26));
    let raw = word(lower, 22);
    // Cables without sensors report zeros. A working sensor never reports 0 degrees together with 0 V.
    let temperature = (raw != 0 || supply.is_some()).then(|| celsius(raw));
    let optical = upper(page0, TECHNOLOGY) >> 4 < FIRST_COPPER && temperature.is_some();
    let lane = |lane: usize| ModuleLane {
        rx_power: Some(watts(word(lower, 34 + lane * 2))),
        tx_power: (upper(page0, MONITORING) & TX_POWER != 0).then(|| watts(word(lower, 50 + lane * 2))),
        tx_bias: Some(amperes(word(lower, 42 + lane * 2))),
    };
    ModuleDiagnostics { temperature, supply, lanes: if optical { (0..4).map(lane).collect() } else { Vec::new() } }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured() -> ModulePage {
        let mut lower = [0; 128];
        lower[0] = 0x11;
        lower[22..24].copy_from_slice(&[0xff, 0x00]); // -1 degree
        lower[26..28].copy_from_slice(&32_500_u16.to_be_bytes());
        for lane in 0..4_u16 {
            let put = |half: &mut ModulePage, at: u16, value: u16| {
                let at = usize::from(at + lane * 2);
                half[at..at + 2].copy_from_slice(&value.to_be_bytes());
            };
            put(&mut lower, 34, 1_000 * lane);
            put(&mut lower, 42, 4_000);
            put(&mut lower, 50, 9_000 + lane);
        }
        lower
    }

    #[test]
    fn an_optical_module() {
        let mut page0 = [0; 128];
        page0[220 - 128] = TX_POWER;
        let module = decode(&measured(), &page0);
        assert_eq!((module.temperature, module.supply), (Some(-1.0), Some(3.25)));
        assert_eq!(module.lanes.len(), 4);
        // A dark receiver is a measurement, not an absence.
        assert_eq!(module.lanes[0].rx_power, Some(0.0));
        let lane = &module.lanes[3];
        assert_eq!((lane.rx_power, lane.tx_power, lane.tx_bias), (Some(0.0003), Some(0.000_900_3), Some(0.008)));
        page0[220 - 128] = 0;
        assert_eq!(decode(&measured(), &page0).lanes[3].tx_power, None);
    }

    #[test]
    fn copper_has_no_optical_power_and_no_sensor() {
        let mut page0 = [0; 128];
        page0[147 - 128] = 0xa0;
        assert_eq!(decode(&measured(), &page0).lanes, []);
        assert_eq!(decode(&[0; 128], &page0), ModuleDiagnostics::default());
    }
}
