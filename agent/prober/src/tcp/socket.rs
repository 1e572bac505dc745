//! TCP sockets that do not block, with the traffic class of probes.

use rustix::net::sockopt;
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};

/// Connections that wait to be accepted.
const BACKLOG: i32 = 64;

/// Starts listening on an address.
///
/// # Errors
/// The address is not one of this host, or the port is taken.
pub fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = socket(address.ip())?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    rustix::net::bind(&socket, &address)?;
    rustix::net::listen(&socket, BACKLOG)?;
    Ok(TcpListener::from(socket))
}

/// Starts to connect from an address of this host.
///
/// # Errors
/// The connection fails at once.
pub fn connect(from: IpAddr, to: SocketAddr, traffic_class: u8) -> io::Result<TcpStream> {
    let socket = socket(to.ip())?;
    set_traffic_class(&socket, to.ip(), traffic_class)?;
    rustix::net::bind(&socket, &SocketAddr::new(from, 0))?;
    match rustix::net::connect(&socket, &to) {
        Ok(()) | Err(rustix::io::Errno::INPROGRESS) => {}
        Err(error) => return Err(error.into()),
    }
    let stream = TcpStream::from(socket);
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Sets the traffic class of what a socket sends.
///
/// # Errors
/// The kernel refuses it.
pub fn set_traffic_class(socket: impl AsFd, peer: IpAddr, traffic_class: u8) -> io::Result<()> {
    // The lower two bits are ECN's, which TCP sets itself.
    let class = traffic_class & 0xfc;
    match peer {
        IpAddr::V4(_) => sockopt::set_ip_tos(socket, class)?,
        IpAddr::V6(_) => sockopt::set_ipv6_tclass(socket, class.into())?,
    }
    Ok(())
}

fn socket(address: IpAddr) -> io::Result<OwnedFd> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    Ok(rustix::net::socket_with(family, SocketType::STREAM, flags, None)?)
}
