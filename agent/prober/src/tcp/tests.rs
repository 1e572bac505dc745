use super::*;
use crate::prober::{PortEntry, PortState, Settings};
use crate::stats::PortStats;
use fabriclens_agent_host::clock::Clock;
use fabriclens_kernel::datagrams::PortSource;
use fabriclens_probe_plan::{ProbeResult, ProbeTransport, ProbedPort};
use parking_lot::Mutex;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

type Results = Arc<Mutex<Vec<(String, ProbeResult)>>>;

/// A host with one port on a loopback address.
fn host(address: [u8; 4], tcp_port: u16) -> (Arc<Prober>, Results) {
    let results = Results::default();
    let taken = Arc::clone(&results);
    let report = move |target: &Target, result: ProbeResult| taken.lock().push((target.host.clone(), result));
    let settings = Settings { rdma: false, tcp: true, per_second: 100, tcp_port };
    let prober = Arc::new(Prober::new(settings, Arc::new(Clock::new()), Box::new(report)));
    let source = PortSource { device: "rxe0".into(), port: 1, gid: Some((1, address.into())), ..PortSource::default() };
    let entry = PortEntry {
        source: Ok(source),
        state: PortState::Off,
        tcp: Ok(()),
        stats: PortStats::default(),
        tcp_stats: PortStats::default(),
        wanted: Arc::new(AtomicBool::new(true)),
    };
    prober.ports.lock().insert("rxe0/1".into(), entry);
    (prober, results)
}

fn start(prober: &Arc<Prober>) -> std::thread::JoinHandle<()> {
    let prober = Arc::clone(prober);
    std::thread::spawn(move || run(&prober))
}

fn target(host: &str, address: [u8; 4], tcp_port: u16) -> Target {
    let to = ProbedPort {
        name: "rxe0/1".into(),
        address: address.to_vec(),
        tcp_port: tcp_port.into(),
        ..ProbedPort::default()
    };
    Target {
        from: "rxe0/1".into(),
        host: host.into(),
        to: Some(to),
        traffic_class: 104,
        probe_every_ms: 20,
        tcp_twin: true,
        ..Target::default()
    }
}

fn wait(what: &str, mut done: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(20);
    while !done() {
        assert!(Instant::now() < end, "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A TCP port that is free on all loopback addresses.
fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

#[test]
fn twins_are_answered_over_one_connection() {
    let port = free_port();
    let ((one, results), (two, _)) = (host([127, 0, 7, 1], port), host([127, 0, 7, 2], port));
    let threads = [start(&one), start(&two)];
    wait("both listen", || {
        TcpStream::connect(("127.0.7.2", port)).is_ok() && TcpStream::connect(("127.0.7.1", port)).is_ok()
    });
    one.set_targets([target("b", [127, 0, 7, 2], port)]);
    wait("results", || results.lock().len() >= 20);
    for (host, result) in results.lock().iter() {
        assert!(host == "b" && result.rtt_ns.is_some() && result.transport == ProbeTransport::Tcp as i32, "{result:?}");
    }
    let answered = two.ports.lock()["rxe0/1"].tcp_stats.answered;
    assert!(answered >= 20, "{answered}");
    assert_eq!(one.offers()[0].tcp_port, u32::from(port));
    // The responder goes away and comes back.
    two.stop();
    let [first, second] = threads;
    second.join().unwrap();
    one.stop();
    first.join().unwrap();
}

#[test]
fn a_host_that_answers_nothing_is_late_and_a_refusal_is_no_loss() {
    let port = free_port();
    // Accepts and is silent.
    let silent = TcpListener::bind(("127.0.8.2", port)).unwrap();
    let (one, results) = host([127, 0, 8, 1], port);
    one.set_targets([target("silent", [127, 0, 8, 2], port), target("closed", [127, 0, 8, 3], port)]);
    let thread = start(&one);
    wait("a late twin", || results.lock().iter().any(|(host, result)| host == "silent" && result.rtt_ns.is_none()));
    assert!(results.lock().iter().all(|(host, result)| host == "silent" && result.rtt_ns.is_none()));
    assert_eq!(one.ports.lock()["rxe0/1"].tcp_stats.pairs[0][2].rtt.count(), 0);
    one.stop();
    thread.join().unwrap();
    drop(silent);
}

#[test]
fn strangers_get_nothing_but_their_own_message_back() {
    let port = free_port();
    let (one, _) = host([127, 0, 9, 1], port);
    let thread = start(&one);
    let mut stream = None;
    wait("it listens", || {
        stream = TcpStream::connect(("127.0.9.1", port)).ok();
        stream.is_some()
    });
    let mut stream = stream.unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let (message, mut back) = (message::encode(104, 7), [0; message::SIZE]);
    // In two parts, then two at once.
    stream.write_all(&message[..5]).unwrap();
    std::thread::sleep(Duration::from_millis(20));
    stream.write_all(&message[5..]).unwrap();
    stream.write_all(&message).unwrap();
    for _ in 0..2 {
        stream.read_exact(&mut back).unwrap();
        assert_eq!(back, message);
    }
    stream.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    assert_eq!(stream.read(&mut back).unwrap_or(0), 0, "closed");
    // Too many messages end the connection, too many connections are not taken.
    let mut flood = TcpStream::connect(("127.0.9.1", port)).unwrap();
    flood.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let many: Vec<u8> = message.iter().copied().cycle().take(message::SIZE * 500).collect();
    _ = flood.write_all(&many);
    let mut got = Vec::new();
    _ = flood.read_to_end(&mut got);
    assert!(got.len() <= 60 * message::SIZE, "{} answers", got.len() / message::SIZE);
    let open: Vec<_> = (0..80).map(|_| TcpStream::connect(("127.0.9.1", port)).unwrap()).collect();
    let answers = open.iter().filter(|stream| {
        stream.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
        let (mut stream, mut back) = (*stream, [0; message::SIZE]);
        stream.write_all(&message).is_ok() && stream.read_exact(&mut back).is_ok()
    });
    assert_eq!(answers.count(), 64);
    one.stop();
    thread.join().unwrap();
}
