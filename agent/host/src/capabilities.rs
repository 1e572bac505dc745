//! Capabilities. A thread gives back what it needs no more, so that a fault in it is worth little to whoever finds it.
//! Called by `run` before there are threads, and by the threads of `schedule`. Root without capabilities is still the
//! owner of root's files, which is all that most sources need.

use rustix::thread::{CapabilitySet, capabilities, set_capabilities};

/// What some part of a running agent needs:
/// - `NET_ADMIN` for module EEPROMs, and for programs in the kernel that see packets,
/// - `NET_RAW` for LLDP, and for bursts on kernels where only a packet socket sees packets without staying attached,
/// - `DAC_READ_SEARCH` for tracefs, debugfs and configfs where they belong to somebody else,
/// - `DAC_OVERRIDE` for a state directory that does,
/// - `SYS_PTRACE` for the environment of one process a job (crate `workload`), on the thread of the host alone,
/// - [`PROBES`] to load and attach programs in the kernel; `SYS_ADMIN` where `kernel.perf_event_paranoid` is above 2, as
///   Debian has it.
const AGENT: CapabilitySet = CapabilitySet::NET_ADMIN
    .union(CapabilitySet::NET_RAW)
    .union(CapabilitySet::DAC_READ_SEARCH)
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::SYS_PTRACE)
    .union(PROBES);
const PROBES: CapabilitySet = CapabilitySet::BPF.union(ATTACHING);
const ATTACHING: CapabilitySet = CapabilitySet::PERFMON.union(CapabilitySet::SYS_ADMIN);

/// For the whole agent; before it has threads, which inherit what is left.
pub fn of_agent() {
    keep(AGENT);
}

/// For threads without a probe, which look at no process either.
pub fn without_probes() {
    keep(AGENT.difference(PROBES).difference(CapabilitySet::SYS_PTRACE));
}

/// For the thread of the probes, when they are attached: reading their maps needs `BPF` before Linux 5.19. With `again`
/// it can still attach those on the packet path of an interface, which may be made anew; with `processes` it can still
/// read their environments.
pub fn of_attached_probes(again: bool, processes: bool) {
    let attaching = if again { CapabilitySet::SYS_ADMIN } else { ATTACHING };
    let looking = if processes { CapabilitySet::empty() } else { CapabilitySet::SYS_PTRACE };
    keep(AGENT.difference(attaching).difference(looking));
}

/// Whether the calling thread may load programs into the kernel at all.
pub fn may_load() -> bool {
    let some = CapabilitySet::BPF.union(CapabilitySet::SYS_ADMIN);
    capabilities(None).is_ok_and(|sets| sets.effective.intersects(some))
}

/// Whether the calling thread may read the environment of other users' processes.
pub fn may_look() -> bool {
    capabilities(None).is_ok_and(|sets| sets.effective.intersects(CapabilitySet::SYS_PTRACE))
}

/// Gives back all others of the calling thread. Where the kernel refuses, the agent is no worse off than before.
fn keep(needed: CapabilitySet) {
    let kept = capabilities(None).and_then(|mut sets| {
        sets.effective &= needed;
        sets.permitted &= needed;
        sets.inheritable = CapabilitySet::empty();
        set_capabilities(None, sets)
    });
    if let Err(error) = kept {
        tracing::warn!(%error, "capabilities stay as they are");
    }
}
