//! Who reports a job, and the share of the registry that its reports may take.

use crate::record::{JobRecord, RecordError, Source};
use fabriclens_base::host_name;
use std::sync::Arc;

/// Prefix of the stored name of a host: its agent, or a credential that is bound to it.
const HOST: &str = "host/";
/// Prefix of the stored name of any other caller of the API.
const CALLER: &str = "caller/";

/// Kinds of senders, by who decides what they send.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum SenderClass {
    /// One host, which may be compromised.
    Host,
    /// A person or a hook with a credential of its own.
    Caller,
    /// A source from the configuration: a scheduler, a directory of files.
    Configured,
}

impl SenderClass {
    /// Class of a sender by its stored name.
    pub(crate) fn of(sender: &str) -> Self {
        match sender {
            host if host.starts_with(HOST) => Self::Host,
            caller if caller.starts_with(CALLER) => Self::Caller,
            _ => Self::Configured,
        }
    }

    /// Name in messages.
    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::Host => "all hosts",
            Self::Caller => "all callers of the API",
            Self::Configured => "all sources of jobs",
        }
    }
}

/// Bounds of the registry in bytes of memory, estimated by `JobRecord::weight`.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    all: usize,
}

impl Limits {
    /// An eighth of the memory that the process may use, between 32 MiB and 1 GiB.
    pub fn of_memory(bytes: u64) -> Self {
        let all = (bytes / 8).clamp(32 << 20, 1 << 30);
        Self { all: usize::try_from(all).unwrap_or(32 << 20) }
    }

    /// Bytes of all jobs.
    pub(crate) fn all(self) -> usize {
        self.all
    }

    /// Bytes of one sender. A host knows only its own jobs; a compromised one must leave room for the others.
    pub(crate) fn of_one(self, class: SenderClass) -> usize {
        match class {
            SenderClass::Host => self.all / 64,
            SenderClass::Caller => self.all / 4,
            SenderClass::Configured => self.all / 2,
        }
    }

    /// Bytes of all senders of a class: what anybody can send never takes the room of the configured sources.
    pub(crate) fn of_class(self, class: SenderClass) -> usize {
        match class {
            SenderClass::Host => self.all / 4,
            SenderClass::Caller => self.all / 2,
            SenderClass::Configured => self.all,
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self::of_memory(0)
    }
}

/// The reporter of a job: its source, its name for the accounts, and the hosts to which its credential is bound.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reporter {
    pub(crate) source: Source,
    pub(crate) sender: String,
    hosts: Option<Arc<[String]>>,
}

impl From<Source> for Reporter {
    fn from(source: Source) -> Self {
        Self { source, sender: source.text().to_owned(), hosts: None }
    }
}

impl Reporter {
    /// A caller of the API: `name` is that of its credential, or its address.
    pub fn caller(name: &str) -> Self {
        Self { source: Source::Http, sender: format!("{CALLER}{name}"), hosts: None }
    }

    /// A caller whose credential is bound to these names of one host; at least one.
    pub fn bound(hosts: Arc<[String]>) -> Self {
        let name = hosts.first().map_or("", String::as_str);
        Self { source: Source::Http, sender: host_sender(name), hosts: Some(hosts) }
    }

    /// Checks that a bound reporter names no other host, and no other name of a job, which may be another job's.
    pub(crate) fn check(&self, record: &JobRecord) -> Result<(), RecordError> {
        let Some(own) = &self.hosts else { return Ok(()) };
        let other = |host: &&String| !own.iter().any(|own| host_name::is_same(own, host));
        if let Some(host) = record.hosts.keys().find(other) {
            return Err(RecordError::OtherHost { host: host.clone(), own: own.join(", ") });
        }
        if record.aliases.is_empty() { Ok(()) } else { Err(RecordError::Aliases { own: own.join(", ") }) }
    }

    /// Whether its credential is bound to a host.
    pub(crate) fn is_bound(&self) -> bool {
        self.hosts.is_some()
    }
}

/// Stored name of a host as a sender.
pub(crate) fn host_sender(host: &str) -> String {
    format!("{HOST}{}", host_name::key(host))
}

/// Whether a sender is this host, in the short or the full form of its name.
pub(crate) fn is_host(sender: &str, host: &str) -> bool {
    let short = host_name::short;
    sender.strip_prefix(HOST).is_some_and(|own| host_name::is_same(short(own), short(host)))
}
