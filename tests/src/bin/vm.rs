//! Runs the scenarios on real kernels. `cargo xtask vm` builds and starts it.

use anyhow::{Context, Result, bail};
use fabriclens_tests::vm::{self, Programs};
use std::path::PathBuf;

fn main() -> Result<()> {
    let (mut names, mut cache, mut programs) = (Vec::new(), PathBuf::from("target/vm"), Programs::default());
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut path = || arguments.next().map(PathBuf::from).with_context(|| format!("{argument} needs a path"));
        match argument.as_str() {
            "--cache" => cache = path()?,
            "--guest" => programs.guest = path()?,
            "--agent" => programs.agent = path()?,
            "--agent-static" => programs.agent_static = path()?,
            "--collector" => programs.collector = path()?,
            "--prober" => programs.prober = path()?,
            "--list" => {
                for vm::Scenario { name, shows, often, .. } in vm::ALL {
                    println!("{name:<20} {shows}{}", if *often { "" } else { " (only by name)" });
                }
                return Ok(());
            }
            option if option.starts_with('-') => bail!("unknown option {option}"),
            name => names.push(name.to_owned()),
        }
    }
    vm::run(&names, &cache, &programs)
}
