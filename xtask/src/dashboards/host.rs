//! What does this host do, and is it the culprit, a victim, or set wrong?

use super::common::{OF_DEVICE, bits, of_port, paused, waits};
use super::limits;
use super::panel::{Dashboard, Link, Panel, Row, Unit, Var, lines, row, stacked, stat, table};

pub fn dashboard() -> Dashboard {
    Dashboard {
        name: "host",
        title: "Fabriclens: Host",
        says: "What does this host do: does it cause trouble, suffer from it, or is it set wrong? Devices of one host should look \
               alike: the one that does not is the one to look at. Choose a device to see one port.",
        since: "now-1h",
        vars: vec![Var::OneHost, Var::Device],
        rows: vec![who(), traffic(), congestion(), losses(), hardware(), settings()],
    }
}

fn by_device(panel: Panel, expr: &str) -> Panel {
    panel.ask(expr, "{{device}}")
}

fn who() -> Row {
    row(
        "Who",
        vec![
            table("Jobs on this host", Unit::Count)
                .says("What runs here now. shared: what is measured here is the work of several jobs.")
                .ask(
                    r#"max by (job_id, job_name, user, cluster, attribution) (fabric_job_info{host=~"$host"})"#,
                    "runs",
                )
                .link(Link::Job)
                .wide(9)
                .high(6)
                .none("No job that anybody told of."),
            table("Incidents at this host", Unit::Share)
                .says("Open incidents whose place is this host, and how sure they are.")
                .ask(
                    r#"fabric_incident_confidence * on (id) group_right () max by (id, kind, severity, port) (fabric_incident_info{node=~"$host"})"#,
                    "sure",
                )
                .link(Link::Incident)
                .wide(9)
                .high(6)
                .none("None is open."),
            stat("Ports up", Unit::Count)
                .says("RDMA ports that can carry data.")
                .ask(format!("sum(fabric_port_up{{{OF_DEVICE}}})"), "up")
                .wide(3)
                .high(6),
            stat("Last sample", Unit::Seconds)
                .says("Age of what the agent told last. More than a few seconds: is the agent alive, is its clock right?")
                .ask(r#"time() - max(timestamp(fabriclens_agent_start_time_seconds{host=~"$host"}))"#, "age")
                .step(30.0, "orange")
                .step(60.0, "red")
                .wide(3)
                .high(6),
        ],
    )
}

fn traffic() -> Row {
    row(
        "Traffic",
        vec![
            by_device(lines("Sent and received", Unit::BitsPerSecond), &bits("transmit", OF_DEVICE))
                .says("All that crosses each port, RDMA and kernel. Sent is above the axis, received below.")
                .ask(bits("receive", OF_DEVICE), "{{device}} received")
                .down("received")
                .link(Link::Port),
            stacked("RDMA and kernel path", Unit::BitsPerSecond)
                .says("Sent by RDMA and by the kernel (TCP and the like). A job whose RDMA ceases while the kernel path grows has \
                       fallen back to TCP.")
                .ask(
                    format!("8 * sum(rate(fabric_rdma_io_bytes_total{{direction=\"transmit\",{OF_DEVICE}}}[$__rate_interval]))"),
                    "RDMA",
                )
                .ask(
                    r#"8 * sum(rate(fabric_tcp_io_bytes_total{host=~"$host",direction="transmit",destination!="local"}[$__rate_interval]))"#,
                    "TCP",
                ),
            by_device(
                lines("Peak of 100 ms, of line rate", Unit::Share),
                &format!(
                    "fabric_port_io_peak_bytes_per_second{{direction=\"transmit\",{OF_DEVICE}}} \
                     / on (host, device, port) fabric_port_rate_bytes_per_second{{{OF_DEVICE}}}"
                ),
            )
            .says("The busiest tenth of a second. Full while the mean is low: bursts, which fill switch buffers all the same.")
            .max(1.0)
            .link(Link::Port),
            lines("Packets", Unit::Packets)
                .says("Packets of all ports. Many packets with few bytes: small messages.")
                .ask(
                    format!("sum by (direction) (rate(fabric_port_packets_total{{{OF_DEVICE}}}[$__rate_interval]))"),
                    "{{direction}}",
                ),
        ],
    )
}

fn congestion() -> Row {
    row(
        "Congestion",
        vec![
            by_device(lines("Pauses its switch", Unit::Share), &paused("transmit", OF_DEVICE))
                .says("From 1 % on this host holds the network back: its NIC does not drain. See PCIe below.")
                .limit(limits::PAUSED, "orange")
                .limit(limits::STORM, "red")
                .max(1.0)
                .wide(8),
            by_device(lines("Is paused", Unit::Share), &paused("receive", OF_DEVICE))
                .says("From 1 % on this host waits for the network: find the culprit on Congestion.")
                .limit(limits::PAUSED, "orange")
                .limit(limits::STORM, "red")
                .max(1.0)
                .wide(8),
            by_device(lines("Could not send (InfiniBand)", Unit::Share), &waits(OF_DEVICE))
                .says("XmitWait over the line rate.")
                .limit(limits::WAITS, "orange")
                .limit(limits::WAITS_HOT, "red")
                .max(1.0)
                .wide(8)
                .none("No InfiniBand port, or nothing waits."),
            lines("Notifications", Unit::Packets)
                .says("CNP: sent (others are to slow down: this host is overrun) and received (this host is told to).")
                .ask(
                    of_port("fabric_cnp_packets_total", &format!("direction=\"transmit\",{OF_DEVICE}")),
                    "{{device}} sent",
                )
                .ask(
                    of_port("fabric_cnp_packets_total", &format!("direction=\"receive\",{OF_DEVICE}")),
                    "{{device}} received",
                )
                .down("received"),
            by_device(lines("Marked packets received", Unit::Packets), &of_port("fabric_ecn_packets_total", OF_DEVICE))
                .says("Congestion on the way here."),
        ],
    )
}

fn losses() -> Row {
    row(
        "Losses",
        vec![
            lines("RDMA sent again", Unit::PerSecond)
                .says(
                    "Lost packets told by the peer, and timers that expired. Three time-outs in 20 s are an incident.",
                )
                .ask(
                    of_port("fabric_rdma_sequence_naks_total", &format!("direction=\"receive\",{OF_DEVICE}")),
                    "{{device}} lost",
                )
                .ask(of_port("fabric_rdma_ack_timeouts_total", OF_DEVICE), "{{device}} timeout")
                .wide(8),
            lines("Drops", Unit::Packets)
                .says("Dropped at the port, and for want of receive buffers (the program posts too few).")
                .ask(of_port("fabric_port_discards_total", OF_DEVICE), "{{device}} port")
                .ask(of_port("fabric_rdma_out_of_buffer_total", OF_DEVICE), "{{device}} no buffer")
                .wide(8),
            lines("Errors of the wire", Unit::PerSecond)
                .says("Symbol and CRC errors. See Link health for how bad they are.")
                .ask(of_port("fabric_link_symbol_errors_total", OF_DEVICE), "{{device}} symbol")
                .ask(
                    of_port("fabric_link_crc_errors_total", &format!("direction=\"receive\",{OF_DEVICE}")),
                    "{{device}} CRC",
                )
                .wide(8),
        ],
    )
}

fn hardware() -> Row {
    let of = r#"host=~"$host",device=~"$device""#;
    row(
        "Hardware",
        vec![
            by_device(
                lines("PCIe path, of what it could", Unit::Share),
                &format!("fabric_pcie_rate_bytes_per_second{{{of}}} / fabric_pcie_rate_max_bytes_per_second{{{of}}}"),
            )
            .says("1 is right. Below 0.9 the slot was trained down: reseat, look at riser and BIOS.")
            .limit(limits::PCIE_TRAINED, "green")
            .max(1.0)
            .wide(8),
            lines("Requests to memory stall", Unit::Share)
                .says("Share of seconds with stalls.")
                .ask(
                    format!("rate(fabric_pcie_stall_seconds_total{{{OF_DEVICE}}}[$__rate_interval])"),
                    "{{device}} {{direction}}",
                )
                .limit(limits::PCIE_STALLED, "red")
                .max(1.0)
                .wide(8),
            by_device(
                lines("Temperature of modules", Unit::Celsius),
                &format!("fabric_module_temperature_celsius{{{OF_DEVICE}}}"),
            )
            .says("Above 70 °C modules age fast.")
            .limit(limits::MODULE_HOT, "red")
            .wide(8),
        ],
    )
}

fn settings() -> Row {
    row(
        "As it is set",
        vec![
            table("Ports", Unit::Count)
                .says("Firmware and driver should be the same on all devices, and on all hosts of a rail.")
                .ask(
                    format!(
                        "max by (device, netdev, fabric, driver, firmware, model, numa_node, switch, switch_port) \
                         (fabric_port_info{{{OF_DEVICE}}})"
                    ),
                    "is",
                )
                .link(Link::Leaf)
                .high(7),
            table("PFC and congestion control, by priority", Unit::Count)
                .says("Which priorities have PFC, and for which congestion control is on (np tells senders, rp slows down). All devices \
                       should agree with each other, with their switches and with other hosts.")
                .ask(
                    format!("max by (device, priority) (fabric_pfc_enabled{{{OF_DEVICE}}}) == 1"),
                    "PFC",
                )
                .ask(
                    format!("max by (device, priority, role) (fabric_ecn_enabled{{{OF_DEVICE}}})"),
                    "congestion control",
                )
                .high(7),
        ],
    )
}
