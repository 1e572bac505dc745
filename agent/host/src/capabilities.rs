//! Drops capabilities that a thread no longer needs, to limit the effect of an exploited bug. Called by `run` before
//! threads exist, and by the threads of `schedule`. Root without capabilities still owns root's files, which suffices
//! for most sources.

use rustix::thread::{CapabilitySet, capabilities, set_capabilities};

/// Capabilities that some part of a running agent needs:
/// - `NET_ADMIN` for module EEPROMs, and for programs in the kernel that see packets,
/// - `NET_RAW` for LLDP, and for bursts on kernels where only a packet socket sees packets without staying attached,
/// - `DAC_READ_SEARCH` for tracefs, debugfs and configfs of another owner,
/// - `DAC_OVERRIDE` for a state directory of another owner,
/// - `SYSLOG` for the kernel log, on the host thread only,
/// - `SYS_PTRACE` for the environment of one process per job (crate `workload`), on the host thread only,
/// - [`PROBES`] to load and attach programs in the kernel; `SYS_ADMIN` where `kernel.perf_event_paranoid` is above 2, as
///   Debian has it.
const AGENT: CapabilitySet = CapabilitySet::NET_ADMIN
    .union(CapabilitySet::NET_RAW)
    .union(CapabilitySet::DAC_READ_SEARCH)
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::SYSLOG)
    .union(CapabilitySet::SYS_PTRACE)
    .union(PROBES);
/// Capabilities to look at processes of jobs and to enter their network namespaces.
const ENTERING: CapabilitySet = CapabilitySet::SYS_PTRACE.union(CapabilitySet::SYS_ADMIN);
const PROBES: CapabilitySet = CapabilitySet::BPF.union(ATTACHING);
const ATTACHING: CapabilitySet = CapabilitySet::PERFMON.union(CapabilitySet::SYS_ADMIN);

/// Reduces the whole agent to these capabilities; call before it has threads, which inherit them.
pub fn of_agent() {
    keep(AGENT);
}

/// Reduces threads without probes, which read neither environments nor the kernel log.
pub fn without_probes() {
    keep(AGENT.difference(PROBES).difference(CapabilitySet::SYS_PTRACE).difference(CapabilitySet::SYSLOG));
}

/// Reduces the thread that looks for services of jobs: it reads which sockets and network namespaces processes have, and enters
/// the namespaces.
pub fn of_job_reader() {
    keep(ENTERING);
}

/// Drops all capabilities of the calling thread.
pub fn none() {
    keep(CapabilitySet::empty());
}

/// Reduces the probe thread once its probes are attached: reading maps needs `BPF` before Linux 5.19. With `again` it
/// can still attach probes on the packet path of interfaces, which may be recreated; with `processes` it can still read
/// environments.
pub fn of_attached_probes(again: bool, processes: bool) {
    let attaching = if again { CapabilitySet::SYS_ADMIN } else { ATTACHING };
    let looking = if processes { CapabilitySet::empty() } else { CapabilitySet::SYS_PTRACE };
    keep(AGENT.difference(attaching).difference(looking));
}

/// Whether the calling thread may load programs into the kernel.
pub fn may_load() -> bool {
    let some = CapabilitySet::BPF.union(CapabilitySet::SYS_ADMIN);
    capabilities(None).is_ok_and(|sets| sets.effective.intersects(some))
}

/// Whether the calling thread may read the environment of other users' processes.
pub fn may_look() -> bool {
    capabilities(None).is_ok_and(|sets| sets.effective.intersects(CapabilitySet::SYS_PTRACE))
}

/// Whether the calling thread may enter the network namespaces of other users' processes.
pub fn may_enter() -> bool {
    capabilities(None).is_ok_and(|sets| sets.effective.contains(ENTERING))
}

/// Drops all other capabilities of the calling thread. If the kernel refuses, they stay as they were.
fn keep(needed: CapabilitySet) {
    let kept = capabilities(None).and_then(|mut sets| {
        sets.effective &= needed;
        sets.permitted &= needed;
        sets.inheritable = CapabilitySet::empty();
        set_capabilities(None, sets)
    });
    if let Err(error) = kept {
        tracing::warn!(%error, "cannot drop capabilities; they are kept");
    }
}
