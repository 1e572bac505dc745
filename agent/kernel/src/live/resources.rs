//! RDMA netlink: queue pairs, connections and bound counters of processes and kernel users on a device. Read-only.
//! Called by [`super::LiveKernel`].
//!
//! Constants are those of the kernel's `rdma/rdma_netlink.h`.

use std::collections::HashMap;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;

use super::netlink::{ReopeningChannel, Request, attribute, attributes, text, u32_at};
use super::rdma::{STAT_GET, attr, command, named_values, of_all_devices};
use crate::{CallError, CmId, Qp, QpCounter, RdmaLink, table};

const RES_QP_GET: u16 = 10;
const RES_CM_ID_GET: u16 = 11;

/// Queue pairs of a port, or all. `proc` is the procfs with the process names.
pub fn qps(netlink: &ReopeningChannel, of: Option<&RdmaLink>, proc: &Path) -> Result<Vec<Qp>, CallError> {
    let request = || Request::new(command(RES_QP_GET), true, &[]);
    let mut all = dump(netlink, "queue pairs", of, &request, (attr::RES_QP, attr::RES_QP_ENTRY), qp)?;
    let mut names: HashMap<u32, Option<String>> = HashMap::new();
    for qp in all.iter_mut().filter(|qp| qp.comm.is_none()) {
        let Some(pid) = qp.pid else { continue };
        // `None` if the process has ended.
        let name = || std::fs::read_to_string(proc.join(pid.to_string()).join("comm")).ok();
        let comm = names.entry(pid).or_insert_with(|| name().map(|comm| comm.trim_end().to_owned()));
        qp.comm.clone_from(comm);
    }
    Ok(all)
}

/// Identifiers of the connection manager of a port, or all.
pub fn cm_ids(netlink: &ReopeningChannel, of: Option<&RdmaLink>) -> Result<Vec<CmId>, CallError> {
    let request = || Request::new(command(RES_CM_ID_GET), true, &[]);
    dump(netlink, "connections", of, &request, (attr::RES_CM_ID, attr::RES_CM_ID_ENTRY), cm_id)
}

/// Counters bound to queue pairs of a port, or all.
pub fn qp_counters(netlink: &ReopeningChannel, of: Option<&RdmaLink>) -> Result<Vec<QpCounter>, CallError> {
    let request = || Request::new(command(STAT_GET), true, &[]).put_u32(attr::STAT_RES, attr::RES_QP.into());
    dump(netlink, "queue pair counters", of, &request, (attr::STAT_COUNTER, attr::STAT_COUNTER_ENTRY), qp_counter)
}

/// Entries of the requested list, from one port or from all devices.
fn dump<T>(
    netlink: &ReopeningChannel,
    what: &str,
    of: Option<&RdmaLink>,
    request: &dyn Fn() -> Request,
    list: (u16, u16),
    parse: fn(&[u8], &str) -> Option<T>,
) -> Result<Vec<T>, CallError> {
    let Some(link) = of else {
        return of_all_devices(netlink, what, request, |answer, device| entries(answer, list, &device.name, parse));
    };
    let what = format!("{what} of {} port {} by RDMA netlink", link.device, link.port);
    let request = request().put_u32(attr::DEV_INDEX, link.index).put_u32(attr::PORT_INDEX, link.port);
    let answers = netlink.dump(&what, request, |answer| {
        // Indexes are reused after 2^32 devices, names at once.
        let same = attribute(answer, attr::DEV_NAME).is_none_or(|name| text(name) == link.device);
        same.then(|| entries(answer, list, &link.device, parse))
    });
    answers.map(|answers| answers.into_iter().flatten().collect())
}

fn entries<T>(answer: &[u8], (list, entry): (u16, u16), device: &str, parse: fn(&[u8], &str) -> Option<T>) -> Vec<T> {
    let list = attribute(answer, list).unwrap_or_default();
    let entries = attributes(list).filter(|(kind, _)| *kind == entry);
    entries.filter_map(|(_, entry)| parse(entry, device)).collect()
}

fn number(entry: &[u8], kind: u16) -> Option<u32> {
    attribute(entry, kind).and_then(|b| u32_at(b, 0))
}

fn byte(entry: &[u8], kind: u16) -> Option<u8> {
    attribute(entry, kind).and_then(|b| b.first().copied())
}

pub(super) fn qp(entry: &[u8], device: &str) -> Option<Qp> {
    let kind = byte(entry, attr::RES_TYPE)?;
    Some(Qp {
        device: device.into(),
        port: number(entry, attr::PORT_INDEX),
        lqpn: number(entry, attr::RES_LQPN)?,
        rqpn: number(entry, attr::RES_RQPN),
        kind: attribute(entry, attr::RES_SUBTYPE).map_or_else(|| table::qp_type(kind).into(), text),
        state: byte(entry, attr::RES_STATE).map_or("UNKNOWN", |s| table::name(table::QP_STATE, s)).into(),
        pid: number(entry, attr::RES_PID),
        comm: attribute(entry, attr::RES_KERN_NAME).map(text),
    })
}

pub(super) fn cm_id(entry: &[u8], device: &str) -> Option<CmId> {
    let address = |kind| attribute(entry, kind).and_then(socket_address);
    Some(CmId {
        device: device.into(),
        port: number(entry, attr::PORT_INDEX),
        lqpn: number(entry, attr::RES_LQPN),
        state: table::name(table::CM_STATE, byte(entry, attr::RES_STATE)?).into(),
        pid: number(entry, attr::RES_PID),
        source: address(attr::RES_SRC_ADDR),
        destination: address(attr::RES_DST_ADDR),
    })
}

pub(super) fn qp_counter(entry: &[u8], device: &str) -> Option<QpCounter> {
    let qps = attributes(attribute(entry, attr::RES_QP).unwrap_or_default());
    Some(QpCounter {
        device: device.into(),
        port: number(entry, attr::PORT_INDEX),
        id: number(entry, attr::STAT_COUNTER_ID)?,
        qps: qps.filter_map(|(_, qp)| number(qp, attr::RES_LQPN)).collect(),
        pid: number(entry, attr::RES_PID),
        values: named_values(attribute(entry, attr::STAT_HWCOUNTERS).unwrap_or_default()).collect(),
    })
}

/// Address of an IPv4 or IPv6 `sockaddr_storage`; `None` for others (native InfiniBand) and unset ones.
fn socket_address(bytes: &[u8]) -> Option<SocketAddr> {
    let family = i32::from(u16::from_ne_bytes(*bytes.first_chunk()?));
    let port = u16::from_be_bytes(*bytes.get(2..)?.first_chunk()?);
    match family {
        libc::AF_INET => {
            let octets: [u8; 4] = *bytes.get(4..)?.first_chunk()?;
            Some((Ipv4Addr::from(octets), port).into())
        }
        libc::AF_INET6 => {
            let octets: [u8; 16] = *bytes.get(8..)?.first_chunk()?;
            Some((Ipv6Addr::from(octets), port).into())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Attributes as the kernel would send them.
    fn answer(build: impl FnOnce(Request) -> Request) -> Vec<u8> {
        build(Request::new(0, false, &[])).bytes()[16..].to_vec()
    }

    #[test]
    fn queue_pairs_of_user_kernel_and_driver() {
        let bytes = answer(|r| {
            r.put_nest(attr::RES_QP, |n| {
                n.put_nest(attr::RES_QP_ENTRY, |e| {
                    e.put_u32(attr::PORT_INDEX, 1)
                        .put_u32(attr::RES_LQPN, 17)
                        .put_u32(attr::RES_RQPN, 18)
                        .put(attr::RES_TYPE, &[2])
                        .put(attr::RES_STATE, &[3])
                        .put_u32(attr::RES_PID, 169)
                })
                .put_nest(attr::RES_QP_ENTRY, |e| {
                    e.put_u32(attr::RES_LQPN, 1)
                        .put(attr::RES_TYPE, &[1])
                        .put(attr::RES_STATE, &[3])
                        .put_text(attr::RES_KERN_NAME, "ib_core")
                })
                .put_nest(attr::RES_QP_ENTRY, |e| {
                    e.put_u32(attr::RES_LQPN, 5).put(attr::RES_TYPE, &[255]).put_text(attr::RES_SUBTYPE, "DCT")
                })
                .put_nest(attr::RES_QP_ENTRY, |e| e.put_u32(attr::RES_RQPN, 5))
            })
        });
        let qps = entries(&bytes, (attr::RES_QP, attr::RES_QP_ENTRY), "rxe0", qp);
        assert_eq!(qps.len(), 3);
        assert_eq!((qps[0].port, qps[0].rqpn, &*qps[0].kind, &*qps[0].state), (Some(1), Some(18), "RC", "RTS"));
        assert_eq!((qps[0].pid, qps[1].comm.as_deref(), &*qps[1].kind), (Some(169), Some("ib_core"), "GSI"));
        assert_eq!((&*qps[2].kind, &*qps[2].state), ("DCT", "UNKNOWN"));
    }

    #[test]
    fn connections_with_their_addresses() {
        let mut v4 = [0_u8; 128];
        v4[..2].copy_from_slice(&2_u16.to_ne_bytes());
        v4[2..8].copy_from_slice(&[0x12, 0xb7, 10, 0, 0, 7]);
        let mut v6 = [0_u8; 128];
        v6[..2].copy_from_slice(&10_u16.to_ne_bytes());
        v6[8] = 0xfd;
        v6[23] = 1;
        let bytes = answer(|r| {
            r.put_nest(attr::RES_CM_ID, |n| {
                n.put_nest(attr::RES_CM_ID_ENTRY, |e| {
                    e.put_u32(attr::PORT_INDEX, 1)
                        .put_u32(attr::RES_LQPN, 17)
                        .put(attr::RES_STATE, &[5])
                        .put(attr::RES_SRC_ADDR, &v6)
                        .put(attr::RES_DST_ADDR, &v4)
                        .put_u32(attr::RES_PID, 169)
                })
                .put_nest(attr::RES_CM_ID_ENTRY, |e| e.put(attr::RES_STATE, &[8]).put(attr::RES_SRC_ADDR, &[27, 0]))
                .put_nest(attr::RES_CM_ID_ENTRY, |e| e)
            })
        });
        let ids = entries(&bytes, (attr::RES_CM_ID, attr::RES_CM_ID_ENTRY), "rxe0", cm_id);
        assert_eq!(ids.len(), 2);
        assert_eq!((ids[0].lqpn, &*ids[0].state, ids[0].pid), (Some(17), "CONNECT", Some(169)));
        assert_eq!(ids[0].destination, Some("10.0.0.7:4791".parse().unwrap()));
        assert_eq!(ids[0].source, Some("[fd00::1]:0".parse().unwrap()));
        assert_eq!((&*ids[1].state, ids[1].source, ids[1].destination), ("LISTEN", None, None));
    }

    #[test]
    fn counters_with_their_queue_pairs() {
        let bytes = answer(|r| {
            r.put_nest(attr::STAT_COUNTER, |n| {
                n.put_nest(attr::STAT_COUNTER_ENTRY, |e| {
                    e.put_u32(attr::PORT_INDEX, 1)
                        .put_u32(attr::STAT_COUNTER_ID, 4)
                        .put_u32(attr::RES_PID, 169)
                        .put_nest(attr::RES_QP, |q| {
                            q.put_nest(attr::RES_QP_ENTRY, |e| e.put_u32(attr::RES_LQPN, 17))
                                .put_nest(attr::RES_QP_ENTRY, |e| e.put_u32(attr::RES_LQPN, 18))
                        })
                        .put_nest(attr::STAT_HWCOUNTERS, |c| {
                            c.put_nest(attr::STAT_HWCOUNTER_ENTRY, |e| {
                                e.put_text(attr::STAT_HWCOUNTER_NAME, "out_of_sequence")
                                    .put(attr::STAT_HWCOUNTER_VALUE, &9_u64.to_ne_bytes())
                            })
                        })
                })
                .put_nest(attr::STAT_COUNTER_ENTRY, |e| e)
            })
        });
        let counters = entries(&bytes, (attr::STAT_COUNTER, attr::STAT_COUNTER_ENTRY), "mlx5_0", qp_counter);
        assert_eq!(counters.len(), 1);
        assert_eq!((counters[0].id, &*counters[0].qps, counters[0].pid), (4, &[17, 18][..], Some(169)));
        assert_eq!(counters[0].values, [("out_of_sequence".into(), 9)]);
    }

    proptest::proptest! {
        #[test]
        fn arbitrary_bytes_do_not_panic(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..200)) {
            let _ = (qp(&bytes, "a"), cm_id(&bytes, "a"), qp_counter(&bytes, "a"), socket_address(&bytes));
            let _ = entries(&bytes, (attr::RES_QP, attr::RES_QP_ENTRY), "a", qp);
        }
    }
}
