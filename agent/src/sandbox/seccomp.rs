//! System call filter (seccomp). Unknown calls return `ENOSYS`, as an older kernel would, so that libraries use their
//! fallback; calls that only an attacker would make return `EPERM`. Neither kills the process: a call missing from the
//! list must cost the host one source and not its monitoring.

use super::Role;
use libc::c_long;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule, TargetArch,
};
use std::collections::BTreeMap;

/// Calls of every thread. Without `clone3`, whose flags a filter cannot inspect; libraries fall back to `clone`.
#[rustfmt::skip]
const PLAIN: &[c_long] = &[
    // files
    libc::SYS_read, libc::SYS_write, libc::SYS_readv, libc::SYS_writev, libc::SYS_pread64, libc::SYS_pwrite64,
    libc::SYS_openat, libc::SYS_openat2, libc::SYS_close, libc::SYS_close_range, libc::SYS_lseek, libc::SYS_fstat,
    libc::SYS_newfstatat, libc::SYS_statx, libc::SYS_statfs, libc::SYS_fstatfs, libc::SYS_getdents64,
    libc::SYS_readlinkat, libc::SYS_faccessat, libc::SYS_faccessat2, libc::SYS_dup, libc::SYS_dup3, libc::SYS_fcntl,
    libc::SYS_ioctl, libc::SYS_flock, libc::SYS_ftruncate, libc::SYS_fallocate, libc::SYS_fsync,
    libc::SYS_fdatasync, libc::SYS_renameat2, libc::SYS_unlinkat, libc::SYS_mkdirat,
    libc::SYS_fchmod, libc::SYS_fadvise64, libc::SYS_name_to_handle_at, libc::SYS_getcwd, libc::SYS_umask,
    // memory
    libc::SYS_mmap, libc::SYS_munmap, libc::SYS_mremap, libc::SYS_mprotect, libc::SYS_madvise, libc::SYS_brk,
    libc::SYS_membarrier, libc::SYS_mincore,
    // threads and their waiting
    libc::SYS_futex, libc::SYS_set_robust_list, libc::SYS_get_robust_list, libc::SYS_rseq,
    libc::SYS_set_tid_address, libc::SYS_exit, libc::SYS_exit_group, libc::SYS_sched_yield,
    libc::SYS_sched_getaffinity, libc::SYS_nanosleep, libc::SYS_clock_nanosleep, libc::SYS_clock_gettime,
    libc::SYS_clock_getres, libc::SYS_gettimeofday, libc::SYS_restart_syscall, libc::SYS_timerfd_create,
    libc::SYS_timerfd_settime, libc::SYS_timerfd_gettime, libc::SYS_eventfd2, libc::SYS_epoll_create1,
    libc::SYS_epoll_ctl, libc::SYS_epoll_pwait, libc::SYS_epoll_pwait2, libc::SYS_ppoll, libc::SYS_pselect6,
    libc::SYS_getcpu,
    // sockets
    libc::SYS_socket, libc::SYS_socketpair, libc::SYS_bind, libc::SYS_listen, libc::SYS_accept, libc::SYS_accept4,
    libc::SYS_connect, libc::SYS_getsockname, libc::SYS_getpeername, libc::SYS_sendto, libc::SYS_sendmsg,
    libc::SYS_sendmmsg, libc::SYS_recvfrom, libc::SYS_recvmsg, libc::SYS_recvmmsg, libc::SYS_setsockopt,
    libc::SYS_getsockopt, libc::SYS_shutdown, libc::SYS_pipe2,
    // own process
    libc::SYS_rt_sigaction, libc::SYS_rt_sigprocmask, libc::SYS_rt_sigreturn, libc::SYS_sigaltstack,
    libc::SYS_getpid, libc::SYS_gettid, libc::SYS_getppid, libc::SYS_getuid, libc::SYS_geteuid,
    libc::SYS_getgid, libc::SYS_getegid, libc::SYS_getgroups, libc::SYS_getrandom, libc::SYS_uname,
    libc::SYS_sysinfo, libc::SYS_getrusage, libc::SYS_prctl, libc::SYS_capget,
    libc::SYS_capset,
    // a restricted thread may start a thread that restricts itself further
    libc::SYS_seccomp, libc::SYS_landlock_create_ruleset, libc::SYS_landlock_add_rule,
    libc::SYS_landlock_restrict_self,
];

/// Older variants that libraries of x86_64 still use.
#[cfg(target_arch = "x86_64")]
#[rustfmt::skip]
const OLDER: &[c_long] = &[
    libc::SYS_open, libc::SYS_stat, libc::SYS_lstat, libc::SYS_access, libc::SYS_readlink, libc::SYS_poll,
    libc::SYS_select, libc::SYS_epoll_wait, libc::SYS_pipe, libc::SYS_dup2, libc::SYS_rename, libc::SYS_unlink,
    libc::SYS_mkdir, libc::SYS_rmdir, libc::SYS_renameat, libc::SYS_time, libc::SYS_arch_prctl, libc::SYS_getrlimit,
];
/// `renameat`, which aarch64 supports and libc's table lacks.
#[cfg(not(target_arch = "x86_64"))]
const OLDER: &[c_long] = &[38];

/// Additional calls of the probe thread.
const PROBES: &[c_long] = &[libc::SYS_bpf, libc::SYS_perf_event_open];

/// Calls that are always denied with `EPERM`: they affect other programs, other processes or the system.
#[rustfmt::skip]
const NEVER: &[c_long] = &[
    libc::SYS_execve, libc::SYS_execveat, libc::SYS_ptrace, libc::SYS_process_vm_readv, libc::SYS_process_vm_writev,
    libc::SYS_kill, libc::SYS_mount, libc::SYS_umount2, libc::SYS_pivot_root, libc::SYS_chroot, libc::SYS_unshare,
    libc::SYS_setns, libc::SYS_init_module, libc::SYS_finit_module, libc::SYS_delete_module, libc::SYS_kexec_load,
    libc::SYS_reboot, libc::SYS_swapon, libc::SYS_swapoff, libc::SYS_sethostname, libc::SYS_setdomainname,
    libc::SYS_settimeofday, libc::SYS_clock_settime, libc::SYS_setuid, libc::SYS_setgid, libc::SYS_setreuid,
    libc::SYS_setresuid, libc::SYS_setgroups, libc::SYS_fchownat, libc::SYS_fchown, libc::SYS_fchmodat,
    libc::SYS_mknodat, libc::SYS_linkat, libc::SYS_symlinkat, libc::SYS_keyctl, libc::SYS_add_key,
    libc::SYS_request_key, libc::SYS_userfaultfd, libc::SYS_io_uring_setup, libc::SYS_open_by_handle_at,
    libc::SYS_memfd_create,
];

/// Flags of `clone` that create namespaces; threads use none of them.
const NAMESPACES: u64 = (libc::CLONE_NEWNS
    | libc::CLONE_NEWCGROUP
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUSER
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET) as u64;

/// Restricts the calling thread. `Ok` describes the restriction, `Err` says why there is none.
pub(super) fn restrict(role: Role) -> Result<String, String> {
    let failed = |error: &dyn std::fmt::Display| format!("seccomp failed: {error}");
    for program in programs(role).map_err(|error| failed(&error))? {
        seccompiler::apply_filter(&program).map_err(|error| failed(&error))?;
    }
    Ok("restricted by seccomp".into())
}

/// Filter of permitted calls, and the filter of denied ones. The later one takes precedence, as `EPERM` is stricter.
fn programs(role: Role) -> Result<[BpfProgram; 2], seccompiler::BackendError> {
    let arch = TargetArch::try_from(std::env::consts::ARCH)?;
    let more = if matches!(role, Role::Probes { .. }) { PROBES } else { &[][..] };
    let mut allowed: BTreeMap<c_long, Vec<SeccompRule>> =
        PLAIN.iter().chain(OLDER).chain(more).map(|call| (*call, Vec::new())).collect();
    let in_place = SeccompCondition::new(0, SeccompCmpArgLen::Qword, SeccompCmpOp::MaskedEq(NAMESPACES), 0)?;
    allowed.insert(libc::SYS_clone, vec![SeccompRule::new(vec![in_place])?]);
    // `abort` signals its own thread, and limits are queried for the own process: as root, others must be excluded.
    let of = |process: u64| -> Result<_, seccompiler::BackendError> {
        let first = SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, process)?;
        SeccompRule::new(vec![first])
    };
    let own = u64::from(std::process::id());
    allowed.insert(libc::SYS_tgkill, vec![of(own)?]);
    allowed.insert(libc::SYS_prlimit64, vec![of(0)?, of(own)?]);
    let mut never: BTreeMap<c_long, Vec<SeccompRule>> = NEVER.iter().map(|call| (*call, Vec::new())).collect();
    if role == (Role::Jobs { processes: true }) {
        // Network namespaces, and no others; the threads that it starts restrict themselves once they have entered one.
        let kind = |operator| SeccompCondition::new(1, SeccompCmpArgLen::Dword, operator, libc::CLONE_NEWNET as u64);
        allowed.insert(libc::SYS_setns, vec![SeccompRule::new(vec![kind(SeccompCmpOp::Eq)?])?]);
        never.insert(libc::SYS_setns, vec![SeccompRule::new(vec![kind(SeccompCmpOp::Ne)?])?]);
    }
    let unknown = SeccompAction::Errno(libc::ENOSYS as u32);
    let allowed = SeccompFilter::new(allowed, unknown, SeccompAction::Allow, arch)?;
    let never = SeccompFilter::new(never, SeccompAction::Allow, SeccompAction::Errno(libc::EPERM as u32), arch)?;
    Ok([allowed.try_into()?, never.try_into()?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_call_is_in_two_lists() {
        let by_argument = [libc::SYS_clone, libc::SYS_tgkill, libc::SYS_prlimit64];
        let mut all: Vec<c_long> = [PLAIN, OLDER, PROBES, NEVER, &by_argument].concat();
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), count);
    }
}
