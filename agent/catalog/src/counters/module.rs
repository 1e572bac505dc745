//! Module EEPROM, in the integer steps of SFF-8472, SFF-8636 and CMIS.

use super::build::module;
use crate::metrics::optics::{MODULE_BIAS, MODULE_RX_POWER, MODULE_SUPPLY, MODULE_TEMPERATURE, MODULE_TX_POWER};
use crate::vendor_counter::VendorCounter;

/// All counters, in the order in which the driver lists them.
pub static COUNTERS: &[VendorCounter] = &[
    module("temperature", &MODULE_TEMPERATURE).times(1e-3),
    module("vcc", &MODULE_SUPPLY).times(1e-4),
    module("tx_bias[{lane}]", &MODULE_BIAS).times(2e-6),
    module("tx_power[{lane}]", &MODULE_TX_POWER).times(1e-7),
    module("rx_power[{lane}]", &MODULE_RX_POWER).times(1e-7),
];
