//! Runs set-up tools, and code in a network namespace.

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::fs::File;
use std::os::fd::AsFd as _;
use std::process::Command;

/// Runs a program; the error is its output.
#[expect(clippy::disallowed_methods, reason = "a test sets up what it measures; the agent starts no process")]
pub fn run(program: &str, arguments: &[&str]) -> Result<(), String> {
    let line = || format!("{program} {}", arguments.join(" "));
    let output = Command::new(program).args(arguments).output();
    let output = output.map_err(|e| format!("{}: {e}; install iproute2, ethtool and nftables", line()))?;
    let said = String::from_utf8_lossy(&output.stderr);
    if output.status.success() { Ok(()) } else { Err(format!("{}: {}", line(), said.trim())) }
}

/// Runs `body` in the namespace. Sockets that it opens stay in the namespace.
pub fn inside<T: Send>(name: &str, body: impl FnOnce() -> T + Send) -> T {
    let body = || {
        let namespace = File::open(format!("/run/netns/{name}")).unwrap();
        move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
        body()
    };
    std::thread::scope(|scope| scope.spawn(body).join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
}
