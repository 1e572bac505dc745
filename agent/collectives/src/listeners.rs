//! Sockets on which a RAS service may be reached, from `/proc/PID/net/tcp` and `tcp6`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// State `LISTEN` in the table.
const LISTEN: &str = "0A";

/// A listening socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Listener {
    /// Address to connect to: loopback if the socket listens on all addresses.
    pub address: SocketAddr,
    /// Real user that owns the socket.
    pub uid: u32,
    /// Inode of the socket, as in `socket:[INODE]` of a process's descriptors.
    pub inode: u64,
}

/// Listening sockets on one of the ports. The kernel lists them before all connections, so the text may be cut after any line.
pub fn listeners(table: &str, ports: &[u16]) -> Vec<Listener> {
    let rows = table.lines().skip(1).map(|line| line.split_whitespace().collect::<Vec<_>>());
    let listening = rows.take_while(|words| words.get(3) == Some(&LISTEN));
    let parsed = listening.filter_map(|words| {
        let address = address(words.get(1)?)?;
        let listener = Listener { address, uid: words.get(7)?.parse().ok()?, inode: words.get(9)?.parse().ok()? };
        ports.contains(&address.port()).then_some(listener)
    });
    parsed.collect()
}

/// Address of `0100007F:6D7C`: the words of the address as the host stores them.
fn address(text: &str) -> Option<SocketAddr> {
    let (address, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let words: Option<Vec<u32>> =
        (0..address.len()).step_by(8).map(|at| u32::from_str_radix(address.get(at..at + 8)?, 16).ok()).collect();
    let words = words?;
    let ip = match *words.as_slice() {
        [word] => IpAddr::from(word.to_ne_bytes()),
        [a, b, c, d] => {
            let mut bytes = [0; 16];
            let each = [a, b, c, d].map(u32::to_ne_bytes);
            bytes.iter_mut().zip(each.iter().flatten()).for_each(|(to, from)| *to = *from);
            IpAddr::from(bytes)
        }
        _ => return None,
    };
    let reached = match ip {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    Some(SocketAddr::new(reached, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str =
        "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:6D7C 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1001        0 40001 1 0 100 0 0 10 0
   1: 00000000:0016 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 17 1 0 100 0 0 10 0
   2: 00000000:6D7C 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1002        0 40002 1 0 100 0 0 10 0
   3: 0100007F:6D7C 0100007F:9C40 01 00000000:00000000 00:00000000 00000000  1001        0 40003 1 0 20 4 30 10 -1
   4: 0100007F:6D7C 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1003        0 40004 1 0 100 0 0 10 0
";

    #[test]
    fn only_listening_sockets_of_the_port_are_found() {
        let local: SocketAddr = "127.0.0.1:28028".parse().unwrap();
        let first = Listener { address: local, uid: 1001, inode: 40001 };
        let second = Listener { address: local, uid: 1002, inode: 40002 };
        assert_eq!(listeners(TABLE, &[28028]), [first, second], "what follows a connection is not read");
        assert_eq!(listeners(TABLE, &[4711]), []);
    }

    #[test]
    fn addresses_of_version_6_are_read() {
        let table = "  sl
   0: 00000000000000000000000001000000:6D7C 00000000000000000000000000000000:0000 0A 0:0 00:0 0 7 0 5 1 0 0 0 0 0";
        let listener = Listener { address: "[::1]:28028".parse().unwrap(), uid: 7, inode: 5 };
        assert_eq!(listeners(table, &[28028]), [listener]);
    }

    #[test]
    fn broken_tables_give_nothing() {
        for table in [
            "",
            "x",
            "h\n0: 7F:6D7C x 0A",
            "h\n0: 0100007F:6D7C 0 0A 0 0 0 x 0 y",
            "h\n0: ü100007F:6D7C 0 0A 0 0 0 1 0 2",
        ] {
            assert_eq!(listeners(table, &[28028]), [], "{table:?}");
        }
    }
}
