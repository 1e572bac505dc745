//! What the agent may still do once it runs: a fault in it is then worth little to whoever finds it. Files by Landlock
//! (`files`), system calls by seccomp (`calls`), each as far as the kernel has it; what it lacks is told and no reason
//! not to start. A thread enters for itself and for all that it starts later, where it gives back its capabilities.

mod calls;
mod files;

pub use files::{Walls, writable};

use std::sync::{Arc, Mutex, PoisonError};

/// What a thread does that others do not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Reads files, asks the kernel, talks to the collector.
    Plain,
    /// Reads and attaches programs in the kernel; with `processes` it reads their environments, too, which Landlock
    /// never allows: such a thread has no walls around files.
    Probes {
        /// Whether it may and shall.
        processes: bool,
    },
}

/// The sandbox of one agent; clones are the same. The default is none.
#[derive(Clone, Debug, Default)]
pub struct Sandbox(Option<Arc<Inner>>);

#[derive(Debug)]
struct Inner {
    walls: Walls,
    /// Of the threads that entered with both.
    state: Mutex<Option<State>>,
}

/// How far the kernel went along; each says what is in force, or why it is not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    /// Files and ports.
    pub files: Result<String, String>,
    /// System calls.
    pub calls: Result<String, String>,
}

impl State {
    /// One line for people.
    pub fn text(&self) -> String {
        let one = |what: &str, said: &Result<String, String>| match said {
            Ok(how) => format!("{what} {how}"),
            Err(why) => format!("{what} unrestricted: {why}"),
        };
        format!("{}; {}", one("files", &self.files), one("system calls", &self.calls))
    }
}

impl Sandbox {
    /// One that threads may enter.
    pub fn new(walls: Walls) -> Self {
        Self(Some(Arc::new(Inner { walls, state: Mutex::default() })))
    }

    /// Shuts the calling thread in, and those that it starts from now on. There is no way back.
    pub fn enter(&self, role: Role) {
        let Some(inner) = &self.0 else { return };
        // Files first: setting them up takes calls that nobody needs afterwards.
        let files = match role {
            Role::Probes { processes: true } => Err("this thread reads environments of processes".to_owned()),
            _ => inner.walls.build(),
        };
        let state = State { files, calls: calls::restrict(role) };
        tracing::debug!(thread = std::thread::current().name(), ?role, state = state.text(), "sandbox");
        if role == Role::Plain {
            let mut slot = inner.state.lock().unwrap_or_else(PoisonError::into_inner);
            if slot.is_none() {
                tracing::info!("sandbox: {}", state.text());
            }
            *slot = Some(state);
        }
    }

    /// What is in force; `None` where there is no sandbox, or nobody entered yet.
    pub fn state(&self) -> Option<State> {
        self.0.as_ref()?.state.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// What a thread of this process would get, without being in it: tried on a thread that ends.
pub fn tried(walls: Walls) -> State {
    let sandbox = Sandbox::new(walls);
    let inside = sandbox.clone();
    let ended = std::thread::Builder::new().name("sandbox".into()).spawn(move || inside.enter(Role::Plain));
    let why = match ended.map(std::thread::JoinHandle::join) {
        Ok(Ok(())) => "it was not entered".to_owned(),
        Ok(Err(_)) => "its thread failed".to_owned(),
        Err(error) => error.to_string(),
    };
    sandbox.state().unwrap_or_else(|| State { files: Err(why.clone()), calls: Err(why) })
}
