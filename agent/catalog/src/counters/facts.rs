//! Facts that are not single counters (texts, sets, eBPF probes): which label or metric each becomes. The reference page
//! and the coverage test are made from this table; the samplers that export the facts keep to it.

use crate::metric::Metric;
use crate::metrics::{dcb, fec, gpu, host, microburst, netdev, nvlink, pause, pcie, pfc, state, traffic};

/// One file, attribute or probe, and the metric or label it becomes.
#[derive(Debug, Clone, Copy)]
pub struct Fact {
    /// File or attribute; placeholders as in [`crate::VendorCounter::name`].
    pub name: &'static str,
    /// The metric it is exported in.
    pub metric: &'static Metric,
    /// Label that it becomes, or how the metric's value is derived from it.
    pub becomes: &'static str,
}

const fn info(name: &'static str, label: &'static str) -> Fact {
    Fact { name, metric: &state::PORT_INFO, becomes: label }
}

const fn value(name: &'static str, metric: &'static Metric, becomes: &'static str) -> Fact {
    Fact { name, metric, becomes }
}

/// All facts.
pub static FACTS: &[Fact] = &[
    info("ports/{port}/link_layer", "link_layer"),
    value("ports/{port}/rate, in brackets", &state::PORT_WIDTH, "lanes: 4 of `(4X EDR)`"),
    value("ports/{port}/gids/{index}", &state::PORT_GIDS, "number of entries that are not zero"),
    value("ports/{port}/gid_attrs/types/{index}", &state::PORT_GIDS, "type"),
    info("ports/{port}/gid_attrs/ndevs/{index}", "netdev"),
    value("ports/{port}/pkeys/{index}", &state::PORT_PKEYS, "number of entries that are not zero"),
    info("device/fw_ver", "firmware"),
    info("device/board_id", "board"),
    info("device/hca_type", "model"),
    info("device/hw_rev", "hw_rev"),
    info("device/node_desc", "node_desc"),
    info("device/node_guid", "node_guid"),
    info("device/node_type", "node_type"),
    info("device/sys_image_guid", "system_guid"),
    info("configfs/rdma_cm/{dev}/ports/{port}/default_roce_mode", "roce"),
    value("msi_irqs and proc/irq/{irq}/effective_affinity_list", &pcie::INTERRUPTS, "number of each locality"),
    value("FEC_GET/active", &fec::FEC_MODE, "mode"),
    value("RINGS_GET/rx", &netdev::NETDEV_RING_SIZE, "direction `receive`"),
    value("RINGS_GET/tx", &netdev::NETDEV_RING_SIZE, "direction `transmit`"),
    value("PAUSE_GET/rx", &pause::PAUSE_ENABLED, "direction `receive`"),
    value("PAUSE_GET/tx", &pause::PAUSE_ENABLED, "direction `transmit`"),
    value("ebpf/cgroup_skb/srtt", &host::TCP_RTT, "one observation for about one of eight segments received"),
    value(
        "ebpf/tcp_retransmit_skb",
        &host::TCP_RETRANSMIT_SEGMENTS,
        "segments of the buffer, by the state of the connection",
    ),
    value("ebpf/tcp_retransmit_synack", &host::TCP_RETRANSMIT_SEGMENTS, "kind `handshake`"),
    value("ebpf/tcp_retransmit_skb/len", &host::TCP_RETRANSMIT_IO, "length of the buffer"),
    value("ebpf/inet_sock_set_state to SYN_SENT", &host::TCP_CONNECTION_ATTEMPTS, "one each"),
    value("ebpf/inet_sock_set_state to ESTABLISHED", &host::TCP_CONNECTION_ESTABLISHED, "one each"),
    value("ebpf/inet_sock_set_state SYN_SENT to CLOSE", &host::TCP_CONNECTION_FAILURES, "reason by the socket's error"),
    value("ebpf/inet_sock_set_state SYN_SENT to ESTABLISHED", &host::TCP_CONNECTION_LATENCY, "time between the two"),
    value(
        "ebpf/tcp_receive_reset",
        &host::TCP_CONNECTION_RESETS,
        "direction `receive`, unless the connection was still being opened",
    ),
    value("ebpf/tcp_send_reset", &host::TCP_CONNECTION_RESETS, "direction `transmit`, if the reset ends a connection"),
    value("ebpf/cgroup_skb/len", &host::TCP_IO, "including the IP, TCP and link headers of each segment"),
    value("ebpf/cgroup_skb/gso_segs", &host::TCP_IO_SEGMENTS, "number of segments that the buffer becomes on the wire"),
    value("ebpf/cgroup_skb/ip_ecn", &host::TCP_IO_CE, "segments with ECN field 3 (CE)"),
    value("ebpf/cgroup_skb/window", &host::TCP_WINDOW_CLOSED, "segments that announce a window of 0, except resets"),
    value("ebpf/cgroup_skb/other", &host::TCP_IO_UNPLACED, "segments counted without their control group"),
    value("ebpf/tcx/len", &microburst::BURST_IO_PEAK, "bytes of the fullest millisecond"),
    value("ebpf/tcx/gso_segs", &microburst::BURST_PACKETS_PEAK, "packets of the fullest millisecond"),
    value("net/speed", &microburst::BURST_THRESHOLD, "times `microburst.share`"),
    value("ebpf/tcx/bursts", &microburst::BURST_TIME, "milliseconds at or above the threshold"),
    value("ebpf/tcx/ip_ecn", &microburst::BURST_CE, "packets with ECN field 3 (CE)"),
    value("ebpf/tcx/udp_port", &microburst::BURST_ROCE, "packets to UDP port 4791"),
    value("ebpf/tcx/missed", &microburst::BURST_MISSED, "milliseconds overwritten before they were read"),
    value("ebpf/tcx/dumps", &microburst::BURST_DUMPS, "recordings made"),
    value("net/statistics/rx_bytes", &traffic::PORT_IO, "direction `receive`, for software RDMA (rxe, siw)"),
    value("net/statistics/tx_bytes", &traffic::PORT_IO, "direction `transmit`, for software RDMA (rxe, siw)"),
    value("net/operstate", &netdev::NETDEV_UP, "1 when `up`"),
    value(
        "net/duplex",
        &netdev::NETDEV_CARRIER,
        "readable only with carrier; half duplex does not exist on these links",
    ),
    info("net/phys_port_name", "phys_port_name"),
    info("net/phys_switch_id", "switch_id"),
    info("net/dev_port", "port"),
    info("net/dev_id", "port"),
    info("pci/numa_node", "numa_node"),
    value("pci/local_cpulist", &state::PORT_INFO, "numa_node, if the function reports none"),
    value("ieee_pfc/pfc_en", &pfc::PFC_ENABLED, "one gauge per bit: `priority` 0 to 7"),
    value("sysfs net/qos/pfc", &pfc::PFC_ENABLED, "one gauge per entry, if DCB netlink reports none"),
    value("sysfs net/qos/trust", &dcb::DCB_TRUST, "mode"),
    value("sysfs net/settings/pfc_stall_prevention", &dcb::STALL_PREVENTION, "mode"),
    value("linkstate/ext_state", &netdev::NETDEV_DOWN_REASON, "reason"),
    value("linkstate/ext_substate", &netdev::NETDEV_DOWN_REASON, "detail"),
    value("pci/current_link_speed of each bridge above", &pcie::PCIE_BRIDGE_SPEED, "the worst link"),
    value("pci/current_link_width of each bridge above", &pcie::PCIE_BRIDGE_WIDTH, "the worst link"),
    value("pci/config, Express, device control", &pcie::PCIE_MAX_READ_REQUEST, "bits 12 to 14"),
    value("pci/config, Express, device control", &pcie::PCIE_MAX_PAYLOAD, "bits 5 to 7"),
    value("pci/config, Express, device control", &pcie::PCIE_RELAXED_ORDERING, "bit 4"),
    value("pci/config, ATS, control", &pcie::PCIE_ATS, "bit 15"),
    value("pci/config of each bridge above, ACS, control", &pcie::PCIE_ACS, "one gauge per bit"),
    value("pci/iommu_group/type", &pcie::PCIE_IOMMU, "type"),
    value("module/nvidia_peermem, kernel/mm/memory_peers", &gpu::GPUDIRECT_AVAILABLE, "method `peer_memory`"),
    value("ibv_reg_dmabuf_mr without a descriptor", &gpu::GPUDIRECT_AVAILABLE, "method `dma_buf`"),
    value("nvmlDeviceGetName, nvmlDeviceGetUUID", &nvlink::GPU_PRODUCT_INFO, "product"),
    value("NVML_ERROR_GPU_IS_LOST", &nvlink::GPU_LOST, "1, also for a GPU that needs a reset"),
    value("nvml field 142, 143", &nvlink::GPU_REMAPPED_ROWS, "reason"),
    value("nvml field 144, 145", &nvlink::GPU_REMAPPING, "state"),
    value("nvml field 165", &nvlink::NVLINK_UP, "1 when active or asleep"),
    value("nvml field 165", &nvlink::NVLINK_DOWN, "compared with earlier samples"),
    value("nvml field 164", &nvlink::NVLINK_RATE, "MB/s"),
    value("nvml field 202, 204", &nvlink::NVLINK_IO, "bytes; or 138, 139 in KiB"),
    value("nvml field 161 to 163, 206 to 221", &nvlink::NVLINK_ERRORS, "reason"),
    value("nvml field 220, 222, 293", &nvlink::NVLINK_BIT_ERRORS, "mantissa and decimal exponent"),
    value("nvmlDeviceGetGpuFabricInfoV", &nvlink::NVLINK_DOMAIN_INFO, "cluster"),
    value("nvmlDeviceGetGpuFabricInfoV", &nvlink::NVLINK_DOMAIN_STATE, "state"),
    value("nvmlDeviceGetGpuFabricInfoV", &nvlink::NVLINK_DOMAIN_STATUS, "status"),
    value("nvmlDeviceGetGpuFabricInfoV", &nvlink::NVLINK_DOMAIN_HEALTH, "healthSummary"),
    value("nvmlDeviceGetGpuFabricInfoV", &nvlink::NVLINK_DOMAIN_PROBLEM, "fields of healthMask"),
    value("pci/class, vendor, device", &gpu::GPU_INFO, "model"),
    value("pci/xgmi_hive_info/xgmi_hive_id, xgmi_device_id", &gpu::GPU_XGMI_INFO, "hive"),
    value("paths of the adapter and the GPU below /sys/devices", &gpu::GPU_NIC_DISTANCE, "the last common ancestor"),
    value("distances of all adapters", &gpu::GPU_NIC_NEAREST, "the least"),
    value("pci/current_link_speed of the GPU", &gpu::GPU_PCIE_SPEED, "not read in runtime suspend"),
    value("pci/current_link_width of the GPU", &gpu::GPU_PCIE_WIDTH, "not read in runtime suspend"),
    value("pci/max_link_speed of the GPU", &gpu::GPU_PCIE_SPEED_MAX, "not read in runtime suspend"),
    value("pci/max_link_width of the GPU", &gpu::GPU_PCIE_WIDTH_MAX, "not read in runtime suspend"),
    value("pci/current_link_* of the GPU and the bridges above", &gpu::GPU_PCIE_RATE, "the narrowest link"),
    value("pci/max_link_* of the GPU and the bridges above", &gpu::GPU_PCIE_RATE_MAX, "the narrowest link"),
];
