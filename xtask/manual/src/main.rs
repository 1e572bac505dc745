//! Writes man pages and shell completions into a directory: `man/<program>/*`, `completions/<shell>/*`.
//!
//! All of them are generated: commands from the programs' command lines, configuration from the installed commented files.
//! `cargo xtask deb` packs them.

mod command;
mod commented;
mod config;
#[cfg(test)]
mod reference;

use anyhow::{Context as _, Result};
use clap::CommandFactory as _;
use clap_complete::{Shell, generate, generate_to};
use std::fs;
use std::path::{Path, PathBuf};

/// A program and the additional content of its pages.
struct Program {
    command: fn() -> clap::Command,
    /// Commented configuration, installed as [`Program::path`].
    config: &'static str,
    path: &'static str,
    /// Name of the configuration's man page in section 5.
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

/// Writes all pages and completions below `to`.
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
            if shell == Shell::Bash {
                // clap_complete uses two names for the function of a program with a hyphen, and then completes no flags.
                // So it gets a name without hyphen, except in the line that registers the function.
                let plain = name.replace('-', "_");
                let mut script = Vec::new();
                generate(shell, &mut command, plain.clone(), &mut script);
                let script = String::from_utf8(script)?.replace(&format!(" {plain}\n"), &format!(" {name}\n"));
                fs::write(dir.join(name), script)?;
            } else {
                generate_to(shell, &mut command, name, &dir)?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
