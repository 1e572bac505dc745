//! Generic netlink family `ethtool`: resolves its id and queries a netdev. Used by `std_stats`, `link`,
//! `netdev_settings`, `module`.

use std::sync::atomic::{AtomicU16, Ordering};

use super::netlink::{ReopeningChannel, Request, attribute, u16_at};
use crate::CallError;

/// Id of `nlctrl`, the family that resolves the ids of the others.
const CONTROLLER: u16 = 0x10;
const GETFAMILY: u8 = 3;
const FAMILY_ID: u16 = 1;
const FAMILY_NAME: u16 = 2;
/// Size of `struct genlmsghdr`: command, version, padding.
const HEADER: usize = 4;

const DEV_NAME: u16 = 2;
const FLAGS: u16 = 3;

/// `ETHTOOL_MSG_PAUSE_GET`.
pub const PAUSE_GET: u8 = 21;
/// `ETHTOOL_MSG_FEC_GET`.
pub const FEC_GET: u8 = 29;

/// `ETHTOOL_FLAG_STATS`: the reply also has the statistics.
pub const FLAG_STATS: u32 = 4;

/// Generic netlink socket for the family `ethtool`.
#[derive(Debug)]
pub struct Ethtool {
    netlink: ReopeningChannel,
    /// Family id, constant while the kernel runs; 0 until it is resolved.
    family: AtomicU16,
}

impl Default for Ethtool {
    fn default() -> Self {
        Self { netlink: ReopeningChannel::new(libc::NETLINK_GENERIC), family: AtomicU16::new(0) }
    }
}

/// A query about a netdev.
#[derive(Clone, Copy)]
pub struct EthtoolQuery<'a> {
    /// Name for error messages, such as "pause statistics of eth4".
    pub what: &'a str,
    /// `ETHTOOL_MSG_…_GET`.
    pub command: u8,
    /// The attribute that holds the request header: 1, but 2 for `STATS_GET`.
    pub header: u16,
    /// Netdev; empty for queries about the kernel itself.
    pub netdev: &'a str,
    /// `ETHTOOL_FLAG_…`.
    pub flags: u32,
}

impl Ethtool {
    /// Sends the query, with attributes added by `more`, and passes the attributes of the answer to `parse`.
    pub fn get<T>(
        &self,
        query: EthtoolQuery<'_>,
        more: impl FnOnce(Request) -> Request,
        parse: impl FnOnce(&[u8]) -> Option<T>,
    ) -> Result<T, CallError> {
        let EthtoolQuery { what, command, header, netdev, flags } = query;
        let request = Request::new(self.family()?, false, &[command, 1, 0, 0]).put_nest(header, |nest| {
            let nest = if netdev.is_empty() { nest } else { nest.put_text(DEV_NAME, netdev) };
            if flags == 0 { nest } else { nest.put_u32(FLAGS, flags) }
        });
        self.netlink.get(what, more(request), |answer| parse(answer.get(HEADER..)?))
    }

    fn family(&self) -> Result<u16, CallError> {
        let known = self.family.load(Ordering::Relaxed);
        if known != 0 {
            return Ok(known);
        }
        let request = Request::new(CONTROLLER, false, &[GETFAMILY, 1, 0, 0]).put_text(FAMILY_NAME, "ethtool");
        let what = "generic netlink family `ethtool` (Linux 5.6 or later)";
        let family =
            self.netlink.get(what, request, |answer| u16_at(attribute(answer.get(HEADER..)?, FAMILY_ID)?, 0))?;
        self.family.store(family, Ordering::Relaxed);
        Ok(family)
    }
}
