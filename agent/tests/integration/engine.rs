//! The engine on a host that misbehaves: devices that hang, vanish, appear, wrap, panic, and links that go down.

use crate::support::fake::{Fake, PANICS};
use crate::support::{series, value};
use fabriclens_agent::budget::{Budget, Cost};
use fabriclens_agent::http::View;
use fabriclens_agent::schedule::{Engine, Outcome, Settings};
use fabriclens_agent_host::discover::discover;
use fabriclens_agent_host::roots::Roots;
use fabriclens_kernel::Event;
use fabriclens_wire::{Section, Value};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Two devices with a netdev each, written by hand.
fn host() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (device, netdev) in [("mlx5_0", "ens0"), ("mlx5_1", "ens1")] {
        add(dir.path(), device, netdev);
    }
    dir
}

fn add(root: &Path, device: &str, netdev: &str) {
    let port = root.join("sys/class/infiniband").join(device).join("ports/1");
    let net = root.join("sys/class/net").join(netdev);
    let files = [
        (port.join("link_layer"), "Ethernet\n"),
        (port.join("state"), "4: ACTIVE\n"),
        (port.join("phys_state"), "5: LinkUp\n"),
        (port.join("rate"), "100 Gb/sec (4X EDR)\n"),
        (port.join("gid_attrs/types/0"), "RoCE v2\n"),
        (port.join("gid_attrs/ndevs/0"), netdev),
        (port.join("hw_counters/np_cnp_sent"), "100\n"),
        (port.join("hw_counters/out_of_sequence"), "4294967000\n"),
        (net.join("carrier"), "1\n"),
        (net.join("operstate"), "up\n"),
        (root.join("ethtool").join(format!("{netdev}.i.txt")), "driver: mlx5_core\nversion: 1\n"),
        (
            root.join("ethtool").join(format!("{netdev}.S.txt")),
            "NIC statistics:\n     rx_prio3_pause: 5\n     rx_prio3_pause_duration: 1000\n     rx_bytes_phy: 1000000\n",
        ),
    ];
    for (path, content) in files {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
}

fn settings() -> Settings {
    Settings {
        host: "h".into(),
        full: Duration::from_millis(200),
        fast: Duration::from_millis(40),
        slow: Duration::from_millis(800),
        deadline: Duration::from_millis(300),
        ..Settings::default()
    }
}

fn start(root: &Path) -> (Engine, Arc<Fake>) {
    let fake = Fake::new(root);
    let roots = Roots::with_calls(root.to_path_buf(), fake.clone());
    (Engine::start(Arc::new(roots), settings()).unwrap(), fake)
}

/// Polls until `probe` returns a value.
fn until<T>(what: &str, mut probe: impl FnMut() -> Option<T>) -> T {
    let begin = Instant::now();
    loop {
        if let Some(found) = probe() {
            return found;
        }
        assert!(begin.elapsed() < Duration::from_secs(20), "never happened: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn of(engine: &Engine, name: &str) -> Option<f64> {
    value(&series(&engine.snapshot()), name)
}

#[test]
fn hanging_device_is_isolated_and_recovers() {
    let dir = host();
    let (engine, fake) = start(dir.path());
    let pause = |device: &str| format!("{device}/1 fabric.pfc.frames{{direction=receive,priority=3}}");
    until("both sampled", || of(&engine, &pause("mlx5_0")).and(of(&engine, &pause("mlx5_1"))));
    *fake.blocked.lock().unwrap() = "ens0".into();
    let stalled = |s: &fabriclens_agent::schedule::SourceStatus| matches!(s.outcome, Outcome::Stalled(_));
    let status = until("a stall is shown", || engine.sources().into_iter().find(stalled));
    assert_eq!((status.sampler, status.target.as_str()), ("ethtool", "mlx5_0/1"));
    // Changes at the other device are seen while the first hangs.
    fs::write(
        dir.path().join("ethtool/ens1.S.txt"),
        "NIC statistics:\n     rx_prio3_pause: 9\n     rx_prio3_pause_duration: 1000\n     rx_bytes_phy: 1000000\n",
    )
    .unwrap();
    until("the other device is sampled", || of(&engine, &pause("mlx5_1")).filter(|v| *v == 9.0));
    until("values of the hanging device are withdrawn", || of(&engine, &pause("mlx5_0")).is_none().then_some(()));
    let stalls = "host fabriclens.agent.sampler.stalls{sampler=ethtool,target=mlx5_0/1}";
    until("the stall is counted", || of(&engine, stalls).filter(|v| *v == 1.0));
    fake.blocked.lock().unwrap().clear();
    until("it recovers", || of(&engine, &pause("mlx5_0")));
    assert!(!engine.sources().iter().any(stalled));
    engine.shutdown(Duration::from_secs(5));
}

#[test]
fn shutdown_ignores_a_hanging_device() {
    let dir = host();
    let (engine, fake) = start(dir.path());
    *fake.blocked.lock().unwrap() = "ens0".into();
    let stalled = |s: &fabriclens_agent::schedule::SourceStatus| matches!(s.outcome, Outcome::Stalled(_));
    until("a stall is shown", || engine.sources().into_iter().find(stalled));
    engine.shutdown(Duration::from_millis(300));
    fake.blocked.lock().unwrap().clear();
}

/// A thread that hangs in the kernel cannot be ended, so discovery must not start another one each time.
#[test]
fn empty_port_list_is_requested_once() {
    let dir = host();
    let fake = Fake::new(dir.path());
    fake.blocked_links.store(true, Ordering::Relaxed);
    let roots = Arc::new(Roots::with_calls(dir.path().to_path_buf(), fake.clone()));
    for _ in 0..3 {
        assert_eq!(discover(&roots, &[], None).devices.len(), 2, "sysfs tells of them meanwhile");
    }
    assert_eq!(fake.links_asked.load(Ordering::Relaxed), 1);
    fake.blocked_links.store(false, Ordering::Relaxed);
    until("it has answered", || (!roots.asking().load(Ordering::Relaxed)).then_some(()));
    assert_eq!(discover(&roots, &[], None).devices.len(), 2);
    assert_eq!(fake.links_asked.load(Ordering::Relaxed), 2);
}

#[test]
fn failed_thread_is_reported() {
    let dir = host();
    let (engine, fake) = start(dir.path());
    let io = "mlx5_0/1 fabric.port.io{direction=receive}";
    until("sampled", || of(&engine, io));
    let looks = || fake.links_asked.load(Ordering::Relaxed);
    let before = looks();
    fake.tell(Event::DeviceAdded(PANICS.into()));
    let told = until("it is told", || Some(View::troubles(&engine)).filter(|told| !told.is_empty()));
    assert!(told[0].contains("the kernel's events: its thread panicked"), "{told:?}");
    until("devices are looked for all the same", || (looks() > before).then_some(()));
    engine.shutdown(Duration::from_secs(5));
}

#[test]
fn hanging_congestion_sample_is_isolated() {
    let dir = host();
    let row = |d: u32| (format!(r#""ifname":"mlx5_{d}","port":1"#), format!(r#""state":"ACTIVE","netdev":"ens{d}""#));
    let json = |row: &dyn Fn(u32) -> String| format!("[{{{}}},{{{}}}]", row(0), row(1));
    fs::create_dir(dir.path().join("rdma")).unwrap();
    fs::write(dir.path().join("rdma/link.json"), json(&|d| format!("{},{}", row(d).0, row(d).1))).unwrap();
    fs::write(dir.path().join("rdma/statistic.json"), json(&|d| format!(r#"{},"np_cnp_sent":100"#, row(d).0))).unwrap();
    let (engine, fake) = start(dir.path());
    let reads = |target: &str| {
        let sources = engine.sources();
        sources.iter().find(|s| s.sampler == "rdma_counters" && s.target == target).map_or(0, |s| s.reads)
    };
    // 5 full samples a second, and 20 of congestion.
    let often = |target: &str| {
        until(&format!("congestion samples of {target}"), || {
            // A rate needs a duration.
            let before = reads(target);
            std::thread::sleep(Duration::from_secs(1));
            (reads(target) - before >= 10).then_some(())
        });
    };
    often("mlx5_0/1");
    often("mlx5_1/1");
    *fake.blocked_congestion.lock().unwrap() = "mlx5_0".into();
    until("it hangs", || fake.hanging.load(Ordering::Relaxed).then_some(()));
    often("mlx5_1/1");
    let before = reads("mlx5_0/1");
    // Absence has no condition: ten samples would come in this time.
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(reads("mlx5_0/1"), before, "it still hangs");
    fake.blocked_congestion.lock().unwrap().clear();
    often("mlx5_0/1");
    // A thread of its own reads the device now, so another hang affects no other device.
    *fake.blocked_congestion.lock().unwrap() = "mlx5_0".into();
    often("mlx5_0/1");
    often("mlx5_1/1");
    engine.shutdown(Duration::from_secs(5));
}

#[test]
fn panicking_sampler_is_retried() {
    let dir = host();
    let (engine, fake) = start(dir.path());
    let io = "mlx5_0/1 fabric.port.io{direction=receive}";
    until("sampled", || of(&engine, io));
    *fake.panics.lock().unwrap() = "ens0".into();
    until("shown as an error", || {
        engine
            .sources()
            .into_iter()
            .find(|s| matches!(&s.outcome, Outcome::Error(why) if why.contains("broken on purpose")))
    });
    until("counted", || {
        of(&engine, "host fabriclens.agent.sampler.panics{sampler=ethtool,target=mlx5_0/1}").filter(|v| *v >= 1.0)
    });
    let cnp = "mlx5_0/1 fabric.cnp.packets{direction=transmit}";
    assert!(of(&engine, cnp).is_some(), "other sources of the device go on");
    fake.panics.lock().unwrap().clear();
    until("it is back", || of(&engine, io));
    engine.shutdown(Duration::from_secs(5));
}

#[test]
fn devices_are_added_and_removed() {
    let dir = host();
    let (engine, _fake) = start(dir.path());
    let cnp = |device: &str| format!("{device}/1 fabric.cnp.packets{{direction=transmit}}");
    until("sampled", || of(&engine, &cnp("mlx5_1")));
    fs::remove_dir_all(dir.path().join("sys/class/infiniband/mlx5_1")).unwrap();
    fs::remove_dir_all(dir.path().join("sys/class/net/ens1")).unwrap();
    until("its series end", || of(&engine, &cnp("mlx5_1")).is_none().then_some(()));
    let ended = |s: &Section| s.resource.device.as_deref() == Some("mlx5_1") && s.values.contains(&Value::Stale);
    until("told to the collector", || engine.reader(0).take(usize::MAX).iter().any(ended).then_some(()));
    add(dir.path(), "mlx5_7", "ens7");
    until("a new one is sampled", || of(&engine, &cnp("mlx5_7")));
    until("gone ones are counted", || of(&engine, "host fabriclens.agent.devices{state=gone}").filter(|v| *v >= 1.0));
    engine.shutdown(Duration::from_secs(5));
}

#[test]
fn link_down_is_urgent() {
    let dir = host();
    // The next full sample is far away, so only the event can show it.
    let fake = Fake::new(dir.path());
    let roots = Roots::with_calls(dir.path().to_path_buf(), fake.clone());
    let slow = Settings { full: Duration::from_secs(30), ..settings() };
    let engine = Engine::start(Arc::new(roots), slow).unwrap();
    until("first sample", || of(&engine, "mlx5_0/1 fabric.port.up{}").filter(|v| *v == 1.0));
    engine.reader(0).take(usize::MAX);
    fs::write(dir.path().join("sys/class/infiniband/mlx5_0/ports/1/state"), "1: DOWN\n").unwrap();
    fs::write(dir.path().join("sys/class/net/ens0/carrier"), "0\n").unwrap();
    let begin = Instant::now();
    fake.tell(Event::Carrier { netdev: "ens0".into(), up: false });
    let section = until("an urgent section", || engine.reader(0).take(usize::MAX).into_iter().find(|s| s.urgent));
    let took = begin.elapsed();
    assert!(took < Duration::from_millis(200), "{took:?}");
    assert_eq!(value(&series(&[section]), "mlx5_0/1 fabric.port.up{}"), Some(0.0));
    fake.tell(Event::Async { device: "mlx5_0".into(), port: Some(1), kind: "port_err" });
    until("async events are counted", || {
        of(&engine, "mlx5_0/1 fabric.port.async_events{event=port_err}").filter(|v| *v == 1.0)
    });
    assert_eq!(of(&engine, "mlx5_1/1 fabric.port.async_events{event=port_err}"), None);
    // The order in time is what is tested: the kernel reports the carrier before the port's state follows, and no second
    // event comes.
    std::thread::sleep(Duration::from_millis(600));
    fake.tell(Event::Carrier { netdev: "ens0".into(), up: true });
    std::thread::sleep(Duration::from_millis(40));
    fs::write(dir.path().join("sys/class/infiniband/mlx5_0/ports/1/state"), "4: ACTIVE\n").unwrap();
    until("the late state", || of(&engine, "mlx5_0/1 fabric.port.state{}").filter(|v| *v == 4.0));
    engine.shutdown(Duration::from_secs(5));
}

#[test]
fn changed_dcb_configuration_is_read_at_once() {
    let dir = host();
    let dcb = dir.path().join("dcb/ens0.json");
    let pfc =
        |on: bool| format!(r#"{{"pfc": {{"prio_pfc": [false, false, false, {on}, false, false, false, false]}}}}"#);
    fs::create_dir_all(dcb.parent().unwrap()).unwrap();
    fs::write(&dcb, pfc(true)).unwrap();
    let fake = Fake::new(dir.path());
    let roots = Roots::with_calls(dir.path().to_path_buf(), fake.clone());
    // No slow sample comes by itself.
    let engine = Engine::start(Arc::new(roots), Settings { slow: Duration::from_secs(3600), ..settings() }).unwrap();
    let on = || of(&engine, "mlx5_0/1 fabric.pfc.enabled{priority=3}");
    until("first sample", || on().filter(|v| *v == 1.0));
    fs::write(&dcb, pfc(false)).unwrap();
    fake.tell(Event::DcbChanged("ens0".into()));
    until("the change", || on().filter(|v| *v == 0.0));
    engine.shutdown(Duration::from_secs(5));
}

#[test]
fn settings_that_change_while_they_are_read_are_old_or_new_or_absent() {
    let dir = host();
    let (dcb, mtu) = (dir.path().join("dcb/ens0.json"), dir.path().join("sys/class/net/ens0/mtu"));
    fs::create_dir_all(dcb.parent().unwrap()).unwrap();
    let pfc = |on: bool| format!(r#"{{"pfc": {{"prio_pfc": [{on}, {on}, {on}, {on}, {on}, {on}, {on}, {on}]}}}}"#);
    // Ends the writer, also if the test fails.
    struct Stop<'a>(&'a AtomicBool);
    impl Drop for Stop<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    let stopping = AtomicBool::new(false);
    let rewrite = || {
        // In place, so that readers see empty and half files now and then.
        for on in [true, false].into_iter().cycle().take_while(|_| !stopping.load(Ordering::Relaxed)) {
            let text = pfc(on);
            for part in [&text[..0], &text[..40], &text] {
                fs::write(&dcb, part).unwrap();
            }
            fs::write(&mtu, if on { "9000\n" } else { "1500\n" }).unwrap();
            std::thread::sleep(Duration::from_millis(3));
        }
    };
    let mut values = BTreeSet::new();
    std::thread::scope(|scope| {
        let stop = Stop(&stopping);
        scope.spawn(rewrite);
        let roots = Roots::with_calls(dir.path().to_path_buf(), Fake::new(dir.path()));
        let settings = Settings { slow: Duration::from_millis(40), full: Duration::from_millis(20), ..settings() };
        let engine = Engine::start(Arc::new(roots), settings).unwrap();
        until("all values", || {
            for section in engine.reader(0).take(usize::MAX) {
                let all = series(&[section]);
                let on = all.iter().filter(|(name, _)| name.starts_with("mlx5_0/1 fabric.pfc.enabled{"));
                let on: Vec<f64> = on.map(|(_, value)| *value).collect();
                assert!(on.is_empty() || on == [0.0; 8] || on == [1.0; 8], "half of a change: {on:?}");
                values.extend(on.iter().map(|value| *value as u64));
                values.extend(value(&all, "mlx5_0/1 fabric.netdev.mtu{}").map(|mtu| mtu as u64));
            }
            (values.len() >= 4).then_some(())
        });
        drop(stop);
        assert_eq!(engine.troubles(), [""; 0]);
        engine.shutdown(Duration::from_secs(5));
    });
    assert_eq!(values, BTreeSet::from([0, 1, 1500, 9000]));
}

#[test]
fn slower_link_is_found_without_event() {
    let dir = host();
    let changes = dir.path().join("sys/class/net/ens0/carrier_changes");
    fs::write(&changes, "2\n").unwrap();
    // Slow facts are far away, and no event comes.
    let roots = Roots::with_calls(dir.path().to_path_buf(), Fake::new(dir.path()));
    let engine = Engine::start(Arc::new(roots), Settings { slow: Duration::from_secs(3600), ..settings() }).unwrap();
    let rate = "mlx5_0/1 fabric.port.rate{}";
    until("first sample", || of(&engine, rate).filter(|v| *v == 12.5e9));
    until("a second sample", || engine.reader(0).take(usize::MAX).into_iter().nth(2));
    fs::write(dir.path().join("sys/class/infiniband/mlx5_0/ports/1/rate"), "50 Gb/sec (2X)\n").unwrap();
    fs::write(changes, "4\n").unwrap();
    until("the rate", || of(&engine, rate).filter(|v| *v == 6.25e9));
    assert!(engine.reader(0).take(usize::MAX).iter().any(|s| s.urgent), "a change that is over is urgent");
    engine.shutdown(Duration::from_secs(5));
}

#[test]
fn peaks_wraps_and_shares_each_second() {
    let dir = host();
    let (engine, _fake) = start(dir.path());
    let hw = dir.path().join("sys/class/infiniband/mlx5_0/ports/1/hw_counters");
    let sequence = "mlx5_0/1 fabric.rdma.out_of_sequence{}";
    until("first sample", || of(&engine, sequence).filter(|v| *v == 4_294_967_000.0));
    fs::write(hw.join("out_of_sequence"), "200\n").unwrap();
    until("the wrap is extended", || of(&engine, sequence).filter(|v| *v == 4_294_967_296.0 + 200.0));
    until("and counted", || {
        of(&engine, "host fabriclens.agent.discontinuities{reason=wrap,target=mlx5_0/1}").filter(|v| *v == 1.0)
    });
    fs::write(hw.join("np_cnp_sent"), "1100\n").unwrap();
    until("the burst shows as a peak", || {
        // 1,000 packets within one congestion sample of 40 ms (some more where the machine is slow).
        of(&engine, "mlx5_0/1 fabric.cnp.packets.peak{direction=transmit}").filter(|v| *v > 2_000.0)
    });
    fs::write(
        dir.path().join("ethtool/ens0.S.txt"),
        "NIC statistics:\n     rx_prio3_pause: 50\n     rx_prio3_pause_duration: 101000\n     rx_bytes_phy: 1000000\n",
    )
    .unwrap();
    let share = until("the pause shows as a share", || {
        of(&engine, "mlx5_0/1 fabric.pfc.pause.share{direction=receive,priority=3}").filter(|v| *v > 0.0)
    });
    assert!(share > 0.1 && share <= 1.0, "{share}");
    // A list that changes between reads: PFC switched on for another priority.
    fs::write(dir.path().join("ethtool/ens0.S.txt"), "NIC statistics:\n     rx_prio3_pause: 50\n     rx_prio4_pause: 7\n     rx_prio3_pause_duration: 101000\n     rx_bytes_phy: 1000000\n").unwrap();
    until("the new line is there", || {
        of(&engine, "mlx5_0/1 fabric.pfc.frames{direction=receive,priority=4}").filter(|v| *v == 7.0)
    });
    assert_eq!(of(&engine, "mlx5_0/1 fabric.pfc.frames{direction=receive,priority=3}"), Some(50.0));
    // Switched off for the first priority: its series ends instead of staying constant.
    engine.reader(0).take(usize::MAX);
    fs::write(
        dir.path().join("ethtool/ens0.S.txt"),
        "NIC statistics:\n     rx_prio4_pause: 7\n     rx_bytes_phy: 1000000\n",
    )
    .unwrap();
    let ended = |section: &Section| {
        section.columns.iter().zip(&section.values).any(|(column, value)| {
            let of_three = column.labels.iter().any(|(name, value)| &**name == "priority" && &**value == "3");
            column.metric.name == "fabric.pfc.frames" && of_three && *value == Value::Stale
        })
    };
    until("the collector is told of the end", || engine.reader(0).take(usize::MAX).iter().any(ended).then_some(()));
    engine.shutdown(Duration::from_secs(5));
}

#[test]
fn host_without_devices_stays_up() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("sys")).unwrap();
    let (engine, _fake) = start(dir.path());
    until("it says so", || of(&engine, "host fabric.host.ports{fabric=roce}").filter(|v| *v == 0.0));
    add(dir.path(), "mlx5_0", "ens0");
    until("and sees what comes", || of(&engine, "mlx5_0/1 fabric.port.up{}"));
    engine.shutdown(Duration::from_secs(5));
}

#[test]
fn budget_overrun_is_reported() {
    let dir = host();
    let budget = Budget { cpu: 0.01, memory: u64::MAX };
    let settings = Settings { budget, ..settings() };
    let engine = Engine::start(Arc::new(Roots::new(Some(dir.path().into()))), settings).unwrap();
    let steps = || of(&engine, "host fabriclens.agent.slowed.steps{}");
    until("its pace is told", || steps().filter(|n| *n == 0.0));
    // Imitates several minutes, each with half a core used.
    let (begin, minute) = (Instant::now(), Duration::from_secs(60));
    for n in 1..=6 {
        let cost = Cost { cpu: minute * n, memory: 0 };
        engine.throttle().observe(cost, begin + minute * 2 * n);
    }
    until("it is told that it is slow", || steps().filter(|n| *n == 4.0));
    assert_eq!(View::slowed(&engine).map(|why| why.contains("in 8 periods")), Some(true));
    let reads = || engine.sources().iter().map(|s| s.reads).sum::<u64>();
    let before = reads();
    until("it goes on", || Some(reads()).filter(|n| *n > before));
    engine.shutdown(Duration::from_secs(2));
}
