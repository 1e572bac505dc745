//! Vendor counters, one file per driver family, and the one table of families.
//! A new driver is a file of rows and a line in [`FAMILIES`]; a new counter is a row.

use crate::Feed;
use crate::Source::{HwCounters, SysfsCounters};
use crate::family::Family;

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

// Every 100 ms on InfiniBand: the files of sent, received and waiting, one firmware command of tens to hundreds of
// microseconds each, so 30 a second and port and about 3 ms a second of the function's command queue. Accepted, because
// nothing else tells a stall shorter than a second. All 21 files would be seven times that; they are read each second.
static MLX5: Family = Family::new("mlx5", &["mlx5_core", "mlx5_ib"], &["mlx5_"], &[mlx5::ETHTOOL, mlx5::RDMA])
    .fast(&[HwCounters, SysfsCounters])
    .tick(8.0)
    .frozen_dcb();
static MLX4: Family = Family::new("mlx4", &["mlx4_core", "mlx4_en", "mlx4_ib"], &["mlx4_"], &[mlx4::FEEDS]);
static BNXT: Family = Family::new("bnxt", &["bnxt_re", "bnxt_en"], &["bnxt_re"], &[bnxt::ETHTOOL, bnxt::RDMA]);
static INTEL: Family = Family::new(
    "irdma",
    &["irdma", "ice", "i40e", "i40iw", "iavf", "idpf"],
    &["irdma", "i40iw"],
    &[irdma::FEEDS, i40e::FEEDS, ice::FEEDS],
)
.fast(&[HwCounters]);
static IONIC: Family = Family::new("ionic", &["ionic", "ionic_rdma"], &["ionic_"], &[ionic::FEEDS]);
static EFA: Family = Family::new("efa", &["efa", "ena"], &["efa_"], &[efa::FEEDS]);
static HFI1: Family = Family::new("hfi1", &["hfi1"], &["hfi1_"], &[hfi1::FEEDS, hfi1::FIRMWARE_ERRORS_TAIL]).tick(8.0);
static QIB: Family = Family::new("qib", &["ib_qib", "qib"], &["qib"], &[qib::FEEDS]).fast(&[SysfsCounters]);
static CXGB4: Family = Family::new("cxgb4", &["iw_cxgb4", "cxgb4"], &["cxgb4_"], &[cxgb4::FEEDS]);
static QEDR: Family = Family::new("qedr", &["qedr", "qede"], &["qedr"], &[qedr::FEEDS]);
static HNS: Family =
    Family::new("hns", &["hns_roce_hw_v2", "hns-roce-hw-v2", "hns_roce", "hns3"], &["hns_"], &[hns::FEEDS]);
static MANA: Family = Family::new("mana", &["mana", "mana_ib"], &["mana_"], &[mana::FEEDS]);
static ERDMA: Family = Family::new("erdma", &["erdma"], &["erdma_"], &[erdma::FEEDS]);
static RXE: Family = Family::new("rxe", &["rdma_rxe", "rxe"], &["rxe"], &[rxe::FEEDS]).fast(&[HwCounters]);
// Neither siw nor qedr has RDMA counters; knowing them keeps `doctor` from calling them unknown.
static SIW: Family = Family::new("siw", &["siw"], &["siw"], &[]);

/// Every driver family.
pub static FAMILIES: &[&Family] =
    &[&MLX5, &MLX4, &BNXT, &INTEL, &IONIC, &EFA, &HFI1, &QIB, &CXGB4, &QEDR, &HNS, &MANA, &ERDMA, &RXE, &SIW];

/// What every driver shares, by title.
pub static GENERIC: &[(&str, &[Feed])] = &[
    ("performance management files", ib_pma::FEEDS),
    ("performance management MADs", pma_mad::FEEDS),
    ("ethtool netlink", ethtool_std::FEEDS),
    ("DCB netlink", dcbnl::FEEDS),
    ("netdev files", net::FEEDS),
    ("proc net", proc_net::FEEDS),
    ("PCI", pcie::FEEDS),
    ("module EEPROM", module::FEEDS),
    ("ib_core", ib_core::FEEDS),
];
