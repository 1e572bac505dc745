//! `cargo xtask`: demo, tests, benchmarks, packages and generators. Each command installs what it needs.

mod alerts;
mod bench;
mod beside;
mod chaos;
mod console;
mod dashboards;
mod deb;
mod demo;
mod docs;
mod ebpf;
mod fuzz;
mod layers;
mod libtest;
mod manifests;
mod msrv;
mod needs;
mod process;
mod programs;
mod random;
mod release;
mod sbom;
mod scenarios;
mod setup;
mod sim;
mod steps;
mod summary;
mod test;
mod third_party;
mod tools;
mod vm;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Fabriclens: demo, tests, benchmarks, packages and generated files")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Runs a collector, an agent on this host and 16 simulated hosts with their switches, and injects four faults
    Demo(demo::Args),
    /// Runs the fast checks: format, layers, spelling, lints and unit tests
    Check,
    /// Runs everything that CI runs
    Test(test::Args),
    /// Writes Grafana dashboards and alert rules
    Dashboards(dashboards::Args),
    /// Checks the documentation: runs its commands, checks configuration and links
    Docs(docs::Args),
    /// Builds the Debian packages
    Deb(deb::Args),
    /// Builds the files of a release
    Release(release::Args),
    /// Renders the Helm chart into plain manifests
    Manifests(manifests::Args),
    /// Injects faults into a running fleet and checks invariants
    Chaos(chaos::Args),
    /// Runs benchmarks, compared with other programs in the same run
    Bench(bench::Args),
    /// Refuses circles between the files of a crate
    Layers(layers::Args),
    /// Writes the simulated scenarios with ground truth in tests/fixtures
    Scenarios,
    /// Builds the pages of the console
    Console(console::Args),
    /// Compiles the agent's BPF probes
    Ebpf(ebpf::Args),
    /// Fuzzes every parser of untrusted input, guided by coverage
    Fuzz(fuzz::Args),
    /// Runs tests in guests with real kernels: soft-RoCE and a fake mlx5 HCA
    Vm(vm::Args),
}

fn main() -> anyhow::Result<()> {
    let command = Cli::parse().command;
    setup::ensure(&setup::MAKE)?;
    match command {
        Command::Demo(args) => demo::run(args),
        Command::Check => test::check(),
        Command::Test(args) => test::run(&args),
        Command::Dashboards(args) => dashboards::run(&args),
        Command::Docs(args) => docs::run(args),
        Command::Deb(args) => deb::run(&args),
        Command::Release(args) => release::run(&args),
        Command::Manifests(args) => manifests::run(&args),
        Command::Chaos(args) => chaos::run(&args),
        Command::Bench(args) => bench::run(args),
        Command::Layers(args) => layers::run(&args),
        Command::Scenarios => scenarios::run(),
        Command::Console(args) => console::run(args),
        Command::Ebpf(args) => ebpf::run(&args),
        Command::Fuzz(args) => fuzz::run(&args),
        Command::Vm(args) => vm::run(args),
    }
}
