//! Probes without a collector, to try the prober on a real kernel.
//!
//! `probe serve FILE` opens the RDMA ports of this host, prints how they answer (`offer`), and probes the targets of FILE,
//! which it reads again each second; a line is `FROM HOST ADDRESS QUEUE_PAIR TCP_PORT EVERY_MS TRAFFIC_CLASS [SOURCE_PORT,...]`.
//! Prints a line for each result and, each second, for what ports refused. `probe sniff SECONDS` prints the UDP source ports
//! of RoCE v2 datagrams that this host sends or receives, with their number and traffic class.

use fabriclens_agent_host::clock::Clock;
use fabriclens_agent_host::discover::discover;
use fabriclens_agent_host::roots::Roots;
use fabriclens_agent_prober::{Prober, Settings, sections, set_inventory};
use fabriclens_probe_plan::{ProbeTransport, ProbedPort, Target, octets};
use fabriclens_wire::Value;
use rustix::net::{AddressFamily, RecvFlags, SocketType};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["serve", file] => serve(file),
        ["sniff", seconds] => sniff(Duration::from_secs(seconds.parse()?)),
        _ => Err("probe serve FILE | probe sniff SECONDS".into()),
    }
}

fn serve(file: &str) -> Result<(), Box<dyn std::error::Error>> {
    let settings = Settings { rdma: true, tcp: true, per_second: 200, tcp_port: 7472 };
    let report = |target: &Target, result: fabriclens_probe_plan::ProbeResult| {
        let ns = |value: Option<u64>| value.map_or_else(|| "-".to_owned(), |value| value.to_string());
        let transport = ProbeTransport::try_from(result.transport).unwrap_or(ProbeTransport::Unknown);
        println!(
            "result {} {} {transport:?} port {} rtt {} turn {} own {}",
            target.from,
            target.host,
            result.source_port,
            ns(result.rtt_ns),
            ns(result.turn_ns),
            result.own_ns
        );
    };
    let clock = Arc::new(Clock::new());
    let prober = Arc::new(Prober::new(settings, Arc::clone(&clock), Box::new(report)));
    let roots = Arc::new(Roots::new(None));
    let (mut told, mut lines) = (String::new(), String::new());
    loop {
        set_inventory(&prober, &discover(&roots, &[], None));
        let text = std::fs::read_to_string(file).unwrap_or_default();
        if text != lines {
            prober.set_targets(text.lines().filter_map(target));
            lines = text;
        }
        let offer = |port: &ProbedPort| {
            let ports: Vec<String> = port.source_ports.iter().map(ToString::to_string).collect();
            format!("offer {} qp {} tcp {} ports {}\n", port.name, port.queue_pair, port.tcp_port, ports.join(","))
        };
        let mut now: String = prober.offers().iter().map(offer).collect();
        prober.problems().iter().for_each(|why| now += &format!("problem {why}\n"));
        if now != told {
            print!("{now}");
            told = now;
        }
        for section in sections(&prober, &"host".into(), clock.now()) {
            for (column, value) in section.columns.iter().zip(&section.values) {
                let name = column.metric.name;
                if let (true, Value::Int(count)) = (name.ends_with("refused") || name.ends_with("discarded"), value) {
                    println!("count {name} {} {count}", column.labels[0].1);
                }
            }
        }
        std::thread::sleep(Duration::from_secs(1));
    }
}

fn target(line: &str) -> Option<Target> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [from, host, address, queue_pair, tcp_port, every, class, rest @ ..] = &words[..] else { return None };
    let octets = octets(address.parse().ok()?);
    let tcp_port: u32 = tcp_port.parse().ok()?;
    let to = ProbedPort { address: octets, queue_pair: queue_pair.parse().ok()?, tcp_port, ..ProbedPort::default() };
    Some(Target {
        from: (*from).to_owned(),
        host: (*host).to_owned(),
        to: Some(to),
        source_ports: rest
            .first()
            .map_or_else(Vec::new, |ports| ports.split(',').filter_map(|p| p.parse().ok()).collect()),
        traffic_class: class.parse().ok()?,
        probe_every_ms: every.parse().ok()?,
        tcp_twin: tcp_port != 0,
        ..Target::default()
    })
}

fn sniff(time: Duration) -> Result<(), Box<dyn std::error::Error>> {
    let all = rustix::net::eth::ALL;
    let socket = rustix::net::socket(AddressFamily::PACKET, SocketType::DGRAM, Some(all))?;
    rustix::net::sockopt::set_socket_timeout(
        &socket,
        rustix::net::sockopt::Timeout::Recv,
        Some(Duration::from_millis(200)),
    )?;
    let (end, mut seen, mut buffer) = (Instant::now() + time, BTreeMap::<(u16, u8), u32>::new(), vec![0; 4096]);
    while Instant::now() < end {
        let Ok((read, _)) = rustix::net::recv(&socket, &mut buffer[..], RecvFlags::empty()) else { continue };
        let packet = &buffer[..read];
        // IPv4, UDP to port 4791.
        if read >= 28 && packet[0] == 0x45 && packet[9] == 17 && packet[22..24] == 4791u16.to_be_bytes() {
            *seen.entry((u16::from_be_bytes([packet[20], packet[21]]), packet[1])).or_default() += 1;
        }
    }
    for ((port, class), count) in seen {
        println!("seen {port} class {class} times {count}");
    }
    Ok(())
}
