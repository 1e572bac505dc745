//! Entry point of the fuzzer.

use crate::congestion;
use crate::packet::Reply;
use crate::pma::{self, Capabilities};
use crate::smp::{self, NodeInfo, PortInfo, SwitchInfo};

/// Decodes a datagram as every attribute.
pub fn mad(bytes: &[u8]) {
    let Ok(reply) = Reply::decode(bytes) else { return };
    let data = reply.data();
    let (node, port, switch) = (NodeInfo::decode(data), PortInfo::decode(data), SwitchInfo::decode(data));
    let description = smp::node_description(data);
    assert!(!description.contains(char::is_control) && description.len() <= 3 * 64);
    let capabilities = Capabilities::decode(data);
    let plain = [&pma::EXTENDED, &pma::PORT_COUNTERS, &pma::DISCARDS, &pma::LANE_WAIT, &pma::FEC];
    for attribute in plain.into_iter().chain(&congestion::ATTRIBUTES) {
        for field in attribute.fields.iter().filter(|field| capabilities.offers(attribute, field, port.virtual_lanes)) {
            assert!(field.width == 64 || field.value(data) >> field.width == 0);
        }
    }
    _ = (node, switch, port.rate_bits(), smp::sl_to_vl(data), pma::tick(data));
}
