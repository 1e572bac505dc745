//! `fabriclens-load switches`: switches that push OTLP by gRPC each second, uncompressed, with one connection each.
//!
//! A request is encoded once ([`body`]), so that this program takes little of the processor that is measured. Like a switch,
//! it does not repeat what is refused, and leaves seconds out when it falls behind.

mod body;
mod rows;

use crate::grpc::{Answer, Connection};
use crate::reporting::report_until_done;
use anyhow::{Context as _, Result};
use body::{Body, Form};
use serde_json::json;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Interval of a switch, ms.
const INTERVAL: u64 = 1000;

/// Options of `switches`.
#[derive(clap::Args)]
pub struct Args {
    /// Address of the collector's OTLP/gRPC
    #[arg(long)]
    to: SocketAddr,
    /// Number of switches, at most 9,999
    #[arg(long, default_value_t = 400, value_parser = clap::value_parser!(u64).range(1..=9_999))]
    switches: u64,
    /// Ports of a switch, with 18 counters each
    #[arg(long, default_value_t = 64)]
    ports: usize,
    /// Names of the metrics
    #[arg(long, value_enum, default_value = "cumulus")]
    form: Form,
    /// Duration in seconds
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Seconds between two reports (lines of JSON)
    #[arg(long, default_value_t = 5)]
    every: u64,
}

/// Points and requests of all switches together.
#[derive(Default)]
struct Totals {
    acked: AtomicU64,
    rejected: AtomicU64,
    /// Refused requests, whose points are lost.
    refused: AtomicU64,
    /// Points of seconds that were left out.
    late: AtomicU64,
    /// Longest time from a sample to its acknowledgement since the last report, ms.
    lag_ms: AtomicU64,
}

fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_millis() as u64)
}

/// Sends for the given time and prints reports.
///
/// # Errors
/// When the collector cannot be reached or refuses a request for good.
pub fn run(args: &Args) -> Result<()> {
    let body = Arc::new(Body::new(args.form, args.ports)?);
    let totals = Arc::new(Totals::default());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    // One connection per millisecond before the first sample.
    let begin = now_ms() + 1000 + args.switches;
    let end = begin + args.seconds * INTERVAL;
    runtime.block_on(async {
        let mut switches = tokio::task::JoinSet::new();
        for number in 0..args.switches {
            let first = begin + number * INTERVAL / args.switches;
            let pause = Duration::from_millis(number);
            let (body, totals, to) = (body.clone(), totals.clone(), args.to);
            switches.spawn(async move {
                tokio::time::sleep(pause).await;
                switch(&body, &totals, (number as usize, to), (first, end)).await
            });
        }
        report_until_done(switches, args.every, || totals.print()).await
    })
}

impl Totals {
    fn print(&self) {
        let get = |count: &AtomicU64| count.load(Relaxed);
        println!(
            "{}",
            json!({
                "acked": get(&self.acked), "rejected": get(&self.rejected), "refused": get(&self.refused),
                "late": get(&self.late), "lag_ms": self.lag_ms.swap(0, Relaxed),
            })
        );
    }
}

/// Sends the samples of one switch.
async fn switch(
    body: &Body,
    totals: &Totals,
    (number, to): (usize, SocketAddr),
    (first, end): (u64, u64),
) -> Result<()> {
    let mut connection = Connection::open(to, number).await?;
    let mut due = first;
    while due < end {
        let now = now_ms();
        if due > now {
            tokio::time::sleep(Duration::from_millis(due - now)).await;
        }
        let missed = now.saturating_sub(due) / INTERVAL;
        totals.late.fetch_add(missed * body.points(), Relaxed);
        due += missed * INTERVAL;
        let frame = body.of(number, (due - first) / INTERVAL, due * 1_000_000);
        match connection.send(frame.into()).await.with_context(|| format!("send as {}", body::name(number)))? {
            Answer::Taken { rejected } => {
                totals.acked.fetch_add(body.points() - rejected.min(body.points()), Relaxed);
                totals.rejected.fetch_add(rejected, Relaxed);
            }
            Answer::Refused(_) => _ = totals.refused.fetch_add(1, Relaxed),
        }
        totals.lag_ms.fetch_max(now_ms().saturating_sub(due), Relaxed);
        due += INTERVAL;
    }
    Ok(())
}
