//! The sources, one file each. The first one that recognizes a series decides.

pub mod cumulus;
pub mod dcgm;
pub mod gnmi_openconfig;
pub mod gnmi_sonic;
mod ib;
pub mod infiniband_exporters;
pub mod sai;
pub mod snmp;
pub mod sonic_exporters;
pub mod sonic_hft;
pub mod ufm;

use crate::attributes::Attributes;
use crate::source::Source;

/// Every source.
pub static SOURCES: &[&Source] = &[
    &cumulus::SOURCE,
    &gnmi_sonic::SOURCE,
    &gnmi_openconfig::SOURCE,
    &sonic_hft::SOURCE,
    &sonic_exporters::SOURCE,
    &infiniband_exporters::TREYDOCK,
    &infiniband_exporters::GUILBAULTS,
    &ufm::SOURCE,
    &snmp::SOURCE,
    &dcgm::SOURCE,
];

/// The source of a series; `None` if it is no foreign name at all.
pub fn source_of(name: &str, attributes: &(impl Attributes + ?Sized)) -> Option<&'static Source> {
    SOURCES.iter().copied().find(|source| source.has(name, attributes))
}
