//! `fabriclens-load fleet`: thousands of simulated agents, each with its own connection and sampling phase.
//!
//! Host names have one length, so one encoder makes the requests of all hosts and the name is inserted afterwards. Like an
//! agent, a host that cannot send keeps its samples for a while, sends them together later, and counts those that it drops.

use crate::grpc::{Answer, Connection, Packer};
use crate::otlp::Shape;
use crate::reporting::report_until_done;
use crate::workload::{Hosts, Rails, host_name};
use anyhow::{Context as _, Result};
use fabriclens_wire::Section;
use serde_json::json;
use std::cell::RefCell;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Once};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Samples that a host keeps.
const RING: u64 = 60;
/// Samples in one request.
const BATCH: u64 = 4;
/// First and longest delay after a refusal.
const PAUSES: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(5)];
/// Host name in the encoder's output, which is replaced.
const TEMPLATE: usize = 0;

/// Options of `fleet`.
#[derive(clap::Args)]
pub struct Args {
    /// Address of the collector's OTLP/gRPC
    #[arg(long)]
    to: SocketAddr,
    /// Number of hosts with 8 ports each, at most 15,000
    #[arg(long, default_value_t = 2000, value_parser = clap::value_parser!(u64).range(1..=15_000))]
    hosts: u64,
    /// Duration in seconds
    #[arg(long, default_value_t = 600)]
    seconds: u64,
    /// Seconds between two samples of a host
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=60))]
    period: u64,
    /// Seconds between two reports (lines of JSON)
    #[arg(long, default_value_t = 10)]
    every: u64,
}

/// Counters of all hosts together.
#[derive(Default)]
struct Totals {
    connected: AtomicU64,
    samples: AtomicU64,
    acked: AtomicU64,
    rejected: AtomicU64,
    dropped: AtomicU64,
    /// Refused requests and broken connections.
    refused: AtomicU64,
    /// Longest time from a sample to its acknowledgement since the last report, ms.
    lag_ms: AtomicU64,
}

/// State shared by the tasks of all hosts.
struct Shared {
    to: SocketAddr,
    /// Begin and end of sampling, Unix ms.
    begin: u64,
    end: u64,
    /// Time between two samples of a host, ms.
    period: u64,
    hosts: u64,
    shapes: Vec<Shape>,
    totals: Totals,
}

/// Prints the reason only once: all hosts lose their connections at the same time.
static SAID: Once = Once::new();

thread_local! {
    static PACKER: RefCell<Option<(Packer, Places)>> = const { RefCell::new(None) };
}

/// Offsets of the host name in a request, by its number of sections.
type Places = HashMap<usize, Vec<usize>>;

fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_millis() as u64)
}

/// Sends for the given time and prints reports.
///
/// # Errors
/// When the catalog lacks a metric, or an address is wrong.
pub fn run(args: &Args) -> Result<()> {
    let rails = Rails::new(true)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    // One connection per millisecond before the first sample.
    let begin = now_ms() + 1000 + args.hosts;
    let template = Hosts::new(&rails, TEMPLATE, 1, false);
    let shared = Arc::new(Shared {
        to: args.to,
        begin,
        end: begin + args.seconds * 1000,
        period: args.period * 1000,
        hosts: args.hosts,
        shapes: template.ports.iter().map(|p| Shape::new(p, &host_name(TEMPLATE), begin)).collect(),
        totals: Totals::default(),
    });
    runtime.block_on(async {
        let mut hosts = tokio::task::JoinSet::new();
        for number in 0..args.hosts {
            hosts.spawn(host(shared.clone(), Hosts::new(&rails, number as usize, 1, false), number));
        }
        report_until_done(hosts, args.every, || shared.print()).await
    })
}

impl Shared {
    fn print(&self) {
        let t = &self.totals;
        let get = |c: &AtomicU64| c.load(Ordering::Relaxed);
        println!(
            "{}",
            json!({
                "connected": get(&t.connected), "samples": get(&t.samples), "acked": get(&t.acked),
                "rejected": get(&t.rejected), "dropped": get(&t.dropped), "refused": get(&t.refused),
                "lag_ms": t.lag_ms.swap(0, Ordering::Relaxed),
            })
        );
    }
}

async fn host(shared: Arc<Shared>, mut host: Hosts, number: u64) -> Result<()> {
    let totals = &shared.totals;
    let name = host_name(number as usize);
    let mut connection = None;
    // One connection per millisecond.
    tokio::time::sleep(Duration::from_millis(number)).await;
    let period = shared.period;
    // First unsent sample: hosts are spread over the period.
    let mut next = shared.begin + number * period / shared.hosts;
    let of_tick: u64 = host.ports.iter().map(|p| p.values.len() as u64).sum();
    while next < shared.end {
        let now = now_ms();
        if next > now {
            // Connects before the first sample is due.
            if connection.is_none() {
                connection = open(&shared, number).await;
            }
            tokio::time::sleep(Duration::from_millis(next.saturating_sub(now_ms()))).await;
            continue;
        }
        let due = (now.min(shared.end - 1) - next) / period + 1;
        let lost = due.saturating_sub(RING);
        let count = (due - lost).min(BATCH);
        totals.samples.fetch_add((lost + count) * of_tick, Ordering::Relaxed);
        totals.dropped.fetch_add(lost * of_tick, Ordering::Relaxed);
        next += lost * period;
        let mut sections = Vec::new();
        for tick in 0..count {
            host.step();
            let time = (next + tick * period) * 1_000_000;
            sections.extend(host.ports.iter().zip(&shared.shapes).map(|(p, s)| s.section(p, time)));
        }
        let frame = pack(&sections, &name)?;
        drop(sections);
        let mut pause = PAUSES[0];
        loop {
            if connection.is_none() {
                connection = open(&shared, number).await;
            }
            let answer = match &mut connection {
                Some(c) => c.send(frame.clone()).await,
                None => Ok(Answer::Refused("not connected".into())),
            };
            match answer {
                Ok(Answer::Taken { rejected }) => {
                    totals.acked.fetch_add(count * of_tick - rejected, Ordering::Relaxed);
                    totals.rejected.fetch_add(rejected, Ordering::Relaxed);
                    break;
                }
                Ok(Answer::Refused(_)) => {}
                Err(why) => {
                    SAID.call_once(|| eprintln!("the first broken connection: {why:#}"));
                    connection = None;
                }
            }
            totals.refused.fetch_add(1, Ordering::Relaxed);
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(PAUSES[1]);
        }
        totals.lag_ms.fetch_max(now_ms().saturating_sub(next), Ordering::Relaxed);
        next += count * period;
    }
    Ok(())
}

async fn open(shared: &Shared, number: u64) -> Option<Connection> {
    let connection = Connection::open(shared.to, number as usize).await.ok()?;
    shared.totals.connected.fetch_add(1, Ordering::Relaxed);
    Some(connection)
}

/// The message of these sections with the name of another host.
fn pack(sections: &[Section], name: &str) -> Result<bytes::Bytes> {
    PACKER.with_borrow_mut(|kept| {
        if kept.is_none() {
            *kept = Some((Packer::new()?, Places::new()));
        }
        let (packer, places) = kept.as_mut().context("no packer")?;
        packer.encode(sections);
        let template = host_name(TEMPLATE);
        let places = places.entry(sections.len()).or_insert_with(|| {
            let at = packer.body.windows(template.len()).enumerate();
            at.filter(|(_, w)| *w == template.as_bytes()).map(|(i, _)| i).collect()
        });
        for at in places {
            packer.body[*at..*at + name.len()].copy_from_slice(name.as_bytes());
        }
        packer.frame()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use fabriclens_wire::decode::Decoder;

    #[test]
    fn the_template_changes_only_the_host_name() {
        let rails = Rails::new(true).unwrap();
        let mut host = Hosts::new(&rails, 1234, 1, false);
        let shapes: Vec<Shape> = host.ports.iter().map(|p| Shape::new(p, &host_name(TEMPLATE), 10_000_000)).collect();
        for time in [20_000_000_000_000_u64, 20_001_000_000_000] {
            host.step();
            let sections: Vec<Section> = host.ports.iter().zip(&shapes).map(|(p, s)| s.section(p, time)).collect();
            let frame = pack(&sections, &host_name(1234)).unwrap();
            let plain = zstd::bulk::decompress(&frame[5..], 1 << 20).unwrap();
            let groups = Decoder::default().bytes(&plain).unwrap().groups;
            // The info of a port is a group of its own.
            assert_eq!(groups.len(), 16);
            for (groups, port) in groups.chunks(2).zip(&host.ports) {
                assert!(groups.iter().all(|group| group.times == [(time / 1_000_000).cast_signed()]));
                assert_eq!(groups.iter().map(|group| group.series.len()).sum::<usize>(), 62);
                assert!(groups.iter().flat_map(|group| &*group.series).all(|s| s.get("host") == host_name(1234)));
                let mut sent: Vec<f64> = port.values.iter().map(|v| *v as f64).collect();
                let mut got: Vec<f64> = groups.iter().flat_map(|group| group.values.clone()).collect();
                sent.sort_by(f64::total_cmp);
                got.sort_by(f64::total_cmp);
                assert_eq!(sent, got);
            }
        }
    }
}
