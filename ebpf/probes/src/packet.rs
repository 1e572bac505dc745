//! Headers of packets, for probes that are given a socket buffer (`__sk_buff`, whose layout is the kernel's promise).

use aya_ebpf::bindings::__sk_buff;
use aya_ebpf::programs::sk_buff::SkBuff;
use fabriclens_ebpf_abi::{Address, mapped};

/// Ethernet's number of IPv4, as `__sk_buff` holds it.
pub const IPV4: u32 = 0x0800_u16.to_be() as u32;
/// The same of IPv6.
pub const IPV6: u32 = 0x86dd_u16.to_be() as u32;
/// IP's number of TCP.
pub const TCP: u8 = 6;
/// IP's number of UDP.
pub const UDP: u8 = 17;

const IPV6_HEADER: u32 = 40;
const HOP_BY_HOP: u8 = 0;
const CE: u8 = 3;
const RESET: u8 = 4;

/// What an IP header tells.
pub struct Ip {
    /// From where.
    pub source: Address,
    /// To where.
    pub destination: Address,
    /// What it carries.
    pub carries: u8,
    /// Marked as having met congestion.
    pub ce: bool,
    /// Its length in bytes, as each segment has it.
    pub header: u32,
    /// Bytes of a hop-by-hop header, which a buffer that holds several segments has for its own length only.
    pub hop_by_hop: u32,
}

/// Where headers are read from.
pub trait Headers {
    /// What lies at `at`; `None` where the packet ends before.
    fn at<T: Copy>(&self, at: u32) -> Option<T>;
}

/// Wherever they are in the buffer; each read is a copy by the kernel.
impl Headers for SkBuff {
    #[inline(always)]
    fn at<T: Copy>(&self, at: u32) -> Option<T> {
        self.load(at as usize).ok()
    }
}

/// Where the buffer has them in one piece, which is so once the kernel has looked at them itself. Nothing is copied.
#[derive(Clone, Copy)]
pub struct Linear {
    begin: usize,
    end: usize,
}

impl Linear {
    /// The piece that begins with the header that the program hangs from.
    #[inline(always)]
    pub fn of(skb: *mut __sk_buff) -> Self {
        // SAFETY: the kernel gave the pointer, and rewrites these reads.
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
        // SAFETY: it lies inside. Not aligned: a header begins where the link's header ends.
        Some(unsafe { (from as *const T).read() })
    }
}

/// Reads the IP header at `at`; `protocol` is Ethernet's number of it.
#[inline(always)]
pub fn ip(headers: &impl Headers, at: u32, protocol: u32) -> Option<Ip> {
    // In words, because bytes on the stack are copied one by one.
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

/// The end of the fixed part of a TCP header.
#[derive(Clone, Copy)]
pub struct Tcp {
    /// Bytes of all of it.
    pub header: u32,
    /// The sender takes no data now. A reset says nothing of that.
    pub closed: bool,
}

/// Reads the TCP header that lies at `at`.
#[inline(always)]
pub fn tcp(headers: &impl Headers, at: u32) -> Option<Tcp> {
    let [length, flags, high, low]: [u8; 4] = headers.at(at + 12)?;
    // The upper half of the byte is the length in words of four bytes.
    Some(Tcp { header: u32::from(length >> 4) * 4, closed: high | low == 0 && flags & RESET == 0 })
}

/// Bytes and segments of a buffer as they are on the wire. `headers` are the bytes that each segment repeats, asked for
/// where there are several; `once` those that no segment has.
#[inline(always)]
pub fn on_wire(skb: *mut __sk_buff, once: u32, headers: impl FnOnce() -> u32) -> (u64, u64) {
    // SAFETY: the kernel gave the pointer, and rewrites these reads.
    let (len, size, segments) = unsafe { ((*skb).len, (*skb).gso_size, (*skb).gso_segs) };
    if size == 0 {
        return (u64::from(len), 1);
    }
    let headers = headers();
    if len <= headers + once {
        return (u64::from(len), 1);
    }
    let payload = len - headers - once;
    // Drivers of virtual machines tell the size of a segment and not how many there are.
    let segments = if segments == 0 { payload.div_ceil(size) } else { segments };
    (u64::from(payload) + u64::from(segments) * u64::from(headers), u64::from(segments))
}
