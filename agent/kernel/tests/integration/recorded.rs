//! Recorded hosts: written files read back, missing files are unsupported, errors name the malformed file.
#![allow(clippy::disallowed_methods, reason = "a test may start mkfifo")]

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fabriclens_kernel::recorded::{RecordedKernel, path, write};
use fabriclens_kernel::{
    CallError, CmId, Dcb, DriverInfo, KernelCalls, LinkState, ModuleDiagnostics, ModuleLane, NetdevSettings, Qp,
    QpCounter, RdmaLink, StatNames, TcpSocket, VerbsPort,
};

fn put(root: &Path, path: impl AsRef<Path>, text: impl AsRef<str>) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text.as_ref()).unwrap();
}

fn link(device: &str, port: u32) -> RdmaLink {
    RdmaLink {
        index: 3,
        device: device.into(),
        port,
        state: 4,
        physical_state: 5,
        netdev: Some("eth4".into()),
        node_guid: Some(0xb8ce_f603_0000_0001),
        firmware: Some("22.36.1010".into()),
        lid: None,
        smi_only: false,
    }
}

#[test]
fn written_files_read_back() {
    let dir = tempfile::tempdir().unwrap();
    let (root, host) = (dir.path(), RecordedKernel::new(dir.path()));

    let mut ib = link("mlx5_1", 2);
    ib.netdev = None;
    ib.lid = Some(17);
    ib.state = 1;
    ib.physical_state = 4;
    let mut smi = link("smi0", 1);
    (smi.smi_only, smi.node_guid, smi.firmware) = (true, None, None);
    let links = [link("mlx5_0", 1), ib, smi];
    put(root, path::rdma_link(), write::rdma_link(&links));
    put(root, path::rdma_dev(), write::rdma_dev(&links));
    assert_eq!(host.rdma_links().unwrap(), links);

    put(root, path::dma_buf(), write::dma_buf(&[("mlx5_0", true), ("mlx5_1", false)]));
    assert_eq!((host.dma_buf("mlx5_0").unwrap(), host.dma_buf("mlx5_1").unwrap()), (true, false));
    assert!(matches!(host.dma_buf("mlx5_2"), Err(CallError::Unsupported { .. })));

    let counters = [vec![("np_cnp_sent", 7), ("RNR sent", u64::MAX)], vec![("x\"y", 1)]];
    let statistic = write::rdma_statistic(links.iter().zip(counters.iter().map(|c| c.iter().copied())));
    put(root, path::rdma_statistic(), statistic);
    for (link, counters) in links.iter().zip(&counters) {
        let mut out = Vec::new();
        host.rdma_counters(link, &mut out).unwrap();
        assert!(out.iter().map(|(n, v)| (&**n, *v)).eq(counters.iter().copied()), "{out:?}");
    }
    assert!(matches!(host.rdma_counters(&links[2], &mut Vec::new()), Err(CallError::Unsupported { .. })));

    let user = Qp {
        device: "mlx5_0".into(),
        port: Some(1),
        lqpn: 813,
        rqpn: Some(814),
        kind: "RC".into(),
        state: "RTS".into(),
        pid: Some(46231),
        comm: Some("ib_write_bw".into()),
    };
    let kernel = Qp { port: None, rqpn: None, pid: None, kind: "GSI".into(), ..user.clone() };
    put(root, path::res_qp(), write::res_qp(&[user.clone(), kernel.clone()]));
    assert_eq!(host.rdma_qps(None).unwrap(), [user.clone(), kernel]);
    let of = |port| RdmaLink { device: "mlx5_0".into(), port, ..links[0].clone() };
    assert_eq!(host.rdma_qps(Some(&of(1))).unwrap(), [user]);
    assert_eq!(host.rdma_qps(Some(&of(2))).unwrap(), []);

    let group = "sys/fs/cgroup/job_7";
    fs::create_dir_all(root.join(group)).unwrap();
    let socket = TcpSocket {
        cookie: 1,
        local: "10.0.0.1:5000".parse().unwrap(),
        remote: "[fd00::2]:41000".parse().unwrap(),
        cgroup: Some(fs::metadata(root.join(group)).unwrap().ino()),
        transferred: Some([u64::MAX, 0]),
        rtt: Some(Duration::from_micros(250)),
    };
    let elsewhere = TcpSocket { cookie: 2, cgroup: None, transferred: None, rtt: None, ..socket.clone() };
    put(root, path::tcp_sockets(), write::tcp_sockets([(&socket, group), (&elsewhere, "../../etc")]));
    assert_eq!(host.tcp_sockets().unwrap(), [socket, elsewhere]);

    let connected = CmId {
        device: "mlx5_0".into(),
        port: Some(1),
        lqpn: Some(813),
        state: "CONNECT".into(),
        pid: Some(46231),
        source: Some("[fd00::1]:7174".parse().unwrap()),
        destination: Some("10.0.0.7:40000".parse().unwrap()),
    };
    let bound = CmId { lqpn: None, destination: None, state: "ADDR_BOUND".into(), ..connected.clone() };
    put(root, path::res_cm_id(), write::res_cm_id(&[connected.clone(), bound.clone()]));
    assert_eq!(host.rdma_cm_ids(Some(&of(1))).unwrap(), [connected, bound]);
    let counter = QpCounter {
        device: "mlx5_0".into(),
        port: Some(1),
        id: 4,
        qps: vec![813, 815],
        pid: Some(46231),
        values: vec![("out_of_sequence".into(), 9), ("rx_write_requests".into(), u64::MAX)],
    };
    put(root, path::qp_statistic(), write::qp_statistic(std::slice::from_ref(&counter)));
    assert_eq!(host.rdma_qp_counters(Some(&of(1))).unwrap(), [counter]);
    assert_eq!(host.rdma_qp_counters(Some(&of(2))).unwrap(), []);

    let driver = DriverInfo {
        driver: "mlx5_core".into(),
        version: "6.1".into(),
        firmware: "22.36 (MT_1)".into(),
        bus: "0000:ca:00.0".into(),
    };
    put(root, path::ethtool_i("eth4"), write::ethtool_i(&driver));
    assert_eq!(host.driver("eth4").unwrap(), driver);

    let stats = [("[3]: rx_bytes", 3), ("----Loopback----", 0), ("rx frames", u64::MAX)];
    put(root, path::ethtool_s("eth4"), write::ethtool_s(stats));
    let names = host.stat_names("eth4").unwrap();
    let mut values = vec![9];
    host.stat_values("eth4", &names, &mut values).unwrap();
    assert!(names.iter().map(|n| &**n).zip(values).eq(stats));

    let std: Vec<(Arc<str>, u64)> = vec![("fec/corrected_blocks".into(), 5), ("rmon/hist_rx[64-127]".into(), 6)];
    put(root, path::std_stats("eth4"), write::std_stats(&std));
    let mut out = Vec::new();
    host.std_stats("eth4", &mut out).unwrap();
    assert_eq!(out, std);

    let down = LinkState { up: Some(false), reason: Some("no_cable".into()), detail: None };
    put(root, path::link("eth4"), write::link(&down, Some(400_000_000_000)));
    assert_eq!(host.link_state("eth4").unwrap(), down);
    assert_eq!(host.max_rate_bits("eth4").unwrap(), 400_000_000_000);
    put(root, path::link("eth5"), write::link(&down, None));
    assert!(matches!(host.max_rate_bits("eth5"), Err(CallError::Unsupported { .. })));

    let settings = NetdevSettings { fec: Some("rs".into()), receive_ring: Some(1024), ..NetdevSettings::default() };
    put(root, path::netdev_settings("eth4"), write::netdev_settings(&settings));
    assert_eq!(host.netdev_settings("eth4").unwrap(), settings);

    let lane = ModuleLane { rx_power: Some(0.0005), tx_power: None, tx_bias: Some(0.0075) };
    let module = ModuleDiagnostics { temperature: Some(41.5), supply: None, lanes: vec![lane, ModuleLane::default()] };
    put(root, path::module("eth4"), write::module(&module));
    assert_eq!(host.module("eth4").unwrap(), module);

    let dcb = Dcb {
        macsec_bypass: Some(true),
        buffer_size: Some([16_384, 131_072, 0, 0, 0, 0, 0, 0]),
        pfc_capable: Some(8),
        pfc_enabled: Some(0b1000),
        pfc_delay: Some(7),
        requests: Some([0, 1, 2, 3, 4, 5, 6, u64::MAX]),
        indications: None,
        prio_tc: Some([0, 1, 2, 3, 4, 5, 6, 7]),
        tc_bandwidth: Some([50, 50, 0, 0, 0, 0, 0, 0]),
        tc_algorithm: Some([0, 1, 2, 255, 0, 0, 0, 0]),
        apps: vec![(1, 0, 2), (1, 0x8906, 3), (5, 24, 3), (5, 48, 6)],
        prio_buffer: Some([0, 0, 0, 1, 0, 0, 0, 0]),
    };
    put(root, path::dcb("eth4"), write::dcb(&dcb));
    let mut again = host.dcb("eth4").unwrap();
    again.apps.sort_unstable();
    assert_eq!(again, dcb);
    put(root, path::dcb("eth4"), write::dcb(&Dcb::default()));
    assert_eq!(host.dcb("eth4").unwrap(), Dcb::default());

    let verbs = VerbsPort {
        rate_bits: Some(800_000_000_000),
        width: Some(4),
        speed: Some("XDR"),
        mtu: Some(4096),
        mtu_max: Some(4096),
        lid: Some(1),
        sm_lid: None,
    };
    put(root, path::verbs(), write::verbs(&[(&links[0], verbs.clone())]));
    assert_eq!(host.verbs_port("mlx5_0", 1).unwrap(), verbs);
    assert!(matches!(host.verbs_port("mlx5_0", 2), Err(CallError::Unsupported { .. })));
}

#[test]
fn missing_files_are_unsupported() {
    let dir = tempfile::tempdir().unwrap();
    let host = RecordedKernel::new(dir.path().join("nothing"));
    let (link, names): (_, StatNames) = (link("a", 1), Arc::new([]));
    let answers = [
        host.rdma_links().err(),
        host.rdma_counters(&link, &mut Vec::new()).err(),
        host.rdma_qps(None).err(),
        host.driver("e").err(),
        host.stat_names("e").err(),
        host.stat_values("e", &names, &mut Vec::new()).err(),
        host.std_stats("e", &mut Vec::new()).err(),
        host.link_state("e").err(),
        host.max_rate_bits("e").err(),
        host.netdev_settings("e").err(),
        host.module("e").err(),
        host.dcb("../e").err(),
        host.verbs_port("a", 1).err(),
    ];
    for answer in answers {
        assert!(matches!(answer, Some(CallError::Unsupported { .. })), "{answer:?}");
    }
}

#[test]
fn changed_list_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let (root, host) = (dir.path(), RecordedKernel::new(dir.path()));
    let mut out = vec![1];
    put(root, path::ethtool_s("e"), "NIC statistics:\n a: 1\n b: 2\n");
    let names = host.stat_names("e").unwrap();
    put(root, path::ethtool_s("e"), "NIC statistics:\n a: 1\n b: 2\n c: 3\n");
    let error = host.stat_values("e", &names, &mut out).unwrap_err();
    assert!(matches!(error, CallError::ListChanged { had: 2, has: 3, .. }), "{error}");
    put(root, path::ethtool_s("e"), "NIC statistics:\n a: 1\n c: 2\n");
    let error = host.stat_values("e", &names, &mut out).unwrap_err();
    assert!(matches!(error, CallError::ListChanged { had: 2, has: 2, .. }), "{error}");
    assert_eq!(out, [1]);
    put(root, path::ethtool_s("e"), "no stats available\n");
    assert!(matches!(host.stat_names("e"), Err(CallError::Unsupported { .. })));
}

#[test]
fn errors_name_file_and_line() {
    let dir = tempfile::tempdir().unwrap();
    let (root, host) = (dir.path(), RecordedKernel::new(dir.path()));
    put(root, path::ethtool_s("e"), "NIC statistics:\n a: 1\n b: N/A\n");
    put(root, path::rdma_statistic(), "[{\"ifname\":\"a\",\n\"port\":1,\"x\":1,\n\"y\":}]");
    put(root, path::rdma_link(), "{}");
    put(root, path::dcb("e"), "[");
    fs::create_dir_all(root.join(path::module("e"))).unwrap();
    put(root, path::std_stats("e"), " ".repeat(5 << 20));
    fs::write(root.join(path::link("e")), b"\xff\xfe").unwrap();
    let mut out = vec![(Arc::from("kept"), 1)];
    let message = |error: CallError| {
        let CallError::Failed { what, source } = error else { panic!("{error:?}") };
        format!("{what}: {source}")
    };
    let names = message(host.stat_names("e").unwrap_err());
    assert!(names.contains("ethtool/e.S.txt line 3") && names.contains("N/A"), "{names}");
    let counters = message(host.rdma_counters(&link("a", 1), &mut out).unwrap_err());
    assert!(counters.contains("rdma/statistic.json line 3"), "{counters}");
    assert_eq!(out.len(), 1, "a failed call adds nothing");
    assert!(message(host.rdma_links().unwrap_err()).contains("rdma/link.json line 1"));
    assert!(message(host.dcb("e").unwrap_err()).contains("dcb/e.json line 1"));
    assert!(message(host.module("e").unwrap_err()).contains("not a regular file"));
    assert!(message(host.std_stats("e", &mut out).unwrap_err()).contains("larger than"));
    assert!(message(host.link_state("e").unwrap_err()).contains("ethtool/e.link.json"));
}

#[test]
fn a_fifo_does_not_hang() {
    let dir = tempfile::tempdir().unwrap();
    let fifo = dir.path().join(path::ethtool_s("e"));
    fs::create_dir_all(fifo.parent().unwrap()).unwrap();
    let made = std::process::Command::new("mkfifo").arg(&fifo).status().unwrap();
    assert!(made.success());
    let host = RecordedKernel::new(dir.path());
    // On another thread, because an open that waits for a writer would hang the test instead of failing it.
    let (send, receive) = std::sync::mpsc::sync_channel(1);
    std::thread::spawn(move || send.send(host.stat_names("e")));
    let answer = receive.recv_timeout(Duration::from_secs(5)).expect("the call hangs");
    assert!(matches!(answer, Err(CallError::Failed { .. })), "{answer:?}");
}

#[test]
fn wait_lasts_until_the_timeout() {
    let mut events = RecordedKernel::new("/nonexistent").events().unwrap();
    let start = Instant::now();
    assert_eq!(events.wait(Duration::from_millis(50)).unwrap(), None);
    assert!(start.elapsed() >= Duration::from_millis(50));
}
