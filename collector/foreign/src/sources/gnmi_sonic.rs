//! gNMI of SONiC: tables of its databases as `TABLE/FIELD`, with the row as `object_name` (`Ethernet16`, `Ethernet16:3`).
//! Statistics of the ASIC have the names of SAI.

use super::sai;
use crate::conversion::Conversion;
use crate::pattern::fit;
use crate::row::{AS_IS, Label, LabelValue, PortFrom, RX, Row, TX, fixed, is, left_out};
use crate::source::{Describes, Source};
use fabriclens_catalog::metrics::{state, switch};

/// `COUNTERS/…`, `PERIODIC_WATERMARKS/…`, `PORT_TABLE/…`
pub static SOURCE: Source = Source {
    name: "sonic_gnmi",
    title: "SONiC (gNMI)",
    prefixes: &[],
    having: &[],
    describes: Describes::Switches,
    switch: &[],
    suffixes: &[],
    rename,
    rows: &[OWN, sai::PORT, sai::QUEUE, sai::PRIORITY_GROUP, sai::BUFFER_POOL, sai::SWITCH],
};

const OBJECT: PortFrom = PortFrom::Head("object_name");
const QUEUE: Label = Label { name: "queue", value: LabelValue::Tail("object_name") };
const UP: Conversion = Conversion::Words(&[("up", 1.0), ("down", 0.0)]);
const WATCHDOG: &str = "configuration and inner state of the watchdog; its decisions are stored";

static OWN: &[Row] = &[
    is(
        "COUNTERS/PFC_WD_QUEUE_STATS_DEADLOCK_DETECTED",
        OBJECT,
        &switch::WATCHDOG_EVENTS,
        &[fixed("event", "storm"), QUEUE],
        AS_IS,
    ),
    is(
        "COUNTERS/PFC_WD_QUEUE_STATS_DEADLOCK_RESTORED",
        OBJECT,
        &switch::WATCHDOG_EVENTS,
        &[fixed("event", "restore"), QUEUE],
        AS_IS,
    ),
    is("COUNTERS/PFC_WD_QUEUE_STATS_TX_DROPPED_PACKETS", OBJECT, &switch::WATCHDOG_DISCARDS, &[TX, QUEUE], AS_IS),
    is("COUNTERS/PFC_WD_QUEUE_STATS_RX_DROPPED_PACKETS", OBJECT, &switch::WATCHDOG_DISCARDS, &[RX, QUEUE], AS_IS),
    left_out("COUNTERS/PFC_WD_*", WATCHDOG),
    left_out("COUNTERS/SAI_QUEUE_ATTR_PAUSE_STATUS*", WATCHDOG),
    left_out("COUNTERS/SAI_QUEUE_STAT_PACKETS_last", WATCHDOG),
    // Periodic watermarks have only the shared part.
    is("PERIODIC_WATERMARKS/SAI_QUEUE_STAT_SHARED_WATERMARK_BYTES", OBJECT, &switch::QUEUE_WATERMARK, &[QUEUE], AS_IS),
    is("PORT_TABLE/oper_status", OBJECT, &state::PORT_UP, &[], UP),
    // Mb/s.
    is("PORT_TABLE/speed", OBJECT, &state::PORT_RATE, &[], Conversion::Scale(125_000.0)),
    is("PORT_TABLE/mtu", OBJECT, &state::PORT_MTU, &[], AS_IS),
    left_out("PORT_TABLE/*", "configuration of the port"),
];

/// The name of SAI.
fn rename(name: &str) -> Option<String> {
    let own = OWN.iter().any(|row| fit(row.name, name).is_some());
    let (_, field) = name.split_once('/')?;
    (!own && field.starts_with("SAI_")).then(|| field.to_owned())
}
