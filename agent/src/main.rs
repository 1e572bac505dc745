//! `fabriclens-agent`: parses the flags, executes the subcommand, maps the outcome to an exit code.

use clap::Parser as _;
use fabriclens_agent::cli::{Cli, execute};
use std::process::ExitCode;

fn main() -> ExitCode {
    match execute(Cli::parse()) {
        Ok(code) => code,
        Err(error) => {
            // `{:#}` prints the chain of causes; errors never repeat their cause.
            eprintln!("fabriclens-agent: {}", fabriclens_base::terminal::lines(&format!("{error:#}")));
            ExitCode::from(2)
        }
    }
}
