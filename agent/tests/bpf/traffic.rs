//! `tcp_traffic` on the running kernel: bytes against the interface's own counters, control groups, congestion marks,
//! a full table.

use crate::net::{Group, Pair, opened, send, sum, this_host, told, tool};
use crate::turn;
use aya::maps::MapData;
use fabriclens_agent_host::batch::Batch;
use fabriclens_agent_host::roots::Roots;
use fabriclens_agent_probes::{Probe, mount};
use fabriclens_agent_samplers::Sampler;
use fabriclens_agent_samplers::sources::tcp_traffic::DESIGN;
use fabriclens_ebpf_abi::tcp_traffic::{Key, RECEIVED_SEGMENTS, Record, SENT_SEGMENTS};
use std::net::{TcpListener, TcpStream};

const IO: &str = "fabric.tcp.io";
const SEGMENTS: &str = "fabric.tcp.io.segments";
const CE: &str = "fabric.tcp.io.ce_segments";
const MIB: usize = 1 << 20;

fn groups() -> std::path::PathBuf {
    mount(&Roots::new(None)).unwrap()
}

#[track_caller]
fn near(what: &str, counted: u64, want: u64) {
    let off = counted.abs_diff(want) as f64 / want as f64;
    println!("{what}: {counted}, to be {want}: off by {:.5} %", off * 100.0);
    assert!(off <= 0.001, "{what}: {counted}, to be {want}");
}

#[test]
#[ignore = "needs: bpf"]
fn job_bytes_match_the_interface() {
    let _turn = turn();
    let pair = Pair::new("fl-bytes", "10.203.1");
    pair.one_by_one();
    let mut sampler = opened("tcp_traffic", &this_host());
    let job = Group::new(&groups(), &format!("fl-job-{}", std::process::id()));
    let counters = || ["rx_bytes", "tx_bytes", "rx_packets", "tx_packets"].map(|name| pair.counter(name));
    let before = counters();
    let (mut here, mut there) = job.with(|| pair.connect(&pair.there()));
    send(&mut here, &mut there, 64 * MIB);
    send(&mut there, &mut here, 32 * MIB);
    drop((here, there));
    std::thread::sleep(std::time::Duration::from_millis(100));
    let after = counters();
    let grown: Vec<u64> = after.iter().zip(before).map(|(after, before)| after - before).collect();

    let mut batch = Batch::default();
    sampler.sample(&[], &mut batch).unwrap();
    let of = |metric, direction, cgroup: &str| {
        let labels = [("netdev", &*pair.near), ("destination", "rack"), ("direction", direction), ("cgroup", cgroup)];
        sum(&batch, metric, &labels)
    };
    near("bytes received", of(IO, "receive", &job.path), grown[0]);
    near("bytes sent", of(IO, "transmit", &job.path), grown[1]);
    near("segments received", of(SEGMENTS, "receive", &job.path), grown[2]);
    near("segments sent", of(SEGMENTS, "transmit", &job.path), grown[3]);
    assert!(grown[1] > 64 * MIB as u64 && grown[0] > 32 * MIB as u64, "{grown:?}");
    assert_eq!(told(&mut *sampler, CE, &[("netdev", &pair.near)]), 0, "nothing was marked");

    // The job has ended: its series stays while it may be read, then ends; the others continue.
    let path = job.path.clone();
    drop(job);
    let sent = [("cgroup", &*path), ("direction", "transmit")];
    assert!(told(&mut *sampler, IO, &sent) > 0);
    for _ in 0..180 {
        told(&mut *sampler, IO, &[]);
    }
    assert_eq!(told(&mut *sampler, IO, &sent), 0, "the control group is gone and quiet");
}

/// Segments that this host retransmitted.
fn sent_again() -> u64 {
    let text = std::fs::read_to_string("/proc/net/snmp").unwrap();
    let mut rows = text.lines().filter_map(|l| l.strip_prefix("Tcp: ")).map(|l| l.split(' '));
    let (names, values) = (rows.next().unwrap(), rows.next().unwrap());
    names.zip(values).find(|(name, _)| *name == "RetransSegs").unwrap().1.parse().unwrap()
}

#[test]
#[ignore = "needs: bpf"]
fn segments_of_one_buffer_count_singly() {
    let _turn = turn();
    let pair = Pair::new("fl-gso", "10.203.2");
    // IP, and 32 bytes of TCP with its time stamps.
    for (there, headers) in [(pair.there(), 20 + 32), (pair.v6("2"), 40 + 32)] {
        let mut sampler = opened("tcp_traffic", &this_host());
        let (mut here, mut far) = pair.connect(&there);
        let (packets, before) = (pair.counter("tx_packets"), sent_again());
        send(&mut here, &mut far, 64 * MIB);
        // On a busy machine a late segment is retransmitted.
        let bytes = 64 * MIB as u64 + (sent_again() - before) * (1500 - headers);
        let buffers = pair.counter("tx_packets") - packets;
        let labels = [("netdev", &*pair.near), ("direction", "transmit"), ("destination", "rack")];
        let (segments, io) = (told(&mut *sampler, SEGMENTS, &labels), told(&mut *sampler, IO, &labels));
        assert!(segments >= bytes / (1500 - headers), "{segments} segments to {there}");
        assert!(buffers * 4 < segments, "{buffers} buffers are no proof: the kernel split them before");
        near("bytes with the headers of each segment", io, bytes + segments * (14 + headers));
    }
}

#[test]
#[ignore = "needs: bpf"]
fn ecn_marks_match_the_kernel() {
    let _turn = turn();
    let pair = Pair::new("fl-marks", "10.203.3");
    let mut sampler = opened("tcp_traffic", &this_host());
    let rules = [
        "nft add table ip fl".to_owned(),
        "nft add chain ip fl out { type filter hook postrouting priority 0 ; }".to_owned(),
        "nft add rule ip fl out ip protocol tcp ip ecn set ce".to_owned(),
    ];
    for rule in &rules {
        tool(&format!("ip netns exec {} {rule}", pair.near)).unwrap();
    }
    // The kernel counts marks of all interfaces.
    let kernel = || {
        let netstat = std::fs::read_to_string("/proc/net/netstat").unwrap();
        let lines: Vec<&str> = netstat.lines().filter(|line| line.starts_with("IpExt:")).collect();
        let at = lines[0].split(' ').position(|name| name == "InCEPkts").unwrap();
        lines[1].split(' ').nth(at).unwrap().parse::<u64>().unwrap()
    };
    let before = kernel();
    let (mut here, mut there) = pair.connect(&pair.there());
    send(&mut there, &mut here, 8 * MIB);
    let (marked, labels) = (kernel() - before, [("netdev", &*pair.near)]);
    let counted = told(&mut *sampler, CE, &labels);
    println!("marked segments: {counted}, the kernel says {marked}");
    assert!(marked > 1000, "{marked} were marked");
    assert_eq!(counted, marked);
    assert_eq!(counted, told(&mut *sampler, SEGMENTS, &[("netdev", &pair.near), ("direction", "receive")]));
}

#[test]
#[ignore = "needs: bpf"]
fn full_table_counts_unattributed_traffic() {
    let _turn = turn();
    // A second program at the same hook, attached earlier: both see every packet.
    let mut second = opened("tcp_traffic", &this_host());
    let roots = Roots::new(None);
    // With one entry in the table, every segment counts for the first control group or for `other`.
    let sizes = [("TRAFFIC", 1), ("OTHER", 64)];
    let mut probe = Probe::load(&roots, &DESIGN, &sizes).unwrap();
    let table: aya::maps::PerCpuHashMap<MapData, Key, Record> = probe.by_key("TRAFFIC").unwrap();
    let other: aya::maps::PerCpuArray<MapData, Record> = probe.per_cpu("OTHER").unwrap();
    let _attached = probe.attach().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let talk = || {
        let mut here = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let mut there = listener.accept().unwrap().0;
        send(&mut here, &mut there, MIB);
    };
    let groups = [1, 2].map(|n| Group::new(&groups(), &format!("fl-room-{n}-{}", std::process::id())));
    groups.iter().for_each(|group| group.with(talk));
    let segments = |records: &[Record]| records.iter().map(|r| r[RECEIVED_SEGMENTS] + r[SENT_SEGMENTS]).sum::<u64>();
    let first: u64 = table.iter().map(|entry| segments(&entry.unwrap().1)).sum();
    let others: u64 = (0..64).map(|place| segments(&other.get(&place, 0).unwrap())).sum();
    assert_eq!(table.keys().count(), 1);
    assert!(first > 0 && others > 0, "{first} and {others}");
    let all = told(&mut *second, SEGMENTS, &[]);
    assert!(all >= first + others, "{first} + {others} of {all}");
    for group in &groups {
        assert!(told(&mut *second, IO, &[("cgroup", &group.path)]) >= MIB as u64, "{}", group.path);
    }
}

/// More control groups than the kernel's table has room for, one after the other.
#[test]
#[ignore = "needs: bpf"]
fn cgroup_churn_loses_nothing_and_frees_slots() {
    const GROUPS: u64 = 1100;
    let _turn = turn();
    let pair = Pair::new("fl-churn", "10.203.4");
    pair.quiet();
    let mut sampler = opened("tcp_traffic", &this_host());
    let listener = pair.inside(|| TcpListener::bind((pair.there(), 0)).unwrap());
    let address = listener.local_addr().unwrap();
    let talk = || {
        let here = TcpStream::connect(address).unwrap();
        drop((here, listener.accept().unwrap()));
    };
    let before = pair.counter("tx_packets");
    for n in 0..GROUPS {
        Group::new(&groups(), &format!("fl-churn-{}-{n}", std::process::id())).with(talk);
    }
    std::thread::sleep(std::time::Duration::from_millis(200));
    let sent = [("netdev", &*pair.near), ("direction", "transmit")];
    let crossed = pair.counter("tx_packets") - before;
    let counted = told(&mut *sampler, SEGMENTS, &sent);
    println!("{counted} segments counted, {crossed} crossed");
    // Answers without a socket have no control group and are not counted.
    assert!(counted <= crossed && counted >= crossed - GROUPS, "{counted} of {crossed}");
    let unplaced = |sampler: &mut dyn Sampler| told(sampler, "fabric.tcp.io.unplaced", &[]);
    let full = unplaced(&mut *sampler);
    assert!(full > 0, "the table is full");
    assert_eq!(told(&mut *sampler, SEGMENTS, &[("cgroup", "other")]), full);
    for _ in 0..8 {
        told(&mut *sampler, IO, &[]);
    }
    let late = Group::new(&groups(), &format!("fl-late-{}", std::process::id()));
    late.with(talk);
    std::thread::sleep(std::time::Duration::from_millis(100));
    assert!(told(&mut *sampler, SEGMENTS, &[("cgroup", &late.path), sent[0], sent[1]]) > 0, "there is room again");
    assert_eq!(unplaced(&mut *sampler), full);
    assert!(told(&mut *sampler, SEGMENTS, &sent) >= counted, "what left the table is still told");
}
