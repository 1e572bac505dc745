//! Records jobs for replay: their cgroups, and the files of their processes that samplers read. An environment is
//! reduced to the few variables that identify the job.

use super::CaptureError;
use super::out::RecordingWriter;
use fabriclens_agent_host::roots::Roots;
use fabriclens_agent_host::sysfile::text;
use fabriclens_agent_workload::details::{environment, uid};
use fabriclens_agent_workload::environ::{kept, of_environment};
use fabriclens_agent_workload::mounts::hierarchies;
use fabriclens_agent_workload::scan::Scan;
use fabriclens_agent_workload::tree::{Budget, Tree};
use fabriclens_agent_workload::users::Users;
use fabriclens_agent_workload::{Key, cgroup};
use fabriclens_kernel::TcpSocket;
use fabriclens_kernel::recorded::{path, write};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};

/// Processes per job whose environment is tried; the first one that identifies the job is recorded.
const TRIES: usize = 16;

/// Records the jobs of the host; `pids` are processes that other files of the recording refer to.
pub(super) fn record(roots: &Roots, pids: &BTreeSet<u32>, out: &mut RecordingWriter<'_>) -> Result<(), CaptureError> {
    let proc = roots.proc();
    let mut names = Names::default();
    let mut of_jobs: BTreeMap<Key, Vec<u32>> = BTreeMap::new();
    let mut trees = Vec::new();
    for hierarchy in hierarchies(roots) {
        let mount = hierarchy.mount.clone();
        let mut tree = Tree::new(hierarchy);
        let mut groups = Vec::new();
        tree.look(Budget::FIRST, &mut |key, uid, pids| {
            of_jobs.entry(key.clone()).or_default().extend(pids);
            groups.extend(uid);
        });
        groups.into_iter().for_each(|uid| names.uid(uid, out));
        of_jobs.keys().for_each(|key| names.job(key));
        if tree.has_places() {
            trees.push((mount, tree));
        }
    }
    let mut scan = Scan::new(proc);
    scan.look();
    let mut wanted = pids.clone();
    wanted.extend(scan.daemon());
    wanted.extend(scan.found().keys());
    scan.found().values().for_each(|job| names.job(&Key::new(job.scheduler, &job.job)));
    for (key, pids) in &of_jobs {
        let tells = |pid: &&u32| {
            let parsed = environment(proc, **pid).ok().and_then(|bytes| of_environment(&bytes));
            parsed.is_some_and(|parsed| parsed.scheduler == key.scheduler && *parsed.job == *key.job)
        };
        let one = pids.iter().take(TRIES).find(tells);
        // Without an environment, the owner of the processes gives the job's user.
        let others = if one.is_some() { 0 } else { TRIES };
        wanted.extend(one.into_iter().chain(pids.iter().take(others)));
    }
    let mut users = Users::new(roots);
    let mut passwd = String::new();
    let uids: BTreeSet<u32> =
        wanted.iter().filter_map(|pid| uid(proc, *pid)).chain(names.uids.keys().copied()).collect();
    for uid in uids {
        names.uid(uid, out);
        if let Some(name) = users.name(uid) {
            passwd.push_str(&format!("{}:x:{}:::/:\n", out.hidden("user", &name), names.uids[&uid]));
        }
    }
    if trees.is_empty() && wanted.is_empty() {
        return Ok(());
    }
    if !passwd.is_empty() {
        out.text(Path::new("etc/passwd"), &passwd)?;
    }
    mounts(roots, out)?;
    sockets(roots, &trees, &names, out)?;
    for (mount, tree) in &trees {
        let Some(mount) = recorded(roots, mount) else { continue };
        for place in tree.places() {
            out.dir(&below(&mount, &names.replaced(place)))?;
        }
        for (.., path, _) in tree.groups() {
            let file = below(&mount, &names.replaced(path)).join("cgroup.procs");
            let pids = tree.processes(path).iter().map(|pid| format!("{pid}\n")).collect::<String>();
            out.text(&file, &pids)?;
        }
    }
    wanted.iter().try_for_each(|pid| process(proc, *pid, &scan, &names, out))
}

/// Records TCP connections of jobs; other connections are private to the site.
fn sockets(
    roots: &Roots,
    trees: &[(PathBuf, Tree)],
    names: &Names,
    out: &mut RecordingWriter<'_>,
) -> Result<(), CaptureError> {
    let mut groups: HashMap<u64, String> = HashMap::new();
    for (mount, tree) in trees {
        let Some(mount) = recorded(roots, mount) else { continue };
        let place = |path: &str| below(&mount, &names.replaced(path)).display().to_string();
        groups.extend(tree.inodes().map(|(inode, _, path)| (inode, place(path))));
    }
    let found = match roots.calls().tcp_sockets() {
        Ok(found) => found,
        Err(error) => {
            out.skip(&path::tcp_sockets(), error);
            return Ok(());
        }
    };
    let of_job = |mut socket: TcpSocket| {
        let group = groups.get(&socket.cgroup?)?;
        socket.local.set_ip(out.address(socket.local.ip()));
        socket.remote.set_ip(out.address(socket.remote.ip()));
        Some((socket, &**group))
    };
    let of_jobs: Vec<(TcpSocket, &str)> = found.into_iter().filter_map(of_job).collect();
    let rows = of_jobs.iter().map(|(socket, group)| (socket, *group));
    if of_jobs.is_empty() { Ok(()) } else { out.text(&path::tcp_sockets(), &write::tcp_sockets(rows)) }
}

/// Records the files of a process that samplers read.
fn process(
    proc: &Path,
    pid: u32,
    scan: &Scan,
    names: &Names,
    out: &mut RecordingWriter<'_>,
) -> Result<(), CaptureError> {
    let to = Path::new("proc").join(pid.to_string());
    // Cgroups that belong to no job are private to the site.
    let group = |line: &&str| cgroup::of_process(line).is_some();
    let from = proc.join(pid.to_string());
    let lines = text(&from.join("cgroup")).unwrap_or_default();
    let lines: String = lines.lines().filter(group).map(|line| names.replaced(line) + "\n").collect();
    out.text(&to.join("cgroup"), &lines)?;
    if let Some(uid) = uid(proc, pid).and_then(|uid| names.uids.get(&uid)) {
        out.text(&to.join("status"), &format!("Uid:\t{uid}\t{uid}\t{uid}\t{uid}\n"))?;
    }
    if scan.daemon() == Some(pid) {
        out.text(&to.join("comm"), &text(&from.join("comm")).unwrap_or_default())?;
    }
    let environment = environment(proc, pid).unwrap_or_default();
    let mut environ = kept(&environment);
    if let Some(job) = of_environment(&environment) {
        // Names and numbers of the site are replaced as whole values only.
        for (kind, value) in [("user", &job.user), ("cluster", &job.cluster)] {
            if !value.is_empty() {
                environ = environ.replace(&format!("={value}\0"), &format!("={}\0", out.hidden(kind, value)));
            }
        }
        environ = names.replaced(&environ);
    } else if out.scrubs() {
        // Without a job nothing says which values are names.
        environ.clear();
    }
    if environ.is_empty() { Ok(()) } else { out.text(&to.join("environ"), &environ) }
}

/// Records the cgroup lines of the mount table; other mounts are private to the site.
fn mounts(roots: &Roots, out: &mut RecordingWriter<'_>) -> Result<(), CaptureError> {
    for list in ["1/mounts", "mounts"] {
        let lines = text(&roots.proc().join(list)).unwrap_or_default();
        let is_group = |line: &&str| matches!(line.split(' ').nth(2), Some("cgroup" | "cgroup2"));
        let lines: String = lines.lines().filter(is_group).map(|line| format!("{line}\n")).collect();
        if !lines.is_empty() {
            return out.text(Path::new("proc/mounts"), &lines);
        }
    }
    Ok(())
}

/// Path of a mount in the recording.
fn recorded(roots: &Roots, mount: &Path) -> Option<PathBuf> {
    let in_sys = mount.strip_prefix(roots.sys()).map(|below| Path::new("sys").join(below));
    in_sys.or_else(|_| mount.strip_prefix(roots.base()).map(Path::to_owned)).ok()
}

fn below(mount: &Path, path: &str) -> PathBuf {
    mount.join(path.trim_start_matches('/'))
}

/// Replacements for users and servers in paths.
#[derive(Default)]
struct Names {
    uids: BTreeMap<u32, u32>,
    servers: BTreeSet<String>,
    scrubs: bool,
}

impl Names {
    fn uid(&mut self, uid: u32, out: &RecordingWriter<'_>) {
        self.scrubs = out.scrubs();
        self.uids.entry(uid).or_insert_with(|| out.hidden_number(uid));
    }

    /// PBS job ids carry the name of their server.
    fn job(&mut self, key: &Key) {
        if let Some((_, server)) = key.job.split_once('.').filter(|_| key.scheduler == "pbs") {
            self.servers.insert(format!(".{server}"));
        }
    }

    fn replaced(&self, text: &str) -> String {
        let mut text = text.to_owned();
        if self.scrubs {
            for (uid, new) in &self.uids {
                text = text.replace(&format!("/uid_{uid}/"), &format!("/uid_{new}/"));
            }
            for server in &self.servers {
                text = text.replace(server, ".server");
            }
        }
        text
    }
}
