//! TCP/IP of the host's network namespace: the baseline beside RDMA. RoCE is invisible here.

use super::words::*;

metrics! {
    TCP_SEGMENTS, Counter, Host, "fabric.tcp.segments", Count("{segment}"), ["direction"],
        "TCP segments received and sent.";
    TCP_RTT, Histogram, Host, "fabric.tcp.rtt", Seconds, ["destination", "netdev"],
        "Smoothed round trip of TCP, taken at about one of eight segments received, by how far away the other end is.";
    TCP_RETRANSMIT_SEGMENTS, Counter, Host, "fabric.tcp.retransmit.segments", Count("{segment}"), ["destination", "kind", "netdev"],
        "TCP segments sent again, of all network namespaces, by how far away the other end is and by why: `handshake`, `timeout`, `fast`, `probe` (tail loss probe), `other`; `unknown`, a lower bound, on kernels without BTF.";
    TCP_RETRANSMIT_IO, Counter, Host, "fabric.tcp.retransmit.io", Bytes, ["destination", "kind", "netdev"],
        "Bytes of TCP data sent again, as the segments; only where the kernel has BTF.";
    TCP_WINDOW_CLOSED, Counter, Host, "fabric.tcp.window.closed", Count("{segment}"), ["cgroup", "destination", "direction", "netdev"],
        "TCP segments that announce a closed window, so that no data can move: `transmit` the other end's (they were received), `receive` this end's (they were sent).";
    TCP_CONNECTION_ATTEMPTS, Counter, Host, "fabric.tcp.connection.attempts", Count("{connection}"), ["destination", "netdev"],
        "TCP connections that programs of this host began, of all network namespaces.";
    TCP_CONNECTION_ESTABLISHED, Counter, Host, "fabric.tcp.connection.established", Count("{connection}"), ["destination", "netdev", "opened"],
        "TCP connections established: `active` begun here, `passive` begun by the other end.";
    TCP_CONNECTION_FAILURES, Counter, Host, "fabric.tcp.connection.failures", Count("{connection}"), ["destination", "netdev", "reason"],
        "TCP connections begun here and not established: `refused`, `timeout`, `reset`, `unreachable`, `abandoned` (by the program, before the kernel gave up), `no_port` (no local port was free), `other`; `unknown` on kernels without BTF.";
    TCP_CONNECTION_LATENCY, Histogram, Host, "fabric.tcp.connection.latency", Seconds, ["destination", "netdev"],
        "Time from the begin of a TCP connection to its establishment, of those begun here.";
    TCP_CONNECTION_RESETS, Counter, Host, "fabric.tcp.connection.resets", Count("{connection}"), ["destination", "direction", "netdev"],
        "TCP connections that were established and ended by a reset from here (`transmit`) or from the other end (`receive`).";
    TCP_IO, Counter, Host, "fabric.tcp.io", Bytes, ["cgroup", "destination", "direction", "netdev"],
        "TCP bytes of this host's sockets as the interface counts them: segments with IP and link header, sent again or not.";
    TCP_IO_SEGMENTS, Counter, Host, "fabric.tcp.io.segments", Count("{segment}"),
        ["cgroup", "destination", "direction", "netdev"],
        "TCP segments of this host's sockets as they are on the wire.";
    TCP_IO_CE, Counter, Host, "fabric.tcp.io.ce_segments", Count("{segment}"), ["cgroup", "destination", "netdev"],
        "TCP segments received that were congestion-marked (CE) on the way.";
    TCP_IO_UNPLACED, Counter, Host, "fabric.tcp.io.unplaced", Count("{segment}"), [],
        "TCP segments that count under cgroup `other` because more control groups talked than there is room for.";
    TCP_RETRANSMITS, Counter, Host, "fabric.tcp.retransmits", Count("{segment}"), [],
        "TCP segments sent again.";
    TCP_RETRANSMIT_DETAILS, Counter, Host, "fabric.tcp.retransmit.events", EVENTS, ["reason"],
        "Causes and signs of TCP retransmission, by the kernel's name; they overlap.";
    TCP_TIMEOUTS, Counter, Host, "fabric.tcp.timeouts", EVENTS, ["reason"],
        "TCP retransmission time-outs, all and spurious.";
    TCP_ERRORS, Counter, Host, "fabric.tcp.errors", ERRORS, ["reason"],
        "Bad TCP segments received.";
    TCP_DISCARDS, Counter, Host, "fabric.tcp.discards", EVENTS, ["reason"],
        "Segments, connections or data dropped by TCP, by the kernel's name.";
    TCP_WINDOW_EVENTS, Counter, Host, "fabric.tcp.window.events", EVENTS, ["reason"],
        "Zero windows: the receiving program does not keep up.";
    TCP_TRAFFIC_DETAILS, Counter, Host, "fabric.tcp.segment.details", Count("{segment}"), ["reason"],
        "Segments by a further class, by the kernel's name.";
    TCP_CE_DELIVERED, Counter, Host, "fabric.tcp.ce_delivered", PACKETS, [],
        "Segments delivered whose acknowledgement says that they were congestion-marked on the way.";
    IP_PACKETS, Counter, Host, "fabric.ip.packets", PACKETS, ["direction"],
        "IP packets received from and handed to the network by this host.";
    IP_PACKETS_CAST, Counter, Host, "fabric.ip.packets.by_cast", PACKETS, ["cast", "direction"],
        "IP multicast and broadcast packets.";
    IP_PACKET_DETAILS, Counter, Host, "fabric.ip.packet.details", PACKETS, ["reason"],
        "IP packets by what became of them: forwarded, delivered, transmitted, truncated.";
    IP_IO, Counter, Host, "fabric.ip.io", Bytes, ["direction"],
        "IP bytes received and sent.";
    IP_IO_CAST, Counter, Host, "fabric.ip.io.by_cast", Bytes, ["cast", "direction"],
        "IP multicast and broadcast bytes.";
    IP_DISCARDS, Counter, Host, "fabric.ip.discards", PACKETS, ["direction"],
        "IP packets dropped for lack of resources.";
    IP_ERRORS, Counter, Host, "fabric.ip.errors", ERRORS, ["reason"],
        "Bad IP packets received.";
    IP_ECN, Counter, Host, "fabric.ip.ecn.packets", PACKETS, ["mark"],
        "IP packets received by congestion mark: `ce`, `ect0`, `ect1`, `none` (kernel path, no RoCE).";
    UDP_DATAGRAMS, Counter, Host, "fabric.udp.datagrams", PACKETS, ["direction"],
        "UDP datagrams received and sent by this host's programs.";
    UDP_ERRORS, Counter, Host, "fabric.udp.errors", ERRORS, ["reason"],
        "UDP datagrams lost to full buffers or bad checksums.";
}
