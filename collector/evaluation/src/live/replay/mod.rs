//! Recordings replayed live: hosts as agents send them, switches in the forms of their vendors and exporters, each with its
//! own period. What is found is compared with a back-test of the same counters.

mod agent;
mod collector;
mod cumulus;
mod exporter;
mod form;
mod gnmi;
mod ib_exporter;
mod otlp;
mod recorded;
mod remote_write;
mod sonic_hft;
mod tests;

use form::Form;

/// Forms of Ethernet switches.
const ETHERNET: [&Form; 6] =
    [&cumulus::FORM, &sonic_hft::FORM, &gnmi::CUMULUS, &gnmi::SONIC, &exporter::SONIC, &exporter::SNMP];
/// Forms of InfiniBand switches.
const INFINIBAND: [&Form; 2] = [&ib_exporter::TREYDOCK, &ib_exporter::GUILBAULTS];
