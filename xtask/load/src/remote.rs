//! `fabriclens-load write`: remote write 1.0 by two concurrent senders with their own hosts, one request per second of data and
//! 16 hosts.

use crate::Outcome;
use crate::replay::Recorded;
use crate::workload::{BATCH, Hosts, RAILS, Rails};
use crate::write_request::{Encoder, port_series, series};
use anyhow::{Context as _, Result, bail};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Number of senders, like the shards of a Prometheus.
const SENDERS: usize = 2;
/// Refusals of a request before it fails.
const PATIENCE: u32 = 60;

/// The samples that are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Workload {
    /// 32 hosts with 8 ports and 60 counters.
    Steady,
    /// The same; each minute a tenth of the series is replaced by those of a new job.
    Churn,
    /// The recorded or simulated ports of a directory.
    Replay,
}

/// Options of `write`.
#[derive(clap::Args)]
pub struct Args {
    /// URL of remote write
    #[arg(long)]
    url: String,
    #[arg(long, value_enum, default_value = "steady")]
    workload: Workload,
    /// Seconds of data
    #[arg(long, default_value_t = 900)]
    ticks: usize,
    /// Time of the last sample, Unix milliseconds
    #[arg(long)]
    end: i64,
    /// Directory of recordings for `replay`
    #[arg(long)]
    recordings: Option<PathBuf>,
}

/// A sender's source of samples.
enum Source {
    Hosts(Hosts),
    Recorded(Recorded),
}

/// Sends all requests; returns when the last one is acknowledged.
///
/// # Errors
/// When a recording cannot be read, or the receiver refuses a request.
pub fn run(args: &Args) -> Result<Outcome> {
    let mut sources = match args.workload {
        Workload::Replay => {
            let dir = args.recordings.as_ref().context("replay needs --recordings")?;
            Recorded::read(dir, SENDERS)?.into_iter().map(Source::Recorded).collect::<Vec<_>>()
        }
        w => {
            let rails = Rails::new(false)?;
            let hosts = |i| Source::Hosts(Hosts::new(&rails, i * BATCH, BATCH, w == Workload::Churn));
            (0..SENDERS).map(hosts).collect()
        }
    };
    let ticks = sources.iter().map(|s| s.ticks(args.ticks)).min().unwrap_or(0);
    let start = args.end - (ticks as i64 - 1) * 1000;
    let begin = Instant::now();
    let done = AtomicU64::new(0);
    let outcomes = std::thread::scope(|scope| {
        let send = |source| {
            let done = &done;
            scope.spawn(move || sender(source, args, start, ticks, done))
        };
        let threads: Vec<_> = sources.iter_mut().map(send).collect();
        threads.into_iter().map(|t| t.join().unwrap_or_else(|_| bail!("a sender panicked"))).collect::<Result<Vec<_>>>()
    })?;
    let mut sum = Outcome { seconds: begin.elapsed().as_secs_f64(), ticks: ticks as u64, ..Outcome::default() };
    for o in outcomes {
        sum.samples += o.samples;
        sum.requests += o.requests;
        sum.bytes += o.bytes;
        sum.retries += o.retries;
        sum.checksum ^= o.checksum;
    }
    Ok(sum)
}

fn sender(source: &mut Source, args: &Args, start: i64, ticks: usize, done: &AtomicU64) -> Result<Outcome> {
    let agent = ureq::Agent::new_with_defaults();
    let (mut encoder, mut packer) = (Encoder::default(), snap::raw::Encoder::new());
    let (mut out, mut crc) = (Outcome::default(), crc32fast::Hasher::new());
    for tick in 0..ticks {
        let time = start + tick as i64 * 1000;
        for (body, samples) in source.requests(&mut encoder, tick, time) {
            let packed = packer.compress_vec(body)?;
            crc.update(&packed);
            out.retries += post(&agent, &args.url, &packed)?;
            out.samples += samples;
            out.requests += 1;
            out.bytes += packed.len() as u64;
        }
        let all = done.fetch_add(1, Ordering::Relaxed) + 1;
        if all.is_multiple_of((ticks * SENDERS / 10).max(1) as u64) {
            eprint!(" {}%", all * 100 / (ticks * SENDERS) as u64);
        }
    }
    out.checksum = crc.finalize();
    Ok(out)
}

/// Sends a request until it is accepted; gives the number of refusals.
fn post(agent: &ureq::Agent, url: &str, body: &[u8]) -> Result<u64> {
    for refused in 0..PATIENCE {
        let request = agent
            .post(url)
            .header("content-type", "application/x-protobuf")
            .header("content-encoding", "snappy")
            .header("x-prometheus-remote-write-version", "0.1.0");
        match request.send(body) {
            Ok(_) => return Ok(u64::from(refused)),
            Err(ureq::Error::StatusCode(429 | 500..)) => std::thread::sleep(Duration::from_millis(200)),
            Err(e) => return Err(e).with_context(|| format!("send to {url}")),
        }
    }
    bail!("{url} keeps refusing a request")
}

impl Source {
    fn ticks(&self, wanted: usize) -> usize {
        match self {
            Self::Hosts(_) => wanted,
            Self::Recorded(r) => r.ticks().min(wanted),
        }
    }

    /// Requests of a tick, each with its number of samples.
    fn requests<'a>(&mut self, encoder: &'a mut Encoder, tick: usize, time: i64) -> Vec<(&'a [u8], u64)> {
        match self {
            Self::Hosts(hosts) => {
                if hosts.step() || encoder.series.is_empty() {
                    encoder.series = hosts.ports.iter().flat_map(port_series).collect();
                }
                let values = hosts.ports.iter().flat_map(|p| p.values.iter().map(|v| *v as f64));
                vec![encoder.encode(time, values)]
            }
            Self::Recorded(recorded) => {
                if encoder.series.is_empty() {
                    encoder.series = recorded.series().map(|labels| series(&labels)).collect();
                }
                let most = BATCH * RAILS * 60;
                encoder.encode_in_parts(time, recorded.values(tick), most)
            }
        }
    }
}
