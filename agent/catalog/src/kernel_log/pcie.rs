//! Messages about PCIe: error reporting, links, slots.

use super::LogSeverity::{Error, Fatal, Note};
use super::LogSubject::Pcie;
use super::Printer::{AnyDriver, Driver, Kernel};
use super::{LogClass, row};

pub(super) const CLASSES: &[LogClass] = &[
    row(
        "pcie_fatal",
        (Fatal, Pcie),
        AnyDriver,
        &[
            "PCIe Bus Error: severity=Uncorrected (Fatal)",
            "PCIe Bus Error: severity=Uncorrectable (Fatal)",
            "PCIe Bus Error: severity=Fatal",
            "AER: PCIe Bus Error: severity=Uncorrected (Fatal)",
            "AER: PCIe Bus Error: severity=Uncorrectable (Fatal)",
            "AER: PCIe Bus Error: severity=Fatal",
        ],
        "fatal PCIe error (AER)",
    ),
    row(
        "pcie_uncorrected",
        (Error, Pcie),
        AnyDriver,
        &["PCIe Bus Error: severity=Uncorrect", "AER: PCIe Bus Error: severity=Uncorrect"],
        "PCIe error (AER) that was not corrected",
    ),
    row(
        "pcie_not_recovered",
        (Error, Pcie),
        AnyDriver,
        &[
            "AER: device recovery failed",
            "device recovery failed",
            "AER: can't recover",
            "can't recover (no error_detected",
        ],
        "PCIe error (AER) that a driver could not recover from",
    ),
    row(
        "pcie_corrected",
        (Note, Pcie),
        AnyDriver,
        &["PCIe Bus Error: severity=Correct", "AER: PCIe Bus Error: severity=Correct"],
        "PCIe error (AER) that was corrected",
    ),
    row(
        "pcie_device_lost",
        (Fatal, Pcie),
        AnyDriver,
        &["Unable to change power state from * device inaccessible", "not ready * giving up"],
        "PCI device that cannot be reached any more",
    ),
    row(
        "pcie_link_lost",
        (Error, Pcie),
        Driver(&["pcieport"]),
        &["pciehp: Slot(*): Link Down", "DPC: containment event"],
        "PCIe link that went down below this port",
    ),
    row(
        "pcie_bandwidth",
        (Note, Pcie),
        AnyDriver,
        &["* available PCIe bandwidth, limited by * link at"],
        "device whose PCIe path is slower than the device",
    ),
    row(
        "iommu_fault",
        (Error, Pcie),
        AnyDriver,
        &["AMD-Vi: Event logged [IO_PAGE_FAULT"],
        "memory access that the IOMMU refused",
    ),
    row(
        "iommu_fault",
        (Error, Pcie),
        Kernel,
        &[
            "DMAR: [*] Request device [<pci>]",
            "DMAR: [*] Request device <pci>",
            "AMD-Vi: Event logged [IO_PAGE_FAULT device=<pci>",
        ],
        "memory access that the IOMMU refused",
    ),
];
