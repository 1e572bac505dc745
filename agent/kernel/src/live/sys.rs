//! System calls: sockets, poll, the ethtool ioctl. Unsafe code is only here, in `sys_udp.rs`, and in `verbs/ffi.rs` and `verbs/ud`; the functions
//! offered here are safe for any arguments and any answer of the kernel.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::Duration;

/// Receive timeout. The kernel replies at once unless it hangs.
const RECEIVE_TIMEOUT: Duration = Duration::from_secs(5);

/// libc's constant has the type of glibc's request argument, which musl's `ioctl` does not accept.
const SIOCETHTOOL: libc::Ioctl = 0x8946;

/// Bound netlink socket with a receive timeout.
#[derive(Debug)]
pub struct Socket(OwnedFd);

impl Socket {
    /// Opens a socket of a netlink protocol.
    pub fn netlink(protocol: i32) -> io::Result<Self> {
        let socket = Self(socket(libc::AF_NETLINK, libc::SOCK_RAW, protocol)?);
        let timeout = libc::timeval { tv_sec: RECEIVE_TIMEOUT.as_secs().try_into().unwrap_or(5), tv_usec: 0 };
        socket.option(libc::SOL_SOCKET, libc::SO_RCVTIMEO, &timeout)?;
        // Fails on old kernels, whose errors have no text.
        let _ = socket.option(libc::SOL_NETLINK, libc::NETLINK_EXT_ACK, &1_i32);
        let mut address = address();
        let length = libc::socklen_t::try_from(size_of_val(&address)).unwrap_or(0);
        // SAFETY: `address` is a valid sockaddr_nl of `length` bytes, read during the call only.
        check(unsafe { libc::bind(socket.0.as_raw_fd(), (&raw mut address).cast(), length) })?;
        Ok(socket)
    }

    /// Joins a multicast group.
    pub fn join(&self, group: u32) -> io::Result<()> {
        self.option(libc::SOL_NETLINK, libc::NETLINK_ADD_MEMBERSHIP, &group)
    }

    /// Requests a receive buffer of `bytes`. The kernel may grant less.
    pub fn queue(&self, bytes: i32) -> io::Result<()> {
        self.option(libc::SOL_SOCKET, libc::SO_RCVBUF, &bytes)
    }

    /// Sends one message to the kernel.
    pub fn send(&self, message: &[u8]) -> io::Result<()> {
        loop {
            // SAFETY: the pointer and length are of one slice, read during the call only.
            let sent = unsafe { libc::send(self.0.as_raw_fd(), message.as_ptr().cast(), message.len(), 0) };
            match usize::try_from(sent) {
                Ok(sent) if sent == message.len() => return Ok(()),
                Ok(_) => return Err(io::ErrorKind::WriteZero.into()),
                Err(_) => retry_interrupted()?,
            }
        }
    }

    /// Receives one datagram. Without `wait`, fails with `WouldBlock` if none is available.
    pub fn receive<'a>(&self, buffer: &'a mut [u8], wait: bool) -> io::Result<Datagram<'a>> {
        let flags = libc::MSG_TRUNC | if wait { 0 } else { libc::MSG_DONTWAIT };
        let mut from = address();
        let length = loop {
            let mut size = libc::socklen_t::try_from(size_of_val(&from)).unwrap_or(0);
            // SAFETY: the kernel writes at most `buffer.len()` bytes to `buffer` and `size` bytes to `from`, both live
            // and exclusively borrowed; with MSG_TRUNC it returns the real length but writes no more.
            let got = unsafe {
                libc::recvfrom(
                    self.0.as_raw_fd(),
                    buffer.as_mut_ptr().cast(),
                    buffer.len(),
                    flags,
                    (&raw mut from).cast(),
                    &raw mut size,
                )
            };
            match usize::try_from(got) {
                Ok(length) => break length,
                Err(_) => retry_interrupted()?,
            }
        };
        if length > buffer.len() {
            let why = format!("datagram of {length} bytes is larger than the buffer of {}", buffer.len());
            return Err(io::Error::new(io::ErrorKind::InvalidData, why));
        }
        Ok(Datagram { bytes: &buffer[..length], from_kernel: from.nl_pid == 0 })
    }

    fn option<T>(&self, level: i32, name: i32, value: &T) -> io::Result<()> {
        set(&self.0, level, name, value)
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Datagram from [`Socket::receive`].
pub struct Datagram<'a> {
    /// Messages of the datagram.
    pub bytes: &'a [u8],
    /// Sent by the kernel; other processes can send to a netlink socket, too.
    pub from_kernel: bool,
}

/// Waits until one of `fds` is readable, hung up or in error. Returns for each whether it is ready.
pub fn poll(fds: &[BorrowedFd<'_>], timeout: Duration) -> io::Result<Vec<bool>> {
    poll_for(fds, libc::POLLIN, timeout)
}

/// Waits until one of `fds` has one of these events, is hung up or in error. Returns for each whether it is ready.
pub(super) fn poll_for(fds: &[BorrowedFd<'_>], events: i16, timeout: Duration) -> io::Result<Vec<bool>> {
    let mut polls: Vec<_> = fds.iter().map(|fd| libc::pollfd { fd: fd.as_raw_fd(), events, revents: 0 }).collect();
    // Rounds up, because a wait of less than 1 ms must not become a busy loop.
    let milliseconds = i32::try_from(timeout.as_micros().div_ceil(1000)).unwrap_or(i32::MAX);
    let count = libc::nfds_t::try_from(polls.len()).map_err(io::Error::other)?;
    // SAFETY: `polls` holds `count` entries, exclusively borrowed; the descriptors are borrowed for the call.
    let ready = unsafe { libc::poll(polls.as_mut_ptr(), count, milliseconds) };
    if ready < 0 {
        retry_interrupted()?;
        return Ok(vec![false; fds.len()]);
    }
    Ok(polls.iter().map(|poll| poll.revents != 0).collect())
}

/// Makes reads from `fd` return `WouldBlock` instead of waiting.
pub fn set_nonblocking(fd: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: fcntl with these commands accesses no memory of this process.
    let flags = unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_GETFL) };
    check(flags.min(0))?;
    // SAFETY: as above.
    check(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_SETFL, flags | libc::O_NONBLOCK) }.min(0))
}

/// The ethtool ioctl with a buffer that the kernel cannot overrun.
///
/// `GSTRINGS` and `GSTATS` write as many entries as the driver has at that instant, regardless of the requested count,
/// and the list may grow between the calls for the count and the values. Therefore an inaccessible guard page follows
/// the buffer: a list that outgrows the buffer makes the call fail with EFAULT. Only touched pages cost memory.
#[derive(Debug)]
pub struct Ethtool {
    socket: OwnedFd,
    map: *mut u8,
    mapped: usize,
    /// The last `capacity` bytes before the guard page.
    start: *mut u8,
    capacity: usize,
}

// SAFETY: the mapping is owned by the value and is reached through `&mut self` only.
unsafe impl Send for Ethtool {}

impl Ethtool {
    /// Opens a socket and maps a buffer of `capacity` bytes, rounded up to a multiple of 8.
    pub fn new(capacity: usize) -> io::Result<Self> {
        let socket = socket(libc::AF_INET, libc::SOCK_DGRAM, 0)?;
        // SAFETY: no memory is passed.
        let page = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(1 << 16);
        let capacity = capacity.max(8).next_multiple_of(8);
        let usable = capacity.next_multiple_of(page);
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: the kernel chooses the address of the new mapping, which overlaps no other.
        let map = unsafe { libc::mmap(std::ptr::null_mut(), usable + page, libc::PROT_NONE, flags, -1, 0) };
        if map == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let map = map.cast::<u8>();
        // SAFETY: `usable - capacity` is within the mapping.
        let start = unsafe { map.add(usable - capacity) };
        let this = Self { socket, map, mapped: usable + page, start, capacity };
        // SAFETY: the range is the first part of our own mapping; the last page stays inaccessible.
        check(unsafe { libc::mprotect(map.cast(), usable, libc::PROT_READ | libc::PROT_WRITE) })?;
        Ok(this)
    }

    /// Sends `request` (an ethtool structure, command first) about `netdev`; returns the buffer with the answer.
    pub fn call(&mut self, netdev: &str, request: &[u8]) -> io::Result<&[u8]> {
        // SAFETY: all-zero bytes are a valid ifreq.
        let mut ifreq: libc::ifreq = unsafe { std::mem::zeroed() };
        if netdev.is_empty() || netdev.len() >= ifreq.ifr_name.len() {
            return Err(io::Error::from_raw_os_error(libc::ENODEV));
        }
        if request.len() > self.capacity {
            return Err(io::Error::from_raw_os_error(libc::EFAULT));
        }
        for (to, from) in ifreq.ifr_name.iter_mut().zip(netdev.bytes()) {
            *to = libc::c_char::from_ne_bytes([from]);
        }
        ifreq.ifr_ifru.ifru_data = self.start.cast();
        // SAFETY: `start` has `capacity` writable bytes, `request` fits, and the two do not overlap.
        unsafe { std::ptr::copy_nonoverlapping(request.as_ptr(), self.start, request.len()) };
        // SAFETY: the kernel reads `ifreq`, and reads and writes upwards from `start`: it stays within the mapping, or
        // reaches the inaccessible page and fails with EFAULT. No reference into the mapping exists (`&mut self`).
        check(unsafe { libc::ioctl(self.socket.as_raw_fd(), SIOCETHTOOL, &raw mut ifreq) })?;
        // SAFETY: `capacity` bytes from `start` are mapped, initialized (anonymous memory is zero), borrowed from self.
        Ok(unsafe { std::slice::from_raw_parts(self.start, self.capacity) })
    }

    /// Frees touched pages; their content becomes zero.
    pub fn release(&mut self) {
        // SAFETY: the range is our own mapping and no reference into it exists. On failure the pages stay allocated.
        unsafe { libc::madvise(self.map.cast(), self.mapped, libc::MADV_DONTNEED) };
    }
}

impl Drop for Ethtool {
    fn drop(&mut self) {
        // SAFETY: this is the mapping made in `new`; no reference into it exists.
        unsafe { libc::munmap(self.map.cast(), self.mapped) };
    }
}

/// A packet socket whose filter program observes the packets of an interface. The program must accept no packet, as
/// the socket is never read.
#[derive(Debug)]
pub struct PacketSocket(OwnedFd);

impl PacketSocket {
    /// Opens a socket that receives nothing until [`Self::listen`].
    ///
    /// # Errors
    /// Without CAP_NET_RAW.
    pub fn new() -> io::Result<Self> {
        socket(libc::AF_PACKET, libc::SOCK_RAW, 0).map(Self)
    }

    /// Receives every packet of the interface with this index, in both directions, from now on.
    ///
    /// # Errors
    /// When there is no such interface.
    pub fn listen(&self, index: u32) -> io::Result<()> {
        // SAFETY: all-zero bytes are a valid sockaddr_ll.
        let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        address.sll_family = libc::sa_family_t::try_from(libc::AF_PACKET).unwrap_or(17);
        address.sll_protocol = u16::try_from(libc::ETH_P_ALL).unwrap_or(3).to_be();
        address.sll_ifindex = i32::try_from(index).map_err(|_| io::Error::from_raw_os_error(libc::ENODEV))?;
        let length = libc::socklen_t::try_from(size_of_val(&address)).unwrap_or(0);
        // SAFETY: `address` is a valid sockaddr_ll of `length` bytes, read during the call only.
        check(unsafe { libc::bind(self.0.as_raw_fd(), (&raw const address).cast(), length) })
    }
}

impl AsFd for PacketSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Index of an interface of this network namespace.
///
/// # Errors
/// When there is none of that name.
pub fn interface_index(name: &str) -> io::Result<u32> {
    let gone = || io::Error::from_raw_os_error(libc::ENODEV);
    let name = std::ffi::CString::new(name).map_err(|_| gone())?;
    // SAFETY: `name` is a C string, read during the call only.
    match unsafe { libc::if_nametoindex(name.as_ptr()) } {
        0 => Err(gone()),
        index => Ok(index),
    }
}

/// Multicast address of LLDP, which switches do not forward.
const NEAREST_BRIDGE: [u8; 8] = [0x01, 0x80, 0xc2, 0, 0, 0x0e, 0, 0];
/// Ethernet type of LLDP.
const ETHERTYPE_LLDP: u16 = 0x88cc;
/// Receive buffer for LLDP frames in bytes: holds the frames of several neighbors for 30 s.
const FRAMES_QUEUE: i32 = 32 << 10;

/// A packet socket that receives the LLDP frames of one interface.
#[derive(Debug)]
pub struct Frames(OwnedFd);

impl Frames {
    /// Starts listening.
    ///
    /// # Errors
    /// Without CAP_NET_RAW, or when there is no such interface.
    pub fn lldp(index: u32) -> io::Result<Self> {
        let index = i32::try_from(index).map_err(|_| io::Error::from_raw_os_error(libc::ENODEV))?;
        // Without protocol: receives nothing before it is bound to the interface.
        let fd = socket(libc::AF_PACKET, libc::SOCK_DGRAM | libc::SOCK_NONBLOCK, 0)?;
        set(&fd, libc::SOL_SOCKET, libc::SO_RCVBUF, &FRAMES_QUEUE)?;
        let group = libc::packet_mreq {
            mr_ifindex: index,
            mr_type: libc::PACKET_MR_MULTICAST as libc::c_ushort,
            mr_alen: 6,
            mr_address: NEAREST_BRIDGE,
        };
        set(&fd, libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, &group)?;
        // SAFETY: all-zero bytes are a valid sockaddr_ll.
        let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        address.sll_family = libc::sa_family_t::try_from(libc::AF_PACKET).unwrap_or(17);
        address.sll_protocol = ETHERTYPE_LLDP.to_be();
        address.sll_ifindex = index;
        let length = libc::socklen_t::try_from(size_of_val(&address)).unwrap_or(0);
        // SAFETY: `address` is a valid sockaddr_ll of `length` bytes, read during the call only.
        check(unsafe { libc::bind(fd.as_raw_fd(), (&raw const address).cast(), length) })?;
        Ok(Self(fd))
    }

    /// Reads the next frame, cut to the buffer, and returns its length; `None` if none is available.
    ///
    /// # Errors
    /// When the interface is gone.
    pub fn next(&self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        // SAFETY: the kernel writes at most the buffer's length into it, during the call only.
        let got = unsafe { libc::recv(self.0.as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len(), 0) };
        if let Ok(length) = usize::try_from(got) {
            return Ok(Some(length));
        }
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            // Reported once when the interface goes down; it may come up again.
            Some(libc::EAGAIN | libc::EINTR | libc::ENETDOWN) => Ok(None),
            _ => Err(error),
        }
    }
}

pub(super) fn set<T>(fd: &OwnedFd, level: i32, name: i32, value: &T) -> io::Result<()> {
    let length = libc::socklen_t::try_from(size_of::<T>()).unwrap_or(0);
    let value: *const T = value;
    // SAFETY: `value` is a live T of `length` bytes, read during the call only.
    check(unsafe { libc::setsockopt(fd.as_raw_fd(), level, name, value.cast(), length) })
}

pub(super) fn socket(family: i32, kind: i32, protocol: i32) -> io::Result<OwnedFd> {
    // SAFETY: no memory is passed.
    let fd = unsafe { libc::socket(family, kind | libc::SOCK_CLOEXEC, protocol) };
    check(fd.min(0))?;
    // SAFETY: `fd` was just made and has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn address() -> libc::sockaddr_nl {
    // SAFETY: all-zero bytes are a valid sockaddr_nl: port and groups chosen by the kernel.
    let mut address: libc::sockaddr_nl = unsafe { std::mem::zeroed() };
    address.nl_family = libc::sa_family_t::try_from(libc::AF_NETLINK).unwrap_or(16);
    address
}

pub(super) fn check(result: i32) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Fails with the last error of the operating system, unless it is EINTR.
pub(super) fn retry_interrupted() -> io::Result<()> {
    let error = io::Error::last_os_error();
    if error.kind() == io::ErrorKind::Interrupted { Ok(()) } else { Err(error) }
}
