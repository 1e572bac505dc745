//! The client against switches that behave, and against those that do not.

#![allow(clippy::unwrap_used, reason = "a test fails by it")]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fabriclens_config::{GnmiKind, GnmiTarget, GnmiTls};
use fabriclens_gnmi::proto::{Encoding, SubscriptionMode};
use fabriclens_gnmi::{Clock, Leaf, Observer, Receiver, Scalar, Stream, Target, run};
use fabriclens_gnmi_target::{Fault, Rules, Switch};
use fabriclens_testing::eventually_async;
use serde_json::json;
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Generous: the machine may be busy, and a refused stream waits up to a minute.
const LIMIT: Duration = Duration::from_secs(120);

async fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    eventually_async(what, LIMIT, async || condition()).await;
}

struct Host;

impl Clock for Host {
    fn now_ms(&self) -> i64 {
        SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as i64
    }
}

/// Everything that was received: values and how often they came, deleted paths, streams that failed.
#[derive(Default)]
struct Seen {
    values: BTreeMap<String, (String, usize)>,
    deleted: Vec<String>,
    failed: Vec<(&'static str, &'static str)>,
    times: Vec<i64>,
    bytes: usize,
    synced: usize,
}

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Seen>>);

impl Log {
    fn see<T>(&self, look: impl FnOnce(&mut Seen) -> T) -> T {
        look(&mut self.0.lock().unwrap())
    }

    fn value(&self, path: &str) -> Option<String> {
        self.see(|seen| seen.values.get(path).map(|(value, _)| value.clone()))
    }

    fn times(&self, path: &str) -> usize {
        self.see(|seen| seen.values.get(path).map_or(0, |(_, times)| *times))
    }

    fn failures(&self, stream: &str, reason: &str) -> usize {
        self.see(|seen| seen.failed.iter().filter(|failed| **failed == (stream, reason)).count())
    }
}

impl Receiver for Log {
    fn leaf(&mut self, leaf: Leaf<'_>) {
        let value = match leaf.value {
            Scalar::Number(number) => number.to_string(),
            Scalar::Text(text) => text.to_owned(),
        };
        let keys: Vec<&str> = leaf.keys.iter().map(|(_, value)| value.as_str()).collect();
        self.see(|seen| {
            seen.times.push(leaf.time_ms);
            let entry = seen.values.entry(format!("{} {}", leaf.name, keys.join(" "))).or_default();
            *entry = (value, entry.1 + 1);
        });
    }

    fn delete(&mut self, name: &str, keys: &[(String, String)], _: i64) {
        self.see(|seen| seen.deleted.push(format!("{name} {keys:?}")));
    }

    fn synced(&mut self) {
        self.see(|seen| seen.synced += 1);
    }
}

impl Observer for Log {
    fn message(&self, _: &Stream, bytes: usize, _: usize, _: usize) {
        self.see(|seen| seen.bytes += bytes);
    }

    fn failed(&self, stream: &Stream, reason: &'static str) {
        self.see(|seen| seen.failed.push((stream.name, reason)));
    }
}

/// A collector of one switch.
struct Collector {
    log: Log,
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl Collector {
    fn of(config: GnmiTarget) -> Self {
        let log = Log::default();
        let target = Target { config: config.into(), observer: Arc::new(log.clone()), clock: Arc::new(Host) };
        let (stop, stopped) = watch::channel(false);
        let of = log.clone();
        let task = tokio::spawn(run(target, move |_| Box::new(of.clone()), stopped));
        Self { log, stop, task }
    }

    async fn stop(self) {
        self.stop.send_replace(true);
        self.task.await.unwrap();
    }
}

fn config(switch: &Switch, kind: GnmiKind) -> GnmiTarget {
    GnmiTarget {
        name: "leaf1".into(),
        address: switch.address.to_string(),
        kind,
        interval: kind.least_interval(),
        login: None,
        tls: None,
    }
}

fn login(dir: &tempfile::TempDir, password: &str) -> Option<(String, std::path::PathBuf)> {
    let path = dir.path().join("password");
    std::fs::write(&path, format!("{password}\n")).unwrap();
    Some(("admin".into(), path))
}

const PORTS: &str = "COUNTERS_DB/COUNTERS/Ethernet*";
const OCTETS: &str = "COUNTERS/SAI_PORT_STAT_IF_IN_OCTETS Ethernet0";

fn octets(number: u64) -> serde_json::Value {
    json!({ "Ethernet0": { "SAI_PORT_STAT_IF_IN_OCTETS": number.to_string() } })
}

#[tokio::test]
async fn sonic_is_sampled_and_its_events_come_at_once() {
    let switch = Switch::start(None, Rules::sonic(), None).unwrap();
    switch.values.set(PORTS, octets(7));
    let collector = Collector::of(config(&switch, GnmiKind::Sonic));
    let log = &collector.log;
    eventually("two samples", || log.times(OCTETS) >= 2).await;
    assert_eq!(log.value(OCTETS).unwrap(), "7");
    switch.values.set(PORTS, octets(8));
    eventually("the new value", || log.value(OCTETS).unwrap() == "8").await;
    eventually("the stream of events", || log.see(|seen| seen.synced) >= 2).await;
    switch.values.event(&json!({ "sonic-events-swss:pfc-storm": { "ifname": "Ethernet0", "queue_index": "3" } }));
    eventually("the event", || log.value("all/ifname sonic-events-swss:pfc-storm").is_some()).await;
    assert!(log.failures("queues", "refused") > 0, "a path that this switch lacks costs no other stream");
    assert_eq!(log.failures("ports", "refused"), 0);
    switch.values.delete(PORTS);
    eventually("the deleted row", || log.see(|seen| !seen.deleted.is_empty())).await;
    let calls = switch.values.calls();
    assert!(calls.iter().all(|list| list.encoding() == Encoding::JsonIetf));
    collector.stop().await;
}

#[tokio::test]
async fn cumulus_takes_basic_authentication_and_samples_of_five_seconds() {
    let dir = tempfile::tempdir().unwrap();
    let switch = Switch::start(None, Rules::cumulus().with_login("admin", "secret"), None).unwrap();
    let path = "/qos/interfaces/interface[interface-id=swp1]/state/switch-priority[priority=3]/counters/in-pause-pkts";
    switch.values.set(path, json!(12));
    let config = GnmiTarget { login: login(&dir, "secret"), ..config(&switch, GnmiKind::Cumulus) };
    let collector = Collector::of(config);
    let name = "qos/interfaces/interface/state/switch-priority/counters/in-pause-pkts swp1 3";
    eventually("a value", || collector.log.value(name).as_deref() == Some("12")).await;
    let oper = "/interfaces/interface[name=swp1]/state/oper-status";
    let called = || switch.values.calls().iter().any(|list| list.subscription[0].mode() == SubscriptionMode::OnChange);
    eventually("the subscription to changes", called).await;
    let seen = || {
        switch.values.set(oper, json!("DOWN"));
        collector.log.value("interfaces/interface/state/oper-status swp1").as_deref() == Some("DOWN")
    };
    eventually("a change", seen).await;
    collector.stop().await;
}

#[tokio::test]
async fn a_switch_that_restarts_is_read_again() {
    let switch = Switch::start(None, Rules::sonic(), None).unwrap();
    switch.values.set(PORTS, octets(7));
    let (address, collector) = (switch.address, Collector::of(config(&switch, GnmiKind::Sonic)));
    eventually("a sample", || collector.log.times(OCTETS) > 0).await;
    drop(switch);
    eventually("the failure", || collector.log.failures("ports", "connection") > 0).await;
    let switch = Switch::start(Some(address), Rules::sonic(), None).unwrap();
    switch.values.set(PORTS, octets(1));
    eventually("a sample of the new start", || collector.log.value(OCTETS).unwrap() == "1").await;
    collector.stop().await;
}

#[tokio::test]
async fn a_stream_that_the_switch_ends_is_opened_again() {
    let switch = Switch::start(None, Rules::sonic().with_fault(Fault::Ends), None).unwrap();
    switch.values.set(PORTS, octets(7));
    let collector = Collector::of(config(&switch, GnmiKind::Sonic));
    eventually("two streams", || collector.log.times(OCTETS) >= 2).await;
    assert!(collector.log.failures("ports", "ended") > 0);
    collector.stop().await;
}

#[tokio::test]
async fn wrong_credentials_are_told_and_new_ones_are_read() {
    let dir = tempfile::tempdir().unwrap();
    let switch = Switch::start(None, Rules::sonic().with_login("admin", "secret"), None).unwrap();
    switch.values.set(PORTS, octets(7));
    let config = GnmiTarget { login: login(&dir, "wrong"), ..config(&switch, GnmiKind::Sonic) };
    let collector = Collector::of(config);
    eventually("the refusal", || collector.log.failures("ports", "credentials") > 0).await;
    login(&dir, "secret");
    eventually("a sample", || collector.log.times(OCTETS) > 0).await;
    collector.stop().await;
}

#[tokio::test]
async fn an_interval_that_the_switch_does_not_take_is_refused() {
    let rules = Rules { least: Duration::from_secs(2), ..Rules::sonic() };
    let switch = Switch::start(None, rules, None).unwrap();
    switch.values.set(PORTS, octets(7));
    let collector = Collector::of(config(&switch, GnmiKind::Sonic));
    eventually("the refusal", || collector.log.failures("ports", "refused") > 0).await;
    collector.stop().await;
}

/// One thread reads a healthy switch beside one of each bad kind.
#[tokio::test]
async fn bad_switches_delay_no_other() {
    let good = Switch::start(None, Rules::sonic(), None).unwrap();
    good.values.set(PORTS, octets(7));
    let collector = Collector::of(config(&good, GnmiKind::Sonic));
    let mut bad = Vec::new();
    for fault in [Fault::Silent, Fault::Flood, Fault::Huge, Fault::Garbage, Fault::Clock] {
        let switch = Switch::start(None, Rules::sonic().with_fault(fault), None).unwrap();
        switch.values.set(PORTS, octets(1));
        let collector = Collector::of(config(&switch, GnmiKind::Sonic));
        bad.push((switch, collector));
    }
    eventually("three samples of the good one", || collector.log.times(OCTETS) >= 3).await;
    eventually("too large a message", || bad[2].1.log.failures("ports", "connection") > 0).await;
    eventually("no message at all", || bad[3].1.log.failures("ports", "malformed") > 0).await;
    eventually("a flood", || bad[1].1.log.see(|seen| seen.bytes) > 8 << 20).await;
    let now = Host.now_ms();
    eventually("an unset clock", || bad[4].1.log.times(OCTETS) > 0).await;
    assert!(bad[4].1.log.see(|seen| seen.times.iter().all(|at| (at - now).abs() < 600_000)));
    assert_eq!(bad[0].1.log.see(|seen| seen.bytes), 0);
    for (_, collector) in bad {
        collector.stop().await;
    }
    collector.stop().await;
}

#[tokio::test]
async fn both_sides_show_certificates() {
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, text: String| {
        std::fs::write(dir.path().join(name), text).unwrap();
        dir.path().join(name)
    };
    let mut authority = rcgen::CertificateParams::new(vec![]).unwrap();
    authority.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let key = rcgen::KeyPair::generate().unwrap();
    let ca = authority.self_signed(&key).unwrap().pem();
    let issuer = rcgen::Issuer::new(authority, key);
    let signed = |name: &str| {
        let key = rcgen::KeyPair::generate().unwrap();
        let cert = rcgen::CertificateParams::new(vec![name.to_owned()]).unwrap().signed_by(&key, &issuer).unwrap();
        (cert.pem(), key.serialize_pem())
    };
    let (server, client) = (signed("leaf1.example"), signed("collector"));
    let tls = tonic::transport::ServerTlsConfig::new()
        .identity(tonic::transport::Identity::from_pem(server.0, server.1))
        .client_ca_root(tonic::transport::Certificate::from_pem(&ca));
    let switch = Switch::start(None, Rules::sonic(), Some(tls)).unwrap();
    switch.values.set(PORTS, octets(7));
    let ca = write("ca.pem", ca);
    let identity = Some((write("cert.pem", client.0), write("key.pem", client.1)));
    let tls = |identity| GnmiTls { ca: Some(ca.clone()), identity, server_name: Some("leaf1.example".into()) };
    let without = Collector::of(GnmiTarget { tls: Some(tls(None)), ..config(&switch, GnmiKind::Sonic) });
    let with = Collector::of(GnmiTarget { tls: Some(tls(identity)), ..config(&switch, GnmiKind::Sonic) });
    eventually("a sample", || with.log.times(OCTETS) > 0).await;
    eventually("the refusal", || without.log.failures("ports", "connection") > 0).await;
    assert_eq!(without.log.times(OCTETS), 0);
    with.stop().await;
    without.stop().await;
}
