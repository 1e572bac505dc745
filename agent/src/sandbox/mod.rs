//! Sandbox of the agent: Landlock restricts files and ports (`ruleset`), seccomp restricts system calls, each
//! as far as the kernel supports it; a missing feature is reported and does not prevent a start. A thread restricts
//! itself and all threads that it starts later, at the point where it drops its capabilities.

mod ruleset;
mod seccomp;

pub use ruleset::{SandboxRuleset, writable};

use std::sync::{Arc, Mutex, PoisonError};

/// Kind of a thread; it selects the restrictions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Reads files, queries the kernel, talks to the collector.
    Plain,
    /// Loads and attaches eBPF programs. With `processes` it also reads environments of processes, which Landlock
    /// never permits: such a thread has no file restrictions.
    Probes {
        /// Whether the thread reads environments of processes.
        processes: bool,
    },
    /// Looks for services of jobs, and starts [`Role::Question`]. With `processes` it also reads which sockets and namespaces
    /// processes have, which Landlock never permits, and may enter network namespaces.
    Jobs {
        /// Whether the thread looks at processes of others.
        processes: bool,
    },
    /// Asks one service of a job: connects to its port, and opens no file.
    Question,
}

/// Sandbox of one agent; clones share it. The default restricts nothing.
#[derive(Clone, Debug, Default)]
pub struct Sandbox(Option<Arc<Inner>>);

#[derive(Debug)]
struct Inner {
    ruleset: SandboxRuleset,
    /// State of the latest `Plain` thread.
    state: Mutex<Option<State>>,
}

/// Restrictions in force; `Ok` describes a restriction, `Err` says why there is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    /// Files and ports.
    pub files: Result<String, String>,
    /// System calls.
    pub calls: Result<String, String>,
}

impl State {
    /// Both as one line for people.
    pub fn text(&self) -> String {
        let one = |what: &str, said: &Result<String, String>| match said {
            Ok(how) => format!("{what} {how}"),
            Err(why) => format!("{what} unrestricted: {why}"),
        };
        format!("{}; {}", one("files", &self.files), one("system calls", &self.calls))
    }
}

impl Sandbox {
    /// Creates a sandbox that threads may enter.
    pub fn new(ruleset: SandboxRuleset) -> Self {
        Self(Some(Arc::new(Inner { ruleset, state: Mutex::default() })))
    }

    /// Restricts the calling thread, and all threads that it starts afterwards. This cannot be undone.
    pub fn enter(&self, role: Role) {
        let Some(inner) = &self.0 else { return };
        // Files first: setting them up needs system calls that seccomp then forbids.
        let files = match role {
            Role::Jobs { processes: true } => Err("this thread looks at processes of jobs".to_owned()),
            Role::Jobs { processes: false } => inner.ruleset.build_for_jobs(),
            Role::Question => inner.ruleset.build_for_question(),
            Role::Probes { processes: true } => Err("this thread reads environments of processes".to_owned()),
            _ => inner.ruleset.build(),
        };
        let state = State { files, calls: seccomp::restrict(role) };
        tracing::debug!(thread = std::thread::current().name(), ?role, state = state.text(), "sandbox");
        if role == Role::Plain {
            let mut slot = inner.state.lock().unwrap_or_else(PoisonError::into_inner);
            if slot.is_none() {
                tracing::info!(state = state.text(), "sandbox entered");
            }
            *slot = Some(state);
        }
    }

    /// Restrictions in force; `None` without a sandbox, or before a thread entered it.
    pub fn state(&self) -> Option<State> {
        self.0.as_ref()?.state.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Restrictions that this process would get, tried on a thread that ends afterwards.
pub fn tried(ruleset: SandboxRuleset) -> State {
    let sandbox = Sandbox::new(ruleset);
    let inside = sandbox.clone();
    let ended = std::thread::Builder::new().name("sandbox".into()).spawn(move || inside.enter(Role::Plain));
    let why = match ended.map(std::thread::JoinHandle::join) {
        Ok(Ok(())) => "it was not entered".to_owned(),
        Ok(Err(_)) => "its thread failed".to_owned(),
        Err(error) => error.to_string(),
    };
    sandbox.state().unwrap_or_else(|| State { files: Err(why.clone()), calls: Err(why) })
}
