//! Tells RoCE version 1, version 2, iWARP, InfiniBand, Omni-Path and EFA apart.

use crate::inventory::{Device, LinkLayer, Transport};
use crate::sysfile::maybe;
use std::path::Path;

/// GID tables have up to 1,024 slots, filled from the front.
const SLOTS: u32 = 64;
/// Empty slots in a row after which the table is taken to end (each costs a failing read).
const GAP: u32 = 8;

/// RDMA transport of the port at `dir`.
pub fn transport(device: &Device, dir: &Path, link_layer: LinkLayer) -> Transport {
    match &*device.driver {
        "hfi1" => return Transport::OmniPath,
        "efa" => return Transport::Efa,
        "siw" | "i40iw" | "iw_cxgb4" => return Transport::Iwarp,
        _ => {}
    }
    // node_type "4: RNIC": irdma reports it for iWARP ports only.
    if maybe(&device.dir.join("node_type")).is_some_and(|t| t.ends_with("RNIC")) {
        return Transport::Iwarp;
    }
    match link_layer {
        LinkLayer::InfiniBand => Transport::InfiniBand,
        LinkLayer::Unknown => Transport::Unknown,
        LinkLayer::Ethernet => roce(&dir.join("gid_attrs/types")),
    }
}

fn roce(types: &Path) -> Transport {
    let mut found = Transport::Roce;
    let mut empty = 0;
    for slot in 0..SLOTS {
        match maybe(&types.join(slot.to_string())).as_deref() {
            Some("RoCE v2") => return Transport::RoceV2,
            Some("IB/RoCE v1") => (found, empty) = (Transport::RoceV1, 0),
            _ => empty += 1,
        }
        if empty >= GAP {
            break;
        }
    }
    found
}
