//! Writes man pages and shell completions into a directory: `man/<program>/*`, `completions/<shell>/*`.
//!
//! Nothing of them is written by hand: commands come from the command lines that the programs parse, configuration files
//! from the commented ones that are installed. `cargo xtask deb` packs them.

mod command;
mod config;

use anyhow::{Context as _, Result};
use clap::CommandFactory as _;
use clap_complete::{Shell, generate_to};
use std::fs;
use std::path::{Path, PathBuf};

/// A program, and what its pages tell beyond its command line.
struct Program {
    command: fn() -> clap::Command,
    /// The commented configuration that is installed as [`Program::path`].
    config: &'static str,
    path: &'static str,
    /// Name of the configuration's page, in section 5.
    page: &'static str,
    other: &'static str,
}

const PROGRAMS: &[Program] = &[
    Program {
        command: fabriclens::cli::Cli::command,
        config: include_str!("../../../deploy/config/collector.toml"),
        path: "/etc/fabriclens/collector.toml",
        page: "fabriclens-collector.toml",
        other: "fabriclens-agent",
    },
    Program {
        command: fabriclens_agent::cli::Cli::command,
        config: include_str!("../../../deploy/config/agent.toml"),
        path: "/etc/fabriclens/agent.toml",
        page: "fabriclens-agent.toml",
        other: "fabriclens",
    },
];

fn main() -> Result<()> {
    let to = std::env::args_os().nth(1).map(PathBuf::from).context("name the directory to write to")?;
    write(&to)
}

/// All pages and completions, below `to`.
fn write(to: &Path) -> Result<()> {
    for program in PROGRAMS {
        let man = to.join("man").join((program.command)().get_name());
        fs::create_dir_all(&man)?;
        for (file, page) in command::pages(program) {
            fs::write(man.join(file), page)?;
        }
        fs::write(man.join(format!("{}.5", program.page)), config::page(program))?;
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let dir = to.join("completions").join(shell.to_string());
            fs::create_dir_all(&dir)?;
            let mut command = (program.command)();
            let name = command.get_name().to_owned();
            let written = generate_to(shell, &mut command, name.clone(), &dir)?;
            if shell == Shell::Bash {
                fs::rename(written, dir.join(name))?; // the name by which bash-completion finds it
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
