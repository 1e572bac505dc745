//! Keeps what a host says of itself apart from what others say. Once a scheduler, a file or an unbound caller has listed the
//! hosts of a job, a host that they do not list only claims to run it: the claim is named in the job's disagreements, and
//! nothing else of the job follows from it.

use crate::host_names::HostNames;
use crate::record::{JobKey, Source};
use crate::registry::Run;
use fabriclens_base::host_name::{key, short};
use std::collections::HashSet;

/// Claims kept of one run; its report names three.
const CLAIMS: usize = 16;

/// The hosts of a run as its reporters list them, by agents' names in lower case.
pub(crate) struct ListedHosts {
    /// Full names.
    names: HashSet<String>,
    /// The same up to the first dot.
    short: HashSet<String>,
}

impl ListedHosts {
    /// `None` if only hosts have reported the run: agents, or a credential that is bound to a host.
    pub(crate) fn of(run: &Run, agents: &HostNames) -> Option<Self> {
        if run.reporting_host().is_some() {
            return None;
        }
        let reported = run.records.iter().filter(|(source, _)| **source != Source::Agent);
        let names: HashSet<String> = reported.flat_map(|(_, r)| r.hosts.keys()).map(|h| key(agents.host(h))).collect();
        let short = names.iter().map(|name| short(name).to_owned()).collect();
        (!names.is_empty()).then_some(Self { names, short })
    }

    /// Whether the agent's `host` is listed, in the full or the short form of its name.
    pub(crate) fn contains(&self, host: &str) -> bool {
        let host = key(host);
        self.names.contains(&host)
            || self.names.contains(short(&host))
            || (!host.contains('.') && self.short.contains(&host))
    }
}

impl Run {
    /// Whether a claim of this host would be new, and there is room for it.
    pub(crate) fn is_new_claim(&self, host: &str) -> bool {
        self.claims.len() < CLAIMS && !self.claims.contains(host)
    }

    /// Adds a host that claims to run the job, and logs it.
    pub(crate) fn add_claim(&mut self, job: &JobKey, host: &str) {
        if self.is_new_claim(host) {
            tracing::warn!(%job, host, "a host claims a job that is reported on other hosts; it is not part of the job");
            self.claims.insert(host.to_owned());
        }
    }

    /// Takes out of the agents' record what hosts said that others do not list, such as before the first report. What
    /// the listed hosts said with it is read from their samples again.
    pub(crate) fn separate_claims(&mut self, job: &JobKey, agents: &HostNames) {
        let Some(listed) = ListedHosts::of(self, agents) else { return };
        self.claims.retain(|host| !listed.contains(host));
        let Some(seen) = self.records.get(&Source::Agent) else { return };
        let claims: Vec<String> = seen.hosts.keys().filter(|host| !listed.contains(host)).cloned().collect();
        if claims.is_empty() {
            return;
        }
        for host in &claims {
            self.add_claim(job, host);
        }
        let began = self.records.iter().filter(|(s, _)| **s != Source::Agent).filter_map(|(_, r)| r.start_ns).min();
        if let Some(seen) = self.records.get_mut(&Source::Agent) {
            seen.hosts.retain(|host, _| listed.contains(host));
            seen.aliases.clear();
            seen.user = None;
            seen.start_ns = seen.start_ns.max(began);
            seen.end_ns = seen.end_ns.filter(|end| Some(*end) >= seen.start_ns);
            if seen.hosts.is_empty() {
                self.records.remove(&Source::Agent);
            }
        }
    }
}
