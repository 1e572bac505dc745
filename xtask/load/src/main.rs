//! Load generator of `cargo xtask bench` and `chaos`. It is a separate program so that it is built like the servers and its own
//! cost can be measured. Prints JSON.

mod ask;
mod columns;
mod fleet;
mod grpc;
mod herd;
mod otlp;
mod remote;
mod replay;
mod reporting;
mod switches;
mod workload;
mod write_request;

use anyhow::Result;
use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "fabriclens-load", about = "Load for Fabriclens' benchmarks")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Sends Prometheus remote write as fast as the receiver accepts it
    Write(remote::Args),
    /// Sends the same samples by OTLP, like agents, as fast as the collector accepts them
    Otlp(otlp::Args),
    /// Simulates thousands of hosts with a sample per second
    Fleet(fleet::Args),
    /// Runs thousands of agent uplinks with their spools
    Herd(herd::Args),
    /// Simulates switches that push OTLP each second
    Switches(switches::Args),
    /// Runs dashboard queries on each server in turn
    Ask(ask::Args),
}

/// Report, printed as JSON.
#[derive(Default, serde::Serialize)]
struct Outcome {
    ticks: u64,
    samples: u64,
    requests: u64,
    /// Bytes of the compressed bodies.
    bytes: u64,
    /// Requests that were refused and retried.
    retries: u64,
    /// CRC-32 of all bodies.
    checksum: u32,
    seconds: f64,
}

fn main() -> Result<()> {
    match Cli::parse().command {
        Command::Write(args) => println!("{}", serde_json::to_string(&remote::run(&args)?)?),
        Command::Otlp(args) => println!("{}", serde_json::to_string(&otlp::run(&args)?)?),
        Command::Fleet(args) => fleet::run(&args)?,
        Command::Herd(args) => herd::run(&args)?,
        Command::Switches(args) => switches::run(&args)?,
        Command::Ask(args) => println!("{}", ask::run(&args)?),
    }
    Ok(())
}
