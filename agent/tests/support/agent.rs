//! The agent's own program as a process.

use std::process::{Child, Command};

/// A running agent, killed when dropped.
pub struct Agent(pub Child);

impl Drop for Agent {
    fn drop(&mut self) {
        _ = self.0.kill();
        _ = self.0.wait();
    }
}

#[expect(clippy::disallowed_methods, reason = "the test starts programs; the agent itself starts nothing")]
pub fn program(path: &str) -> Command {
    Command::new(path)
}

/// Command of the agent, without the environment of this process.
pub fn command() -> Command {
    let mut command = program(env!("CARGO_BIN_EXE_fabriclens-agent"));
    command.env_clear();
    command
}
