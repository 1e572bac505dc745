//! Live calls to the running kernel, with a veth pair in a network namespace of each test.

#![allow(clippy::disallowed_methods, reason = "the test starts `unshare` and `ip`")]

use std::process::Command;
use std::time::{Duration, Instant};

use fabriclens_kernel::live::LiveKernel;
use fabriclens_kernel::{CallError, Event, EventSource, KernelCalls};

/// Runs the test `name` again as root of its own user and network namespace. True in that run.
fn in_namespace(name: &str) -> bool {
    const INSIDE: &str = "FABRICLENS_TEST_NAMESPACE";
    if std::env::var_os(INSIDE).is_some() {
        return true;
    }
    let binary = std::env::current_exe().unwrap();
    let done = Command::new("unshare")
        .arg("-rn")
        .arg(binary)
        .args(["--exact", name, "--include-ignored", "--nocapture", "--test-threads=1"])
        .env(INSIDE, "1")
        .output()
        .unwrap();
    let output = String::from_utf8_lossy(&done.stdout) + String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{name} failed in its namespace: {output}");
    false
}

fn ip(arguments: &str) {
    assert!(Command::new("ip").args(arguments.split(' ')).status().unwrap().success(), "ip {arguments}");
}

#[test]
#[ignore = "needs: user-namespaces"]
fn ethtool_of_a_veth_pair() {
    if !in_namespace("live::ethtool_of_a_veth_pair") {
        return;
    }
    ip("link add v0 type veth peer name v1");
    ip("link set v0 up");
    ip("link set v1 up");
    let live = LiveKernel::default();
    assert_eq!(live.driver("v0").unwrap().driver, "veth");
    let names = live.stat_names("v0").unwrap();
    assert!(names.iter().any(|n| &**n == "peer_ifindex"), "{names:?}");
    let mut values = vec![1; 3];
    live.stat_values("v0", &names, &mut values).unwrap();
    assert_eq!(values.len(), names.len());
    let peer = names.iter().position(|n| &**n == "peer_ifindex").unwrap();
    assert!(values[peer] > 1, "{values:?}");

    // Another length of the list is an error, and the values stay unchanged.
    let fewer = names[1..].to_vec().into();
    let before = values.clone();
    match live.stat_values("v0", &fewer, &mut values) {
        Err(CallError::ListChanged { had, has, .. }) => assert_eq!((had, has), (fewer.len(), names.len())),
        other => panic!("{other:?}"),
    }
    assert_eq!(values, before);
    // More queues, more statistics.
    ip("link add w0 numtxqueues 4 numrxqueues 4 type veth peer name w1 numtxqueues 4 numrxqueues 4");
    let more = live.stat_names("w0").unwrap();
    assert!(more.len() > names.len());
    assert!(matches!(live.stat_values("w0", &names, &mut values), Err(CallError::ListChanged { .. })));

    assert_eq!(live.link_state("v0").unwrap().up, Some(true));
    assert_eq!(live.link_state("w0").unwrap().up, Some(false));
    assert_eq!(live.max_rate_bits("v0").unwrap_or(10_000_000_000), 10_000_000_000);
    let absent = [live.std_stats("v0", &mut Vec::new()).err(), live.dcb("v0").err(), live.module("v0").err()];
    for error in absent {
        assert!(matches!(error, Some(CallError::Unsupported { .. } | CallError::Denied { .. })), "{error:?}");
    }
    assert!(matches!(live.stat_names("lo"), Err(CallError::Unsupported { .. })));
}

#[test]
fn missing_netdev_is_gone() {
    let live = LiveKernel::default();
    for error in [
        live.driver("nosuch0").err(),
        live.stat_names("nosuch0").err(),
        live.stat_values("nosuch0", &Vec::new().into(), &mut Vec::new()).err(),
        live.std_stats("nosuch0", &mut Vec::new()).err(),
        live.link_state("nosuch0").err(),
        live.max_rate_bits("nosuch0").err(),
        live.netdev_settings("nosuch0").err(),
        live.dcb("nosuch0").err(),
        live.driver("a-name-that-is-longer-than-any-netdev").err(),
    ] {
        assert!(matches!(error, Some(CallError::Gone { .. })), "{error:?}");
    }
}

/// Passes on hosts with and without RDMA.
#[test]
fn rdma_is_readable_or_unsupported() {
    let live = LiveKernel::default();
    match live.rdma_links() {
        Ok(links) => {
            for link in links {
                let mut out = Vec::new();
                let counters = live.rdma_counters(&link, &mut out);
                println!("{link:?}: {counters:?} {out:?} {:?}", live.verbs_port(&link.device, link.port));
                assert!(matches!(counters, Ok(()) | Err(CallError::Unsupported { .. })));
                let other = fabriclens_kernel::RdmaLink { index: link.index + 1000, ..link };
                assert!(matches!(live.rdma_counters(&other, &mut out), Err(CallError::Gone { .. })));
            }
            println!("{:?}", live.rdma_qps(None));
        }
        Err(CallError::Unsupported { .. }) => {
            assert!(matches!(live.rdma_qps(None), Err(CallError::Unsupported { .. })));
        }
        Err(error) => panic!("{error}: {:?}", std::error::Error::source(&error)),
    }
    assert!(matches!(live.verbs_port("nosuch0", 1), Err(CallError::Unsupported { .. })));
}

/// Waits for all of `expected`, in any order. Ignores other events.
fn expect(events: &mut Box<dyn EventSource>, expected: &[Event]) {
    let start = Instant::now();
    let mut seen = Vec::new();
    while !expected.iter().all(|e| seen.contains(e)) {
        assert!(start.elapsed() < Duration::from_secs(2), "expected {expected:?}, saw {seen:?}");
        seen.extend(events.wait(Duration::from_millis(100)).unwrap());
    }
}

#[test]
#[ignore = "needs: user-namespaces"]
fn link_events() {
    if !in_namespace("live::link_events") {
        return;
    }
    ip("link add v0 type veth peer name v1");
    ip("link set v0 up");
    let mut events = LiveKernel::default().events().unwrap();
    let start = Instant::now();
    assert_eq!(events.wait(Duration::from_millis(80)).unwrap(), None);
    assert!(start.elapsed() >= Duration::from_millis(80));

    let carrier = |netdev: &str, up| Event::Carrier { netdev: netdev.into(), up };
    let changed = |netdev: &str| Event::NetdevChanged(netdev.into());
    ip("link set v1 up");
    expect(&mut events, &[carrier("v0", true), carrier("v1", true)]);
    ip("link set v1 down");
    expect(&mut events, &[carrier("v0", false), carrier("v1", false)]);
    ip("link set v1 name fab1");
    expect(&mut events, &[changed("v1"), changed("fab1")]);
    ip("link del v0");
    expect(&mut events, &[changed("v0"), changed("fab1")]);
}
