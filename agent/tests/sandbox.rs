//! The sandbox: allowed and denied actions of a thread inside. A test program of its own, because the restriction of a thread
//! cannot be undone.

#![allow(clippy::unwrap_used, reason = "a failure is a failed test")]

use fabriclens_agent::collectives::Collectives;
use fabriclens_agent::config::{self, Overrides};
use fabriclens_agent::sandbox::{Role, Sandbox, SandboxRuleset, State};
use fabriclens_agent::schedule;
use fabriclens_agent_host::roots::Roots;
use fabriclens_agent_samplers as samplers;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::fs;
use std::io::ErrorKind;
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd as _;
use std::path::Path;
use std::sync::Arc;

const HOST: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/fixtures/hosts/mlx5-roce");

/// Ruleset of an agent with that state directory, which sends to that port.
fn walls(state: &Path, port: u16) -> SandboxRuleset {
    let names: Vec<&str> = samplers::ALL.iter().map(|s| s.name).collect();
    let flags = Overrides { collector: Some(format!("http://127.0.0.1:{port}")), ..Overrides::default() };
    let mut config = config::load(None, [], &flags, &names).unwrap();
    config.settings.state_dir = Some(state.to_owned());
    SandboxRuleset::of(&Roots::new(None), &config)
}

/// Calls `look` on a thread inside the sandbox; also returns the restrictions in force.
fn inside<T: Send + 'static>(walls: SandboxRuleset, look: impl FnOnce() -> T + Send + 'static) -> (T, State) {
    let sandbox = Sandbox::new(walls);
    let entered = sandbox.clone();
    let thread = std::thread::spawn(move || {
        entered.enter(Role::Plain);
        look()
    });
    (thread.join().unwrap(), sandbox.state().unwrap())
}

#[test]
#[ignore = "needs: landlock"]
fn file_and_network_access_is_restricted() {
    let dir = tempfile::tempdir().unwrap();
    let [state, elsewhere] = ["state", "elsewhere"].map(|name| dir.path().join(name));
    fs::create_dir(&state).unwrap();
    fs::create_dir(&elsewhere).unwrap();
    fs::write(elsewhere.join("secret"), "x").unwrap();
    let [collector, other] = [0; 2].map(|_| TcpListener::bind("127.0.0.1:0").unwrap());
    let ports = [&collector, &other].map(|l| l.local_addr().unwrap().port());
    let (inside_state, secret) = (state.clone(), elsewhere.clone());
    let (done, state) = inside(walls(&state, ports[0]), move || {
        let dir = &inside_state;
        fs::write(dir.join("new"), "x").unwrap();
        fs::rename(dir.join("new"), dir.join("kept")).unwrap();
        fs::create_dir(dir.join("spool")).unwrap();
        fs::remove_dir(dir.join("spool")).unwrap();
        fs::read("/sys/kernel/mm/transparent_hugepage/enabled").ok();
        fs::read("/proc/self/status").unwrap();
        fs::read("/etc/passwd").unwrap();
        TcpStream::connect(("127.0.0.1", ports[0])).unwrap();
        // Threads that a thread inside starts are inside too.
        std::thread::spawn(move || {
            [
                ("read a file of others", fs::read(secret.join("secret")).err()),
                ("list a directory of others", fs::read_dir(&secret).err()),
                ("write elsewhere", fs::write(secret.join("new"), "x").err()),
                ("write below what it reads", fs::write("/etc/fabriclens-new", "x").err()),
                ("connect elsewhere", TcpStream::connect(("127.0.0.1", ports[1])).err()),
                ("listen elsewhere", TcpListener::bind(("127.0.0.1", 0)).err()),
            ]
            .map(|(what, error)| (what, error.map(|e| e.kind())))
        })
        .join()
        .unwrap()
    });
    state.files.unwrap();
    for (what, kind) in done {
        assert_eq!(kind, Some(ErrorKind::PermissionDenied), "it may {what}");
    }
}

/// The kernel log can be read, not written, and not at all where its sampler is off.
#[test]
#[ignore = "needs: landlock, kernel-log"]
fn kernel_log_is_read_only() {
    let look = || {
        let read = fs::File::open("/dev/kmsg").map(drop);
        // Opening does not write.
        let written = fs::OpenOptions::new().write(true).open("/dev/kmsg").map(drop);
        [read, written].map(|done| done.err().map(|error| error.kind()))
    };
    let denied = Some(ErrorKind::PermissionDenied);
    assert_eq!(inside(walls(Path::new("/nonexistent"), 1), look).0, [None, denied]);
    let names: Vec<&str> = samplers::ALL.iter().map(|s| s.name).collect();
    let mut config = config::load(None, [], &Overrides::default(), &names).unwrap();
    config.settings.samplers.insert("kernel_log".into(), false);
    let off = SandboxRuleset::of(&Roots::new(None), &config);
    assert_eq!(inside(off, look).0, [denied, denied]);
}

/// A thread that asks a service of a job, as the thread that looks for services starts it.
#[test]
#[ignore = "needs: landlock"]
fn a_question_may_connect_to_the_port_of_services_and_nothing_else() {
    [true, false].into_iter().for_each(question);
}

fn question(processes: bool) {
    let [service, other] = [0; 2].map(|_| TcpListener::bind("127.0.0.1:0").unwrap());
    let ports = [&service, &other].map(|l| l.local_addr().unwrap().port());
    let names: Vec<&str> = samplers::ALL.iter().map(|s| s.name).collect();
    let flags = Overrides { collector: Some(format!("http://127.0.0.1:{}", ports[1])), ..Overrides::default() };
    let mut config = config::load(None, [], &flags, &names).unwrap();
    config.settings.collectives = Some(Arc::new(Collectives { port: ports[0], ..Collectives::default() }));
    let sandbox = Sandbox::new(SandboxRuleset::of(&Roots::new(None), &config));
    let looks = std::thread::spawn(move || {
        sandbox.enter(Role::Jobs { processes });
        let own = fs::File::open("/proc/self/ns/net").unwrap();
        let users = fs::File::open("/proc/self/ns/uts").unwrap();
        let entered = |namespace: &fs::File, kind| move_into_link_name_space(namespace.as_fd(), Some(kind)).err();
        let moved =
            [entered(&own, LinkNameSpaceType::Network), entered(&users, LinkNameSpaceType::HostNameAndNISDomainName)];
        let question = std::thread::spawn(move || {
            sandbox.enter(Role::Question);
            TcpStream::connect(("127.0.0.1", ports[0])).unwrap();
            [
                ("connect to the collector", TcpStream::connect(("127.0.0.1", ports[1])).err()),
                ("read a file", fs::read("/etc/passwd").err()),
                ("listen", TcpListener::bind(("127.0.0.1", 0)).err()),
            ]
            .map(|(what, error)| (what, error.map(|e| e.kind())))
        });
        (moved, question.join().unwrap())
    });
    let (moved, done) = looks.join().unwrap();
    // Without privileges the kernel refuses both, with the same error.
    let may = processes && rustix::process::geteuid().is_root();
    assert_eq!(moved[0], (!may).then_some(rustix::io::Errno::PERM));
    assert_eq!(moved[1], Some(rustix::io::Errno::PERM), "it may enter namespaces of another kind");
    for (what, kind) in done {
        assert_eq!(kind, Some(ErrorKind::PermissionDenied), "it may {what}");
    }
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the test wants it to fail")]
fn exec_and_system_changes_are_denied() {
    let (errors, state) = inside(walls(Path::new("/nonexistent"), 1), || {
        let raw = |done: rustix::io::Result<()>| done.err().map(rustix::io::Errno::raw_os_error);
        let start = std::process::Command::new("/bin/true").spawn().err().and_then(|e| e.raw_os_error());
        let chroot = raw(rustix::process::chroot("/"));
        let link = raw(rustix::fs::symlink("/", "/tmp/fabriclens-sandbox-link"));
        let pid = rustix::process::getppid().unwrap();
        let kill = raw(rustix::process::test_kill_process(pid));
        [("start a program", start), ("chroot", chroot), ("link", link), ("signal", kill)]
    });
    assert_eq!(state.calls, Ok("restricted by seccomp".to_owned()));
    let denied = Some(rustix::io::Errno::PERM.raw_os_error());
    for (what, error) in errors {
        assert_eq!(error, denied, "it may {what}");
    }
}

#[test]
fn unknown_calls_return_enosys() {
    let (error, _) = inside(walls(Path::new("/nonexistent"), 1), || rustix::process::getpgid(None).err());
    assert_eq!(error, Some(rustix::io::Errno::NOSYS));
}

/// Processes of the same user, for root most of a host, can be signaled and limited by other calls than `kill` too.
#[test]
fn only_own_process_calls_are_allowed() {
    use rustix::process::{Resource, getpid, getppid, getrlimit, prlimit};
    let (errors, _) = inside(walls(Path::new("/nonexistent"), 1), || {
        let limit = getrlimit(Resource::Nofile);
        assert!(prlimit(Some(getpid()), Resource::Nofile, limit).is_ok());
        let parent = getppid().unwrap();
        [("limit", prlimit(Some(parent), Resource::Nofile, limit).err()), ("signal", signal(parent))]
    });
    for (what, error) in errors {
        assert_eq!(error, Some(rustix::io::Errno::NOSYS), "{what}");
    }
}

/// Whether the first thread of a process exists, by the system call that signals threads; no library wraps it.
fn signal(process: rustix::process::Pid) -> Option<rustix::io::Errno> {
    let pid = process.as_raw_nonzero().get();
    // SAFETY: signal 0 is none, and no argument is a pointer.
    let done = unsafe { libc::syscall(libc::SYS_tgkill, pid, pid, 0) };
    (done < 0).then(|| std::io::Error::last_os_error().raw_os_error().map(rustix::io::Errno::from_raw_os_error))?
}

#[test]
fn sources_read_the_same_inside() {
    let look = || {
        let settings = schedule::Settings { host: "h".into(), ..schedule::Settings::default() };
        let (_, sources) = schedule::once(Arc::new(Roots::new(Some(HOST.into()))), &settings);
        let outcome = |s: schedule::SourceStatus| (s.sampler, s.target, s.outcome);
        sources.into_iter().map(outcome).collect::<Vec<_>>()
    };
    let mut config = config::load(None, [], &Overrides::default(), &[]).unwrap();
    config.settings.state_dir = None;
    let walls = SandboxRuleset::of(&Roots::new(Some(HOST.into())), &config);
    let (seen, _) = inside(walls, look);
    assert_eq!(seen, look());
    assert!(seen.len() > 10);
}
