//! TCP/IP of the host's network namespace. RoCE bypasses these counters.

use super::units::*;

metrics! {
    TCP_SEGMENTS, Counter, Host, "fabric.tcp.segments", Count("{segment}"), ["direction"],
        "TCP segments received and sent.";
    TCP_RTT, Histogram, Host, "fabric.tcp.rtt", Seconds, ["destination", "netdev"],
        "Smoothed TCP round-trip time, sampled at about one in eight segments received, by network distance of the peer.";
    TCP_RETRANSMIT_SEGMENTS, Counter, Host, "fabric.tcp.retransmit.segments", Count("{segment}"), ["destination", "kind", "netdev"],
        "TCP segments retransmitted in all network namespaces, by network distance of the peer and by cause: `handshake`, `timeout`, `fast`, `probe` (tail loss probe), `other`; on kernels without BTF `unknown`, and the count is a lower bound.";
    TCP_RETRANSMIT_IO, Counter, Host, "fabric.tcp.retransmit.io", Bytes, ["destination", "kind", "netdev"],
        "Bytes of TCP data retransmitted, labeled like the segments; only on kernels with BTF.";
    TCP_WINDOW_CLOSED, Counter, Host, "fabric.tcp.window.closed", Count("{segment}"), ["cgroup", "destination", "direction", "netdev"],
        "TCP segments that announce a closed window and so stop the flow of data. `transmit`: the peer closed its window, this host cannot send. `receive`: this host closed its window, the peer cannot send.";
    TCP_CONNECTION_ATTEMPTS, Counter, Host, "fabric.tcp.connection.attempts", Count("{connection}"), ["destination", "netdev"],
        "TCP connections opened by programs of this host, in all network namespaces.";
    TCP_CONNECTION_ESTABLISHED, Counter, Host, "fabric.tcp.connection.established", Count("{connection}"), ["destination", "netdev", "opened"],
        "TCP connections established: `active` opened by this host, `passive` opened by the peer.";
    TCP_CONNECTION_FAILURES, Counter, Host, "fabric.tcp.connection.failures", Count("{connection}"), ["destination", "netdev", "reason"],
        "TCP connections opened by this host that were not established, by reason: `refused`, `timeout`, `reset`, `unreachable`, `abandoned` (the program gave up before the kernel did), `no_port` (no local port was free), `other`; `unknown` on kernels without BTF.";
    TCP_CONNECTION_LATENCY, Histogram, Host, "fabric.tcp.connection.latency", Seconds, ["destination", "netdev"],
        "Time from opening a TCP connection to its establishment, for connections opened by this host.";
    TCP_CONNECTION_RESETS, Counter, Host, "fabric.tcp.connection.resets", Count("{connection}"), ["destination", "direction", "netdev"],
        "Established TCP connections that ended by a reset from this host (`transmit`) or from the peer (`receive`).";
    TCP_IO, Counter, Host, "fabric.tcp.io", Bytes, ["cgroup", "destination", "direction", "netdev"],
        "TCP bytes of this host's sockets as the interface counts them: segments with IP and link headers, retransmissions included.";
    TCP_IO_SEGMENTS, Counter, Host, "fabric.tcp.io.segments", Count("{segment}"),
        ["cgroup", "destination", "direction", "netdev"],
        "TCP segments of this host's sockets as they are on the wire.";
    TCP_IO_CE, Counter, Host, "fabric.tcp.io.ce_segments", Count("{segment}"), ["cgroup", "destination", "netdev"],
        "TCP segments received that were congestion-marked (CE) on the way.";
    TCP_IO_UNPLACED, Counter, Host, "fabric.tcp.io.unplaced", Count("{segment}"), [],
        "TCP segments counted under cgroup `other` because there were more control groups than the table holds.";
    TCP_RETRANSMITS, Counter, Host, "fabric.tcp.retransmits", Count("{segment}"), [],
        "TCP segments retransmitted.";
    TCP_RETRANSMIT_DETAILS, Counter, Host, "fabric.tcp.retransmit.events", EVENTS, ["reason"],
        "Causes and symptoms of TCP retransmission, by the kernel's name; they overlap.";
    TCP_TIMEOUTS, Counter, Host, "fabric.tcp.timeouts", EVENTS, ["reason"],
        "TCP retransmission time-outs, all and spurious.";
    TCP_ERRORS, Counter, Host, "fabric.tcp.errors", ERRORS, ["reason"],
        "Bad TCP segments received.";
    TCP_DISCARDS, Counter, Host, "fabric.tcp.discards", EVENTS, ["reason"],
        "Segments, connections or data dropped by TCP, by the kernel's name.";
    TCP_WINDOW_EVENTS, Counter, Host, "fabric.tcp.window.events", EVENTS, ["reason"],
        "Zero-window events: the receiving program does not keep up.";
    TCP_TRAFFIC_DETAILS, Counter, Host, "fabric.tcp.segment.details", Count("{segment}"), ["reason"],
        "Segments by a further class, by the kernel's name.";
    TCP_CE_DELIVERED, Counter, Host, "fabric.tcp.ce_delivered", PACKETS, [],
        "Segments sent by this host whose acknowledgement reports a congestion mark (CE) on the path.";
    IP_PACKETS, Counter, Host, "fabric.ip.packets", PACKETS, ["direction"],
        "IP packets received from and handed to the network by this host.";
    IP_PACKETS_CAST, Counter, Host, "fabric.ip.packets.by_cast", PACKETS, ["cast", "direction"],
        "IP multicast and broadcast packets.";
    IP_PACKET_DETAILS, Counter, Host, "fabric.ip.packet.details", PACKETS, ["reason"],
        "IP packets by outcome: forwarded, delivered, transmitted, truncated.";
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
