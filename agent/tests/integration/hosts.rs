//! The recorded hosts of the repository: the expected series of each, and the broken one.

use crate::support::{failures, host, names, sample, series, value};
use fabriclens_agent::schedule::{Engine, Outcome, Settings, SourceStatus, once};
use fabriclens_agent_host::roots::Roots;
use fabriclens_testing::eventually;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

fn outcome<'a>(statuses: &'a [SourceStatus], sampler: &str, target: &str) -> &'a Outcome {
    let found = statuses.iter().find(|s| s.sampler == sampler && s.target == target);
    &found.unwrap_or_else(|| panic!("no {sampler} of {target}")).outcome
}

fn info<'a>(all: &'a [(String, f64)], target: &str) -> &'a str {
    let prefix = format!("{target} fabric.port.info{{");
    all.iter().map(|(name, _)| name.as_str()).find(|name| name.starts_with(&prefix)).unwrap_or_default()
}

#[test]
fn hosts_are_read_without_failure() {
    for name in names(&host("")) {
        let (sections, statuses) = sample(&host(&name));
        let all = series(&sections);
        println!("{name}: {} series", all.len());
        if std::env::var_os("SHOW").is_some() {
            statuses.iter().for_each(|s| println!("  {s:?}"));
            all.iter().for_each(|(name, value)| println!("  {name} {value}"));
        }
        assert!(name == "broken" || failures(&statuses).is_empty(), "{name}: {:#?}", failures(&statuses));
        let mut series: Vec<&String> = all.iter().map(|(name, _)| name).collect();
        series.dedup();
        assert_eq!(series.len(), all.len(), "{name}: a series appears twice");
        let few = ["nothing", "kubernetes", "pbs", "gpu-amd"].contains(&&*name);
        assert!(all.len() > if few { 5 } else { 30 }, "{name}: only {}", all.len());
        for section in &sections {
            assert_eq!(section.columns.len(), section.values.len());
            assert_eq!(section.columns.len(), section.starts.len());
            assert!(section.begin_ns <= section.end_ns);
        }
    }
}

#[test]
fn fabrics_are_distinguished() {
    for (name, target, expected) in [
        ("mlx5-roce", "mlx5_0/1", "fabric=roce,"),
        ("mlx5-roce", "mlx5_0/1", "roce=v2"),
        ("mlx5-roce", "mlx5_0/1", "netdev=ens1f0np0,"),
        ("mlx5-roce", "mlx5_0/1", "numa_node=1,pci_address=0000:3b:00.0,phys_port_name=p0"),
        ("mlx5-ib", "mlx5_0/1", "fabric=infiniband,"),
        ("mlx5-ib", "mlx5_4/1", "function=restricted,"),
        ("cxgb4", "cxgb4_0/1", "fabric=iwarp,"),
        ("efa", "rdmap16s27/1", "fabric=efa,"),
        ("hfi1", "hfi1_0/1", "fabric=omnipath,"),
        ("rxe", "rxe0/1", "driver=rdma_rxe,fabric=roce,function=software"),
    ] {
        let all = series(&sample(&host(name)).0);
        assert!(info(&all, target).contains(expected), "{name}: {expected} not in {}", info(&all, target));
    }
}

#[test]
fn ports_of_an_adapter_that_are_no_planes_have_no_series() {
    let all = series(&sample(&host("mlx5-multiplane")).0);
    for number in 1..=12 {
        let of = |name: &str| value(&all, &format!("mlx5_0/{number} {name}"));
        let plane = number % 3 == 0;
        assert_eq!(of("fabric.port.up{}"), plane.then_some(1.0), "port {number}");
        assert_eq!(of("fabric.cnp.packets{direction=transmit}"), plane.then_some(10.0 * f64::from(number)));
        assert_eq!(of("fabric.port.io{direction=transmit}"), plane.then_some(2e6 * f64::from(number)));
        assert_eq!(all.iter().any(|(name, _)| name.starts_with(&format!("mlx5_0/{number} "))), plane);
    }
}

#[test]
fn port_of_efa_is_up_as_its_interface_is() {
    let all = |carrier: Option<&str>| {
        let dir = tempfile::tempdir().unwrap();
        let port = dir.path().join("sys/class/infiniband/efa_0/ports/1");
        fs::create_dir_all(&port).unwrap();
        // What the driver says of every port.
        fs::write(port.join("state"), "4: ACTIVE\n").unwrap();
        fs::write(port.join("phys_state"), "5: LinkUp\n").unwrap();
        if let Some(carrier) = carrier {
            let net = dir.path().join("sys/class/net/ens32");
            fs::create_dir_all(&net).unwrap();
            fs::write(net.join("carrier"), carrier).unwrap();
            fs::create_dir_all(dir.path().join("rdma")).unwrap();
            let link = r#"[{"ifindex": 0, "ifname": "efa_0", "port": 1, "state": "ACTIVE", "netdev": "ens32"}]"#;
            fs::write(dir.path().join("rdma/link.json"), link).unwrap();
        }
        value(&series(&sample(dir.path()).0), "efa_0/1 fabric.port.up{}")
    };
    assert_eq!((all(Some("1\n")), all(Some("0\n")), all(None)), (Some(1.0), Some(0.0), None));
}

#[test]
fn units_and_precedence() {
    let root = host("mlx5-roce");
    let all = series(&sample(&root).0);
    let file = |path: &str| fs::read_to_string(root.join(path)).unwrap();
    let ethtool = file("ethtool/ens1f0np0.S.txt");
    let raw = |name: &str| {
        let line = ethtool.lines().find_map(|l| l.trim().strip_prefix(&format!("{name}: ")));
        line.unwrap_or_else(|| panic!("{name}")).parse::<f64>().unwrap()
    };
    let of = |name: &str| value(&all, &format!("mlx5_0/1 {name}"));
    let microseconds = raw("rx_prio3_pause_duration");
    assert_eq!(of("fabric.pfc.pause{direction=receive,priority=3}"), Some(microseconds * 1e-6));
    assert_eq!(of("fabric.pfc.frames{direction=receive,priority=3}"), Some(raw("rx_prio3_pause")));
    assert_eq!(of("fabric.port.io{direction=transmit}"), Some(raw("tx_bytes_phy")));
    assert_eq!(of("fabric.pfc.enabled{priority=3}"), Some(1.0));
    assert_eq!(of("fabric.port.symbol_errors{}"), None);
    assert!(
        all.iter().all(|(n, _)| !n.contains("xmit_wait")),
        "performance management tells nothing of Ethernet links"
    );
    assert_eq!(value(&all, "mlx5_1/1 fabric.port.up{}"), Some(0.0));
    assert_eq!(value(&all, "mlx5_1/1 fabric.netdev.down_reason{reason=no_cable}"), Some(1.0));
    assert_eq!(value(&all, "mlx5_0 fabric.pcie.lane.speed{}"), Some(32e9));
    assert_eq!(value(&all, "mlx5_0 fabric.device.temperature{sensor=1}"), Some(54.0));
    assert_eq!(of("fabric.ecn.setting{parameter=cnp_dscp}"), Some(48.0));
}

#[test]
fn counter_limitations_are_flagged() {
    let (sections, statuses) = sample(&host("mlx5-ib"));
    let all = series(&sections);
    for metric in ["fabric.link.downs", "fabric.link.symbol_errors"] {
        assert_eq!(value(&all, &format!("mlx5_0/1 {metric}{{}}")), None, "{metric} sticks at its end");
        assert_eq!(value(&all, &format!("mlx5_0/1 fabric.port.counter.saturated{{metric={metric}}}")), Some(1.0));
    }
    let data = fs::read_to_string(host("mlx5-ib").join("sys/class/infiniband/mlx5_0/ports/1/counters/port_xmit_data"));
    let words: f64 = data.unwrap().trim().parse().unwrap();
    assert_eq!(value(&all, "mlx5_0/1 fabric.port.io{direction=transmit}"), Some(words * 4.0));
    assert!(
        !statuses.iter().any(|s| s.target.starts_with("mlx5_4") && s.sampler.ends_with("counters")),
        "no counter of a restricted function is opened"
    );
    assert_eq!(value(&all, "mlx5_4/1 fabric.port.up{}"), Some(1.0));
    let all = series(&sample(&host("qib")).0);
    assert_eq!(value(&all, "qib0/1 fabric.port.io{direction=transmit}"), None, "32-bit counters at their end");
    assert!(value(&all, "qib0/1 fabric.port.io{direction=receive}").is_some());
}

/// A copy of a recorded host that a test may break further.
pub fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for name in names(from) {
        let (from, to) = (from.join(&name), to.join(&name));
        if from.is_symlink() {
            symlink(fs::read_link(&from).unwrap(), &to).unwrap();
        } else if from.is_dir() {
            copy(&from, &to);
        } else {
            fs::copy(&from, &to).unwrap();
        }
    }
}

#[test]
fn bad_files_drop_only_their_rows() {
    let dir = tempfile::tempdir().unwrap();
    copy(&host("broken"), dir.path());
    let counters = dir.path().join("sys/class/infiniband/mlx5_0/ports/1");
    let fifo = counters.join("hw_counters/roce_slow_restart");
    // A pipe without a writer, which git cannot store.
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, rustix::fs::Mode::from(0o644), 0).unwrap();
    fs::write(counters.join("hw_counters/rx_write_requests"), vec![b'1'; 10 << 20]).unwrap();
    let begin = Instant::now();
    let (sections, statuses) = sample(dir.path());
    assert!(begin.elapsed() < Duration::from_secs(2), "nothing waits for the pipe");
    let all = series(&sections);
    let of = |name: &str| value(&all, &format!("mlx5_0/1 {name}"));
    assert_eq!(of("fabric.cnp.packets{direction=transmit}"), Some(41.0));
    for gone in [
        "fabric.cnp.packets{direction=receive}",
        "fabric.rdma.out_of_sequence{}",
        "fabric.rdma.sequence_naks{direction=receive}",
        "fabric.rdma.duplicate_requests{}",
        "fabric.rdma.ack_timeouts{}",
        "fabric.rdma.io{direction=receive}",
        "fabric.rdma.packets{direction=transmit}",
        "fabric.port.state{}",
        "fabric.port.rate{}",
        "fabric.ecn.packets{}",
    ] {
        assert_eq!(of(gone), None, "{gone}: absent is not zero");
    }
    assert!(of("fabric.rdma.io{direction=transmit}").is_some());
    assert_eq!(value(&all, "host fabric.udp.datagrams{direction=receive}"), None);
    assert!(matches!(outcome(&statuses, "rdma_counters", "mlx5_0/1"), Outcome::Data { .. }));
    let Outcome::Error(why) = outcome(&statuses, "ethtool", "mlx5_0/1") else { panic!("a bad line goes unnoticed") };
    assert!(why.contains("line 3"), "{why}");
    let Outcome::Error(why) = outcome(&statuses, "dcb", "mlx5_0/1") else { panic!("broken JSON goes unnoticed") };
    assert!(why.contains("dcb/ens1.json"), "{why}");
    let counted = statuses.iter().find(|s| s.sampler == "rdma_counters" && s.target == "mlx5_0/1").unwrap();
    assert_eq!(counted.errors, 1, "bad rows are counted");
}

#[test]
fn passthrough_is_opt_in() {
    let passthrough = |globs: &[&str]| {
        let passthrough = globs.iter().map(|g| (*g).to_string()).collect();
        let settings = Settings { host: "h".into(), passthrough, ..Settings::default() };
        once(Arc::new(Roots::new(Some(host("mlx5-roce")))), &settings).0
    };
    let none = series(&passthrough(&[]));
    assert!(!none.iter().any(|(name, _)| name.contains("fabric.vendor.counter")));
    let some = series(&passthrough(&["rx_prio3_pause*", "np_cnp_sent", "nothing_like_it"]));
    let raw = |name: &str, source: &str| {
        value(&some, &format!("mlx5_0/1 fabric.vendor.counter{{name={name},source={source}}}"))
    };
    let file = fs::read_to_string(host("mlx5-roce").join("ethtool/ens1f0np0.S.txt")).unwrap();
    let told = |name: &str| {
        let line = file.lines().find_map(|l| l.trim().strip_prefix(name)?.strip_prefix(": "));
        line.unwrap().trim().parse::<f64>().ok()
    };
    assert_eq!(raw("rx_prio3_pause", "ethtool"), told("rx_prio3_pause"));
    assert_eq!(raw("rx_prio3_pause_duration", "ethtool"), told("rx_prio3_pause_duration"), "raw, not in seconds");
    assert!(raw("np_cnp_sent", "hw_counters").is_some());
    let rest: Vec<_> = some.iter().filter(|(name, _)| !name.contains("fabric.vendor.counter")).collect();
    assert_eq!(rest, none.iter().collect::<Vec<_>>(), "canonical series are what they were");
}

#[test]
fn passthrough_is_limited_per_port() {
    let dir = tempfile::tempdir().unwrap();
    let net = dir.path().join("sys/class/net/eth0");
    fs::create_dir_all(net.join("statistics")).unwrap();
    fs::create_dir_all(net.join("device")).unwrap();
    fs::create_dir(dir.path().join("ethtool")).unwrap();
    for (name, content) in [("type", "1\n"), ("carrier", "1\n"), ("operstate", "up\n")] {
        fs::write(net.join(name), content).unwrap();
    }
    let lines: String = (0..400).map(|n| format!("     odd_{n}: {n}\n")).collect();
    fs::write(dir.path().join("ethtool/eth0.S.txt"), format!("NIC statistics:\n{lines}")).unwrap();
    let settings = Settings { host: "h".into(), passthrough: vec!["odd_*".into()], ..Settings::default() };
    let engine = Engine::start(Arc::new(Roots::new(Some(dir.path().into()))), settings).unwrap();
    let mut all = Vec::new();
    eventually("counters are left out", Duration::from_secs(20), || {
        all = series(&engine.snapshot());
        all.iter().any(|(name, _)| name.contains("passthrough.left_out"))
    });
    engine.shutdown(Duration::from_secs(2));
    assert_eq!(all.iter().filter(|(name, _)| name.contains("fabric.vendor.counter")).count(), 256);
    let left_out = "host fabriclens.agent.passthrough.left_out{sampler=ethtool,target=eth0}";
    assert_eq!(value(&all, left_out), Some(144.0));
}

/// A saturated 8-bit counter means "at least 255"; the adapter's other counter continues.
#[test]
fn saturated_counter_is_replaced() {
    let downs = |link_downed: &str, ethtool: bool| {
        let dir = tempfile::tempdir().unwrap();
        let port = dir.path().join("sys/class/infiniband/mlx5_0/ports/1");
        let net = dir.path().join("sys/class/net/ib0");
        for (path, content) in [
            (port.join("link_layer"), "InfiniBand\n"),
            (port.join("state"), "4: ACTIVE\n"),
            (port.join("counters/link_downed"), link_downed),
            (port.join("gid_attrs/ndevs/0"), "ib0\n"),
            (net.join("type"), "32\n"),
            (dir.path().join("ethtool/ib0.i.txt"), "driver: mlx5_core\nversion: 1\n"),
        ] {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        if ethtool {
            let text = "NIC statistics:\n     link_down_events_phy: 300\n";
            fs::write(dir.path().join("ethtool/ib0.S.txt"), text).unwrap();
        }
        let all = series(&sample(dir.path()).0);
        let stuck = value(&all, "mlx5_0/1 fabric.port.counter.saturated{metric=fabric.link.downs}");
        (value(&all, "mlx5_0/1 fabric.link.downs{}"), stuck)
    };
    assert_eq!(downs("7\n", true), (Some(7.0), None), "the port's own count while it counts");
    assert_eq!(downs("255\n", true), (Some(300.0), Some(1.0)), "then the adapter's; the end is still told");
    assert_eq!(downs("255\n", false), (None, Some(1.0)), "nobody else counts: no number");
}

/// Three performance management files on InfiniBand: two of data, one of waiting.
#[test]
fn infiniband_has_congestion_samples() {
    let settings = Settings { host: "h".into(), full: Duration::from_millis(400), ..Settings::default() };
    let engine = Engine::start(Arc::new(Roots::new(Some(host("mlx5-ib")))), settings).unwrap();
    let wanted = [
        "mlx5_0/1 fabric.port.xmit_wait.share.max{}",
        "mlx5_0/1 fabric.port.io.peak{direction=receive}",
        "mlx5_0/1 fabric.port.io.peak{direction=transmit}",
    ];
    let begin = Instant::now();
    loop {
        let all = series(&engine.snapshot());
        let missing: Vec<_> = wanted.iter().filter(|name| value(&all, name) != Some(0.0)).collect();
        if missing.is_empty() {
            break;
        }
        assert!(begin.elapsed() < Duration::from_secs(20), "never came: {missing:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
    engine.shutdown(Duration::from_secs(5));
}
