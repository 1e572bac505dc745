//! Switches for tests in a process of their own: `fabriclens-gnmi-target NAME…` prints a line `NAME ADDRESS` for each, and
//! answers gNMI by the rules of SONiC with the values that it reads: on each line of standard input `["NAME", "PATH", VALUE]`.
//! It ends with its input.

#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::error::Error;
use std::io::{BufRead as _, Write as _};

use fabriclens_gnmi_target::{Rules, Switch};
use serde_json::Value;

fn main() -> Result<(), Box<dyn Error>> {
    let mut switches = BTreeMap::new();
    for name in std::env::args().skip(1) {
        let switch = Switch::start(None, Rules::sonic(), None)?;
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
