//! What the kernel, modules, the fabric and processes of a host say.

use fabriclens_catalog::kernel_log::{LOG_CLASSES, LogClass, Printer};
use fabriclens_kernel::live;

/// Attributes of all small types, flat and nested once, for each parser.
pub(crate) fn answers() -> Vec<Vec<u8>> {
    let attribute = |kind: u16, payload: &[u8]| {
        let mut out = Vec::new();
        out.extend((payload.len() as u16 + 4).to_ne_bytes());
        out.extend(kind.to_ne_bytes());
        out.extend(payload);
        out.resize(out.len().next_multiple_of(4), 0);
        out
    };
    let flat: Vec<u8> = (1..90).flat_map(|kind| attribute(kind, &[1, 0, 0, 0, 0, 0, 0, 0])).collect();
    let nested: Vec<u8> = (1..90).flat_map(|kind| attribute(kind, &attribute(kind, b"mlx5_0\0\0"))).collect();
    let uevent = b"add@/devices/x\0ACTION=add\0DEVPATH=/devices/x/mlx5_0\0SUBSYSTEM=infiniband\0";
    let mut strings = vec![0; 8];
    strings.extend(2_u32.to_ne_bytes());
    strings.extend([b"rx_bytes\0", b"tx_bytes\0"].iter().flat_map(|name| [&name[..], &[0; 23]].concat()));
    let of = |which: u8| [&flat[..], &nested, uevent, &strings].map(|body| [&[which], body].concat());
    live::fuzzing::answers().flat_map(of).collect()
}

/// Modules of each memory layout, with non-zero bytes everywhere.
pub(crate) fn modules() -> Vec<Vec<u8>> {
    let module = |kind: u8| {
        let mut memory: Vec<u8> = (0..128 * 7).map(|n| n as u8 | 0x40).collect();
        (memory[0], memory[2], memory[92]) = (kind, 0, 0x68);
        memory
    };
    [0x03, 0x11, 0x18, 0x1e].map(module).into()
}

/// A reply by directed route, one of performance management, and what is none.
pub(crate) fn mad() -> Vec<Vec<u8>> {
    let reply = |class: u8, attribute: u8| {
        let mut mad = vec![0; 256];
        mad[..4].copy_from_slice(&[1, class, 1, 0x81]);
        (mad[17], mad[66], mad[83]) = (attribute, 2, 1);
        mad
    };
    vec![reply(0x81, 0x11), reply(0x81, 0x15), reply(4, 0x1d), reply(4, 0x01), vec![0; 100]]
}

/// A record of each text of each class.
pub(crate) fn kernel_log() -> Vec<Vec<u8>> {
    let of = |class: &'static LogClass| {
        let driver = match class.printer {
            Printer::Driver(drivers) => format!("{} 0000:3b:00.0 eth0: f:1:(pid 2): ", drivers[0]),
            Printer::AnyDriver => "nvme 0000:3b:00.0: ".to_owned(),
            Printer::Kernel => String::new(),
        };
        let record = move |text: &&str| {
            let text = text.replace("<code>", "0x79").replace("<pci>", "0000:3b:00").replace("<netdev>", "eth0");
            let text = text.replace("<n>", "1").replace("<pid>", "7").replace('*', "x");
            format!("3,814,883319200,-;{driver}{text}\n SUBSYSTEM=pci\n DEVICE=+pci:0000:3b:00.0\n").into_bytes()
        };
        class.texts.iter().map(record)
    };
    LOG_CLASSES.iter().flat_map(of).collect()
}

pub(crate) fn lldp() -> Vec<Vec<u8>> {
    let part = |kind: u8, value: &[u8]| [&[kind << 1, value.len() as u8], value].concat();
    let parts = [
        part(1, b"\x04\x00\x11\x22\x33\x44\x55"),
        part(2, b"\x05Ethernet1/1"),
        part(3, &[0, 120]),
        part(4, b"swp1"),
        part(5, b"leaf1.example.com"),
        part(7, &[0, 4, 0, 4]),
        part(0, b""),
    ];
    vec![parts.concat()]
}

pub(crate) fn ebpf() -> Vec<Vec<u8>> {
    let format = "name: tcp_probe\nformat:\n\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\n\
                  \tfield:__u8 saddr[28];\toffset:8;\tsize:28;\tsigned:0;\n";
    // A header, an integer, and a structure `sock` whose member `__sk_common` is without a name.
    let strings = b"\0sock\0__sk_common\0int\0";
    let types: Vec<u32> = vec![18, 1 << 24, 4, 32, 1, 4 << 24 | 1, 8, 6, 1, 64];
    let mut btf: Vec<u8> = vec![0x9f, 0xeb, 1, 0];
    let header = [24, 0, types.len() as u32 * 4, types.len() as u32 * 4, strings.len() as u32];
    btf.extend(header.iter().chain(&types).flat_map(|word| word.to_le_bytes()));
    btf.extend(strings);
    let record = (0..40_u64).flat_map(|n| (n % 7).to_le_bytes()).collect();
    vec![format.into(), btf, record]
}

pub(crate) fn processes() -> Vec<Vec<u8>> {
    [
        "0::/system.slice/slurmstepd.scope/job_4711/step_0/user/task_0\n",
        "0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod0ff3a5a6_7c2b_4a1e_9f0e_0123456789ab.slice/cri-x.scope\n",
        "12:memory:/slurm/uid_1001/job_4711/step_batch\n0::/\n",
        "SLURM_JOB_ID=4711\0SLURM_CLUSTER_NAME=lab\0SLURM_ARRAY_JOB_ID=4700\0SLURM_ARRAY_TASK_ID=3\0USER=ann\0",
        "PBS_JOBID=12.server\0PBS_ENVIRONMENT=x\0LSB_JOBID=9\0LSB_JOBINDEX=2\0",
        "18446744073709551615\n",
        "0x1f\n",
    ]
    .map(Into::into)
    .into()
}

pub(crate) fn collectives() -> Vec<Vec<u8>> {
    let texts = [
        r#"{"nccl_version": "2.28.9", "communicators": [{"hash": "0xab", "secondary_hash": "0x1:0x2", "size": 2, "ranks": [{"rank": 0, "host":
            "10.0.0.1", "pid": 7, "nvml_dev": 0, "status": {"init_state": 0, "abort_flag": false}, "collective_counts": {"AllReduce": 4}}],
            "missing_ranks": [{"rank": 1, "nvml_dev": 1 "status": {"unresponsive": true, "considered_dead": false}}]}], "ras": {"timeouts_count": 1}}"#,
        "Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors\n    0  1  4  8  32  32  RUNNING  MISMATCH\n\nErrors\n======\n\n\
         #0-0 (cf264af53edbe986) INCOMPLETE\n  Missing communicator data from 1 rank\n  The missing rank: 21\n\nWarnings\n========\n\n\
         #0-0 (cf264af53edbe986) MISMATCH\n  Communicator ranks have different AllReduce operation counts\n  26 ranks have launched up to operation 6650\n\
         \x20 Rank 2 -- GPU 2 (NVML 6) managed by process 483074 on node 172.16.64.210\n",
        "{\"header\":{\"id\":\"0x7f\",\"rank\":2},\"metadata\":{\"hostname\":\"h\",\"pid\":7},\"dump_stats\":{}}\n\
         {\"coll_perf\":{\"coll\":\"AllReduce\",\"coll_msg_size_bytes\":17,\"coll_exec_time_us\":61974,\"coll_busbw_gbs\":485.1}}\n",
        "nccl_bus_bandwidth_gbs{node=\"h\",gpu=\"GPU0\",comm_name=\"a\\\"b\",collective=\"AllReduce\",message_size=\"4-5GB\"} 678.263\n",
        "  sl  local_address\n   0: 0100007F:6D7C 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1001        0 40001 1\n",
        "h:1:2 [0] NCCL WARN NET/IB: WQE slow: peer=10.1.2.3<1> | local: qpn=1 dev=mlx5_3 port=1 | remote: qpn=2 | thr=1ns delta=2ns count=7 |\n\
         h:1:2 [0] NCCL WARN NET/IB: Got CQE with error (qp_num=3)\nh:1:2 [0] NCCL INFO Channel 00 : 1[1] -> 2[0] via NET/IB/0\n",
    ];
    texts.map(Into::into).into_iter().chain([mpi_counters()]).collect()
}

/// A file of MPI counters with one operation.
fn mpi_counters() -> Vec<u8> {
    let mut bytes = vec![0; 256 + 320];
    let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
    put(0, b"FLNSIPI1");
    for (at, value) in [(8, 1_u32), (12, 576), (16, 1), (20, 7), (24, 2), (28, 4), (280, 1)] {
        put(at, &value.to_ne_bytes());
    }
    for (at, value) in [(32, 5_u64), (288, 9), (296, 72), (304, 1000)] {
        put(at, &value.to_ne_bytes());
    }
    put(72, b"Open MPI v4.1.4");
    put(256, b"Allreduce");
    bytes
}
