//! The sender of `cargo xtask bench store` and `bench fleet`: a program of its own, so that it is built as the servers
//! are and its own cost can be told apart. Prints one line of JSON at the end.

mod ask;
mod columns;
mod fleet;
mod grpc;
mod herd;
mod otlp;
mod remote;
mod replay;
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
    /// Prometheus remote write, as fast as the receiver takes it
    Write(remote::Args),
    /// The same samples by OTLP as agents send them, as fast as the collector takes them
    Otlp(otlp::Args),
    /// Thousands of hosts, each with a sample a second
    Fleet(fleet::Args),
    /// Thousands of agents' uplinks, with their spools
    Herd(herd::Args),
    /// What dashboards ask, of each server in turn
    Ask(ask::Args),
}

/// What was sent; printed as JSON.
#[derive(Default, serde::Serialize)]
struct Outcome {
    ticks: u64,
    samples: u64,
    requests: u64,
    /// Compressed bodies.
    bytes: u64,
    /// Requests that were refused at first.
    retries: u64,
    /// Of all bodies: equal when the same bytes were sent.
    checksum: u32,
    seconds: f64,
}

fn main() -> Result<()> {
    match Cli::parse().command {
        Command::Write(args) => println!("{}", serde_json::to_string(&remote::run(&args)?)?),
        Command::Otlp(args) => println!("{}", serde_json::to_string(&otlp::run(&args)?)?),
        Command::Fleet(args) => fleet::run(&args)?,
        Command::Herd(args) => herd::run(&args)?,
        Command::Ask(args) => println!("{}", ask::run(&args)?),
    }
    Ok(())
}
