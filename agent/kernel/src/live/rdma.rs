//! RDMA netlink: devices, ports, counters. Read-only. Called by [`super::LiveKernel`] and the events; queue pairs and
//! other resources are in [`super::resources`].
//!
//! Constants are those of the kernel's `rdma/rdma_netlink.h`.

use std::sync::Arc;

use super::netlink::{ReopeningChannel, Request, attribute, attributes, text, u32_at, uint};
use crate::{CallError, RdmaLink, intern};

/// Message type of a command of the device client.
pub const fn command(number: u16) -> u16 {
    5 << 10 | number
}

const GET: u16 = 1;
const PORT_GET: u16 = 5;
/// Command for the counters of a port, or with [`attr::STAT_RES`] for those of its queue pairs.
pub const STAT_GET: u16 = 17;
const STAT_GET_STATUS: u16 = 24;

/// Attribute types.
pub mod attr {
    pub const DEV_INDEX: u16 = 1;
    pub const DEV_NAME: u16 = 2;
    pub const PORT_INDEX: u16 = 3;
    pub const FW_VERSION: u16 = 5;
    pub const NODE_GUID: u16 = 6;
    pub const LID: u16 = 9;
    pub const PORT_STATE: u16 = 12;
    pub const PORT_PHYS_STATE: u16 = 13;
    pub const RES_QP: u16 = 19;
    pub const RES_QP_ENTRY: u16 = 20;
    pub const RES_LQPN: u16 = 21;
    pub const RES_RQPN: u16 = 22;
    pub const RES_TYPE: u16 = 26;
    pub const RES_STATE: u16 = 27;
    pub const RES_PID: u16 = 28;
    pub const RES_KERN_NAME: u16 = 29;
    pub const RES_CM_ID: u16 = 30;
    pub const RES_CM_ID_ENTRY: u16 = 31;
    pub const RES_SRC_ADDR: u16 = 33;
    pub const RES_DST_ADDR: u16 = 34;
    pub const NDEV_NAME: u16 = 51;
    pub const STAT_RES: u16 = 75;
    pub const STAT_COUNTER: u16 = 77;
    pub const STAT_COUNTER_ENTRY: u16 = 78;
    pub const STAT_COUNTER_ID: u16 = 79;
    pub const STAT_HWCOUNTERS: u16 = 80;
    pub const STAT_HWCOUNTER_ENTRY: u16 = 81;
    pub const STAT_HWCOUNTER_NAME: u16 = 82;
    pub const STAT_HWCOUNTER_VALUE: u16 = 83;
    pub const RES_SUBTYPE: u16 = 98;
    pub const DEV_TYPE: u16 = 99;
    pub const EVENT_TYPE: u16 = 102;
}

/// Value of `DEV_TYPE` for management-only devices.
const TYPE_SMI: u8 = 1;

/// Device, from the reply to `GET`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    index: u32,
    pub name: String,
    guid: Option<u64>,
    firmware: Option<String>,
    smi_only: bool,
}

/// All ports of all devices. Skips failing devices, unless all fail.
pub fn links(netlink: &ReopeningChannel) -> Result<Vec<RdmaLink>, CallError> {
    let request = || Request::new(command(PORT_GET), true, &[]);
    of_all_devices(netlink, "ports", request, port)
}

/// Sends a dump request to each device and parses the replies. `request` builds it without the device.
pub fn of_all_devices<T, A: IntoIterator<Item = T>>(
    netlink: &ReopeningChannel,
    what: &str,
    request: impl Fn() -> Request,
    parse: impl Fn(&[u8], &Device) -> A,
) -> Result<Vec<T>, CallError> {
    let mut all = Vec::new();
    let mut failed = None;
    for device in devices(netlink)? {
        let request = request().put_u32(attr::DEV_INDEX, device.index);
        let what = format!("{what} of {} by RDMA netlink", device.name);
        match netlink.dump(&what, request, |answer| Some(parse(answer, &device))) {
            Ok(answers) => all.extend(answers.into_iter().flatten()),
            // The device was removed since it was listed, or has no such resources.
            Err(CallError::Gone { .. } | CallError::Unsupported { .. }) => {}
            Err(CallError::Failed { source, .. }) if is_invalid(&source) => {}
            Err(error) => failed = Some(error),
        }
    }
    failed.filter(|_| all.is_empty()).map_or(Ok(all), Err)
}

/// True for EINVAL, which the kernel returns for an unused device index.
fn is_invalid(error: &std::io::Error) -> bool {
    error.raw_os_error() == Some(libc::EINVAL)
}

fn devices(netlink: &ReopeningChannel) -> Result<Vec<Device>, CallError> {
    netlink.dump("list RDMA devices by netlink", Request::new(command(GET), true, &[]), device)
}

pub(super) fn device(answer: &[u8]) -> Option<Device> {
    Some(Device {
        index: u32_at(attribute(answer, attr::DEV_INDEX)?, 0)?,
        name: text(attribute(answer, attr::DEV_NAME)?),
        guid: attribute(answer, attr::NODE_GUID).and_then(uint),
        firmware: attribute(answer, attr::FW_VERSION).map(text).filter(|fw| !fw.is_empty()),
        smi_only: attribute(answer, attr::DEV_TYPE).and_then(|t| t.first()) == Some(&TYPE_SMI),
    })
}

pub(super) fn port(answer: &[u8], device: &Device) -> Option<RdmaLink> {
    let byte = |kind| attribute(answer, kind).and_then(|b| b.first().copied());
    Some(RdmaLink {
        index: device.index,
        device: device.name.clone(),
        port: u32_at(attribute(answer, attr::PORT_INDEX)?, 0)?,
        state: byte(attr::PORT_STATE)?,
        physical_state: byte(attr::PORT_PHYS_STATE)?,
        netdev: attribute(answer, attr::NDEV_NAME).map(text),
        node_guid: device.guid,
        firmware: device.firmware.clone(),
        // The kernel reports a LID on InfiniBand and Omni-Path only.
        lid: attribute(answer, attr::LID).and_then(|b| u32_at(b, 0)),
        smi_only: device.smi_only,
    })
}

/// Appends the counters of a port to `out`: the default ones and the enabled optional ones.
pub fn counters(netlink: &ReopeningChannel, link: &RdmaLink, out: &mut Vec<(Arc<str>, u64)>) -> Result<(), CallError> {
    let what = format!("counters of {} port {} by RDMA netlink", link.device, link.port);
    let request = Request::new(command(STAT_GET), false, &[])
        .put_u32(attr::DEV_INDEX, link.index)
        .put_u32(attr::PORT_INDEX, link.port);
    match netlink.get(&what, request, |answer| counter_entries(answer, link, out)) {
        Ok(true) => Ok(()),
        Ok(false) => Err(CallError::Gone { what }),
        Err(CallError::Failed { source, .. }) if is_invalid(&source) => Err(why_invalid(netlink, link, what, source)),
        Err(error) => Err(error),
    }
}

/// Error for EINVAL, which the kernel returns for a removed device, for one without counters, and for driver errors.
fn why_invalid(netlink: &ReopeningChannel, link: &RdmaLink, what: String, source: std::io::Error) -> CallError {
    match devices(netlink) {
        Ok(devices) if devices.iter().any(|d| d.index == link.index && d.name == link.device) => {}
        Ok(_) => return CallError::Gone { what },
        Err(error) => return error,
    }
    // Lists the counters without reading them, since Linux 5.16.
    let status = Request::new(command(STAT_GET_STATUS), false, &[])
        .put_u32(attr::DEV_INDEX, link.index)
        .put_u32(attr::PORT_INDEX, link.port);
    let listed = netlink.get(&what, status, |answer| attribute(answer, attr::STAT_HWCOUNTERS).map(<[u8]>::len));
    match listed {
        Ok(length) if length > 0 => CallError::Failed { what, source },
        _ => CallError::Unsupported { what, why: "the driver has no counters for this port".into() },
    }
}

/// Appends the counters in a reply. False if it is about another device: indexes are reused after 2^32 devices, names
/// at once.
pub(super) fn counter_entries(answer: &[u8], link: &RdmaLink, out: &mut Vec<(Arc<str>, u64)>) -> Option<bool> {
    if attribute(answer, attr::DEV_NAME).is_some_and(|name| text(name) != link.device) {
        return Some(false);
    }
    out.extend(named_values(attribute(answer, attr::STAT_HWCOUNTERS)?));
    Some(true)
}

/// Names and values in a list of hardware counters.
pub fn named_values(list: &[u8]) -> impl Iterator<Item = (Arc<str>, u64)> {
    let entries = attributes(list).filter(|(kind, _)| *kind == attr::STAT_HWCOUNTER_ENTRY);
    entries.filter_map(|(_, entry)| {
        let name = text(attribute(entry, attr::STAT_HWCOUNTER_NAME)?);
        Some((intern::shared(name.trim()), uint(attribute(entry, attr::STAT_HWCOUNTER_VALUE)?)?))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Attributes as the kernel would send them.
    fn answer(build: impl FnOnce(Request) -> Request) -> Vec<u8> {
        build(Request::new(0, false, &[])).bytes()[16..].to_vec()
    }

    fn mlx5() -> Device {
        let name = "mlx5_0".to_owned();
        Device { index: 3, name, guid: Some(0xb8ce_f603_0000_0001), firmware: Some("28.41".into()), smi_only: false }
    }

    #[test]
    fn device_and_port() {
        let bytes = answer(|r| {
            r.put_u32(attr::DEV_INDEX, 3)
                .put_text(attr::DEV_NAME, "mlx5_0")
                .put_u32(attr::PORT_INDEX, 1)
                .put_text(attr::FW_VERSION, "28.41")
                .put(attr::NODE_GUID, &0xb8ce_f603_0000_0001_u64.to_ne_bytes())
        });
        assert_eq!(device(&bytes), Some(mlx5()));
        let smi = answer(|r| r.put_u32(attr::DEV_INDEX, 4).put_text(attr::DEV_NAME, "smi1").put(attr::DEV_TYPE, &[1]));
        assert!(device(&smi).unwrap().smi_only);
        assert_eq!(device(&answer(|r| r.put_u32(attr::DEV_INDEX, 4))), None);

        let roce = answer(|r| {
            r.put_u32(attr::DEV_INDEX, 3)
                .put_u32(attr::PORT_INDEX, 1)
                .put(attr::PORT_STATE, &[4])
                .put(attr::PORT_PHYS_STATE, &[5])
                .put_u32(50, 7)
                .put_text(attr::NDEV_NAME, "eth4")
        });
        let link = port(&roce, &mlx5()).unwrap();
        assert_eq!((link.port, link.state, link.physical_state, link.lid), (1, 4, 5, None));
        assert_eq!((link.netdev.as_deref(), link.firmware.as_deref()), (Some("eth4"), Some("28.41")));
    }

    #[test]
    fn counters_of_the_right_device() {
        let link = port(&answer(|r| r.put_u32(3, 1).put(12, &[4]).put(13, &[5])), &mlx5()).unwrap();
        let bytes = answer(|r| {
            r.put_text(attr::DEV_NAME, "mlx5_0").put_nest(attr::STAT_HWCOUNTERS, |n| {
                let entry = |n: Request, name: &str, value: u64| {
                    n.put_nest(attr::STAT_HWCOUNTER_ENTRY, |e| {
                        e.put_text(attr::STAT_HWCOUNTER_NAME, name)
                            .put(attr::STAT_HWCOUNTER_VALUE, &value.to_ne_bytes())
                    })
                };
                entry(entry(n, "np_cnp_sent", 7), "RNR sent", u64::MAX).put_nest(attr::STAT_HWCOUNTER_ENTRY, |e| e)
            })
        });
        let mut out = Vec::new();
        assert_eq!(counter_entries(&bytes, &link, &mut out), Some(true));
        assert_eq!(out, [("np_cnp_sent".into(), 7), ("RNR sent".into(), u64::MAX)]);
        let other = RdmaLink { device: "mlx5_9".into(), ..link.clone() };
        assert_eq!(counter_entries(&bytes, &other, &mut out), Some(false));
        assert_eq!(counter_entries(&[], &link, &mut out), None);
    }

    proptest::proptest! {
        #[test]
        fn arbitrary_bytes_do_not_panic(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..200)) {
            let _ = (device(&bytes), port(&bytes, &mlx5()));
        }
    }
}
