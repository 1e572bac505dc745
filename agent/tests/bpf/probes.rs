//! Counters of the TCP probes against those of the kernel.

use crate::kernel::{Cable, NETWORK, OwnAddress, Statistics, Undescribed};
use crate::turn;
use fabriclens_agent_host::batch::{Batch, SampleError};
use fabriclens_agent_host::roots::Roots;
use fabriclens_agent_probes::destinations::Destinations;
use fabriclens_agent_samplers::target::SamplingTarget;
use fabriclens_agent_samplers::{Sampler, by_name};
use fabriclens_ebpf_abi::tcp_rtt::GAP;
use fabriclens_testing::eventually;
use fabriclens_wire::{Histogram, Value};
use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::time::Duration;

/// Exchanges of one byte each way.
const EXCHANGES: u64 = 500;

/// Opens the sampler on this host.
fn open(name: &str) -> Box<dyn Sampler> {
    open_at(name, Roots::new(None))
}

fn open_at(name: &str, roots: Roots) -> Box<dyn Sampler> {
    let roots = Arc::new(roots);
    let destinations = Destinations { rack: vec![NETWORK.parse().unwrap()], ..Destinations::default() };
    let host = SamplingTarget::host(&roots, &Arc::from("h"), &Arc::new(destinations));
    (by_name(name).unwrap().open)(&host).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn exchange() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (mut server, _) = listener.accept().unwrap();
    client.set_nodelay(true).unwrap();
    server.set_nodelay(true).unwrap();
    let mut byte = [1];
    for _ in 0..EXCHANGES {
        client.write_all(&byte).unwrap();
        server.read_exact(&mut byte).unwrap();
        server.write_all(&byte).unwrap();
        client.read_exact(&mut byte).unwrap();
    }
}

/// Counters towards [`NETWORK`], which only the tests have, and the probe's own; by name and distinguishing label.
type Counts = BTreeMap<String, u64>;

fn counts(sampler: &mut dyn Sampler) -> Counts {
    let mut batch = Batch::default();
    sampler.sample(&[], &mut batch).unwrap();
    let mut told = Counts::new();
    for (column, value) in batch.facts {
        let find = |name: &str| column.labels.iter().find(|(n, _)| &**n == name).map(|(_, v)| v.to_string());
        let what = ["kind", "direction", "opened", "reason"].iter().find_map(|name| find(name));
        let name = column.metric.name.trim_start_matches("fabric.tcp.").trim_start_matches("fabriclens.agent.");
        let name = what.map_or_else(|| name.to_string(), |what| format!("{name} {what}"));
        let n = match value {
            _ if find("destination").is_some_and(|class| class != "rack") => continue,
            Value::Int(n) => n,
            Value::Histogram(h) => h.count(),
            _ => continue,
        };
        *told.entry(name).or_default() += n;
    }
    told
}

/// Increases since `before`, without zeros.
fn since(before: &Counts, after: &Counts) -> Counts {
    let grown = |(name, n): (&String, &u64)| (name.clone(), n - before.get(name).copied().unwrap_or(0));
    after.iter().map(grown).filter(|(_, n)| *n > 0).collect()
}

/// Waits for an effect that the kernel delays.
fn until(what: &str, there: impl FnMut() -> bool) {
    eventually(what, Duration::from_secs(30), there);
}

/// The kernel drops and counts an event of a probe while another BPF program runs on that CPU. Rarely it loses one without
/// counting it: 3 of 1000 that come from a timer. One of so many rounds must show every event, and none may show too many.
const ROUNDS: usize = 5;

#[test]
#[ignore = "needs: bpf"]
fn retransmissions_match_the_kernel() {
    let _turn = turn();
    let cables = [Cable::new(), Cable::new(), Cable::new()];
    let ([opening, tail, stream], mut sampler) = (cables, open("tcp_loss"));
    let names = ["Tcp/RetransSegs", "TcpExt/TCPFastRetrans"];
    let kinds = ["handshake", "timeout", "fast", "probe", "other"];
    // The segments by kind; `None` when some were dropped.
    let mut round = |body: &dyn Fn()| {
        let ends = || [&opening, &tail, &stream].into_iter().flat_map(|cable| [&cable.near, &cable.far]);
        let kernel = || names.map(|name| ends().map(|end| end.count(name)).sum::<u64>());
        let (before, [all_before, fast_before]) = (counts(&mut *sampler), kernel());
        body();
        let [all, fast] = kernel();
        let (all, fast) = (all - all_before, fast - fast_before);
        let told = since(&before, &counts(&mut *sampler));
        println!("{told:?}; kernel: {all}, fast {fast}");
        let count = |name: String| told.get(&name).copied().unwrap_or(0);
        let segments = kinds.map(|kind| count(format!("retransmit.segments {kind}")));
        let sum: u64 = segments.iter().sum();
        assert!(sum <= all, "{sum} told, {all} counted by the kernel");
        if count("probe.drops".into()) > 0 || sum < all {
            return None;
        }
        assert_eq!(segments[2], fast, "those of fast recovery");
        for (kind, segments) in kinds.iter().zip(segments).skip(1) {
            let bytes = count(format!("retransmit.io {kind}"));
            // A segment has a byte at least, and at most what fits into the cable's packets.
            assert!(bytes >= segments && bytes <= segments * 1460, "{kind}: {bytes} bytes in {segments} segments");
        }
        Some(segments)
    };

    opening.far.rule("tcp flags & (syn | ack) == syn numgen inc mod 2 == 0 drop");
    opening.near.rule("tcp flags & (syn | ack) == (syn | ack) numgen inc mod 2 == 0 drop");
    let seen = (0..ROUNDS).find_map(|_| round(&|| drop(opening.connection()))).expect("a round without drops");
    assert!(seen[0] >= 2, "{kinds:?} {seen:?}");

    // No segment follows the lost byte, so only a tail loss probe finds it; that is lost as well, and the retransmission
    // timer repairs it.
    let (client, _server) = tail.connection();
    client.set_nodelay(true).unwrap();
    tail.far.rule("tcp flags & psh == psh numgen inc mod 3 < 2 drop");
    let bytes = || {
        for _ in 0..3 {
            (&client).write_all(&[0]).unwrap();
            // Longer than the probe and the retransmission timer need, so that no later byte repairs the loss.
            std::thread::sleep(Duration::from_millis(900));
        }
    };
    let seen = (0..ROUNDS).find_map(|_| round(&bytes)).expect("a round without drops");
    assert!(seen[3] > 0 && seen[1] > 0, "{kinds:?} {seen:?}");

    let (client, mut server) = stream.connection();
    stream.far.rule("tcp dport 1-65535 numgen random mod 100 < 3 drop");
    let reader = std::thread::spawn(move || std::io::copy(&mut server, &mut std::io::sink()).unwrap());
    let blocks = || {
        (0..40).for_each(|_| (&client).write_all(&[0; 1 << 18]).unwrap());
        // Everything is acknowledged by then: no segment is in flight while the counters are read.
        std::thread::sleep(Duration::from_secs(1));
    };
    let seen = (0..ROUNDS).find_map(|_| round(&blocks)).expect("a round without drops");
    assert!(seen[2] > 20, "{kinds:?} {seen:?}");
    drop(client);
    assert!(reader.join().unwrap() >= 40 << 18);
}

#[test]
#[ignore = "needs: bpf"]
fn zero_windows_are_seen_at_both_ends() {
    let _turn = turn();
    let (cable, mut sampler) = (Cable::new(), open("tcp_traffic"));
    let before = counts(&mut *sampler);
    let (client, mut server) = cable.connection();
    client.set_nonblocking(true).unwrap();
    let mut told = Counts::new();
    until("a closed window", || {
        while (&client).write(&[0; 65536]).is_ok() {}
        told = since(&before, &counts(&mut *sampler));
        ["transmit", "receive"].iter().all(|direction| told.contains_key(&format!("window.closed {direction}")))
    });
    let mut rest = Vec::new();
    drop(client);
    server.read_to_end(&mut rest).unwrap();
    assert!(rest.len() > 65536);
}

#[test]
#[ignore = "needs: bpf"]
fn connect_outcomes_match_the_program() {
    let _turn = turn();
    let (cable, mut sampler) = (Cable::new(), open("tcp_connections"));
    cable.near.set("ipv4/tcp_syn_retries", "1");
    cable.far.rule("tcp dport 7 drop");
    cable.far.rule("tcp dport 9 reject with icmp type host-unreachable");
    let mut check = |what: &str, want: &[(&str, u64)], body: &mut dyn FnMut()| {
        let want: Counts = want.iter().map(|(name, n)| ((*name).to_owned(), *n)).collect();
        let shows_all = |_| {
            let before = counts(&mut *sampler);
            body();
            let mut seen = since(&before, &counts(&mut *sampler));
            seen.remove("probe.runs");
            let drops = seen.remove("probe.drops");
            let within = seen.iter().all(|(name, n)| want.get(name).is_some_and(|most| n <= most));
            assert!(within, "{what}: {seen:?}, not {want:?}");
            drops.is_none() && seen == want
        };
        assert!((0..ROUNDS).any(shows_all), "{what}: events are missing in every round");
    };
    let attempt = "connection.attempts";

    let latency = "connection.latency";
    let (active, passive) = ("connection.established active", "connection.established passive");
    let mut kept = None;
    check("established", &[(attempt, 20), (active, 20), (passive, 20), (latency, 20)], &mut || {
        let listener = cable.far.listen();
        let port = listener.local_addr().unwrap().port();
        let pairs = (0..20).map(|_| (cable.near.connect(port).unwrap(), listener.accept().unwrap().0));
        kept = Some(pairs.collect::<Vec<_>>());
    });
    check("closed by FIN", &[], &mut || drop(kept.take()));

    for (port, kind, reason) in [
        (1, ErrorKind::ConnectionRefused, "connection.failures refused"),
        (7, ErrorKind::TimedOut, "connection.failures timeout"),
        (9, ErrorKind::HostUnreachable, "connection.failures unreachable"),
    ] {
        let failed = &mut || assert_eq!(cable.near.connect(port).unwrap_err().kind(), kind);
        check(reason, &[(attempt, 1), (reason, 1)], failed);
    }
    // The program closes before the kernel's time-out.
    check("abandoned", &[(attempt, 1), ("connection.failures abandoned", 1)], &mut || {
        let far = format!("{}:7", cable.far.address).parse().unwrap();
        let error = cable.near.inside(|| TcpStream::connect_timeout(&far, Duration::from_millis(100))).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut);
    });
    let opened = [(attempt, 1), (active, 1), (passive, 1), (latency, 1)];
    let reset = [("connection.resets receive", 1), ("connection.resets transmit", 1)];
    check("reset", &[&opened[..], &reset].concat(), &mut || {
        let (mut client, mut server) = cable.connection();
        client.write_all(&[1; 100]).unwrap();
        server.read_exact(&mut [0]).unwrap();
        // Unread data turns the close into a reset.
        drop(server);
        let error = client.read(&mut [0]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    });
    // Only two local ports, both taken.
    cable.near.set("ipv4/ip_local_port_range", "40000 40001");
    let taken = [(attempt, 3), (active, 2), (passive, 2), (latency, 2), ("connection.failures no_port", 1)];
    let mut held = Vec::new();
    check("no port", &taken, &mut || {
        // Another remote port in each round: to it, both local ports are free.
        let listener = cable.far.listen();
        let port = listener.local_addr().unwrap().port();
        let both = [cable.near.connect(port).unwrap(), cable.near.connect(port).unwrap()];
        assert_eq!(cable.near.connect(port).unwrap_err().kind(), ErrorKind::AddrNotAvailable);
        held.push((listener, both));
    });
}

#[test]
#[ignore = "needs: bpf"]
fn new_local_address_changes_its_class() {
    let _turn = turn();
    let (cable, mut sampler) = (Cable::new(), open("tcp_connections"));
    let attempts = |sampler: &mut dyn Sampler| counts(sampler).get("connection.attempts").copied().unwrap_or(0);
    let before = attempts(&mut *sampler);
    drop(cable.connection());
    assert_eq!(attempts(&mut *sampler), before + 1);
    let _own = OwnAddress::new(&cable.far.address);
    until("the probe knows", || {
        let before = attempts(&mut *sampler);
        drop(cable.connection());
        // The far end is "local" now, no longer of the rack.
        attempts(&mut *sampler) == before
    });
}

#[test]
#[ignore = "needs: bpf"]
fn without_btf_series_are_absent() {
    let _turn = turn();
    let cable = Cable::new();
    let undescribed = Undescribed::new();
    let open = |name: &str| open_at(name, Roots::new(Some(undescribed.path().to_owned())));
    let (mut loss, mut connections) = (open("tcp_loss"), open("tcp_connections"));
    let (mut client, _server) = cable.connection();
    cable.far.rule("tcp flags & psh == psh numgen inc mod 2 == 0 drop");
    client.write_all(&[0]).unwrap();
    _ = cable.near.connect(1).unwrap_err();
    let mut told = Counts::new();
    until("a segment of unknown kind", || {
        told = counts(&mut *loss);
        told.get("retransmit.segments unknown").is_some_and(|n| *n > 0)
    });
    assert!(told.contains_key("retransmit.segments handshake"), "{told:?}");
    assert!(!told.keys().any(|name| name.contains("retransmit.io") || name.ends_with("fast")), "{told:?}");
    let told = counts(&mut *connections);
    assert_eq!(told.get("connection.failures unknown"), Some(&1), "{told:?}");
    assert!(!told.contains_key("connection.failures refused"), "{told:?}");
}

#[test]
#[ignore = "needs: bpf"]
fn probe_runs_need_kernel_statistics() {
    let _turn = turn();
    let (cable, mut sampler) = (Cable::new(), open("tcp_connections"));
    let runs = |told: &Counts| told.get("probe.runs").copied();
    let _off = Statistics::set(false);
    drop(cable.connection());
    let told = counts(&mut *sampler);
    assert_eq!((runs(&told), told.get("probe.drops")), (None, Some(&0)), "{told:?}");
    let _on = Statistics::set(true);
    let before = runs(&counts(&mut *sampler)).expect("runs");
    (0..10).for_each(|_| drop(cable.connection()));
    let after = runs(&counts(&mut *sampler)).expect("runs");
    // At the least, each connection begins, is established at both ends, and ends.
    assert!(after >= before + 40, "{before} runs, then {after}");
    let mut batch = Batch::default();
    sampler.sample(&[], &mut batch).unwrap();
    let busy = batch.facts.iter().find(|(column, _)| column.metric.name == "fabriclens.agent.probe.busy");
    let Some((column, Value::Float(seconds))) = busy else { panic!("no time: {busy:?}") };
    assert!(column.labels.iter().any(|(_, value)| &**value == "tcp_connections"), "{column:?}");
    assert!(*seconds > 0.0 && *seconds < 1.0, "{seconds} s in {after} runs");
}

/// Ids of the probes' programs in the kernel, which truncates their names.
fn programs() -> BTreeMap<u32, String> {
    let ours = ["received", "sent", "tcp_retransmit_", "inet_sock_set_s", "tcp_receive_res", "tcp_send_reset"];
    let all = aya::programs::loaded_programs().filter_map(Result::ok);
    let named = all.filter_map(|program| Some((program.id(), program.name_as_str()?.to_owned())));
    named.filter(|(_, name)| ours.contains(&name.as_str())).collect()
}

/// A running agent, killed when dropped.
struct Agent(Child);

impl Drop for Agent {
    fn drop(&mut self) {
        _ = self.0.kill();
        _ = self.0.wait();
    }
}

#[test]
#[ignore = "needs: bpf"]
fn ended_agent_leaves_no_probe_attached() {
    let _turn = turn();
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("agent.toml");
    let on = ["tcp_rtt", "tcp_loss", "tcp_connections", "tcp_traffic"].map(|name| format!("{name} = true\n")).concat();
    std::fs::write(&config, format!("[samplers]\n{on}")).unwrap();
    for signal in [Signal::TERM, Signal::KILL] {
        let before = programs();
        #[expect(clippy::disallowed_methods, reason = "the test starts the agent; the agent itself starts nothing")]
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_fabriclens-agent"));
        command.env_clear().args(["run", "--http", "127.0.0.1:0", "--config"]).arg(&config);
        let mut agent = Agent(command.stderr(Stdio::null()).spawn().unwrap());
        let new = || programs().into_iter().filter(|(id, _)| !before.contains_key(id)).collect::<BTreeMap<_, _>>();
        until("eight programs", || new().len() >= 8 || agent.0.try_wait().unwrap().is_some());
        let its = new();
        kill_process(Pid::from_child(&agent.0), signal).unwrap();
        agent.0.wait().unwrap();
        assert!(its.len() >= 8, "{its:?}");
        // The kernel frees programs a moment after their last user has ended.
        until("no program is left", || programs().keys().all(|id| !its.contains_key(id)));
    }
}

/// Series of connections within this host.
fn local(sampler: &mut dyn Sampler) -> Option<Arc<Histogram>> {
    let mut batch = Batch::default();
    sampler.sample(&[], &mut batch).unwrap();
    batch.facts.into_iter().find_map(|(column, value)| {
        let labels: Vec<String> = column.labels.iter().map(|(n, v)| format!("{n}={v}")).collect();
        match value {
            Value::Histogram(h) if labels == ["destination=local", "netdev=lo"] => Some(h),
            _ => None,
        }
    })
}

#[test]
#[ignore = "needs: bpf"]
fn round_trips_by_interface_and_class() {
    let _turn = turn();
    let mut sampler = open("tcp_rtt");
    let before = local(&mut *sampler).map_or(0, |h| h.count());
    exchange();
    let after = local(&mut *sampler).expect("traffic on lo");
    let seen = after.count() - before;
    // Each exchange is one segment to either side; few are pure acknowledgments, and about one in eight is sampled.
    // Other programs may talk as well.
    assert!(seen >= 2 * EXCHANGES / u64::from(GAP), "{seen} segments");
    let mean = after.sum / after.count() as f64;
    assert!(mean > 1e-6 && mean < 0.2, "a round trip within the host takes {mean} s");
    let (bound, _) = after.cumulative().find(|(_, n)| *n * 2 >= after.count()).expect("a median");
    assert!(bound < 0.2, "{after:?}");
    assert!(after.bounds.is_sorted_by(|a, b| a < b) && after.counts.len() == after.bounds.len() + 1);

    drop(sampler);
    let mut fresh = open("tcp_rtt");
    let count = local(&mut *fresh).map_or(0, |h| h.count());
    assert!(count < seen, "the probe of before is still attached: {count}");
}

#[test]
fn recorded_host_has_no_probes() {
    let tree = tempfile::tempdir().unwrap();
    std::fs::create_dir(tree.path().join("sys")).unwrap();
    let roots = Arc::new(Roots::new(Some(tree.path().to_owned())));
    let host = SamplingTarget::host(&roots, &Arc::from("h"), &Arc::default());
    for name in ["tcp_rtt", "tcp_loss", "tcp_connections", "tcp_traffic"] {
        let error = (by_name(name).unwrap().open)(&host).map(|_| ()).unwrap_err();
        assert!(matches!(&error, SampleError::Absent(why) if why.contains("recorded host")), "{name}: {error:?}");
    }
}
