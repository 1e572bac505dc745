//! Statistics of the Switch Abstraction Interface, by name and id. High-frequency telemetry sends the ids, COUNTERS_DB (and
//! so gNMI of SONiC) the names. `object_name` is `Ethernet16`, or `Ethernet16|3` for a queue or priority group.

mod port;

pub use port::PORT;

use crate::conversion::Conversion;
use crate::row::{AS_IS, Ids, Label, LabelValue, PortFrom, RX, Row, TX, fixed, is, left_out};
use fabriclens_catalog::Metric;
use fabriclens_catalog::metrics::{discard, switch, traffic};

const QUEUE_TYPE: u32 = 21;
const POOL_TYPE: u32 = 24;
const PRIORITY_GROUP_TYPE: u32 = 26;
const SWITCH_TYPE: u32 = 33;

const OBJECT: PortFrom = PortFrom::Head("object_name");
const QUEUE_LABEL: Label = Label { name: "queue", value: LabelValue::Tail("object_name") };
const GROUP_LABEL: Label = Label { name: "priority_group", value: LabelValue::Tail("object_name") };
const POOL_LABEL: Label = Label { name: "pool", value: LabelValue::Attribute(&["object_name"]) };

const COLOR: &str = "one color of packets; the count over all colors is stored";
const MARKER: &str = "marks a range of ids and counts nothing";
const CELLS: &str = "in cells, whose size differs by ASIC; the same in bytes is stored";
const BYTES_TOO: &str = "bytes of packets whose number is stored";
const DROP_REASON: &str = "its reason is configured on the switch and not sent";
const LEVEL: &str = "a level of the ASIC's own scale";

const WRED: Label = fixed("reason", "wred");
const BUFFER: Label = fixed("reason", "buffer");

const fn queue(id: u32, name: &'static str, metric: &'static Metric, labels: &'static [Label]) -> Row {
    is(name, OBJECT, metric, labels, AS_IS).id(QUEUE_TYPE, id)
}

const fn no_queue(id: u32, name: &'static str, why: &'static str) -> Row {
    left_out(name, why).id(QUEUE_TYPE, id)
}

/// Egress queues.
pub static QUEUE: &[Row] = &[
    queue(0, "SAI_QUEUE_STAT_PACKETS", &traffic::PORT_QUEUE_PACKETS, &[TX, QUEUE_LABEL]),
    queue(1, "SAI_QUEUE_STAT_BYTES", &traffic::PORT_QUEUE_IO, &[TX, QUEUE_LABEL]),
    queue(2, "SAI_QUEUE_STAT_DROPPED_PACKETS", &discard::PORT_QUEUE_DISCARDS, &[TX, QUEUE_LABEL]),
    queue(3, "SAI_QUEUE_STAT_DROPPED_BYTES", &discard::PORT_QUEUE_DISCARD_IO, &[TX, QUEUE_LABEL]),
    no_queue(4, "SAI_QUEUE_STAT_GREEN_PACKETS", COLOR),
    no_queue(5, "SAI_QUEUE_STAT_GREEN_BYTES", COLOR),
    no_queue(6, "SAI_QUEUE_STAT_GREEN_DROPPED_PACKETS", COLOR),
    no_queue(7, "SAI_QUEUE_STAT_GREEN_DROPPED_BYTES", COLOR),
    no_queue(8, "SAI_QUEUE_STAT_YELLOW_PACKETS", COLOR),
    no_queue(9, "SAI_QUEUE_STAT_YELLOW_BYTES", COLOR),
    no_queue(10, "SAI_QUEUE_STAT_YELLOW_DROPPED_PACKETS", COLOR),
    no_queue(11, "SAI_QUEUE_STAT_YELLOW_DROPPED_BYTES", COLOR),
    no_queue(12, "SAI_QUEUE_STAT_RED_PACKETS", COLOR),
    no_queue(13, "SAI_QUEUE_STAT_RED_BYTES", COLOR),
    no_queue(14, "SAI_QUEUE_STAT_RED_DROPPED_PACKETS", COLOR),
    no_queue(15, "SAI_QUEUE_STAT_RED_DROPPED_BYTES", COLOR),
    no_queue(16, "SAI_QUEUE_STAT_GREEN_WRED_DROPPED_PACKETS", COLOR),
    no_queue(17, "SAI_QUEUE_STAT_GREEN_WRED_DROPPED_BYTES", COLOR),
    no_queue(18, "SAI_QUEUE_STAT_YELLOW_WRED_DROPPED_PACKETS", COLOR),
    no_queue(19, "SAI_QUEUE_STAT_YELLOW_WRED_DROPPED_BYTES", COLOR),
    no_queue(20, "SAI_QUEUE_STAT_RED_WRED_DROPPED_PACKETS", COLOR),
    no_queue(21, "SAI_QUEUE_STAT_RED_WRED_DROPPED_BYTES", COLOR),
    queue(22, "SAI_QUEUE_STAT_WRED_DROPPED_PACKETS", &switch::QUEUE_WRED_DISCARDS, &[QUEUE_LABEL]),
    no_queue(23, "SAI_QUEUE_STAT_WRED_DROPPED_BYTES", BYTES_TOO),
    queue(24, "SAI_QUEUE_STAT_CURR_OCCUPANCY_BYTES", &switch::QUEUE, &[QUEUE_LABEL]),
    queue(25, "SAI_QUEUE_STAT_WATERMARK_BYTES", &switch::QUEUE_WATERMARK, &[QUEUE_LABEL]),
    no_queue(26, "SAI_QUEUE_STAT_SHARED_CURR_OCCUPANCY_BYTES", "the shared part of the occupancy, which is stored"),
    no_queue(27, "SAI_QUEUE_STAT_SHARED_WATERMARK_BYTES", "the shared part of the watermark, which is stored"),
    no_queue(28, "SAI_QUEUE_STAT_GREEN_WRED_ECN_MARKED_PACKETS", COLOR),
    no_queue(29, "SAI_QUEUE_STAT_GREEN_WRED_ECN_MARKED_BYTES", COLOR),
    no_queue(30, "SAI_QUEUE_STAT_YELLOW_WRED_ECN_MARKED_PACKETS", COLOR),
    no_queue(31, "SAI_QUEUE_STAT_YELLOW_WRED_ECN_MARKED_BYTES", COLOR),
    no_queue(32, "SAI_QUEUE_STAT_RED_WRED_ECN_MARKED_PACKETS", COLOR),
    no_queue(33, "SAI_QUEUE_STAT_RED_WRED_ECN_MARKED_BYTES", COLOR),
    queue(34, "SAI_QUEUE_STAT_WRED_ECN_MARKED_PACKETS", &switch::QUEUE_MARKS, &[QUEUE_LABEL]),
    no_queue(35, "SAI_QUEUE_STAT_WRED_ECN_MARKED_BYTES", BYTES_TOO),
    no_queue(36, "SAI_QUEUE_STAT_CURR_OCCUPANCY_LEVEL", LEVEL),
    no_queue(37, "SAI_QUEUE_STAT_WATERMARK_LEVEL", LEVEL),
    queue(38, "SAI_QUEUE_STAT_CREDIT_WD_DELETED_PACKETS", &switch::QUEUE_WATCHDOG_DISCARDS, &[QUEUE_LABEL]),
    is(
        "SAI_QUEUE_STAT_DELAY_WATERMARK_NS",
        OBJECT,
        &switch::QUEUE_DELAY_WATERMARK,
        &[QUEUE_LABEL],
        Conversion::Scale(1e-9),
    )
    .id(QUEUE_TYPE, 39),
    queue(40, "SAI_QUEUE_STAT_TRIM_PACKETS", &switch::QUEUE_TRIMS, &[fixed("outcome", "all"), QUEUE_LABEL]),
    no_queue(41, "SAI_QUEUE_STAT_CURR_OCCUPANCY_CELLS", CELLS),
    no_queue(42, "SAI_QUEUE_STAT_WATERMARK_CELLS", CELLS),
    no_queue(43, "SAI_QUEUE_STAT_SHARED_CURR_OCCUPANCY_CELLS", CELLS),
    no_queue(44, "SAI_QUEUE_STAT_SHARED_WATERMARK_CELLS", CELLS),
    queue(45, "SAI_QUEUE_STAT_DROPPED_TRIM_PACKETS", &switch::QUEUE_TRIMS, &[fixed("outcome", "dropped"), QUEUE_LABEL]),
    queue(46, "SAI_QUEUE_STAT_TX_TRIM_PACKETS", &switch::QUEUE_TRIMS, &[fixed("outcome", "sent"), QUEUE_LABEL]),
    no_queue(0x1000_0000, "SAI_QUEUE_STAT_CUSTOM_RANGE_BASE", MARKER),
];

const fn group(id: u32, name: &'static str, metric: &'static Metric, labels: &'static [Label]) -> Row {
    is(name, OBJECT, metric, labels, AS_IS).id(PRIORITY_GROUP_TYPE, id)
}

const fn no_group(id: u32, name: &'static str, why: &'static str) -> Row {
    left_out(name, why).id(PRIORITY_GROUP_TYPE, id)
}

const ALL: Label = fixed("region", "all");
const SHARED: Label = fixed("region", "shared");

/// Priority groups: ingress buffers of a port. `XOFF_ROOM` is the headroom.
pub static PRIORITY_GROUP: &[Row] = &[
    group(0, "SAI_INGRESS_PRIORITY_GROUP_STAT_PACKETS", &switch::PRIORITY_GROUP_PACKETS, &[RX, GROUP_LABEL]),
    group(1, "SAI_INGRESS_PRIORITY_GROUP_STAT_BYTES", &switch::PRIORITY_GROUP_IO, &[RX, GROUP_LABEL]),
    group(
        2,
        "SAI_INGRESS_PRIORITY_GROUP_STAT_CURR_OCCUPANCY_BYTES",
        &switch::PRIORITY_GROUP_OCCUPANCY,
        &[GROUP_LABEL, ALL],
    ),
    group(3, "SAI_INGRESS_PRIORITY_GROUP_STAT_WATERMARK_BYTES", &switch::PRIORITY_GROUP_WATERMARK, &[GROUP_LABEL, ALL]),
    group(
        4,
        "SAI_INGRESS_PRIORITY_GROUP_STAT_SHARED_CURR_OCCUPANCY_BYTES",
        &switch::PRIORITY_GROUP_OCCUPANCY,
        &[GROUP_LABEL, SHARED],
    ),
    group(
        5,
        "SAI_INGRESS_PRIORITY_GROUP_STAT_SHARED_WATERMARK_BYTES",
        &switch::PRIORITY_GROUP_WATERMARK,
        &[GROUP_LABEL, SHARED],
    ),
    group(6, "SAI_INGRESS_PRIORITY_GROUP_STAT_XOFF_ROOM_CURR_OCCUPANCY_BYTES", &switch::HEADROOM, &[GROUP_LABEL]),
    group(7, "SAI_INGRESS_PRIORITY_GROUP_STAT_XOFF_ROOM_WATERMARK_BYTES", &switch::HEADROOM_WATERMARK, &[GROUP_LABEL]),
    group(8, "SAI_INGRESS_PRIORITY_GROUP_STAT_DROPPED_PACKETS", &switch::PRIORITY_GROUP_DISCARDS, &[GROUP_LABEL]),
    no_group(9, "SAI_INGRESS_PRIORITY_GROUP_STAT_CURR_OCCUPANCY_CELLS", CELLS),
    no_group(10, "SAI_INGRESS_PRIORITY_GROUP_STAT_WATERMARK_CELLS", CELLS),
    no_group(11, "SAI_INGRESS_PRIORITY_GROUP_STAT_SHARED_CURR_OCCUPANCY_CELLS", CELLS),
    no_group(12, "SAI_INGRESS_PRIORITY_GROUP_STAT_SHARED_WATERMARK_CELLS", CELLS),
    no_group(13, "SAI_INGRESS_PRIORITY_GROUP_STAT_XOFF_ROOM_CURR_OCCUPANCY_CELLS", CELLS),
    no_group(14, "SAI_INGRESS_PRIORITY_GROUP_STAT_XOFF_ROOM_WATERMARK_CELLS", CELLS),
    no_group(0x1000_0000, "SAI_INGRESS_PRIORITY_GROUP_STAT_CUSTOM_RANGE_BASE", MARKER),
];

const fn pool(id: u32, name: &'static str, metric: &'static Metric, labels: &'static [Label]) -> Row {
    is(name, PortFrom::Switch, metric, labels, AS_IS).id(POOL_TYPE, id)
}

const fn no_pool(id: u32, name: &'static str, why: &'static str) -> Row {
    left_out(name, why).id(POOL_TYPE, id)
}

/// Buffer pools of the switch; `object_name` is the pool.
pub static BUFFER_POOL: &[Row] = &[
    pool(0, "SAI_BUFFER_POOL_STAT_CURR_OCCUPANCY_BYTES", &switch::BUFFER, &[POOL_LABEL]),
    pool(1, "SAI_BUFFER_POOL_STAT_WATERMARK_BYTES", &switch::BUFFER_WATERMARK, &[POOL_LABEL]),
    pool(2, "SAI_BUFFER_POOL_STAT_DROPPED_PACKETS", &switch::BUFFER_DISCARDS, &[POOL_LABEL, BUFFER]),
    no_pool(3, "SAI_BUFFER_POOL_STAT_GREEN_WRED_DROPPED_PACKETS", COLOR),
    no_pool(4, "SAI_BUFFER_POOL_STAT_GREEN_WRED_DROPPED_BYTES", COLOR),
    no_pool(5, "SAI_BUFFER_POOL_STAT_YELLOW_WRED_DROPPED_PACKETS", COLOR),
    no_pool(6, "SAI_BUFFER_POOL_STAT_YELLOW_WRED_DROPPED_BYTES", COLOR),
    no_pool(7, "SAI_BUFFER_POOL_STAT_RED_WRED_DROPPED_PACKETS", COLOR),
    no_pool(8, "SAI_BUFFER_POOL_STAT_RED_WRED_DROPPED_BYTES", COLOR),
    pool(9, "SAI_BUFFER_POOL_STAT_WRED_DROPPED_PACKETS", &switch::BUFFER_DISCARDS, &[POOL_LABEL, WRED]),
    no_pool(10, "SAI_BUFFER_POOL_STAT_WRED_DROPPED_BYTES", BYTES_TOO),
    no_pool(11, "SAI_BUFFER_POOL_STAT_GREEN_WRED_ECN_MARKED_PACKETS", COLOR),
    no_pool(12, "SAI_BUFFER_POOL_STAT_GREEN_WRED_ECN_MARKED_BYTES", COLOR),
    no_pool(13, "SAI_BUFFER_POOL_STAT_YELLOW_WRED_ECN_MARKED_PACKETS", COLOR),
    no_pool(14, "SAI_BUFFER_POOL_STAT_YELLOW_WRED_ECN_MARKED_BYTES", COLOR),
    no_pool(15, "SAI_BUFFER_POOL_STAT_RED_WRED_ECN_MARKED_PACKETS", COLOR),
    no_pool(16, "SAI_BUFFER_POOL_STAT_RED_WRED_ECN_MARKED_BYTES", COLOR),
    pool(17, "SAI_BUFFER_POOL_STAT_WRED_ECN_MARKED_PACKETS", &switch::BUFFER_MARKS, &[POOL_LABEL]),
    no_pool(18, "SAI_BUFFER_POOL_STAT_WRED_ECN_MARKED_BYTES", BYTES_TOO),
    pool(19, "SAI_BUFFER_POOL_STAT_XOFF_ROOM_CURR_OCCUPANCY_BYTES", &switch::BUFFER_HEADROOM, &[POOL_LABEL]),
    pool(20, "SAI_BUFFER_POOL_STAT_XOFF_ROOM_WATERMARK_BYTES", &switch::BUFFER_HEADROOM_WATERMARK, &[POOL_LABEL]),
    no_pool(21, "SAI_BUFFER_POOL_STAT_XOFF_ROOM_CURR_OCCUPANCY_CELLS", CELLS),
    no_pool(22, "SAI_BUFFER_POOL_STAT_XOFF_ROOM_WATERMARK_CELLS", CELLS),
    no_pool(23, "SAI_BUFFER_POOL_STAT_CURR_OCCUPANCY_CELLS", CELLS),
    no_pool(24, "SAI_BUFFER_POOL_STAT_WATERMARK_CELLS", CELLS),
    no_pool(0x1000_0000, "SAI_BUFFER_POOL_STAT_CUSTOM_RANGE_BASE", MARKER),
];

const fn whole(id: u32, name: &'static str, metric: &'static Metric, labels: &'static [Label]) -> Row {
    is(name, PortFrom::Switch, metric, labels, AS_IS).id(SWITCH_TYPE, id)
}

const fn no_whole(id: u32, name: &'static str, why: &'static str) -> Row {
    left_out(name, why).id(SWITCH_TYPE, id)
}

/// The switch as a whole.
pub static SWITCH: &[Row] = &[
    whole(0, "SAI_SWITCH_STAT_DROPPED_TRIM_PACKETS", &switch::SWITCH_TRIMS, &[fixed("outcome", "dropped")]),
    whole(1, "SAI_SWITCH_STAT_TX_TRIM_PACKETS", &switch::SWITCH_TRIMS, &[fixed("outcome", "sent")]),
    left_out("SAI_SWITCH_STAT_IN_CONFIGURED_DROP_REASONS_{}_DROPPED_PKTS", DROP_REASON).ids(Ids {
        object: SWITCH_TYPE,
        first: 4096,
        step: 1,
        count: 4095,
    }),
    left_out("SAI_SWITCH_STAT_OUT_CONFIGURED_DROP_REASONS_{}_DROPPED_PKTS", DROP_REASON).ids(Ids {
        object: SWITCH_TYPE,
        first: 8192,
        step: 1,
        count: 4095,
    }),
    whole(12288, "SAI_SWITCH_STAT_ECC_DROP", &switch::SWITCH_DISCARDS, &[RX, fixed("reason", "ecc")]),
    whole(12289, "SAI_SWITCH_STAT_REACHABILITY_DROP", &switch::SWITCH_DISCARDS, &[RX, fixed("reason", "reachability")]),
    no_whole(12290, "SAI_SWITCH_STAT_HIGHEST_QUEUE_CONGESTION_LEVEL", LEVEL),
    whole(12291, "SAI_SWITCH_STAT_GLOBAL_DROP", &switch::SWITCH_DISCARDS, &[RX, fixed("reason", "global")]),
    whole(
        12292,
        "SAI_SWITCH_STAT_PACKET_INTEGRITY_DROP",
        &switch::SWITCH_DISCARDS,
        &[RX, fixed("reason", "integrity")],
    ),
    left_out("SAI_SWITCH_STAT_START", MARKER),
    left_out("SAI_SWITCH_STAT_IN_DROP_REASON_RANGE_BASE", MARKER),
    no_whole(8191, "SAI_SWITCH_STAT_IN_DROP_REASON_RANGE_END", MARKER),
    left_out("SAI_SWITCH_STAT_OUT_DROP_REASON_RANGE_BASE", MARKER),
    no_whole(12287, "SAI_SWITCH_STAT_OUT_DROP_REASON_RANGE_END", MARKER),
    left_out("SAI_SWITCH_STAT_FABRIC_DROP_REASON_RANGE_BASE", MARKER),
    no_whole(16383, "SAI_SWITCH_STAT_FABRIC_DROP_REASON_RANGE_END", MARKER),
    no_whole(16384, "SAI_SWITCH_STAT_END", MARKER),
    no_whole(0x1000_0000, "SAI_SWITCH_STAT_CUSTOM_RANGE_BASE", MARKER),
];
