//! `cargo xtask test` and `cargo xtask check`: the steps that CI runs (`table.rs`), one after the other; those that only compile run beside
//! them.

mod table;

use crate::beside::Beside;
use crate::setup;
use crate::summary::Steps;
use anyhow::{Result, bail};
use table::{By, STEPS, Step};

/// Options of `test`.
#[derive(clap::Args)]
pub struct Args {
    /// Leaves out the guests with real kernels
    #[arg(long)]
    no_vm: bool,
    /// Runs only this step; may be given several times
    #[arg(long, value_name = "STEP")]
    only: Vec<String>,
    /// Lists the steps
    #[arg(long)]
    list: bool,
}

/// Runs all steps of `cargo xtask test`, or those that `--only` names; the first failure ends it.
///
/// # Errors
/// When a step fails or has no such name.
pub fn run(args: &Args) -> Result<()> {
    if args.list {
        STEPS.iter().for_each(|step| println!("{:<14} {}", step.name, step.about));
        return Ok(());
    }
    if let Some(unknown) = args.only.iter().find(|name| !STEPS.iter().any(|step| step.name == **name)) {
        let names: Vec<&str> = STEPS.iter().map(|step| step.name).collect();
        bail!("there is no step `{unknown}`; the steps are {}", names.join(", "));
    }
    if !args.only.is_empty() {
        return run_in_turn(STEPS.iter().filter(|step| args.only.iter().any(|name| name == step.name)), None);
    }
    let is_chosen = |step: &&Step| match step.by {
        By::Test | By::Both => true,
        By::Guests => !args.no_vm,
        By::Check => false,
    };
    let (beside, in_turn): (Vec<_>, Vec<_>) = STEPS.iter().filter(is_chosen).partition(|step| step.beside);
    // Two processes cannot install packages at once.
    beside.iter().try_for_each(|step| install(step))?;
    let beside = Beside::start(&beside.iter().map(|step| step.name).collect::<Vec<_>>())?;
    run_in_turn(in_turn.into_iter(), Some(beside))
}

/// Runs the fast steps: `cargo xtask check`.
///
/// # Errors
/// When a step fails.
pub fn check() -> Result<()> {
    run_in_turn(STEPS.iter().filter(|step| matches!(step.by, By::Check | By::Both)), None)
}

/// Runs steps, and waits for those beside them; the first failure ends it.
fn run_in_turn<'a>(selected: impl Iterator<Item = &'a Step>, mut beside: Option<Beside>) -> Result<()> {
    let mut steps = Steps::default();
    for step in selected {
        steps.run(step.name, || install(step).and_then(|()| (step.run)()))?;
        beside.as_mut().map_or(Ok(()), Beside::check)?;
    }
    beside.map_or(Ok(()), Beside::finish)?;
    steps.summary();
    Ok(())
}

/// Installs the packages that a step uses, or says what is missing.
fn install(step: &Step) -> Result<()> {
    step.needs.iter().try_for_each(|need| setup::ensure(need).map(drop))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_step_is_refused_with_the_names() {
        let args = Args { no_vm: false, only: vec!["lint".to_owned()], list: false };
        let error = run(&args).unwrap_err().to_string();
        assert!(error.contains("no step `lint`") && error.contains("lints"), "{error}");
    }
}
