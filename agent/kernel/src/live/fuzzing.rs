//! Entry points for `fuzz`: parsers of kernel replies and module memory. No sockets.

use super::{
    address, dcb, ethtool_ioctl, events, flow_socket, link, module, netdev_settings, netlink, rdma, resources, sockets,
    std_stats, uevent,
};
use crate::{CallError, NetdevSettings};

const DEVICE: &str = "mlx5_0";

/// One row per parser of a message payload.
const PARSERS: &[fn(&[u8])] = &[
    |b| _ = address::parse(b),
    |b| _ = dcb::parse(b),
    |b| _ = resources::qp(b, DEVICE),
    |b| _ = resources::cm_id(b, DEVICE),
    |b| _ = resources::qp_counter(b, DEVICE),
    |b| {
        let Some(device) = rdma::device(b) else { return };
        if let Some(link) = rdma::port(b, &device) {
            rdma::counter_entries(b, &link, &mut Vec::new());
        }
    },
    |b| _ = link::parse_state(b),
    |b| _ = link::parse_modes(b),
    |b| netdev_settings::parse_fec(b, &mut NetdevSettings::default()),
    |b| netdev_settings::parse_rings(b, &mut NetdevSettings::default()),
    |b| netdev_settings::parse_pause(b, &mut NetdevSettings::default()),
    |b| std_stats::parse_pause(b, &mut Vec::new()),
    |b| std_stats::parse_fec(b, &mut Vec::new()),
    |b| std_stats::parse_groups(b, &mut Vec::new()),
    |b| _ = sockets::parse(b),
    |b| _ = events::link_state(b),
    |b| _ = events::notifications(b),
    |b| _ = dcb::changed(b).count(),
    |b| _ = flow_socket::parse(b, b),
    |b| _ = uevent::parse(b),
    |b| _ = ethtool_ioctl::driver_info(b),
    |b| {
        if let Some(names) = ethtool_ioctl::names(b) {
            assert!(ethtool_ioctl::same_names(b, &names), "names that were just read are the same");
        }
    },
];

/// Parses a netlink or ioctl reply. The first byte selects the parser.
pub fn answer(bytes: &[u8]) {
    let Some((which, bytes)) = bytes.split_first() else { return };
    let parse = PARSERS[usize::from(*which) % PARSERS.len()];
    parse(bytes);
    netlink::messages(bytes).for_each(|message| parse(message.payload));
}

/// Valid first bytes of [`answer`], for seeds.
pub fn answers() -> std::ops::Range<u8> {
    0..PARSERS.len() as u8
}

/// Decodes the memory of an optical module: the lower half, then upper halves in the order of the reads.
pub fn module(bytes: &[u8]) {
    let reads = std::cell::Cell::new(0);
    _ = module::decode("module", |_, _, _, _| {
        let at = reads.replace(reads.get() + 1) * 128;
        let half = bytes.get(at..).and_then(|b| b.first_chunk().copied());
        half.ok_or_else(|| CallError::Unsupported { what: "module".into(), why: "no such page".into() })
    });
}
