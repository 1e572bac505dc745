//! `cargo xtask bench`: benchmarks for the performance claims, compared with another program in the same run.

mod agent;
mod agent_table;
mod backtest;
mod console;
mod detect;
mod fleet;
mod herd;
mod inside;
mod job_report;
mod kernel_probes;
mod probes;
mod scrape;
mod store;
mod switches;
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
    /// Agent on 8 HCAs: CPU per counter, RSS and system calls, compared with node_exporter
    Agent(agent::Args),
    /// Kernel probes: nanoseconds per event and loss of throughput, compared with bpftrace
    Ebpf(kernel_probes::Args),
    /// Collector: ingest, disk, memory, start-up and queries, compared with VictoriaMetrics and Prometheus
    Store(store::Args),
    /// 2,000 simulated hosts and one collector: loss, lag, memory and queries
    Fleet(fleet::Args),
    /// 2,000 real uplinks and a collector outage: loss, backlog and time to recover
    Herd(herd::Args),
    /// Console with 2,000 simulated hosts, in chromium: first paint of each page, interactions, and what open consoles cost
    Console(console::Args),
    /// Switches: collector under OTLP in the form of Cumulus Linux and under gNMI, and an agent that reads an InfiniBand subnet
    Switches(switches::Args),
    /// Probing a fleet of 2,016 hosts with 8 ports: plans, packets and bytes by host, coverage in a minute, CPU of both sides
    Probes,
    /// Time to make a job's communication report: 2, 64, 512 and 4,096 hosts with 8 ports for a day
    Report(job_report::Args),
    /// Accuracy of the verdicts on simulations with known ground truth, with complete and degraded input
    Verdicts(verdicts::Args),
    /// Processor time and memory of a back-test by the length of the recording
    Backtest(backtest::Args),
    /// Time from a fault at a port to its open incident, with real agents and a real collector
    Detect(detect::Args),
}

/// Runs the chosen benchmark.
///
/// # Errors
/// When a program does not build or start.
pub fn run(args: Args) -> Result<()> {
    match args.what {
        What::Agent(args) => agent::run(args),
        What::Ebpf(args) => kernel_probes::run(args),
        What::Store(args) => store::run(&args),
        What::Fleet(args) => fleet::run(&args),
        What::Herd(args) => herd::run(&args),
        What::Console(args) => console::run(&args),
        What::Switches(args) => switches::run(&args),
        What::Probes => probes::run(),
        What::Report(args) => job_report::run(&args),
        What::Verdicts(args) => verdicts::run(&args),
        What::Backtest(args) => backtest::run(&args),
        What::Detect(args) => detect::run(&args),
    }
}

/// Result of a comparison with a goal.
fn judged(reached: bool) -> &'static str {
    if reached { "reached" } else { "MISSED" }
}
