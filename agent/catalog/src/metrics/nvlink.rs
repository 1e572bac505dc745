//! GPUs and NVLinks as NVIDIA's driver reports them (NVML).

use super::units::*;

metrics! {
    GPU_PRODUCT_INFO, Info, Host, "fabric.gpu.product.info", None, ["driver_version", "gpu", "product", "uuid"],
        "The GPU as its driver reports it: product name, UUID, version of the driver. Unknown facts are left out.";
    GPU_LOST, Gauge, Host, "fabric.gpu.lost", None, ["gpu"],
        "1 if the driver has lost the GPU: it fell off the bus, or needs a reset.";
    GPU_REMAPPED_ROWS, Gauge, Host, "fabric.gpu.remapped.rows", Count("{row}"), ["gpu", "reason"],
        "Rows of GPU memory that were remapped because of `correctable` or `uncorrectable` errors.";
    GPU_REMAPPING, Gauge, Host, "fabric.gpu.remapping", None, ["gpu", "state"],
        "1 if a remapping of GPU memory is `pending` (it waits for a reset of the GPU) or has `failed`.";
    NVLINK_UP, Gauge, Host, "fabric.nvlink.up", None, ["gpu", "link"],
        "1 if the NVLink is active or asleep, 0 if it is not. A healthy GPU may have links that are wired to nothing.";
    NVLINK_DOWN, Gauge, Host, "fabric.nvlink.down", None, ["gpu", "link"],
        "1 if the NVLink was active since the agent started, and was not in the last three samples; absent in the first ten minutes after boot, when links train.";
    NVLINK_RATE, Gauge, Host, "fabric.nvlink.rate", BytesPerSecond, ["gpu", "link"],
        "Speed of the NVLink, one direction.";
    NVLINK_IO, Counter, Host, "fabric.nvlink.io", Bytes, ["direction", "gpu", "link"],
        "Bytes sent and received by NVLink; up to NVLink 4 data without protocol overhead.";
    NVLINK_ERRORS, Counter, Host, "fabric.nvlink.errors", ERRORS, ["gpu", "link", "reason"],
        "Errors of the NVLink: `replay`, `recovery`, `crc` up to NVLink 4; from NVLink 5 on `receive`, `malformed_packet`, `buffer_overrun`, `link_integrity`, `transmit_discard`, `link_recovery`, `recovery_failed`, `effective`, `symbol`. They overlap.";
    NVLINK_BIT_ERRORS, Gauge, Host, "fabric.nvlink.bit_errors", Ratio, ["gpu", "link", "reason"],
        "Bit error ratio of the NVLink, before (`raw`) and after error correction (`effective`, `symbol`); NVLink 5 and later.";
    NVLINK_DOMAIN_INFO, Info, Host, "fabric.nvlink.domain.info", None, ["clique", "cluster", "gpu"],
        "NVLink domain that the GPU is registered with, and its clique: GPUs of one clique reach each other by NVLink.";
    NVLINK_DOMAIN_STATE, Gauge, Host, "fabric.nvlink.domain.state", None, ["gpu"],
        "Registration with the NVLink domain: 1 not started, 2 in progress, 3 completed.";
    NVLINK_DOMAIN_STATUS, Gauge, Host, "fabric.nvlink.domain.status", None, ["gpu"],
        "NVML's error code of a completed registration; 0 is none.";
    NVLINK_DOMAIN_HEALTH, Gauge, Host, "fabric.nvlink.domain.health", None, ["gpu"],
        "Health of the NVLink domain as the GPU sees it: 1 healthy, 2 unhealthy, 3 limited capacity.";
    NVLINK_DOMAIN_PROBLEM, Gauge, Host, "fabric.nvlink.domain.problem", None, ["gpu", "problem"],
        "1 for each problem of the NVLink domain that the GPU sees, for instance `degraded_bandwidth`, `route_unhealthy`, `no_partition`, `too_few_nvlinks`.";
}
