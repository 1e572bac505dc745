//! Vendor counters, one file per driver family, and the table of all families. A new driver is a file of rows and a row
//! in [`FAMILIES`]; a new counter is one row.

use std::sync::OnceLock;

use crate::family::DriverFamily;
use crate::name_index::NameIndex;
use crate::source::CounterSource::{HwCounters, SysfsCounters};
use crate::vendor_counter::VendorCounter;

mod bnxt;
mod build;
mod cxgb4;
mod dcbnl;
mod efa;
mod erdma;
mod ethtool_std;
pub mod facts;
mod hfi1;
mod hns;
mod i40e;
mod ib_core;
mod ib_pma;
mod ice;
mod ionic;
mod irdma;
mod mana;
mod mlx4;
mod mlx5;
mod module;
mod net;
mod pcie;
mod pma_mad;
mod proc_net;
mod qedr;
mod qib;
mod rxe;

// On InfiniBand the congestion sample reads three performance management files every 100 ms: bytes sent, bytes received,
// and xmit_wait. Each read is a firmware command of tens to hundreds of microseconds: 30 commands a second per port, about
// 3 ms a second of the function's command queue. This cost is accepted because no other source shows stalls shorter than a
// second. Reading all 21 files would cost seven times as much; the others are read once a second.
static MLX5: DriverFamily =
    DriverFamily::new("mlx5", &["mlx5_core", "mlx5_ib"], &["mlx5_"], &[mlx5::ETHTOOL, mlx5::RDMA])
        .fast(&[HwCounters, SysfsCounters])
        .tick(8.0)
        .frozen_dcb();
static MLX4: DriverFamily =
    DriverFamily::new("mlx4", &["mlx4_core", "mlx4_en", "mlx4_ib"], &["mlx4_"], &[mlx4::COUNTERS]);
static BNXT: DriverFamily =
    DriverFamily::new("bnxt", &["bnxt_re", "bnxt_en"], &["bnxt_re"], &[bnxt::ETHTOOL, bnxt::RDMA]);
static INTEL: DriverFamily = DriverFamily::new(
    "irdma",
    &["irdma", "ice", "i40e", "i40iw", "iavf", "idpf"],
    &["irdma", "i40iw"],
    &[irdma::COUNTERS, i40e::COUNTERS, ice::COUNTERS],
)
.fast(&[HwCounters]);
static IONIC: DriverFamily = DriverFamily::new("ionic", &["ionic", "ionic_rdma"], &["ionic_"], &[ionic::COUNTERS]);
static EFA: DriverFamily = DriverFamily::new("efa", &["efa", "ena"], &["efa_"], &[efa::COUNTERS]);
static HFI1: DriverFamily =
    DriverFamily::new("hfi1", &["hfi1"], &["hfi1_"], &[hfi1::COUNTERS, hfi1::FIRMWARE_ERRORS_TAIL]).tick(8.0);
static QIB: DriverFamily =
    DriverFamily::new("qib", &["ib_qib", "qib"], &["qib"], &[qib::COUNTERS]).fast(&[SysfsCounters]);
static CXGB4: DriverFamily = DriverFamily::new("cxgb4", &["iw_cxgb4", "cxgb4"], &["cxgb4_"], &[cxgb4::COUNTERS]);
static QEDR: DriverFamily = DriverFamily::new("qedr", &["qedr", "qede"], &["qedr"], &[qedr::COUNTERS]);
static HNS: DriverFamily =
    DriverFamily::new("hns", &["hns_roce_hw_v2", "hns-roce-hw-v2", "hns_roce", "hns3"], &["hns_"], &[hns::COUNTERS]);
static MANA: DriverFamily = DriverFamily::new("mana", &["mana", "mana_ib"], &["mana_"], &[mana::COUNTERS]);
static ERDMA: DriverFamily = DriverFamily::new("erdma", &["erdma"], &["erdma_"], &[erdma::COUNTERS]);
static RXE: DriverFamily =
    DriverFamily::new("rxe", &["rdma_rxe", "rxe"], &["rxe"], &[rxe::COUNTERS]).fast(&[HwCounters]);
// siw and qedr have no RDMA counters. They are listed so that `doctor` does not report an unknown driver.
static SIW: DriverFamily = DriverFamily::new("siw", &["siw"], &["siw"], &[]);

/// Every driver family.
pub static FAMILIES: &[&DriverFamily] =
    &[&MLX5, &MLX4, &BNXT, &INTEL, &IONIC, &EFA, &HFI1, &QIB, &CXGB4, &QEDR, &HNS, &MANA, &ERDMA, &RXE, &SIW];

/// Counters that do not depend on the driver, each table with its title.
pub static GENERIC: &[(&str, &[VendorCounter])] = &[
    ("performance management files", ib_pma::COUNTERS),
    ("performance management MADs", pma_mad::COUNTERS),
    ("ethtool netlink", ethtool_std::COUNTERS),
    ("DCB netlink", dcbnl::COUNTERS),
    ("netdev files", net::COUNTERS),
    ("proc net", proc_net::COUNTERS),
    ("PCI", pcie::COUNTERS),
    ("module EEPROM", module::COUNTERS),
    ("ib_core", ib_core::COUNTERS),
];

impl DriverFamily {
    /// The family of a kernel driver (`mlx5_core`, `bnxt_en`, `irdma`, `rdma_rxe` …).
    pub fn for_driver(driver: &str) -> Option<&'static Self> {
        FAMILIES.iter().copied().find(|f| f.drivers.contains(&driver))
    }

    /// The family of an RDMA device by its default name (`mlx5_0`, `rxe0`). udev's persistent names (`rocep1s0`,
    /// `ibp5s0`) do not identify a driver: try [`DriverFamily::for_driver`] first.
    pub fn for_device(device: &str) -> Option<&'static Self> {
        FAMILIES.iter().copied().find(|f| f.prefixes.iter().any(|p| device.starts_with(p)))
    }
}

/// Index of the counters in [`GENERIC`].
pub(crate) fn generic_index() -> &'static NameIndex {
    static INDEX: OnceLock<NameIndex> = OnceLock::new();
    INDEX.get_or_init(|| NameIndex::new(GENERIC.iter().flat_map(|(_, table)| table.iter())))
}
