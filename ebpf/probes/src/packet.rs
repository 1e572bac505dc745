//! Parses packet headers, for probes whose context is a socket buffer (`__sk_buff`, a structure with a stable layout).

use aya_ebpf::bindings::__sk_buff;
use aya_ebpf::programs::sk_buff::SkBuff;
use fabriclens_ebpf_abi::{Address, mapped};

/// EtherType of IPv4 in network byte order, as in `__sk_buff`.
pub const IPV4: u32 = 0x0800_u16.to_be() as u32;
/// EtherType of IPv6 in network byte order.
pub const IPV6: u32 = 0x86dd_u16.to_be() as u32;
/// IP protocol number of TCP.
pub const TCP: u8 = 6;
/// IP protocol number of UDP.
pub const UDP: u8 = 17;

const IPV6_HEADER: u32 = 40;
const HOP_BY_HOP: u8 = 0;
const CE: u8 = 3;
const RESET: u8 = 4;

/// Fields of an IP header.
pub struct Ip {
    /// Source address.
    pub source: Address,
    /// Destination address.
    pub destination: Address,
    /// Protocol number of the payload.
    pub carries: u8,
    /// Marked with congestion experienced (CE).
    pub ce: bool,
    /// Length in bytes, repeated on the wire for each segment.
    pub header: u32,
    /// Length in bytes of the hop-by-hop header. In a buffer of several segments it is not sent: it only holds the
    /// buffer's length.
    pub hop_by_hop: u32,
}

/// Source of header bytes.
pub trait Headers {
    /// Reads the value at byte offset `at`; `None` beyond the end.
    fn at<T: Copy>(&self, at: u32) -> Option<T>;
}

/// Reads from any part of the buffer; the kernel copies each value.
impl Headers for SkBuff {
    #[inline(always)]
    fn at<T: Copy>(&self, at: u32) -> Option<T> {
        self.load(at as usize).ok()
    }
}

/// Reads from the linear part of the buffer without a copy. Headers lie there once the kernel has parsed them.
#[derive(Clone, Copy)]
pub struct Linear {
    begin: usize,
    end: usize,
}

impl Linear {
    /// Linear part, from the first header that the program sees.
    #[inline(always)]
    pub fn of(skb: *mut __sk_buff) -> Self {
        // SAFETY: the pointer is the program's context; the verifier rewrites these reads.
        unsafe { Self { begin: (*skb).data as usize, end: (*skb).data_end as usize } }
    }
}

impl Headers for Linear {
    #[inline(always)]
    fn at<T: Copy>(&self, at: u32) -> Option<T> {
        let from = self.begin + at as usize;
        if from + size_of::<T>() > self.end {
            return None;
        }
        // SAFETY: the value lies within the linear part. It may be unaligned: the link header has any length.
        Some(unsafe { (from as *const T).read() })
    }
}

/// Parses the IP header at offset `at`; `protocol` is its EtherType. `None` if the header is incomplete or not IP.
#[inline(always)]
pub fn ip(headers: &impl Headers, at: u32, protocol: u32) -> Option<Ip> {
    // As words: the compiler copies bytes on the stack one by one.
    if protocol == IPV4 {
        let h: [u32; 5] = headers.at(at)?;
        let [first, class, ..] = h[0].to_ne_bytes();
        return Some(Ip {
            source: mapped(h[3]),
            destination: mapped(h[4]),
            carries: h[2].to_ne_bytes()[1],
            ce: class & CE == CE,
            header: u32::from(first & 15) * 4,
            hop_by_hop: 0,
        });
    }
    if protocol != IPV6 {
        return None;
    }
    let h: [u32; IPV6_HEADER as usize / 4] = headers.at(at)?;
    let (mut carries, mut hop_by_hop) = (h[1].to_ne_bytes()[2], 0);
    if carries == HOP_BY_HOP {
        let next: [u8; 2] = headers.at(at + IPV6_HEADER)?;
        carries = next[0];
        hop_by_hop = (u32::from(next[1]) + 1) * 8;
    }
    Some(Ip {
        source: [h[2], h[3], h[4], h[5]],
        destination: [h[6], h[7], h[8], h[9]],
        carries,
        ce: (h[0].to_ne_bytes()[1] >> 4) & CE == CE,
        header: IPV6_HEADER,
        hop_by_hop,
    })
}

/// Fields of a TCP header.
#[derive(Clone, Copy)]
pub struct Tcp {
    /// Length in bytes, options included.
    pub header: u32,
    /// Zero window: the sender accepts no data. False for a reset, whose window has no meaning.
    pub closed: bool,
}

/// Parses the TCP header at offset `at`; `None` if it is incomplete.
#[inline(always)]
pub fn tcp(headers: &impl Headers, at: u32) -> Option<Tcp> {
    let [length, flags, high, low]: [u8; 4] = headers.at(at + 12)?;
    // The upper four bits are the length in words of four bytes.
    Some(Tcp { header: u32::from(length >> 4) * 4, closed: high | low == 0 && flags & RESET == 0 })
}

/// Bytes and segments of the buffer on the wire. `headers` is the length in bytes of the headers that each segment
/// repeats, computed only for several segments; `once` is the length of headers that are not sent.
#[inline(always)]
pub fn on_wire(skb: *mut __sk_buff, once: u32, headers: impl FnOnce() -> u32) -> (u64, u64) {
    // SAFETY: the pointer is the program's context; the verifier rewrites these reads.
    let (len, size, segments) = unsafe { ((*skb).len, (*skb).gso_size, (*skb).gso_segs) };
    if size == 0 {
        return (u64::from(len), 1);
    }
    let headers = headers();
    if len <= headers + once {
        return (u64::from(len), 1);
    }
    let payload = len - headers - once;
    // Paravirtual drivers report the size of a segment, but not the number of segments.
    let segments = if segments == 0 { payload.div_ceil(size) } else { segments };
    (u64::from(payload) + u64::from(segments) * u64::from(headers), u64::from(segments))
}
