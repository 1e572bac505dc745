//! Agents in guests that send to the collector on this host, and perftest traffic between guests.

use super::collector::Collector;
use super::vm::Vm;
use anyhow::{Context, Result};
use std::path::Path;
use std::time::Duration;

/// Address of this host, seen from a guest.
const HOST: &str = "10.0.2.2";

/// Configuration of a guest's agent.
pub const CONFIG: &str = "/agent.toml";

/// Copies the agent into a guest and starts it. Its log goes to the guest's console, which is kept if a test fails.
///
/// # Errors
/// When a command in the guest fails.
pub fn start(guest: &Vm, program: &Path, collector: &Collector) -> Result<()> {
    start_as(guest, program, collector, "")
}

/// As [`start`], with a configuration.
///
/// # Errors
/// When a command in the guest fails.
pub fn start_as(guest: &Vm, program: &Path, collector: &Collector, config: &str) -> Result<()> {
    guest.put(program, "/bin/fabriclens-agent", 0o755)?;
    guest.write(CONFIG, config)?;
    restart(guest, collector)
}

/// Starts an agent that is in the guest already, and waits until its process is there: before `setsid` has begun, it would
/// end with the command.
///
/// # Errors
/// When a command in the guest fails.
pub fn restart(guest: &Vm, collector: &Collector) -> Result<()> {
    guest.sh(&format!(
        "FABRICLENS_AGENT_COLLECTOR_INSECURE=true setsid fabriclens-agent run --config {CONFIG} --collector http://{HOST}:{} \
         </dev/null >/dev/console 2>&1 & until pidof fabriclens-agent; do sleep 0.1; done",
        collector.grpc
    ))?;
    Ok(())
}

/// `ib_send_bw` of `messages` x 64 KiB from one guest to another, event-driven: busy polling would starve the agent.
///
/// The time-out is 4 s, so that a slow guest repeats nothing. `extra` goes to both sides. Returns the client's output.
///
/// # Errors
/// When either side fails.
pub fn traffic(from: &Vm, to: &Vm, to_address: &str, messages: u32, extra: &str) -> Result<String> {
    let common = format!("ib_send_bw -d rxe0 -x 1 -n {messages} -s {MESSAGE} -u 20 -e -F {extra}");
    perftest(from, to, to_address, &common)
}

/// Runs a command as perftest's server in one guest, then as its client in another; the client's output.
///
/// # Errors
/// When either side fails.
pub fn perftest(from: &Vm, to: &Vm, to_address: &str, command: &str) -> Result<String> {
    serve(to, command).context("starting perftest's server")?;
    from.exec(&format!("{command} {to_address}"), Duration::from_secs(120))?.ok().context("perftest's client")
}

/// Starts perftest's server in a guest, and waits until it listens.
///
/// # Errors
/// When the guest does not answer.
pub fn serve(guest: &Vm, command: &str) -> Result<()> {
    // 18515 is perftest's port, 0A the state LISTEN.
    let listening = "until grep -q ':4853 .* 0A ' /proc/net/tcp /proc/net/tcp6 2>/dev/null; do sleep 0.1; done";
    guest.sh(&format!("setsid {command} </dev/null >/tmp/server.log 2>&1 & {listening}")).map(drop)
}

/// Ends the agent of a guest, and waits for its end.
///
/// # Errors
/// When no agent runs.
pub fn end(guest: &Vm) -> Result<()> {
    guest.sh("killall fabriclens-agent; while pidof fabriclens-agent; do sleep 0.1; done").map(drop)
}

/// RoCE packets that a guest has sent.
///
/// # Errors
/// When the counter cannot be read.
pub fn sent(guest: &Vm) -> Result<u64> {
    Ok(guest.sh("cat /sys/class/infiniband/rxe0/ports/1/hw_counters/sent_pkts")?.parse()?)
}

/// Bytes of a message of [`traffic`].
pub const MESSAGE: u64 = 65536;
