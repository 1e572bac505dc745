//! NVIDIA's DCGM exporter, by remote write: NVLink, PCIe and remapped rows of GPUs. DCGM 4.6 renamed many fields; both names
//! are rows. It describes hosts, so its series also stay under their own names.

use crate::row::{AS_IS, Label, PortFrom, Row, fixed, from, is, left_out};
use crate::source::{Describes, Source, SwitchFrom, keep};
use fabriclens_catalog::Metric;
use fabriclens_catalog::metrics::{gpu, nvlink};

/// DCGM exporter: `Hostname` and `gpu`.
pub static SOURCE: Source = Source {
    name: "dcgm",
    title: "NVIDIA DCGM exporter (remote write)",
    prefixes: &["DCGM_FI_DEV_"],
    having: &["gpu"],
    describes: Describes::Hosts,
    switch: &[SwitchFrom::Attribute("Hostname"), SwitchFrom::Instance],
    // The exporter sends names as DCGM has them; some end in `_TOTAL`.
    suffixes: &[],
    rename: keep,
    rows: &[ROWS],
};

const GPU: Label = from("gpu", &["gpu"]);
/// All links of a GPU together.
const LINKS: Label = fixed("link", "all");

const fn of_gpu(name: &'static str, metric: &'static Metric, labels: &'static [Label]) -> Row {
    is(name, PortFrom::Switch, metric, labels, AS_IS)
}

const RATE: &str = "a rate of DCGM's own making, without the bytes that it is made of";
const LAST_XID: &str = "the number of the last Xid error, not a count of them";
const GENERATION: &str = "the generation of PCIe, which an idle GPU lowers";

static ROWS: &[Row] = &[
    of_gpu(
        "DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL",
        &nvlink::NVLINK_ERRORS,
        &[GPU, LINKS, fixed("reason", "crc_flit")],
    ),
    of_gpu(
        "DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_TOTAL",
        &nvlink::NVLINK_ERRORS,
        &[GPU, LINKS, fixed("reason", "crc_flit")],
    ),
    of_gpu(
        "DCGM_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL",
        &nvlink::NVLINK_ERRORS,
        &[GPU, LINKS, fixed("reason", "crc_data")],
    ),
    of_gpu(
        "DCGM_FI_DEV_NVLINK_CRC_DATA_ERROR_TOTAL",
        &nvlink::NVLINK_ERRORS,
        &[GPU, LINKS, fixed("reason", "crc_data")],
    ),
    of_gpu("DCGM_FI_DEV_NVLINK_CRC_ERROR_TOTAL", &nvlink::NVLINK_ERRORS, &[GPU, LINKS, fixed("reason", "crc")]),
    of_gpu(
        "DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL",
        &nvlink::NVLINK_ERRORS,
        &[GPU, LINKS, fixed("reason", "replay")],
    ),
    of_gpu("DCGM_FI_DEV_NVLINK_REPLAY_ERROR_TOTAL", &nvlink::NVLINK_ERRORS, &[GPU, LINKS, fixed("reason", "replay")]),
    of_gpu(
        "DCGM_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL",
        &nvlink::NVLINK_ERRORS,
        &[GPU, LINKS, fixed("reason", "recovery")],
    ),
    of_gpu(
        "DCGM_FI_DEV_NVLINK_RECOVERY_ERROR_TOTAL",
        &nvlink::NVLINK_ERRORS,
        &[GPU, LINKS, fixed("reason", "recovery")],
    ),
    left_out("DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL", RATE),
    left_out("DCGM_FI_DEV_NVLINK_THROUGHPUT_TOTAL", RATE),
    of_gpu("DCGM_FI_DEV_PCIE_LINK_WIDTH", &gpu::GPU_PCIE_WIDTH, &[GPU]),
    of_gpu("DCGM_FI_DEV_PCIE_MAX_LINK_WIDTH", &gpu::GPU_PCIE_WIDTH_MAX, &[GPU]),
    left_out("DCGM_FI_DEV_PCIE_LINK_GEN", GENERATION),
    left_out("DCGM_FI_DEV_PCIE_MAX_LINK_GEN", GENERATION),
    left_out("DCGM_FI_DEV_PCIE_TX_THROUGHPUT", RATE),
    left_out("DCGM_FI_DEV_PCIE_RX_THROUGHPUT", RATE),
    of_gpu("DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS", &nvlink::GPU_REMAPPED_ROWS, &[GPU, fixed("reason", "correctable")]),
    of_gpu(
        "DCGM_FI_DEV_ROW_REMAP_CORRECTABLE_TOTAL",
        &nvlink::GPU_REMAPPED_ROWS,
        &[GPU, fixed("reason", "correctable")],
    ),
    of_gpu(
        "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS",
        &nvlink::GPU_REMAPPED_ROWS,
        &[GPU, fixed("reason", "uncorrectable")],
    ),
    of_gpu(
        "DCGM_FI_DEV_ROW_REMAP_UNCORRECTABLE_TOTAL",
        &nvlink::GPU_REMAPPED_ROWS,
        &[GPU, fixed("reason", "uncorrectable")],
    ),
    of_gpu("DCGM_FI_DEV_ROW_REMAP_FAILURE", &nvlink::GPU_REMAPPING, &[GPU, fixed("state", "failed")]),
    of_gpu("DCGM_FI_DEV_ROW_REMAP_FAILED", &nvlink::GPU_REMAPPING, &[GPU, fixed("state", "failed")]),
    of_gpu("DCGM_FI_DEV_ROW_REMAP_PENDING", &nvlink::GPU_REMAPPING, &[GPU, fixed("state", "pending")]),
    of_gpu("DCGM_FI_DEV_FABRIC_HEALTH_SUMMARY", &nvlink::NVLINK_DOMAIN_HEALTH, &[GPU]),
    left_out("DCGM_FI_DEV_XID_ERRORS", LAST_XID),
    left_out("DCGM_FI_DEV_XID_ERROR", LAST_XID),
];
