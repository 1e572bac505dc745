//! The limit of open files of a process. Systems set 1,024 by default, which counter files and connections soon exceed.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::io;

/// Raises the limit as far as the process may; returns how many files it may open.
///
/// # Errors
/// That of the kernel, and the limit that stays.
pub fn raise() -> Result<u64, (io::Error, u64)> {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let number = |limit: Option<u64>| limit.unwrap_or(u64::MAX);
    if current != maximum {
        setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).map_err(|e| (e.into(), number(current)))?;
    }
    Ok(number(maximum))
}
