//! PID 1 of the test guests: mounts, loads modules, names the network cards, then runs the test's commands.
//!
//! Started as `/init` by the kernel. It splits in two: the first process only reaps orphans, its child does the work,
//! because a reaper in the same process would steal the exit status of commands.

#![forbid(unsafe_code)]

mod serve;
mod setup;

use std::io::Write;
use std::process::Command;

fn main() -> std::io::Result<()> {
    if std::env::args().nth(1).as_deref() == Some("serve") {
        if let Err(error) = setup::run() {
            say(&format!("setup failed: {error}"));
        }
        return serve::run();
    }
    setup::mounts()?;
    let worker = Command::new("/init").arg("serve").spawn()?;
    let worker = worker.id().cast_signed();
    loop {
        let gone = rustix::process::wait(rustix::process::WaitOptions::empty());
        if let Ok(Some((pid, status))) = gone
            && pid.as_raw_nonzero().get() == worker
        {
            say(&format!("command channel ended: {status:?}"));
            rustix::system::reboot(rustix::system::RebootCommand::PowerOff)?;
        }
    }
}

/// One line on the console, which is the serial port that the test keeps as a log.
fn say(line: &str) {
    let console = std::fs::OpenOptions::new().write(true).open("/dev/console");
    if let Ok(mut console) = console {
        // A failure of the console cannot be reported.
        let _ = writeln!(console, "{line}");
    }
}
