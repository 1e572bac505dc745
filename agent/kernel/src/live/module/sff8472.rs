//! SFP modules (SFF-8472): one lane, diagnostics at a second I2C address, calibrated internally or externally.

use super::{ModulePage, amperes, celsius, volts, watts, word};
use crate::{ModuleDiagnostics, ModuleLane};

/// Byte at the first address that describes the available diagnostics.
const KIND: usize = 92;
const IMPLEMENTED: u8 = 0x40;
const EXTERNAL: u8 = 0x10;

/// Whether the module has diagnostics at the second address.
pub fn has_diagnostics(a0: &ModulePage) -> bool {
    a0[KIND] & IMPLEMENTED != 0
}

/// Decodes the lower halves of both addresses.
pub fn decode(a0: &ModulePage, a2: &ModulePage) -> ModuleDiagnostics {
    let [temperature, supply, bias, tx, rx] = [96, 98, 100, 102, 104].map(|at| word(a2, at));
    if a0[KIND] & EXTERNAL == 0 {
        let lane = ModuleLane { rx_power: Some(watts(rx)), tx_power: Some(watts(tx)), tx_bias: Some(amperes(bias)) };
        return ModuleDiagnostics { temperature: Some(celsius(temperature)), supply: volts(supply), lanes: vec![lane] };
    }
    // External calibration: value = slope * raw + offset; slopes are 8.8 fixed point.
    let linear =
        |raw: f64, at: usize| f64::from(word(a2, at)) / 256.0 * raw + f64::from(word(a2, at + 2).cast_signed());
    let rx_terms =
        [56, 60, 64, 68, 72].map(|at| f64::from(f32::from_be_bytes([a2[at], a2[at + 1], a2[at + 2], a2[at + 3]])));
    let rx = rx_terms.iter().fold(0.0, |sum, term| sum * f64::from(rx) + term);
    // Constants of an unprogrammed module are arbitrary: implausible values are absent.
    let plausible = |value: f64| Some(value).filter(|v| v.is_finite() && *v >= 0.0);
    let lane = ModuleLane {
        rx_power: plausible(rx / 10_000_000.0),
        tx_power: plausible(linear(f64::from(tx), 80) / 10_000_000.0),
        tx_bias: plausible(linear(f64::from(bias), 76) / 500_000.0),
    };
    ModuleDiagnostics {
        temperature: Some(linear(f64::from(temperature.cast_signed()), 84) / 256.0),
        supply: plausible(linear(f64::from(supply), 88) / 10_000.0),
        lanes: vec![lane],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(half: &mut ModulePage, at: usize, bytes: &[u8]) {
        half[at..at + bytes.len()].copy_from_slice(bytes);
    }

    fn measured() -> ModulePage {
        let mut a2 = [0; 128];
        put(&mut a2, 96, &[0x1d, 0x80]); // 29.5 degrees
        put(&mut a2, 98, &33_000_u16.to_be_bytes());
        put(&mut a2, 100, &3_500_u16.to_be_bytes());
        put(&mut a2, 102, &5_000_u16.to_be_bytes());
        put(&mut a2, 104, &1_u16.to_be_bytes());
        a2
    }

    #[test]
    fn internal_calibration() {
        let mut a0 = [0; 128];
        a0[92] = 0x68;
        let module = decode(&a0, &measured());
        assert_eq!((module.temperature, module.supply), (Some(29.5), Some(3.3)));
        let lane = &module.lanes[0];
        assert_eq!((lane.tx_bias, lane.tx_power, lane.rx_power), (Some(0.007), Some(0.0005), Some(0.000_000_1)));
        assert!(has_diagnostics(&a0) && !has_diagnostics(&[0; 128]));
    }

    #[test]
    fn external_calibration() {
        let (mut a0, mut a2) = ([0; 128], measured());
        a0[92] = 0x50;
        put(&mut a2, 68, &2.0_f32.to_be_bytes());
        put(&mut a2, 72, &10.0_f32.to_be_bytes());
        put(&mut a2, 76, &[2, 0, 0, 0]); // bias twice
        put(&mut a2, 80, &[1, 0, 0xff, 0x9c]); // transmit power less 100
        put(&mut a2, 84, &[1, 0, 1, 0]); // temperature plus one degree
        put(&mut a2, 88, &[1, 0, 0, 0]);
        let module = decode(&a0, &a2);
        assert_eq!((module.temperature, module.supply), (Some(30.5), Some(3.3)));
        let lane = &module.lanes[0];
        assert_eq!((lane.tx_bias, lane.tx_power, lane.rx_power), (Some(0.014), Some(0.00049), Some(0.000_001_2)));
        put(&mut a2, 72, &f32::NAN.to_be_bytes());
        assert_eq!(decode(&a0, &a2).lanes[0].rx_power, None);
    }
}
