//! Landlock ruleset for files and ports. The agent reads below a few directories, writes below [`writable`] only,
//! executes nothing, and connects to its collectors. Rules name directories rather than files where a file may be
//! replaced (certificates, `resolv.conf`): a rule follows the inode that it was made for.

use crate::config::Config;
use fabriclens_agent_host::roots::Roots;
use fabriclens_agent_samplers::by_name;
use fabriclens_agent_workload::mounts::hierarchies;
use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, NetPort, PathBeneath, PathFd, Ruleset, RulesetAttr, RulesetCreatedAttr,
    RulesetError, RulesetStatus, Scope,
};
use std::path::{Path, PathBuf};

/// Newest Landlock version that the rules use; an older kernel applies the rules that it supports.
const KNOWN: ABI = ABI::V7;
/// Shared libraries opened at run time (`libibverbs` and its drivers, name services), and their configuration.
const SYSTEM: &[&str] = &["/etc", "/usr", "/lib", "/lib64", "/opt"];
/// System certificates, and the state of name services if `/etc` only links to it.
const STATE: &[&str] = &["/var/lib/ca-certificates", "/var/lib/sss"];
/// Device files in use.
const DEVICES: &[&str] = &["/dev/infiniband", "/dev/null", "/dev/urandom"];
/// Device file of the kernel log, read only.
const KERNEL_LOG: &str = "dev/kmsg";
/// Beginning of the device files of NVIDIA's driver, which NVML opens: `nvidiactl`, `nvidia0` …
const NVIDIA: &str = "nvidia";
/// Port for name resolution over TCP, which long answers need.
const DNS: u16 = 53;

/// Directories that the agent may write to.
pub fn writable(config: &Config) -> Vec<PathBuf> {
    config.settings.state_dir.iter().chain(&config.spool.dir).cloned().collect()
}

/// Permitted paths and ports.
#[derive(Clone, Debug, Default)]
pub struct SandboxRuleset {
    read: Vec<PathBuf>,
    write: Vec<PathBuf>,
    /// Device files.
    devices: Vec<PathBuf>,
    /// Ports of listeners; 0 permits any that the kernel chooses.
    listen: Vec<u16>,
    /// Ports of collectors and name servers.
    connect: Vec<u16>,
    /// Ports of services of jobs, for the threads that ask them.
    services: Vec<u16>,
    /// Directories with files of jobs, for the thread that follows them.
    job_files: Vec<PathBuf>,
}

impl SandboxRuleset {
    /// Ruleset for this configuration.
    pub fn of(roots: &Roots, config: &Config) -> Self {
        let base = ["etc", "usr/lib"].map(|name| roots.base().join(name));
        let mut read: Vec<PathBuf> = SYSTEM.iter().chain(STATE).map(PathBuf::from).chain(base).collect();
        // The agent reads its own process from the real /proc, also with --root.
        read.extend([roots.sys().into(), roots.proc().into(), roots.run().into(), "/proc".into(), "/run".into()]);
        read.extend(hierarchies(roots).into_iter().map(|h| h.mount));
        if roots.is_recorded() {
            read.push(roots.base().into());
        }
        read.extend(config.files().filter_map(Path::parent).map(Into::into));
        if by_name("kernel_log").is_some_and(|spec| config.settings.is_on(spec)) {
            read.push(roots.base().join(KERNEL_LOG));
        }
        let mut listen: Vec<u16> = config.http.iter().map(|http| http.listen.port()).collect();
        let mut connect = [config.collector_ports(), vec![DNS]].concat();
        if let Some(probing) = config.settings.probing.as_ref().filter(|probing| probing.tcp) {
            // TCP twins: connections from the address of a port are bound to it, without a port number.
            listen.extend([probing.tcp_port, 0]);
            connect.push(probing.tcp_port);
        }
        let by_nvml = by_name("nvml").is_some_and(|spec| config.settings.is_on(spec));
        let nvidia = if by_nvml { nvidia_devices(Path::new("/dev")) } else { Vec::new() };
        let devices = DEVICES.iter().map(PathBuf::from).chain(nvidia).collect();
        let collectives = config.settings.collectives.as_ref();
        let services = collectives.iter().map(|collectives| collectives.port).collect();
        let mut job_files = Vec::new();
        if let Some(collectives) = collectives {
            job_files.extend(collectives.inspector_dirs.iter().cloned());
            job_files.extend(collectives.mpi.then(|| collectives.mpi_dir.clone()));
            // Up to the directory that has the job in its name: directories of jobs come and go.
            let fixed =
                collectives.log_files.iter().filter_map(|pattern| pattern.split("{job}").next()?.rsplit_once('/'));
            job_files.extend(fixed.map(|(directory, _)| PathBuf::from(directory)).filter(|path| path.is_absolute()));
        }
        Self { read, write: writable(config), devices, listen, connect, services, job_files }
    }

    /// Restricts the calling thread to reading procfs and files of jobs, and to connections to services of jobs, which the
    /// threads that it starts inherit. `Ok` and `Err` as in [`Self::build`].
    pub(super) fn build_for_jobs(&self) -> Result<String, String> {
        let read = self.read.iter().chain(&self.job_files).cloned().collect();
        Self { read, connect: self.services.clone(), ..Self::default() }.build()
    }

    /// Restricts the calling thread to connections to services of jobs. `Ok` and `Err` as in [`Self::build`].
    pub(super) fn build_for_question(&self) -> Result<String, String> {
        Self { connect: self.services.clone(), ..Self::default() }.build()
    }

    /// Restricts the calling thread. `Ok` describes the restriction, `Err` says why there is none.
    pub(super) fn build(&self) -> Result<String, String> {
        let status = self.restrict().map_err(|error| format!("Landlock failed: {error}"))?;
        match status {
            RulesetStatus::FullyEnforced => Ok("restricted by Landlock".into()),
            RulesetStatus::PartiallyEnforced => Ok("restricted by Landlock, as far as this kernel has it".into()),
            RulesetStatus::NotEnforced => {
                Err("this kernel has no Landlock (5.13 has; see `lsm=` on its command line)".into())
            }
        }
    }

    fn restrict(&self) -> Result<RulesetStatus, RulesetError> {
        let read = AccessFs::ReadFile | AccessFs::ReadDir;
        let device = read | AccessFs::WriteFile | AccessFs::IoctlDev;
        let write = AccessFs::from_all(KNOWN) & !(AccessFs::Execute | AccessFs::MakeChar | AccessFs::MakeBlock);
        let mut rules = Ruleset::default()
            .handle_access(AccessFs::from_all(KNOWN))?
            .handle_access(AccessNet::from_all(KNOWN))?
            // Signals stay permitted: threads of one process are in different domains.
            .scope(Scope::AbstractUnixSocket)?
            .create()?
            // Repeated denials would fill the host's audit log.
            .log_same_exec(false)?;
        let devices = self.devices.iter().map(|path| (path.as_path(), device));
        let read = self.read.iter().map(|path| (path.as_path(), read));
        let write = self.write.iter().map(|path| (path.as_path(), write));
        for (path, access) in read.chain(devices).chain(write) {
            rules = open(rules, path, access)?;
        }
        for port in self.listen.iter().copied() {
            rules = rules.add_rule(NetPort::new(port, AccessNet::BindTcp))?;
        }
        for port in self.connect.iter().copied() {
            rules = rules.add_rule(NetPort::new(port, AccessNet::ConnectTcp))?;
        }
        Ok(rules.restrict_self()?.ruleset)
    }
}

/// Files by which NVML reaches the driver: its control device, and one for each GPU. None without the driver.
fn nvidia_devices(dev: &Path) -> Vec<PathBuf> {
    let is_used = |name: &str| {
        let rest = name.strip_prefix(NVIDIA);
        rest.is_some_and(|rest| rest == "ctl" || (!rest.is_empty() && rest.bytes().all(|b| b.is_ascii_digit())))
    };
    let entries = std::fs::read_dir(dev).into_iter().flatten().flatten();
    entries.filter(|entry| entry.file_name().to_str().is_some_and(is_used)).map(|entry| entry.path()).collect()
}

/// Permits `path` if it exists.
fn open(
    rules: landlock::RulesetCreated,
    path: &Path,
    access: BitFlags<AccessFs>,
) -> Result<landlock::RulesetCreated, RulesetError> {
    let Ok(fd) = PathFd::new(path) else { return Ok(rules) };
    // Files support fewer rights than directories.
    let access = if path.is_dir() { access } else { access & AccessFs::from_file(KNOWN) };
    rules.add_rule(PathBeneath::new(fd, access))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_that_nvml_opens_are_permitted() {
        let dev = tempfile::tempdir().unwrap();
        for name in ["nvidiactl", "nvidia0", "nvidia17", "nvidia-uvm", "nvidia-modeset", "nvidia", "sda"] {
            std::fs::write(dev.path().join(name), "").unwrap();
        }
        let mut found = nvidia_devices(dev.path());
        found.sort();
        assert_eq!(found, ["nvidia0", "nvidia17", "nvidiactl"].map(|name| dev.path().join(name)));
    }
}
