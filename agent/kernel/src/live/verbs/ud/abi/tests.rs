use super::super::super::ffi::RawContext;
use super::*;
use std::fmt::Write as _;
use std::mem::{offset_of, size_of};
use std::process::Command;

/// Sizes, offsets and numbers of the header (C expression) and of this binding.
fn rows() -> Vec<(&'static str, usize)> {
    let positive = |number: c_int| usize::try_from(number).unwrap();
    let ops = |index: usize| offset_of!(RawContext, ops) + index * size_of::<*mut c_void>();
    vec![
        ("sizeof(struct ibv_pd)", size_of::<Pd>()),
        ("sizeof(struct ibv_mr)", size_of::<Mr>()),
        ("offsetof(struct ibv_mr, lkey)", offset_of!(Mr, lkey)),
        ("sizeof(struct ibv_comp_channel)", size_of::<Channel>()),
        ("offsetof(struct ibv_comp_channel, fd)", offset_of!(Channel, fd)),
        ("sizeof(struct ibv_cq)", size_of::<Cq>()),
        ("offsetof(struct ibv_cq_ex, status)", offset_of!(CqEx, status)),
        ("offsetof(struct ibv_cq_ex, wr_id)", offset_of!(CqEx, wr_id)),
        ("offsetof(struct ibv_cq_ex, start_poll)", offset_of!(CqEx, start_poll)),
        ("offsetof(struct ibv_cq_ex, next_poll)", offset_of!(CqEx, next_poll)),
        ("offsetof(struct ibv_cq_ex, end_poll)", offset_of!(CqEx, end_poll)),
        ("offsetof(struct ibv_cq_ex, read_byte_len)", offset_of!(CqEx, read_byte_len)),
        ("offsetof(struct ibv_cq_ex, read_src_qp)", offset_of!(CqEx, read_src_qp)),
        ("offsetof(struct ibv_cq_ex, read_slid)", offset_of!(CqEx, read_slid)),
        ("offsetof(struct ibv_cq_ex, read_sl)", offset_of!(CqEx, read_sl)),
        ("offsetof(struct ibv_cq_ex, read_completion_ts)", offset_of!(CqEx, read_completion_ts)),
        ("offsetof(struct ibv_cq_ex, read_completion_wallclock_ns)", offset_of!(CqEx, read_wall_clock_ns)),
        ("sizeof(struct ibv_poll_cq_attr)", size_of::<PollAttr>()),
        ("sizeof(struct ibv_cq_init_attr_ex)", size_of::<CqInitAttrEx>()),
        ("offsetof(struct ibv_cq_init_attr_ex, wc_flags)", offset_of!(CqInitAttrEx, wc_flags)),
        ("offsetof(struct ibv_qp, qp_num)", offset_of!(Qp, number)),
        ("sizeof(struct ibv_ah)", size_of::<Ah>()),
        ("sizeof(struct ibv_qp_init_attr)", size_of::<QpInitAttr>()),
        ("offsetof(struct ibv_qp_init_attr, cap)", offset_of!(QpInitAttr, cap)),
        ("offsetof(struct ibv_qp_init_attr, qp_type)", offset_of!(QpInitAttr, kind)),
        ("sizeof(struct ibv_qp_attr)", size_of::<QpAttr>()),
        ("offsetof(struct ibv_qp_attr, qkey)", offset_of!(QpAttr, q_key)),
        ("offsetof(struct ibv_qp_attr, sq_psn)", offset_of!(QpAttr, sq_psn)),
        ("offsetof(struct ibv_qp_attr, pkey_index)", offset_of!(QpAttr, pkey_index)),
        ("offsetof(struct ibv_qp_attr, port_num)", offset_of!(QpAttr, port)),
        ("sizeof(struct ibv_ah_attr)", size_of::<AhAttr>()),
        ("offsetof(struct ibv_ah_attr, dlid)", offset_of!(AhAttr, dlid)),
        ("offsetof(struct ibv_ah_attr, sl)", offset_of!(AhAttr, service_level)),
        ("offsetof(struct ibv_ah_attr, is_global)", offset_of!(AhAttr, is_global)),
        ("offsetof(struct ibv_ah_attr, port_num)", offset_of!(AhAttr, port)),
        ("offsetof(struct ibv_global_route, flow_label)", offset_of!(GlobalRoute, flow_label)),
        ("offsetof(struct ibv_global_route, sgid_index)", offset_of!(GlobalRoute, sgid_index)),
        ("offsetof(struct ibv_global_route, traffic_class)", offset_of!(GlobalRoute, traffic_class)),
        ("sizeof(struct ibv_sge)", size_of::<Sge>()),
        ("sizeof(struct ibv_recv_wr)", size_of::<RecvWr>()),
        ("sizeof(struct ibv_send_wr)", size_of::<SendWr>()),
        ("offsetof(struct ibv_send_wr, send_flags)", offset_of!(SendWr, flags)),
        ("offsetof(struct ibv_send_wr, wr.ud.ah)", offset_of!(SendWr, ah)),
        ("offsetof(struct ibv_send_wr, wr.ud.remote_qpn)", offset_of!(SendWr, remote_qpn)),
        ("offsetof(struct ibv_send_wr, wr.ud.remote_qkey)", offset_of!(SendWr, remote_q_key)),
        ("sizeof(struct ibv_wc)", size_of::<Wc>()),
        ("offsetof(struct ibv_wc, byte_len)", offset_of!(Wc, byte_len)),
        ("offsetof(struct ibv_wc, src_qp)", offset_of!(Wc, src_qp)),
        ("offsetof(struct ibv_wc, slid)", offset_of!(Wc, slid)),
        ("offsetof(struct ibv_wc, sl)", offset_of!(Wc, service_level)),
        ("offsetof(struct ibv_device_attr_ex, completion_timestamp_mask)", offset_of!(DeviceAttrEx, timestamp_mask)),
        ("offsetof(struct ibv_device_attr_ex, hca_core_clock)", offset_of!(DeviceAttrEx, core_clock_khz)),
        ("offsetof(struct ibv_context, ops.poll_cq)", ops(OP_POLL_CQ)),
        ("offsetof(struct ibv_context, ops.req_notify_cq)", ops(OP_NOTIFY_CQ)),
        ("offsetof(struct ibv_context, ops.post_send)", ops(OP_POST_SEND)),
        ("offsetof(struct ibv_context, ops.post_recv)", ops(OP_POST_RECV)),
        (
            "offsetof(struct verbs_context, context) - offsetof(struct verbs_context, query_device_ex)",
            QUERY_DEVICE_EX_BEFORE,
        ),
        ("offsetof(struct verbs_context, context) - offsetof(struct verbs_context, create_cq_ex)", CREATE_CQ_EX_BEFORE),
        ("IBV_ACCESS_LOCAL_WRITE", positive(LOCAL_WRITE)),
        ("IBV_QPT_UD", positive(QPT_UD)),
        ("IBV_WR_SEND", positive(WR_SEND)),
        ("IBV_SEND_SIGNALED", SEND_SIGNALED as usize),
        ("IBV_WC_SUCCESS", positive(WC_SUCCESS)),
        ("IBV_QPS_INIT", positive(INIT)),
        ("IBV_QPS_RTR", positive(RTR)),
        ("IBV_QPS_RTS", positive(RTS)),
        ("IBV_QP_STATE", positive(MASK_STATE)),
        ("IBV_QP_PKEY_INDEX", positive(MASK_PKEY_INDEX)),
        ("IBV_QP_PORT", positive(MASK_PORT)),
        ("IBV_QP_QKEY", positive(MASK_QKEY)),
        ("IBV_QP_SQ_PSN", positive(MASK_SQ_PSN)),
        ("IBV_WC_EX_WITH_BYTE_LEN", EX_BYTE_LEN as usize),
        ("IBV_WC_EX_WITH_QP_NUM", EX_QP_NUM as usize),
        ("IBV_WC_EX_WITH_SRC_QP", EX_SRC_QP as usize),
        ("IBV_WC_EX_WITH_SLID", EX_SLID as usize),
        ("IBV_WC_EX_WITH_SL", EX_SL as usize),
        ("IBV_WC_EX_WITH_COMPLETION_TIMESTAMP", EX_TIMESTAMP as usize),
        ("IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK", EX_WALL_CLOCK as usize),
    ]
}

#[test]
#[ignore = "needs: libibverbs-dev"]
#[expect(clippy::disallowed_methods, reason = "the test starts a C compiler; the agent starts no process")]
fn a_c_compiler_gives_the_same_layout_for_the_header() {
    let rows = rows();
    let mut program =
        "#include <infiniband/verbs.h>\n#include <stddef.h>\n#include <stdio.h>\nint main(void) {\n".to_owned();
    for (expression, _) in &rows {
        writeln!(program, "printf(\"%zu\\n\", (size_t)({expression}));").unwrap();
    }
    program += "return 0; }\n";
    let dir = tempfile::tempdir().unwrap();
    let (source, binary) = (dir.path().join("abi.c"), dir.path().join("abi"));
    std::fs::write(&source, program).unwrap();
    let built = Command::new("cc").arg(&source).arg("-o").arg(&binary).output().unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let printed = String::from_utf8(Command::new(&binary).output().unwrap().stdout).unwrap();
    let numbers: Vec<usize> = printed.lines().map(|line| line.parse().unwrap()).collect();
    assert_eq!(numbers.len(), rows.len());
    for ((expression, ours), theirs) in rows.iter().zip(numbers) {
        assert_eq!(*ours, theirs, "{expression}");
    }
}
