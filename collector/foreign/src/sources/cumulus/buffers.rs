//! Shared buffers, headroom and pools.

use super::{CLASS, GROUP, port};
use crate::row::{AS_IS, Label, PortFrom, RX, Row, TX, fixed, from, is, left_out};
use fabriclens_catalog::Metric;
use fabriclens_catalog::metrics::switch::{
    BUFFER, BUFFER_HEADROOM, BUFFER_HEADROOM_WATERMARK, BUFFER_WATERMARK, HEADROOM, HEADROOM_WATERMARK, PORT_BUFFER,
    PORT_BUFFER_WATERMARK, PRIORITY_GROUP_OCCUPANCY, PRIORITY_GROUP_WATERMARK, QUEUE, QUEUE_WATERMARK,
};

const DESCRIPTORS: &str = "descriptors, a resource of the ASIC; bytes are stored";
const EVER: &str = "the highest ever recorded, which tells nothing of now; the watermark is stored";
const SINCE: &str = "age of a watermark";
const CELL: &str = "a constant of the ASIC";

const SHARED: Label = fixed("region", "shared");
const POOL: Label = from("pool", &["pool", "pool_id", "name"]);
const MULTICAST: Label = fixed("pool", "multicast");
const HEADROOM_POOL: Label = fixed("pool", "headroom");

const fn pool(name: &'static str, metric: &'static Metric, labels: &'static [Label]) -> Row {
    is(name, PortFrom::Switch, metric, labels, AS_IS)
}

pub(super) static ROWS: &[Row] = &[
    port("nvswitch_interface_shared_buffer_port_pg_curr_occupancy", &PRIORITY_GROUP_OCCUPANCY, &[GROUP, SHARED]),
    port("nvswitch_interface_shared_buffer_port_pg_watermark", &PRIORITY_GROUP_WATERMARK, &[GROUP, SHARED]),
    left_out("nvswitch_interface_shared_buffer_port_pg_desc_*", DESCRIPTORS),
    left_out("nvswitch_interface_shared_buffer_port_pg_watermark_recorded_max*", EVER),
    left_out("nvswitch_interface_shared_buffer_port_pg_time_since_clear", SINCE),
    port("nvswitch_interface_shared_buffer_port_ingress_pool_curr_occupancy", &PORT_BUFFER, &[RX, POOL]),
    port("nvswitch_interface_shared_buffer_port_ingress_pool_watermark", &PORT_BUFFER_WATERMARK, &[RX, POOL]),
    left_out("nvswitch_interface_shared_buffer_port_ingress_pool_desc_*", DESCRIPTORS),
    left_out("nvswitch_interface_shared_buffer_port_ingress_pool_watermark_recorded_max*", EVER),
    left_out("nvswitch_interface_shared_buffer_port_ingress_pool_time_since_clear", SINCE),
    port("nvswitch_interface_shared_buffer_port_tc_curr_occupancy", &QUEUE, &[CLASS]),
    port("nvswitch_interface_shared_buffer_port_tc_watermark", &QUEUE_WATERMARK, &[CLASS]),
    left_out("nvswitch_interface_shared_buffer_port_tc_desc_*", DESCRIPTORS),
    left_out("nvswitch_interface_shared_buffer_port_tc_watermark_recorded_max*", EVER),
    left_out("nvswitch_interface_shared_buffer_port_tc_time_since_clear", SINCE),
    port("nvswitch_interface_shared_buffer_port_egress_pool_curr_occupancy", &PORT_BUFFER, &[TX, POOL]),
    port("nvswitch_interface_shared_buffer_port_egress_pool_watermark", &PORT_BUFFER_WATERMARK, &[TX, POOL]),
    left_out("nvswitch_interface_shared_buffer_port_egress_pool_desc_*", DESCRIPTORS),
    left_out("nvswitch_interface_shared_buffer_port_egress_pool_watermark_recorded_max*", EVER),
    left_out("nvswitch_interface_shared_buffer_port_egress_pool_time_since_clear", SINCE),
    port("nvswitch_interface_shared_buffer_mc_port_curr_occupancy", &PORT_BUFFER, &[TX, MULTICAST]),
    port("nvswitch_interface_shared_buffer_mc_port_watermark", &PORT_BUFFER_WATERMARK, &[TX, MULTICAST]),
    left_out("nvswitch_interface_shared_buffer_mc_port_watermark_recorded_max*", EVER),
    left_out("nvswitch_shared_buffer_mc_sp_*", "multicast by switch priority; no canonical metric yet"),
    pool("nvswitch_shared_buffer_pool_curr_occupancy", &BUFFER, &[POOL]),
    pool("nvswitch_shared_buffer_pool_watermark", &BUFFER_WATERMARK, &[POOL]),
    left_out("nvswitch_shared_buffer_pool_watermark_recorded_max*", EVER),
    left_out("nvswitch_shared_buffer_pool_time_since_clear", SINCE),
    port("nvswitch_interface_headroom_buffer_pg_curr_occupancy", &HEADROOM, &[GROUP]),
    port("nvswitch_interface_headroom_buffer_pg_watermark", &HEADROOM_WATERMARK, &[GROUP]),
    left_out("nvswitch_interface_headroom_buffer_pg_watermark_recorded_max*", EVER),
    left_out("nvswitch_interface_headroom_buffer_pg_time_since_clear", SINCE),
    port("nvswitch_interface_headroom_shared_buffer_curr_occupancy", &PORT_BUFFER, &[RX, HEADROOM_POOL]),
    port("nvswitch_interface_headroom_shared_buffer_watermark", &PORT_BUFFER_WATERMARK, &[RX, HEADROOM_POOL]),
    left_out("nvswitch_interface_headroom_shared_buffer_watermark_recorded_max*", EVER),
    pool("nvswitch_headroom_buffer_pool_curr_occupancy", &BUFFER_HEADROOM, &[POOL]),
    pool("nvswitch_headroom_buffer_pool_watermark", &BUFFER_HEADROOM_WATERMARK, &[POOL]),
    port("nvswitch_interface_headroom_buffer_pool_curr_occupancy", &HEADROOM, &[]),
    port("nvswitch_interface_headroom_buffer_pool_watermark", &HEADROOM_WATERMARK, &[]),
    left_out("nvswitch_interface_headroom_buffer_pool_watermark_recorded_max*", EVER),
    left_out("nvswitch_buffer_cell_size_bytes", CELL),
];
