//! Attacks by one caller that may send samples, from an address of its own: it invents hosts, subnets, ports and switches, or holds
//! what others need. What it fills is its own share, so that another address is still served.

use super::{Fault, Outcome, wait_for};
use crate::chaos::agent_calls::{ASK, PLAN, TELL, ask, ask_reading, plan, tell};
use crate::chaos::attackers::{SEND, attack_by, bounded, watch};
use crate::chaos::clients::{ATTACKER, call, connected, post};
use crate::chaos::testbed::{TIMEOUT, TestBed, get, sum_of};
use crate::chaos::{hostile_switch::HostileSwitches, otlp};
use anyhow::{Result, ensure};
use std::fs;
use std::io::Write as _;
use std::net::{Ipv4Addr, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Index of the collector's port for gRPC, for OTLP over HTTP, and for the API.
const GRPC: usize = 1;
const OTLP: usize = 2;
const API: usize = 0;
/// Status of a call that is refused because a table is full.
const EXHAUSTED: u32 = 8;
/// Subnets for which the attacker tells forwarding tables, and switches of each: half a megabyte, the most of a request.
const SUBNETS: u64 = 100;
const SWITCHES: u64 = 10;
/// Event streams that the attacker opens: more than there are.
const STREAMS: usize = 300;

pub const FAULTS: &[Fault] = &[
    Fault {
        name: "invented-leases",
        often: false,
        expected: "one caller that asks for leases of invented hosts is refused beyond its share; another host gets a lease",
        inject: |bed, _, hold| bounded(bed, |bed| leases(bed, hold)),
    },
    Fault {
        name: "plan-floods",
        often: false,
        expected: "ports of invented hosts are refused beyond the caller's share; another host gets a plan",
        inject: |bed, _, hold| bounded(bed, |bed| plans(bed, hold)),
    },
    Fault {
        name: "table-floods",
        often: false,
        expected: "forwarding tables of invented subnets are refused beyond the caller's share of memory",
        inject: |bed, _, hold| bounded(bed, |bed| tables(bed, hold)),
    },
    Fault {
        name: "invented-hosts",
        often: true,
        expected: "series of invented hosts stay within the share of their caller; new series of others are stored",
        inject: |bed, _, hold| bounded(bed, |bed| hosts(bed, hold)),
    },
    Fault {
        name: "hostile-switch",
        often: true,
        expected: "a switch that floods and one that sends garbage by gNMI take their share of memory, no sample waits",
        inject: |bed, _, hold| hostile_switch(bed, hold),
    },
    Fault {
        name: "many-event-streams",
        often: false,
        expected: "one address takes a quarter of the event streams at most; another one gets one",
        inject: |bed, _, hold| bounded(bed, |bed| event_streams(bed, hold)),
    },
];

/// Calls that were taken, refused because a table is full, and refused for another reason.
#[derive(Default)]
struct Calls([AtomicU64; 3]);

impl Calls {
    /// Calls a method as the attacker.
    fn call(&self, bed: &TestBed, path: &str, message: &[u8]) {
        let outcome = match call(ATTACKER, bed.ports[GRPC], path, message) {
            Ok(0) => 0,
            Ok(EXHAUSTED) => 1,
            Ok(_) => 2,
            // A busy collector may close the connection.
            Err(_) => return,
        };
        self.0[outcome].fetch_add(1, Ordering::Relaxed);
    }

    /// Calls that were taken, and refused because a table is full.
    ///
    /// # Errors
    /// When most were refused for another reason: then the attack did not reach the table.
    fn counts(&self) -> Result<[u64; 2]> {
        let [taken, full, other] = self.0.each_ref().map(|count| count.load(Ordering::Relaxed));
        ensure!(
            other <= taken + full,
            "{other} calls were refused for another reason; {taken} were taken, {full} found it full"
        );
        Ok([taken, full])
    }
}

/// Calls a method as another host until it is taken.
fn other_is_served(bed: &TestBed, path: &str, message: &[u8]) -> Result<()> {
    wait_for(TIMEOUT, || {
        let status = call(Ipv4Addr::LOCALHOST, bed.ports[GRPC], path, message)?;
        ensure!(status != EXHAUSTED, "{path} is refused to another host");
        ensure!(status == 0, "{path} has the status {status} for another host");
        Ok(())
    })
}

/// Value of one of the collector's own metrics.
fn own(bed: &TestBed, name: &str) -> Result<f64> {
    Ok(sum_of(&get(&format!("{}/metrics", bed.url))?.1, name))
}

fn leases(bed: &TestBed, hold: Duration) -> Result<String> {
    let calls = Calls::default();
    let seen = attack_by(bed, hold, SEND, &|n| {
        let guid = n as u64 + 1;
        calls.call(bed, ASK, &ask(&format!("invented-{n}"), guid, &[guid]));
    })?;
    let [taken, refused] = calls.counts()?;
    ensure!(refused > 0, "no lease was refused; {seen}");
    let left = wait_for(TIMEOUT, || {
        other_is_served(bed, ASK, &ask("gpu-00", 1, &[0x00b0_0b00]))?;
        let left = own(bed, "fabriclens_subnet_reader_candidates")?;
        ensure!(left <= 1.0, "{left} candidates are left");
        Ok(left)
    })?;
    Ok(format!("{taken} taken, {refused} refused; {left} candidates left; {seen}"))
}

fn plans(bed: &TestBed, hold: Duration) -> Result<String> {
    let calls = Calls::default();
    let seen = attack_by(bed, hold, SEND, &|n| calls.call(bed, PLAN, &plan(&format!("invented-{n}"), n, 64)))?;
    let [taken, refused] = calls.counts()?;
    ensure!(taken > 0 && refused > 0, "{taken} offers were taken, {refused} refused; {seen}");
    other_is_served(bed, PLAN, &plan("gpu-00", 65_535, 1))?;
    let hosts = own(bed, "fabriclens_probe_hosts")?;
    Ok(format!("{taken} taken, {refused} refused, {hosts} hosts have a plan; {seen}"))
}

fn tables(bed: &TestBed, hold: Duration) -> Result<String> {
    let (leases, tables) = (Calls::default(), Calls::default());
    let seen = attack_by(bed, hold, SEND, &|n| {
        let subnet = n as u64 % SUBNETS;
        let (host, switches) = (format!("invented-{subnet}"), subnet * SWITCHES + 1..=(subnet + 1) * SWITCHES);
        leases.call(bed, ASK, &ask_reading(&host, 1, &[subnet * SWITCHES + 1]));
        tables.call(bed, TELL, &tell(&host, switches, 49_000));
    })?;
    let [taken, refused] = tables.counts()?;
    ensure!(taken > 0 && refused > 0, "{taken} tables were taken, {refused} refused; {seen}");
    let bytes = own(bed, "fabriclens_subnet_tables_bytes")?;
    Ok(format!("{taken} taken, {refused} refused, {:.1} MB of tables; {seen}", bytes / 1e6))
}

fn hosts(bed: &TestBed, hold: Duration) -> Result<String> {
    let kind = "application/x-protobuf";
    let send = |from, body: &[u8]| post(from, bed.ports[OTLP], "/v1/metrics", kind, body);
    let seen = attack_by(bed, hold, SEND, &|n| {
        let body = otlp::gauges(&format!("invented-{n}"), "invented", &"v".repeat(1000), 1000);
        // What it answers does not matter here.
        _ = send(ATTACKER, &body);
    })?;
    let refused = own(bed, "fabriclens_ingest_rejected_total")?;
    let stored = wait_for(TIMEOUT, || {
        let answer = send(Ipv4Addr::LOCALHOST, &otlp::gauge("innocent", "new_after_the_attack", 1.0))?;
        ensure!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        let found = bed.ask("new_after_the_attack")?.len();
        ensure!(found == 1, "the new series of another sender is not stored");
        Ok(found)
    })?;
    Ok(format!("{refused:.0} points refused, {stored} new series of another sender stored; {seen}"))
}

fn hostile_switch(bed: &mut TestBed, hold: Duration) -> Result<Outcome> {
    let switches = HostileSwitches::start(&bed.gnmi_target)?;
    let config = bed.dir.join("hostile.toml");
    fs::write(&config, &switches.config)?;
    bed.collector.args.extend(["--config".to_owned(), config.display().to_string()]);
    let seen = bounded(bed, |bed| {
        let seen = watch(bed, hold)?;
        let bytes = own(bed, "fabriclens_gnmi_bytes_total")?;
        let failures = own(bed, "fabriclens_gnmi_failures_total")?;
        ensure!(bytes > 0.0 && failures > 0.0, "{bytes} bytes read, {failures} streams failed");
        Ok(format!("{:.1} MB read, streams failed {failures:.0} times; {seen}", bytes / 1e6))
    });
    bed.collector.args.truncate(bed.collector.args.len() - 2);
    drop(switches);
    bed.restart_collector()?;
    seen
}

fn event_streams(bed: &TestBed, hold: Duration) -> Result<String> {
    let open = |from| -> Result<TcpStream> {
        let mut stream = connected(from, bed.ports[API])?;
        stream.write_all(b"GET /api/v1/incidents/stream HTTP/1.1\r\nHost: localhost\r\n\r\n")?;
        Ok(stream)
    };
    let streams = (0..STREAMS).map(|_| open(ATTACKER)).collect::<Result<Vec<_>>>()?;
    let seen = watch(bed, hold)?;
    let status = |mut stream: &TcpStream| -> Result<bool> {
        let mut head = [0; 12];
        std::io::Read::read_exact(&mut stream, &mut head)?;
        Ok(head.ends_with(b"200"))
    };
    let own = streams.iter().filter(|stream| status(stream).unwrap_or(false)).count();
    ensure!(status(&open(Ipv4Addr::LOCALHOST)?)?, "another address gets no stream while {own} are open");
    Ok(format!("{own} of {STREAMS} streams are open, and one of another address; {seen}"))
}
