//! `fabriclens-load otlp`: the steady workload as 32 agents send it, with one connection per host and one request per host and
//! second of data.

use crate::Outcome;
use crate::grpc::{Answer, Connection, Packer};
use crate::workload::{Hosts, Port, RAILS, Rails};
use anyhow::{Result, bail};
use fabriclens_wire::{Resource, Section, Value};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Number of hosts, as for remote write.
const HOSTS: usize = 32;
/// Refusals of a request before it fails.
const PATIENCE: u32 = 60;
/// Simulated time to read a port.
const WINDOW_NS: u64 = 1_000_000;

/// Options of `otlp`.
#[derive(clap::Args)]
pub struct Args {
    /// Address of the collector's OTLP/gRPC
    #[arg(long)]
    to: SocketAddr,
    /// Seconds of data
    #[arg(long, default_value_t = 900)]
    ticks: usize,
    /// Time of the last sample, Unix milliseconds
    #[arg(long)]
    end: u64,
}

/// Sends all requests; returns when the last one is acknowledged.
///
/// # Errors
/// When the collector cannot be reached or refuses a request.
pub fn run(args: &Args) -> Result<Outcome> {
    let rails = Rails::new(false)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let begin = Instant::now();
    runtime.block_on(async {
        let host = |h| tokio::spawn(send(Hosts::new(&rails, h, 1, false), h, args.to, args.ticks, args.end));
        let tasks: Vec<_> = (0..HOSTS).map(host).collect();
        let mut sum = Outcome { ticks: args.ticks as u64, ..Outcome::default() };
        for (i, task) in tasks.into_iter().enumerate() {
            let of_host = task.await??;
            sum.samples += of_host.samples;
            sum.requests += of_host.requests;
            sum.bytes += of_host.bytes;
            sum.retries += of_host.retries;
            sum.checksum ^= of_host.checksum;
            if (i + 1) % 8 == 0 {
                eprint!(" {}%", (i + 1) * 100 / HOSTS);
            }
        }
        sum.seconds = begin.elapsed().as_secs_f64();
        Ok(sum)
    })
}

async fn send(mut hosts: Hosts, number: usize, to: SocketAddr, ticks: usize, end_ms: u64) -> Result<Outcome> {
    let mut connection = Connection::open(to, number).await?;
    let mut packer = Packer::new()?;
    let shapes: Vec<Shape> = hosts.ports.iter().map(|p| Shape::new(p, &p.host, end_ms)).collect();
    let mut crc = crc32fast::Hasher::new();
    let mut out = Outcome::default();
    for tick in 0..ticks {
        hosts.step();
        let time = (end_ms - (ticks - 1 - tick) as u64 * 1000) * 1_000_000;
        let sections: Vec<Section> = hosts.ports.iter().zip(&shapes).map(|(p, s)| s.section(p, time)).collect();
        out.samples += packer.encode(&sections);
        let frame = packer.frame()?;
        crc.update(&frame);
        out.requests += 1;
        out.bytes += frame.len() as u64;
        let mut refused = 0;
        while let Answer::Refused(why) = connection.send(frame.clone()).await? {
            refused += 1;
            if refused > PATIENCE {
                bail!("the collector keeps refusing a request: {why}");
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        out.retries += u64::from(refused);
    }
    out.checksum = crc.finalize();
    Ok(out)
}

/// Constant part of a port's sections.
pub struct Shape {
    resource: Arc<Resource>,
    starts: Arc<[u64]>,
}

impl Shape {
    /// A port of a host, which counts since an hour before `end_ms`.
    pub fn new(port: &Port, host: &str, end_ms: u64) -> Self {
        let device = format!("mlx5_{}", port.rail % RAILS);
        let start = end_ms.saturating_sub(3_600_000) * 1_000_000;
        Self {
            resource: Arc::new(Resource { host: host.into(), device: Some(device.into()), port: Some(1) }),
            starts: vec![start; port.columns.len()].into(),
        }
    }

    /// Section of the port at a time in Unix ns.
    pub fn section(&self, port: &Port, time: u64) -> Section {
        Section {
            resource: self.resource.clone(),
            columns: port.columns.clone(),
            begin_ns: time - WINDOW_NS,
            end_ns: time,
            starts: self.starts.clone(),
            values: port.values.iter().map(|v| Value::Int(*v)).collect(),
            urgent: false,
        }
    }
}
