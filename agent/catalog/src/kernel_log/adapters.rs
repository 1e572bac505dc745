//! Messages about adapters of any vendor. They stand after those of the vendors, which are finer.

use super::LogSeverity::{Error, Note};
use super::LogSubject::{Adapter, Link};
use super::Printer::{AnyDriver, Driver, Kernel};
use super::{LogClass, Printer, row};

/// Drivers of adapters whose loss of a link matters to the fabric.
const FABRIC: Printer = Driver(&["mlx5_core", "mlx4_en", "bnxt_en", "ionic", "ice", "mana", "cxgb4", "qede", "hns3"]);

pub(super) const CLASSES: &[LogClass] = &[
    row(
        "transmit_timeout",
        (Error, Adapter),
        AnyDriver,
        &[
            "TX timeout detected",
            "TX timeout on queue",
            "tx_timeout: VSI_num",
            "NETDEV WATCHDOG: * transmit queue <n> timed out",
        ],
        "send queue of an interface that is stuck",
    ),
    row(
        "transmit_timeout",
        (Error, Adapter),
        Kernel,
        &["NETDEV WATCHDOG: <netdev> (*): transmit queue <n> timed out", "<netdev>: transmit timeout: latency"],
        "send queue of an interface that is stuck",
    ),
    row(
        "link_lost",
        (Note, Link),
        FABRIC,
        &[
            "Link down",
            "Link Down",
            "NIC Link is Down",
            "* NIC Link is Down",
            "Port: <n> Link DOWN",
            "* Port: <n> Link DOWN",
        ],
        "link that went down",
    )
    .after_boot(),
];
