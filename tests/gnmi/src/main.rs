//! Switches for tests in a process of their own: `fabriclens-gnmi-target NAME…` prints a line `NAME ADDRESS` for each, and
//! answers gNMI by the rules of SONiC with the values that it reads: on each line of standard input `["NAME", "PATH", VALUE]`.
//! It ends with its input. `NAME=flood` is a switch with the leaves of Cumulus that sends as much as it can, `NAME=garbage` one that
//! sends no messages of gNMI.

#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::error::Error;
use std::io::{BufRead as _, Write as _};

use fabriclens_gnmi_target::{Fault, Rules, Switch};
use serde_json::Value;

fn main() -> Result<(), Box<dyn Error>> {
    let mut switches = BTreeMap::new();
    for argument in std::env::args().skip(1) {
        let (name, rules) = match argument.split_once('=') {
            None => (argument.clone(), Rules::sonic()),
            Some((name, fault)) => (name.to_owned(), Rules::cumulus().with_fault(fault_of(fault)?)),
        };
        let switch = Switch::start(None, rules, None)?;
        writeln!(std::io::stdout(), "{name} {}", switch.address)?;
        switches.insert(name, switch);
    }
    for line in std::io::stdin().lock().lines() {
        let (name, path, value): (String, String, Value) = serde_json::from_str(&line?)?;
        let switch = switches.get(&name).ok_or_else(|| format!("no switch {name}"))?;
        switch.values.set(&path, value);
    }
    Ok(())
}

fn fault_of(word: &str) -> Result<Fault, String> {
    match word {
        "flood" => Ok(Fault::Flood),
        "garbage" => Ok(Fault::Garbage),
        other => Err(format!("{other:?} is neither flood nor garbage")),
    }
}
