//! Recorded hosts: with one file changed, and restarted with another state.

use super::{below, files};
use crate::paths::{host_fixtures, scratch};
use fabriclens_agent::device::{Runner, Tick};
use fabriclens_agent::schedule;
use fabriclens_agent::state::{self, State};
use fabriclens_agent_host::clock::Clock;
use fabriclens_agent_host::discover::discover;
use fabriclens_agent_host::roots::Roots;
use fabriclens_agent_samplers::target::SamplingTarget;
use fabriclens_wire::Section;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use tempfile::TempDir;

/// A recorded host whose agent restarts and restores the counters of its state file.
pub(crate) struct RestartedHost {
    dir: TempDir,
    roots: Arc<Roots>,
    targets: Vec<SamplingTarget>,
    settings: schedule::Settings,
}

impl RestartedHost {
    pub(crate) fn new() -> Self {
        let dir = scratch();
        copy(&host_fixtures().join("mlx5-roce"), dir.path()).expect("a host can be copied");
        let boot_id = dir.path().join("proc/sys/kernel/random/boot_id");
        fs::create_dir_all(boot_id.parent().expect("it is in a directory")).expect("the copy takes files");
        fs::write(boot_id, "one\n").expect("the copy takes files");
        let roots = Arc::new(Roots::new(Some(dir.path().into())));
        let found = discover(&roots, &[], None);
        let device = found.devices.first().expect("the host has a device");
        let targets = SamplingTarget::of_device(&roots, &"h".into(), device);
        let state_dir = Some(dir.path().join("state"));
        Self { dir, roots, targets, settings: schedule::Settings { state_dir, ..schedule::Settings::default() } }
    }

    /// Sections that an agent sends after it found a state file with this body. It then writes its own state file.
    pub(crate) fn sampled(&self, body: &[u8]) -> Vec<Section> {
        let dir = self.dir.path().join("state");
        fs::create_dir_all(&dir).expect("the copy takes files");
        fs::write(dir.join("counters.state"), state::sealed(body)).expect("the copy takes files");
        let state = State::open(&dir, "h", &self.roots).expect("a directory of its own");
        let (mut sections, mut memory) = (Vec::new(), BTreeMap::new());
        for target in &self.targets {
            let mut runner = Runner::new(target.clone(), &self.settings, Arc::new(Clock::new()));
            runner.recall(state.take(&target.name(), &target.identity()));
            for tick in [Tick::Slow, Tick::Full, Tick::Slow] {
                runner.run(tick, &mut |section| sections.push(section));
            }
            memory.extend(runner.shared().memory.lock().clone().map(|memory| (target.name(), memory)));
        }
        state.save(memory, Some(814));
        sections
    }
}

pub(crate) fn states() -> Vec<Vec<u8>> {
    let host = RestartedHost::new();
    host.sampled(b"{}");
    let file = fs::read(host.dir.path().join("state/counters.state")).expect("it was saved");
    let body = file.iter().position(|byte| *byte == b'\n').expect("a line") + 1;
    vec![file[body..].to_vec()]
}

/// Files of recorded hosts besides sysfs and procfs.
pub(crate) fn recorded() -> Vec<Vec<u8>> {
    let hosts = ["mlx5-roce", "bnxt", "slurm", "kubernetes"];
    let folders = ["ethtool", "rdma", "dcb", "lldp", "module"];
    hosts
        .iter()
        .flat_map(|h| folders.iter().flat_map(move |f| files(&format!("tests/fixtures/hosts/{h}/{f}"))))
        .collect()
}

/// Copies of recorded hosts in which one file at a time is replaced.
pub(crate) struct Hosts {
    dir: TempDir,
    /// Name and relative file paths of each host.
    hosts: Vec<(&'static str, Vec<PathBuf>)>,
    lock: Mutex<()>,
}

const HOSTS: [&str; 6] = ["mlx5-roce", "mlx5-ib", "bnxt", "slurm", "kubernetes", "rxe"];

fn files_of(host: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    below(&host_fixtures().join(host), &mut found);
    found.iter().filter_map(|path| path.strip_prefix(host_fixtures().join(host)).ok().map(Into::into)).collect()
}

/// Every seventh file of each host as an input: index of the host (one byte), index of the file (two), content.
pub(crate) fn hosts() -> Vec<Vec<u8>> {
    let seed = |(h, (n, path)): (usize, (usize, &PathBuf))| {
        let content = fs::read(host_fixtures().join(HOSTS[h]).join(path)).ok()?;
        Some([&[h as u8], &(n as u16).to_le_bytes()[..], &content].concat())
    };
    let of =
        |h: usize| files_of(HOSTS[h]).iter().enumerate().step_by(7).filter_map(|f| seed((h, f))).collect::<Vec<_>>();
    (0..HOSTS.len()).flat_map(of).collect()
}

impl Hosts {
    pub(crate) fn copied(dir: TempDir) -> Self {
        let hosts = HOSTS.map(|host| {
            copy(&host_fixtures().join(host), &dir.path().join(host)).expect("a host can be copied");
            (host, files_of(host))
        });
        Self { dir, hosts: hosts.into(), lock: Mutex::default() }
    }

    /// Calls `look` with a host in which one file is replaced as the input says.
    pub(crate) fn with_changed(&self, input: &[u8], look: impl FnOnce(Arc<Roots>)) {
        let [host, low, high, content @ ..] = input else { return };
        let (name, files) = &self.hosts[usize::from(*host) % self.hosts.len()];
        let file = &files[usize::from(u16::from_le_bytes([*low, *high])) % files.len()];
        let _guard = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        let root = self.dir.path().join(name);
        fs::write(root.join(file), content).expect("the copy takes files");
        look(Arc::new(Roots::new(Some(root.clone()))));
        fs::copy(host_fixtures().join(name).join(file), root.join(file)).expect("the copy takes files");
    }
}

fn copy(from: &Path, to: &Path) -> std::io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let (from, to) = (entry.as_ref().map(|e| e.path()), entry.as_ref().map(|e| to.join(e.file_name())));
        let (from, to) = (from.map_err(|e| e.kind())?, to.map_err(|e| e.kind())?);
        let meta = fs::symlink_metadata(&from)?;
        if meta.is_symlink() {
            std::os::unix::fs::symlink(fs::read_link(&from)?, &to)?;
        } else if meta.is_dir() {
            copy(&from, &to)?;
        } else {
            fs::copy(&from, &to)?;
        }
    }
    Ok(())
}
