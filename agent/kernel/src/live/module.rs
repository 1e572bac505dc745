//! Diagnostics of optical modules by ethtool netlink: reads and decodes the memory pages of each kind of module. Called
//! by [`super::LiveKernel`]. Slow (I2C) and privileged.

mod cmis;
mod sff8472;
mod sff8636;

use super::ethtool::{Ethtool, EthtoolQuery};
use super::netlink::attribute;
use crate::{CallError, ModuleDiagnostics};

const MODULE_EEPROM_GET: u8 = 31;
const OFFSET: u16 = 2;
const LENGTH: u16 = 3;
const PAGE: u16 = 4;
const BANK: u16 = 5;
const ADDRESS: u16 = 6;
const DATA: u16 = 7;

/// Lower memory of a module, or one upper page. Upper pages start at byte 128: index them with [`upper`].
type ModulePage = [u8; 128];

/// I2C address of a module.
const A0: u8 = 0x50;
/// I2C address of the diagnostics of an SFP module.
const A2: u8 = 0x51;

/// Diagnostics of a netdev's module: temperature, supply voltage, optical power, laser bias current.
pub fn read(ethtool: &Ethtool, netdev: &str) -> Result<ModuleDiagnostics, CallError> {
    let what = format!("module of {netdev}");
    let half = |page: u8, bank: u8, address: u8, offset: u32| -> Result<ModulePage, CallError> {
        let query = EthtoolQuery { what: &what, command: MODULE_EEPROM_GET, header: 1, netdev, flags: 0 };
        let range = |r: super::netlink::Request| {
            r.put_u32(OFFSET, offset)
                .put_u32(LENGTH, 128)
                .put(PAGE, &[page])
                .put(BANK, &[bank])
                .put(ADDRESS, &[address])
        };
        ethtool.get(query, range, |answer| attribute(answer, DATA)?.first_chunk().copied())
    };
    decode(&what, half)
}

/// Reads and decodes the pages of the kind of module. `half(page, bank, address, offset)` reads 128 bytes.
pub(super) fn decode(
    what: &str,
    half: impl Fn(u8, u8, u8, u32) -> Result<ModulePage, CallError>,
) -> Result<ModuleDiagnostics, CallError> {
    let lower = half(0, 0, A0, 0)?;
    // Identifiers of SFF-8024.
    let module = match lower[0] {
        0x03 | 0x0b => {
            if !sff8472::has_diagnostics(&lower) {
                return Err(no_diagnostics(what, "a cable or an old module"));
            }
            sff8472::decode(&lower, &half(0, 0, A2, 0)?)
        }
        0x0c | 0x0d | 0x11 => sff8636::decode(&lower, &half(0, 0, A0, 128)?),
        0x18 | 0x19 | 0x1b | 0x1e..=0x20 => {
            let first = half(0, 0, A0, 128)?;
            if cmis::is_flat(&lower) {
                cmis::decode(&lower, &first, None, &[])
            } else {
                let advertised = half(1, 0, A0, 128)?;
                let banks = (0..cmis::banks(&advertised)).map(|bank| half(0x11, bank, A0, 128));
                let banks = banks.collect::<Result<Vec<_>, _>>()?;
                cmis::decode(&lower, &first, Some(&advertised), &banks)
            }
        }
        kind => return Err(no_diagnostics(what, &format!("unknown SFF-8024 identifier {kind:#04x}"))),
    };
    if module.temperature.is_none() && module.supply.is_none() && module.lanes.is_empty() {
        return Err(no_diagnostics(what, "a cable or an old module"));
    }
    Ok(module)
}

fn no_diagnostics(what: &str, why: &str) -> CallError {
    CallError::Unsupported { what: what.into(), why: format!("the module has no diagnostics: {why}") }
}

/// Byte `address` (from 128) of an upper page.
fn upper(page: &ModulePage, address: usize) -> u8 {
    page[address - 128]
}

fn word(half: &ModulePage, at: usize) -> u16 {
    u16::from_be_bytes([half[at], half[at + 1]])
}

/// Temperature in degrees Celsius; the raw unit is 1/256 degree, signed.
fn celsius(raw: u16) -> f64 {
    f64::from(raw.cast_signed()) / 256.0
}

/// Voltage in volts; the raw unit is 100 µV. `None` for 0: no module runs without supply, so it is not measured.
fn volts(raw: u16) -> Option<f64> {
    (raw != 0).then(|| f64::from(raw) / 10_000.0)
}

/// Power in watts; the raw unit is 0.1 µW.
fn watts(raw: u16) -> f64 {
    f64::from(raw) / 10_000_000.0
}

/// Current in amperes; the raw unit is 2 µA.
fn amperes(raw: u16) -> f64 {
    f64::from(raw) / 500_000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    type PageAddress = (u8, u8, u8, u32);

    /// Decodes a module with the pages in `halves`, by (page, bank, address, offset).
    fn module(halves: &[(PageAddress, ModulePage)]) -> Result<ModuleDiagnostics, CallError> {
        decode("module of eth0", |page, bank, address, offset| {
            let wanted = (page, bank, address, offset);
            let found = halves.iter().find(|h| h.0 == wanted);
            found.map(|h| h.1).ok_or_else(|| panic!("page {wanted:?} must not be read"))
        })
    }

    #[test]
    fn a_direct_attach_cable_has_no_diagnostics() {
        let mut lower = [0; 128];
        lower[0] = 0x03;
        assert!(matches!(module(&[((0, 0, A0, 0), lower)]), Err(CallError::Unsupported { .. })));
        lower[0] = 0x11;
        let halves = [((0, 0, A0, 0), lower), ((0, 0, A0, 128), [0; 128])];
        assert!(matches!(module(&halves), Err(CallError::Unsupported { .. })));
    }

    #[test]
    fn flat_cmis_reads_no_further_page() {
        let mut lower = [0; 128];
        (lower[0], lower[2], lower[14]) = (0x18, 0x80, 30);
        let flat = module(&[((0, 0, A0, 0), lower), ((0, 0, A0, 128), [0; 128])]).unwrap();
        assert_eq!((flat.temperature, flat.supply, flat.lanes.len()), (Some(30.0), None, 0));
    }

    #[test]
    fn error_names_an_unknown_kind() {
        let error = module(&[((0, 0, A0, 0), [0xee; 128])]).unwrap_err();
        assert!(error.to_string().contains("0xee"), "{error}");
    }

    proptest::proptest! {
        #[test]
        fn arbitrary_pages_do_not_panic(bytes in proptest::collection::vec(proptest::num::u8::ANY, 128), kind in 0_u8..0x22) {
            let mut half: ModulePage = bytes.try_into().unwrap();
            half[0] = kind;
            if let Ok(module) = decode("m", |_, _, _, _| Ok(half)) {
                proptest::prop_assert!(module.lanes.len() <= 32);
            }
        }
    }
}
