//! `cargo xtask bench`: figures for performance claims, always beside a rival in the same run, as ratios.

mod agent;
mod detect;
mod fleet;
mod herd;
mod jobs;
mod probes;
mod report;
mod scrape;
mod store;
mod syscalls;
mod traffic;
mod verdicts;

use anyhow::Result;

/// Options of `bench`.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(clap::Subcommand)]
enum What {
    /// CPU per counter read, RSS and system calls of the agent on 8 HCAs, beside node_exporter
    Agent(agent::Args),
    /// Nanoseconds an event and loss of throughput of the probes in the kernel, beside bpftrace
    Ebpf(probes::Args),
    /// Ingest, disk, memory, start-up and queries of the collector, beside VictoriaMetrics and Prometheus
    Store(store::Args),
    /// 2,000 simulated hosts and one collector: loss, lag, memory and queries
    Fleet(fleet::Args),
    /// 2,000 real uplinks and a collector that was away: what is lost, what waits, how long all takes
    Herd(herd::Args),
    /// How long the communication report of a job takes: 2, 64, 512 and 4,096 hosts of 8 ports for a day
    Report(jobs::Args),
    /// How right verdicts are on simulations with known truth, with all that could be read and with less
    Verdicts(verdicts::Args),
    /// From a fault at a port to its open incident: real agents, the real collector, the wire between them
    Detect(detect::Args),
}

/// Runs the chosen benchmark.
pub fn run(args: Args) -> Result<()> {
    match args.what {
        What::Agent(args) => agent::run(args),
        What::Ebpf(args) => probes::run(args),
        What::Store(args) => store::run(&args),
        What::Fleet(args) => fleet::run(&args),
        What::Herd(args) => herd::run(&args),
        What::Report(args) => jobs::run(&args),
        What::Verdicts(args) => verdicts::run(&args),
        What::Detect(args) => detect::run(&args),
    }
}

/// How a figure stands to its goal.
fn judged(reached: bool) -> &'static str {
    if reached { "reached" } else { "MISSED" }
}
