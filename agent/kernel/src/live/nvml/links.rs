//! NVLinks of a GPU, by fields that differ between generations: up to NVLink 4 traffic in KiB and three kinds of errors,
//! from NVLink 5 on bytes, more errors and bit error ratios. All are asked for, and those that the GPU has are taken.

use super::ffi::FieldValue;
use crate::nvml::NvLink;
use std::ffi::{c_int, c_uint};

/// `NVML_NVLINK_MAX_LINKS`.
const MOST_LINKS: c_uint = 36;
const STATE: c_uint = 165;
/// States in which the link carries traffic: active, asleep.
const ACTIVE: [u64; 2] = [1, 2];
/// Speed, MB/s.
const SPEED: c_uint = 164;
/// Bytes sent, received.
const BYTES: [c_uint; 2] = [202, 204];
/// KiB of data sent, received.
const KIBIBYTES: [c_uint; 2] = [138, 139];

const ERRORS: &[(c_uint, &str)] = &[
    (161, "replay"),
    (162, "recovery"),
    (163, "crc"),
    (206, "malformed_packet"),
    (207, "buffer_overrun"),
    (208, "receive"),
    (211, "link_integrity"),
    (212, "transmit_discard"),
    (214, "recovery_failed"),
    (215, "link_recovery"),
    (219, "effective"),
    (221, "symbol"),
];
const BIT_ERROR_RATIOS: &[(c_uint, &str)] = &[(220, "effective"), (222, "symbol"), (293, "raw")];

/// Reads the links. `fields` fills a list of values and returns the status of the call.
pub fn read(mut fields: impl FnMut(&mut [FieldValue]) -> c_int) -> Vec<NvLink> {
    let mut states: Vec<FieldValue> = (0..MOST_LINKS).map(|link| FieldValue::of(STATE, link)).collect();
    fields(&mut states);
    let mut links = Vec::new();
    for state in &states {
        let Some(value) = state.number() else { continue };
        let mut link = NvLink { link: state.scope, is_active: ACTIVE.contains(&value), ..NvLink::default() };
        if link.is_active {
            details(&mut link, &mut fields);
        }
        links.push(link);
    }
    links
}

fn details(link: &mut NvLink, fields: &mut impl FnMut(&mut [FieldValue]) -> c_int) {
    let ids = [SPEED].into_iter().chain(BYTES).chain(KIBIBYTES);
    let ids = ids.chain(ERRORS.iter().chain(BIT_ERROR_RATIOS).map(|(id, _)| *id));
    let mut values: Vec<FieldValue> = ids.map(|id| FieldValue::of(id, link.link)).collect();
    fields(&mut values);
    let of = |id: c_uint| values.iter().find(|value| value.field == id).and_then(FieldValue::number);
    link.speed = of(SPEED).and_then(|megabytes| megabytes.checked_mul(1_000_000));
    for (direction, (bytes, kibibytes)) in BYTES.into_iter().zip(KIBIBYTES).enumerate() {
        link.transferred[direction] = of(bytes).or_else(|| of(kibibytes)?.checked_mul(1024));
    }
    link.errors = ERRORS.iter().filter_map(|(id, name)| Some(((*name).to_owned(), of(*id)?))).collect();
    let ratio = |(id, name): &(c_uint, &str)| Some(((*name).to_owned(), bit_error_ratio(of(*id)?)));
    link.bit_error_ratios = BIT_ERROR_RATIOS.iter().filter_map(ratio).collect();
}

/// Mantissa in bits 8 to 11, negative decimal exponent in bits 0 to 7.
fn bit_error_ratio(value: u64) -> f64 {
    let (mantissa, exponent) = (value >> 8 & 0xf, value & 0xff);
    mantissa as f64 * 10_f64.powi(-i32::try_from(exponent).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bit_error_ratios_are_decimal() {
        assert_eq!(bit_error_ratio(0), 0.0);
        assert!((bit_error_ratio(0x5_0f) / 5e-15 - 1.0).abs() < 1e-9);
        assert!((bit_error_ratio(0x1_ff) / 1e-255 - 1.0).abs() < 1e-9);
    }
}
