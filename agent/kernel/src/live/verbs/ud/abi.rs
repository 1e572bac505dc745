//! Structures and numbers of libibverbs' ABI that UD queue pairs need (`infiniband/verbs.h`). Sizes and offsets are checked
//! against those that a C compiler gives for the header; the test in `abi/tests.rs` asks a compiler again.

use super::super::ffi::RawContext;
use std::ffi::{c_int, c_uint, c_void};

pub const LOCAL_WRITE: c_int = 1;
pub const QPT_UD: c_int = 4;
pub const WR_SEND: c_int = 2;
pub const SEND_SIGNALED: c_uint = 1 << 1;
pub const WC_SUCCESS: c_int = 0;

/// States of a queue pair.
pub const INIT: c_int = 1;
pub const RTR: c_int = 2;
pub const RTS: c_int = 3;

/// `enum ibv_qp_attr_mask`.
pub const MASK_STATE: c_int = 1;
pub const MASK_PKEY_INDEX: c_int = 1 << 4;
pub const MASK_PORT: c_int = 1 << 5;
pub const MASK_QKEY: c_int = 1 << 6;
pub const MASK_SQ_PSN: c_int = 1 << 16;

/// `enum ibv_create_cq_wc_flags`. Not the standard set, which irdma refuses.
pub const EX_BYTE_LEN: u64 = 1;
pub const EX_QP_NUM: u64 = 1 << 2;
pub const EX_SRC_QP: u64 = 1 << 3;
pub const EX_SLID: u64 = 1 << 4;
pub const EX_SL: u64 = 1 << 5;
pub const EX_TIMESTAMP: u64 = 1 << 7;
pub const EX_WALL_CLOCK: u64 = 1 << 11;

/// Positions in `ibv_context_ops`.
pub const OP_POLL_CQ: usize = 11;
pub const OP_NOTIFY_CQ: usize = 12;
pub const OP_POST_SEND: usize = 25;
pub const OP_POST_RECV: usize = 26;

/// Distances of members of `verbs_context` from its end.
pub const QUERY_DEVICE_EX_BEFORE: usize = 104;
pub const CREATE_CQ_EX_BEFORE: usize = 120;

#[repr(C)]
pub struct Pd {
    pub context: *mut RawContext,
    pub handle: u32,
}

#[repr(C)]
pub struct Mr {
    pub context: *mut RawContext,
    pub pd: *mut Pd,
    pub address: *mut c_void,
    pub length: usize,
    pub handle: u32,
    pub lkey: u32,
    pub rkey: u32,
}

#[repr(C)]
pub struct Channel {
    pub context: *mut RawContext,
    pub fd: c_int,
    pub references: c_int,
}

/// `struct ibv_cq`, and the start of `struct ibv_cq_ex`.
#[repr(C)]
pub struct Cq {
    pub context: *mut RawContext,
    pub channel: *mut Channel,
    pub cq_context: *mut c_void,
    pub handle: u32,
    pub cqe: c_int,
    pub mutex: libc::pthread_mutex_t,
    pub cond: libc::pthread_cond_t,
    pub comp_events: u32,
    pub async_events: u32,
}

type Of<T> = Option<unsafe extern "C" fn(*mut CqEx) -> T>;

#[repr(C)]
pub struct CqEx {
    pub cq: Cq,
    pub comp_mask: u32,
    pub status: c_int,
    pub wr_id: u64,
    pub start_poll: Option<unsafe extern "C" fn(*mut CqEx, *mut PollAttr) -> c_int>,
    pub next_poll: Of<c_int>,
    pub end_poll: Of<()>,
    pub read_opcode: Of<c_int>,
    pub read_vendor_err: Of<u32>,
    pub read_byte_len: Of<u32>,
    pub read_imm_data: Of<u32>,
    pub read_qp_num: Of<u32>,
    pub read_src_qp: Of<u32>,
    pub read_wc_flags: Of<c_uint>,
    pub read_slid: Of<u32>,
    pub read_sl: Of<u8>,
    pub read_dlid_path_bits: Of<u8>,
    pub read_completion_ts: Of<u64>,
    pub read_cvlan: Of<u16>,
    pub read_flow_tag: Of<u32>,
    pub read_tm_info: *mut c_void,
    pub read_wall_clock_ns: Of<u64>,
}

#[repr(C)]
pub struct PollAttr {
    pub comp_mask: u32,
}

#[repr(C)]
pub struct CqInitAttrEx {
    pub cqe: u32,
    pub cq_context: *mut c_void,
    pub channel: *mut Channel,
    pub comp_vector: u32,
    pub wc_flags: u64,
    pub comp_mask: u32,
    pub flags: u32,
    pub parent_domain: *mut Pd,
}

/// Start of `struct ibv_qp`.
#[repr(C)]
pub struct Qp {
    pub context: *mut RawContext,
    pub qp_context: *mut c_void,
    pub pd: *mut Pd,
    pub send_cq: *mut Cq,
    pub recv_cq: *mut Cq,
    pub srq: *mut c_void,
    pub handle: u32,
    pub number: u32,
}

#[repr(C)]
pub struct Ah {
    pub context: *mut RawContext,
    pub pd: *mut Pd,
    pub handle: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct QpCap {
    pub max_send_wr: u32,
    pub max_recv_wr: u32,
    pub max_send_sge: u32,
    pub max_recv_sge: u32,
    pub max_inline_data: u32,
}

#[repr(C)]
pub struct QpInitAttr {
    pub qp_context: *mut c_void,
    pub send_cq: *mut Cq,
    pub recv_cq: *mut Cq,
    pub srq: *mut c_void,
    pub cap: QpCap,
    pub kind: c_int,
    pub signal_all: c_int,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct GlobalRoute {
    pub dgid: [u64; 2],
    pub flow_label: u32,
    pub sgid_index: u8,
    pub hop_limit: u8,
    pub traffic_class: u8,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct AhAttr {
    pub grh: GlobalRoute,
    pub dlid: u16,
    pub service_level: u8,
    pub src_path_bits: u8,
    pub static_rate: u8,
    pub is_global: u8,
    pub port: u8,
}

#[repr(C)]
#[derive(Default)]
pub struct QpAttr {
    pub state: c_int,
    pub current: c_int,
    pub path_mtu: c_int,
    pub path_mig_state: c_int,
    pub q_key: u32,
    pub rq_psn: u32,
    pub sq_psn: u32,
    pub dest_qp_num: u32,
    pub access: c_uint,
    pub cap: QpCap,
    pub ah_attr: AhAttr,
    pub alt_ah_attr: AhAttr,
    pub pkey_index: u16,
    pub alt_pkey_index: u16,
    pub en_sqd_async_notify: u8,
    pub sq_draining: u8,
    pub max_rd_atomic: u8,
    pub max_dest_rd_atomic: u8,
    pub min_rnr_timer: u8,
    pub port: u8,
    pub timeout: u8,
    pub retry_cnt: u8,
    pub rnr_retry: u8,
    pub alt_port: u8,
    pub alt_timeout: u8,
    pub rate_limit: u32,
}

#[repr(C)]
pub struct Sge {
    pub address: u64,
    pub length: u32,
    pub lkey: u32,
}

#[repr(C)]
pub struct RecvWr {
    pub wr_id: u64,
    pub next: *mut RecvWr,
    pub sg_list: *mut Sge,
    pub num_sge: c_int,
}

#[repr(C)]
pub struct SendWr {
    pub wr_id: u64,
    pub next: *mut SendWr,
    pub sg_list: *mut Sge,
    pub num_sge: c_int,
    pub opcode: c_int,
    pub flags: c_uint,
    pub imm_data: u32,
    pub ah: *mut Ah,
    pub remote_qpn: u32,
    pub remote_q_key: u32,
    /// Members of the unions that UD does not use.
    pub rest: [u64; 9],
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct Wc {
    pub wr_id: u64,
    pub status: c_int,
    pub opcode: c_int,
    pub vendor_err: u32,
    pub byte_len: u32,
    pub imm_data: u32,
    pub qp_num: u32,
    pub src_qp: u32,
    pub flags: c_uint,
    pub pkey_index: u16,
    pub slid: u16,
    pub service_level: u8,
    pub dlid_path_bits: u8,
}

/// `struct ibv_device_attr_ex` as of rdma-core 44; newer ones are longer and accept this size.
#[repr(C)]
pub struct DeviceAttrEx {
    pub original: [u64; 29],
    pub comp_mask: u32,
    pub odp: [u64; 3],
    /// Bits of completion time stamps that count; 0: none.
    pub timestamp_mask: u64,
    /// Frequency of the clock of time stamps, kHz; 0: not told.
    pub core_clock_khz: u64,
    pub rest: [u64; 15],
}

#[cfg(all(target_pointer_width = "64", target_env = "gnu", target_arch = "x86_64"))]
const _: () = {
    use std::mem::{offset_of, size_of};
    assert!(size_of::<Pd>() == 16 && size_of::<Mr>() == 48 && offset_of!(Mr, lkey) == 36);
    assert!(size_of::<Channel>() == 16 && offset_of!(Channel, fd) == 8);
    assert!(size_of::<Cq>() == 128 && size_of::<CqEx>() == 288);
    assert!(offset_of!(CqEx, status) == 132 && offset_of!(CqEx, wr_id) == 136 && offset_of!(CqEx, start_poll) == 144);
    assert!(offset_of!(CqEx, read_opcode) == 168 && offset_of!(CqEx, read_completion_ts) == 248);
    assert!(offset_of!(CqEx, read_wall_clock_ns) == 280);
    assert!(size_of::<CqInitAttrEx>() == 56 && offset_of!(CqInitAttrEx, wc_flags) == 32);
    assert!(offset_of!(CqInitAttrEx, parent_domain) == 48 && size_of::<PollAttr>() == 4);
    assert!(offset_of!(Qp, number) == 52 && size_of::<Ah>() == 24);
    assert!(size_of::<QpInitAttr>() == 64 && offset_of!(QpInitAttr, cap) == 32 && offset_of!(QpInitAttr, kind) == 52);
    assert!(size_of::<GlobalRoute>() == 24 && offset_of!(GlobalRoute, traffic_class) == 22);
    assert!(size_of::<AhAttr>() == 32 && offset_of!(AhAttr, dlid) == 24 && offset_of!(AhAttr, port) == 30);
    assert!(size_of::<QpAttr>() == 144 && offset_of!(QpAttr, q_key) == 16 && offset_of!(QpAttr, sq_psn) == 24);
    assert!(offset_of!(QpAttr, cap) == 36 && offset_of!(QpAttr, ah_attr) == 56 && offset_of!(QpAttr, port) == 129);
    assert!(offset_of!(QpAttr, pkey_index) == 120 && offset_of!(QpAttr, rate_limit) == 136);
    assert!(size_of::<Sge>() == 16 && size_of::<RecvWr>() == 32);
    assert!(size_of::<SendWr>() == 128 && offset_of!(SendWr, flags) == 32 && offset_of!(SendWr, ah) == 40);
    assert!(offset_of!(SendWr, remote_qpn) == 48 && offset_of!(SendWr, rest) == 56);
    assert!(size_of::<Wc>() == 48 && offset_of!(Wc, src_qp) == 32 && offset_of!(Wc, slid) == 42);
    assert!(offset_of!(Wc, service_level) == 44);
    assert!(size_of::<DeviceAttrEx>() == 400 && offset_of!(DeviceAttrEx, timestamp_mask) == 264);
    assert!(offset_of!(DeviceAttrEx, core_clock_khz) == 272);
};

#[cfg(test)]
mod tests;
