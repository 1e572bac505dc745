//! Dashboard "Host": is this host culprit, victim or misconfigured?

use super::common::{OF_DEVICE, bits, of_port, paused, waits};
use super::panel::{Dashboard, Link, Panel, Row, Unit, Var, lines, row, stacked, stat, table};
use super::thresholds;

pub fn dashboard() -> Dashboard {
    Dashboard {
        name: "host",
        title: "Fabriclens: Host",
        description: "Is this host culprit, victim or misconfigured? Devices of one host should look alike: check the one \
                    that differs. Select a device to see one port.",
        since: "now-1h",
        vars: vec![Var::OneHost, Var::Device],
        rows: vec![who(), traffic(), congestion(), losses(), hardware(), gpus(), settings()],
    }
}

fn by_device(panel: Panel, expr: &str) -> Panel {
    panel.query(expr, "{{device}}")
}

fn who() -> Row {
    row(
        "Overview",
        vec![
            table("Jobs on this host", Unit::Count)
                .description("Jobs that run here now. shared: the measurements include several jobs.")
                .query(
                    r#"max by (job_id, job_name, user, cluster, attribution) (fabric_job_info{host=~"$host"})"#,
                    "runs",
                )
                .link(Link::Job)
                .wide(9)
                .high(6)
                .no_data("No job is known."),
            table("Incidents at this host", Unit::Share)
                .description("Open incidents located at this host, with their confidence.")
                .query(
                    r#"fabric_incident_confidence * on (id) group_right () max by (id, kind, severity, port) (fabric_incident_info{node=~"$host"})"#,
                    "confidence",
                )
                .link(Link::Incident)
                .wide(9)
                .high(6)
                .no_data("No incident is open."),
            stat("Ports up", Unit::Count)
                .description("RDMA ports that can carry data.")
                .query(format!("sum(fabric_port_up{{{OF_DEVICE}}})"), "up")
                .wide(3)
                .high(6),
            stat("Last sample", Unit::Seconds)
                .description("Age of the newest sample of the agent. More than a few seconds: is the agent running, is its clock \
                    right?")
                .query(r#"time() - max(timestamp(fabriclens_agent_start_time_seconds{host=~"$host"}))"#, "age")
                .threshold(30.0, "orange")
                .threshold(60.0, "red")
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
                .description("Traffic of each port, RDMA and kernel. Sent is above the axis, received below.")
                .query(bits("receive", OF_DEVICE), "{{device}} received")
                .mirrored("received")
                .link(Link::Port),
            stacked("RDMA and kernel path", Unit::BitsPerSecond)
                .description("Traffic sent by RDMA and by TCP. A job whose RDMA stops while TCP grows has fallen back to TCP.")
                .query(
                    format!("8 * sum(rate(fabric_rdma_io_bytes_total{{direction=\"transmit\",{OF_DEVICE}}}[$__rate_interval]))"),
                    "RDMA",
                )
                .query(
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
            .description("The busiest 100 ms. Full while the mean is low: bursts, which fill switch buffers all the same.")
            .max(1.0)
            .link(Link::Port),
            lines("Packets", Unit::Packets)
                .description("Packets of all ports. Many packets with few bytes: small messages.")
                .query(
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
            by_device(lines("Sends pause", Unit::Share), &paused("transmit", OF_DEVICE))
                .description("From 1 % on this host slows down the network: its NIC does not drain. See PCIe below.")
                .detector_threshold(thresholds::PAUSED, "orange")
                .detector_threshold(thresholds::STORM, "red")
                .max(1.0)
                .wide(8),
            by_device(lines("Receives pause", Unit::Share), &paused("receive", OF_DEVICE))
                .description("From 1 % on this host waits for the network: find the culprit on Congestion.")
                .detector_threshold(thresholds::PAUSED, "orange")
                .detector_threshold(thresholds::STORM, "red")
                .max(1.0)
                .wide(8),
            by_device(lines("Credit wait (InfiniBand)", Unit::Share), &waits(OF_DEVICE))
                .description("XmitWait divided by the line rate.")
                .detector_threshold(thresholds::WAITS, "orange")
                .detector_threshold(thresholds::WAITS_HOT, "red")
                .max(1.0)
                .wide(8)
                .no_data("No InfiniBand port waits for credits."),
            lines("Notifications", Unit::Packets)
                .description("Congestion notifications (CNP) sent (this host is overrun) and received (this host must slow down).")
                .query(
                    of_port("fabric_cnp_packets_total", &format!("direction=\"transmit\",{OF_DEVICE}")),
                    "{{device}} sent",
                )
                .query(
                    of_port("fabric_cnp_packets_total", &format!("direction=\"receive\",{OF_DEVICE}")),
                    "{{device}} received",
                )
                .mirrored("received"),
            by_device(lines("Marked packets received", Unit::Packets), &of_port("fabric_ecn_packets_total", OF_DEVICE))
                .description("RDMA packets received with a congestion mark: congestion on the path to this host."),
        ],
    )
}

fn losses() -> Row {
    row(
        "Losses",
        vec![
            lines("RDMA retransmissions", Unit::PerSecond)
                .description(
                    "Lost packets reported by the peer, and acknowledgement timeouts. Three timeouts in 20 s are an \
                    incident.",
                )
                .query(
                    of_port("fabric_rdma_sequence_naks_total", &format!("direction=\"receive\",{OF_DEVICE}")),
                    "{{device}} lost",
                )
                .query(of_port("fabric_rdma_ack_timeouts_total", OF_DEVICE), "{{device}} timeout")
                .wide(8),
            lines("Drops", Unit::Packets)
                .description("Packets dropped at the port, or for lack of receive buffers (the program posts too few).")
                .query(of_port("fabric_port_discards_total", OF_DEVICE), "{{device}} port")
                .query(of_port("fabric_rdma_out_of_buffer_total", OF_DEVICE), "{{device}} no buffer")
                .wide(8),
            lines("Link errors", Unit::PerSecond)
                .description("Symbol and CRC errors. Link health shows how severe they are.")
                .query(of_port("fabric_link_symbol_errors_total", OF_DEVICE), "{{device}} symbol")
                .query(
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
                lines("PCIe bandwidth, share of capability", Unit::Share),
                &format!("fabric_pcie_rate_bytes_per_second{{{of}}} / fabric_pcie_rate_max_bytes_per_second{{{of}}}"),
            )
            .description("1 is normal. Below 0.9 the slot was trained down: reseat, check riser and BIOS.")
            .detector_threshold(thresholds::PCIE_TRAINED, "green")
            .max(1.0)
            .wide(8),
            lines("Stalled memory requests", Unit::Share)
                .description("Share of time in which the adapter waited for memory.")
                .query(
                    format!("rate(fabric_pcie_stall_seconds_total{{{OF_DEVICE}}}[$__rate_interval])"),
                    "{{device}} {{direction}}",
                )
                .detector_threshold(thresholds::PCIE_STALLED, "red")
                .max(1.0)
                .wide(8),
            by_device(
                lines("Temperature of modules", Unit::Celsius),
                &format!("fabric_module_temperature_celsius{{{OF_DEVICE}}}"),
            )
            .description("Above 70 °C modules age fast.")
            .detector_threshold(thresholds::MODULE_HOT, "red")
            .wide(8),
            table("Faults in the kernel log", Unit::Count)
                .description("Messages of the kernel that name a fault, by class. After a fatal one the device is of no use until it \
                    is reset.")
                .query(
                    r#"sum by (class, severity, device, pci_address, code, job) (increase(fabric_kernel_log_events_total{host=~"$host"}[$__range])) > 0"#,
                    "messages",
                )
                .high(6)
                .no_data("The kernel log names no fault, or is not read."),
        ],
    )
}

/// Distances of NVML, as `nvidia-smi topo -m` names them.
const DISTANCES: &[(&str, &str, &str)] = &[
    ("10", "PIX", "green"),
    ("20", "PXB", "green"),
    ("30", "PHB", "yellow"),
    ("40", "NODE", "orange"),
    ("50", "SYS", "red"),
];

fn gpus() -> Row {
    let host = r#"host=~"$host""#;
    row(
        "GPUs",
        vec![
            table("GPUs and their nearest adapters", Unit::Count)
                .description("The adapter that each GPU should use, and what a transfer between them crosses. PIX: one PCIe switch; \
                    SYS: two NUMA nodes. Hosts of one kind should look alike.")
                .query(
                    format!(
                        "max by (gpu, device) (fabric_gpu_nic_distance{{{host}}} and on (host, device, gpu) \
                         fabric_gpu_nic_nearest{{{host}}})"
                    ),
                    "distance",
                )
                .mappings(DISTANCES)
                .wide(8)
                .high(9)
                .no_data("No GPU is known."),
            table("Ways between GPU memory and adapter", Unit::Count)
                .description("1 if the adapter reaches GPU memory directly by this method (GPUDirect RDMA). If all are 0, data of GPUs \
                    goes through host memory.")
                .query(format!("max by (device, method) (fabric_gpudirect_available{{{host}}})"), "is there")
                .wide(8)
                .high(9)
                .no_data("No GPU is known."),
            lines("PCIe lanes of GPUs, share of capability", Unit::Share)
                .description("1 is normal. Fewer lanes: reseat, check riser and BIOS. The speed is not shown: an idle GPU lowers it.")
                .query(format!("fabric_gpu_pcie_width{{{host}}} / fabric_gpu_pcie_width_max{{{host}}}"), "GPU {{gpu}}")
                .max(1.0)
                .wide(8)
                .high(9)
                .no_data("No GPU is known."),
            lines("NVLink, sent and received", Unit::BitsPerSecond)
                .description("Traffic of all NVLinks of each GPU. Traffic of a job on NVLink is not on the network.")
                .query(
                    format!(
                        "8 * sum by (gpu, direction) (rate(fabric_nvlink_io_bytes_total{{{host}}}[$__rate_interval]))"
                    ),
                    "GPU {{gpu}} {{direction}}",
                )
                .mirrored("receive")
                .no_data("No NVLink is known."),
            lines("NVLink errors", Unit::PerSecond)
                .description("Errors of all NVLinks of each GPU. Recoveries and uncorrected errors slow down collectives; look for Xid in \
                    the kernel log.")
                .query(
                    format!("sum by (gpu, reason) (rate(fabric_nvlink_errors_total{{{host}}}[$__rate_interval])) > 0"),
                    "GPU {{gpu}} {{reason}}",
                )
                .query(format!("sum by (gpu) (fabric_nvlink_down{{{host}}}) > 0"), "GPU {{gpu}} links down")
                .no_data("No NVLink has errors or is down."),
        ],
    )
}

fn settings() -> Row {
    row(
        "Configuration",
        vec![
            table("Ports", Unit::Count)
                .description("Firmware and driver should be the same on all devices, and on all hosts of a rail.")
                .query(
                    format!(
                        "max by (device, netdev, fabric, driver, firmware, model, numa_node, switch, switch_port) \
                         (fabric_port_info{{{OF_DEVICE}}})"
                    ),
                    "is",
                )
                .link(Link::Leaf)
                .high(7),
            table("PFC and congestion control, by priority", Unit::Count)
                .description("Priorities with PFC and with congestion control (np notifies senders, rp slows down). Devices should \
                    agree with each other, with their switches and with other hosts.")
                .query(
                    format!("max by (device, priority) (fabric_pfc_enabled{{{OF_DEVICE}}}) == 1"),
                    "PFC",
                )
                .query(
                    format!("max by (device, priority, role) (fabric_ecn_enabled{{{OF_DEVICE}}})"),
                    "congestion control",
                )
                .high(7),
        ],
    )
}
