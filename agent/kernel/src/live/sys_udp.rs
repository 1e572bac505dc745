//! System calls of UDP sockets whose error queue is read. The functions are safe for any arguments.

use super::sys::{check, poll_for, set as set_any, socket as open};
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;

/// A UDP socket whose calls do not wait.
pub fn socket(is_v4: bool) -> io::Result<OwnedFd> {
    let family = if is_v4 { libc::AF_INET } else { libc::AF_INET6 };
    open(family, libc::SOCK_DGRAM | libc::SOCK_NONBLOCK, 0)
}

/// Sets an option that is a number.
pub fn set(fd: &OwnedFd, level: i32, name: i32, value: i32) -> io::Result<()> {
    set_any(fd, level, name, &value)
}

/// Drops all data that arrives: a filter of one instruction, which returns a length of zero.
pub fn drop_data(fd: &OwnedFd) -> io::Result<()> {
    let mut nothing = libc::sock_filter { code: 0x06, jt: 0, jf: 0, k: 0 };
    let program = libc::sock_fprog { len: 1, filter: &raw mut nothing };
    set_any(fd, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program)
}

/// Sends and receives through one interface.
pub fn bind_to_device(fd: &OwnedFd, device: &str) -> io::Result<()> {
    let length = libc::socklen_t::try_from(device.len()).map_err(io::Error::other)?;
    let option = libc::SO_BINDTODEVICE;
    // SAFETY: the pointer and length are of one string, read during the call only.
    check(unsafe { libc::setsockopt(fd.as_raw_fd(), libc::SOL_SOCKET, option, device.as_ptr().cast(), length) })
}

/// Binds to an own address.
pub fn bind(fd: &OwnedFd, address: &SocketAddr) -> io::Result<()> {
    with_address(address, |pointer, length| {
        // SAFETY: `pointer` is a valid socket address of `length` bytes, read during the call only.
        check(unsafe { libc::bind(fd.as_raw_fd(), pointer, length) })
    })
}

/// Sets the address to which data is sent and from which errors are taken.
pub fn connect(fd: &OwnedFd, address: &SocketAddr) -> io::Result<()> {
    with_address(address, |pointer, length| {
        // SAFETY: as for `bind`.
        check(unsafe { libc::connect(fd.as_raw_fd(), pointer, length) })
    })
}

/// Sends one datagram.
pub fn send(fd: &OwnedFd, data: &[u8]) -> io::Result<()> {
    // SAFETY: the pointer and length are of one slice, read during the call only.
    let sent = unsafe { libc::send(fd.as_raw_fd(), data.as_ptr().cast(), data.len(), libc::MSG_NOSIGNAL) };
    if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Takes one error from the error queue; returns the bytes of data and of control messages.
pub fn receive_error(fd: &OwnedFd, data: &mut [u8], control: &mut [u8]) -> io::Result<(usize, usize)> {
    let mut parts = libc::iovec { iov_base: data.as_mut_ptr().cast(), iov_len: data.len() };
    // SAFETY: all-zero bytes are a valid msghdr without buffers.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &raw mut parts;
    message.msg_iovlen = 1;
    message.msg_control = control.as_mut_ptr().cast();
    // The field's type differs between C libraries.
    message.msg_controllen = control.len() as _;
    let flags = libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT;
    // SAFETY: the kernel writes at most `iov_len` bytes to `data` and `msg_controllen` bytes to `control`, both live and
    // exclusively borrowed; it writes no address, as `msg_name` is null.
    let got = unsafe { libc::recvmsg(fd.as_raw_fd(), &raw mut message, flags) };
    let got = usize::try_from(got).map_err(|_| io::Error::last_os_error())?;
    #[allow(clippy::unnecessary_cast, reason = "the field's type differs between C libraries")]
    Ok((got, message.msg_controllen as usize))
}

/// Waits until one of `fds` has an error to read.
pub fn poll_errors(fds: &[BorrowedFd<'_>], timeout: Duration) -> io::Result<()> {
    // Errors are polled for always, without being asked for; data is not.
    poll_for(fds, 0, timeout).map(drop)
}

/// Calls with the address as the kernel takes it.
fn with_address<T>(address: &SocketAddr, call: impl FnOnce(*const libc::sockaddr, libc::socklen_t) -> T) -> T {
    match address {
        SocketAddr::V4(v4) => {
            // SAFETY: all-zero bytes are a valid sockaddr_in.
            let mut raw: libc::sockaddr_in = unsafe { std::mem::zeroed() };
            raw.sin_family = libc::AF_INET as libc::sa_family_t;
            raw.sin_port = v4.port().to_be();
            raw.sin_addr.s_addr = u32::from_ne_bytes(v4.ip().octets());
            call((&raw const raw).cast(), size_of_val(&raw) as libc::socklen_t)
        }
        SocketAddr::V6(v6) => {
            // SAFETY: all-zero bytes are a valid sockaddr_in6.
            let mut raw: libc::sockaddr_in6 = unsafe { std::mem::zeroed() };
            raw.sin6_family = libc::AF_INET6 as libc::sa_family_t;
            raw.sin6_port = v6.port().to_be();
            raw.sin6_addr.s6_addr = v6.ip().octets();
            raw.sin6_scope_id = v6.scope_id();
            call((&raw const raw).cast(), size_of_val(&raw) as libc::socklen_t)
        }
    }
}
