//! Asks the services that are due, and keeps the progress of each job between questions.

use super::answer::{Answer, RankProcess};
use super::question::{Enter, question};
use super::series;
use super::services::{Found, JobProcess, Service, find};
use super::settings::Collectives;
use fabriclens_agent_collectives::model::{Communicator, CommunicatorId, Rank, RankState, Snapshot};
use fabriclens_agent_collectives::progress::Progress;
use fabriclens_agent_collectives::ras::RasError;
use fabriclens_agent_host::batch::Batch;
use fabriclens_agent_uplink::TroubledJobs;
use fabriclens_agent_workload::{Jobs, Key};
use fabriclens_base::error_chain::with_causes;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Periods between two questions of a host that is not the one that asks, and longest pause after failures, in periods.
const RARELY: u32 = 20;
/// Shortest time between two questions to a job that an incident touches.
pub const IN_TROUBLE: Duration = Duration::from_secs(10);

/// Reader of the services of a host.
pub struct Reader {
    config: Collectives,
    proc: PathBuf,
    jobs: Arc<Jobs>,
    /// Jobs that incidents touch: they are asked more often.
    troubled: Arc<TroubledJobs>,
    enter: Enter,
    services: HashMap<(u64, SocketAddr), State>,
    /// Questions by result.
    questions: BTreeMap<&'static str, u64>,
    longest: Duration,
}

/// What is known of a service.
struct State {
    sockets: BTreeSet<u64>,
    job: Option<(Key, String)>,
    role: Role,
    asked: Instant,
    due: Instant,
    failures: u32,
    progress: Progress,
    /// Last answer, or why there is none.
    last: Result<Answer, &'static str>,
}

/// Who asks the job.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    Asks,
    Follows,
    Foreign,
}

impl Reader {
    /// Reads the processes of this procfs; `enter` restricts the threads that connect.
    pub fn new(config: Collectives, proc: PathBuf, jobs: Arc<Jobs>, troubled: Arc<TroubledJobs>, enter: Enter) -> Self {
        let (services, questions) = (HashMap::new(), BTreeMap::new());
        Self { config, proc, jobs, troubled, enter, services, questions, longest: Duration::ZERO }
    }

    /// Finds services, asks those that are due, and writes the series of all. `stopping` ends it between two questions.
    pub fn look(&mut self, now: Instant, stopping: &dyn Fn() -> bool, out: &mut Batch) {
        let Found { processes, services } = find(&self.proc, &self.jobs, self.config.port);
        let present: HashMap<(u64, SocketAddr), &Service> =
            services.iter().map(|service| (service.id, service)).collect();
        // A service whose sockets are all new is of another job.
        self.services
            .retain(|id, state| present.get(id).is_some_and(|service| !service.sockets.is_disjoint(&state.sockets)));
        self.longest = Duration::ZERO;
        for service in &services {
            let state = self.services.entry(service.id).or_insert_with(|| State::new(now, self.config.period));
            state.sockets.clone_from(&service.sockets);
            if state.role == Role::Foreign || now < state.due(&self.troubled, now) || stopping() {
                continue;
            }
            let begin = Instant::now();
            let answer = question(&self.proc, service, &self.config.limits, &self.enter);
            self.longest = self.longest.max(begin.elapsed());
            let result = state.take(answer, service, &processes, now, self.config.period);
            *self.questions.entry(result).or_default() += 1;
        }
        self.tell(out);
    }

    fn tell(&self, out: &mut Batch) {
        let mut services: Vec<_> = self.services.iter().collect();
        services.sort_unstable_by_key(|(id, _)| **id);
        let count = |role: Role| services.iter().filter(|(_, state)| state.role == role).count() as u64;
        series::own(
            out,
            [count(Role::Asks), count(Role::Follows), count(Role::Foreign)],
            &self.questions,
            self.longest,
        );
        // Two services of a job in one namespace would give the same series twice.
        let mut told = HashSet::new();
        let (mut named, mut ranks) = (BTreeSet::new(), BTreeMap::<_, BTreeSet<RankProcess>>::new());
        for (_, state) in &services {
            let (Some(job), Ok(answer)) = (&state.job, &state.last) else { continue };
            named.extend(answer.own_names.iter().map(|name| (job, name)));
            let (communicator, own) = &answer.own_ranks;
            ranks.entry((job, *communicator)).or_default().extend(own);
        }
        for ((key, cluster), name) in named {
            series::own_name(out, key, cluster, name);
        }
        for (((key, cluster), communicator), own) in ranks {
            let job = series::of_job(Some((key, cluster)));
            series::rank_processes(out, job, &communicator.to_string(), own.into_iter());
        }
        for (_, state) in services.iter().filter(|(_, state)| state.role == Role::Asks) {
            let Some((key, cluster)) = state.job.as_ref().filter(|job| told.insert(*job)) else { continue };
            match &state.last {
                Ok(answer) => series::job(out, key, cluster, answer),
                Err(reason) => series::unreadable(out, key, cluster, reason),
            }
        }
    }
}

impl State {
    fn new(now: Instant, period: Duration) -> Self {
        let (sockets, progress, last) = (BTreeSet::new(), Progress::new(period), Err("silent"));
        Self { sockets, job: None, role: Role::Asks, asked: now, due: now, failures: 0, progress, last }
    }

    /// When to ask next: sooner if an incident touches the job and it answers.
    fn due(&self, troubled: &TroubledJobs, now: Instant) -> Instant {
        let answers = self.role == Role::Asks && self.failures == 0;
        let is_in_trouble = |(key, _): &(Key, String)| troubled.has(&key.job, now);
        match answers && self.job.as_ref().is_some_and(is_in_trouble) {
            true => self.due.min(self.asked + IN_TROUBLE),
            false => self.due,
        }
    }

    /// Takes an answer into account; returns its result for the count of questions.
    fn take(
        &mut self,
        answer: Result<Snapshot, RasError>,
        service: &Service,
        processes: &[JobProcess],
        now: Instant,
        period: Duration,
    ) -> &'static str {
        self.asked = now;
        match answer {
            Ok(snapshot) => {
                let job = job(&snapshot, service, processes);
                if self.job != job {
                    (self.job, self.progress) = (job, Progress::new(period));
                }
                self.failures = 0;
                self.role = if asks(&snapshot, &service.addresses) { Role::Asks } else { Role::Follows };
                self.due = now + if self.role == Role::Asks { period } else { period * RARELY };
                let communicators = self.progress.observe(&snapshot, now);
                let omitted = snapshot.unnamed + snapshot.communicators_omitted;
                let own_names = own_names(&snapshot, &service.addresses);
                let own_ranks = own_ranks(&snapshot, service, processes);
                self.last = Ok(Answer { version: snapshot.version, communicators, omitted, own_names, own_ranks });
                if self.job.is_none() {
                    self.last = Err("unknown_job");
                    return "unknown_job";
                }
                "answered"
            }
            Err(error) => {
                let reason = error.label();
                tracing::debug!(address = %service.id.1, reason, why = with_causes(&error), "RAS service of a job gave no answer");
                self.failures = self.failures.saturating_add(1);
                let pause = 1 << (self.failures - 1).min(4);
                self.due = now + period * pause.min(RARELY);
                if reason == "foreign_service" {
                    self.role = Role::Foreign;
                    tracing::info!(address = %service.id.1, "the port of NCCL's RAS belongs to another service; it is left alone");
                }
                if self.job.is_none() && service.jobs.len() == 1 {
                    self.job = service.jobs.first().cloned();
                }
                self.last = Err(reason);
                reason
            }
        }
    }
}

/// Job of an answer: the one whose processes on this host are ranks; otherwise the only one that the socket may belong to.
fn job(snapshot: &Snapshot, service: &Service, processes: &[JobProcess]) -> Option<(Key, String)> {
    let by_pid = by_pid(service, processes);
    let ranks = snapshot.communicators.iter().flat_map(|communicator| &communicator.ranks);
    let local = ranks.filter(|rank| is_local(&rank.process.host, &service.addresses));
    let mut votes: BTreeMap<&(Key, String), usize> = BTreeMap::new();
    for process in local.filter_map(|rank| by_pid.get(&rank.process.pid?)) {
        *votes.entry(&process.job).or_default() += 1;
    }
    let most = votes.into_iter().max_by_key(|(_, votes)| *votes).map(|(job, _)| job.clone());
    most.or_else(|| service.jobs.first().filter(|_| service.jobs.len() == 1).cloned())
}

/// Processes that may be those of an answer, by their ids there.
fn by_pid<'a>(service: &Service, processes: &'a [JobProcess]) -> HashMap<u32, &'a JobProcess> {
    let own = |process: &&JobProcess| process.namespace.is_none_or(|namespace| namespace == service.id.0);
    processes.iter().filter(own).map(|process| (process.inner, process)).collect()
}

/// The communicator with most ranks.
fn largest(snapshot: &Snapshot) -> Option<&Communicator> {
    snapshot.communicators.iter().max_by_key(|c| (c.ranks.len(), std::cmp::Reverse(c.id)))
}

/// Ranks of the largest communicator whose processes are certainly of this host. If two processes have one id, neither is.
fn own_ranks(
    snapshot: &Snapshot,
    service: &Service,
    processes: &[JobProcess],
) -> (CommunicatorId, BTreeSet<RankProcess>) {
    let none = CommunicatorId { hash: 0, secondary: 0 };
    let largest = largest(snapshot);
    let by_pid = by_pid(service, processes);
    let mut of_id: HashMap<u32, usize> = HashMap::new();
    processes.iter().for_each(|process| *of_id.entry(process.inner).or_default() += 1);
    let process = |rank: &Rank| {
        let is_own = rank.process.host.parse().is_ok_and(|host: IpAddr| service.addresses.contains(&host));
        let process = by_pid.get(&rank.process.pid?).filter(|one| is_own && of_id.get(&one.inner) == Some(&1))?;
        Some(RankProcess { rank: rank.number?, pid: process.pid, gpu: rank.process.gpu })
    };
    let own = largest.into_iter().flat_map(|communicator| &communicator.ranks).filter_map(process).collect();
    (largest.map_or(none, |communicator| communicator.id), own)
}

/// Whether this host asks: the lowest rank of the largest communicator that answers runs here, or nobody knows where it runs.
fn asks(snapshot: &Snapshot, addresses: &HashSet<IpAddr>) -> bool {
    let largest = largest(snapshot);
    let silent = |state| matches!(state, RankState::Unresponsive | RankState::Dead | RankState::WithoutCommunicator);
    let answering = largest.into_iter().flat_map(|c| &c.ranks).filter(|rank| !silent(rank.state));
    let lowest = answering.filter(|rank| rank.number.is_some()).min_by_key(|rank| rank.number);
    lowest.is_none_or(|rank| is_local(&rank.process.host, addresses))
}

/// Addresses of ranks that are certainly of this host.
fn own_names(snapshot: &Snapshot, addresses: &HashSet<IpAddr>) -> BTreeSet<Arc<str>> {
    let ranks = snapshot.communicators.iter().flat_map(|communicator| &communicator.ranks);
    let is_own = |host: IpAddr| !host.is_loopback() && addresses.contains(&host);
    let own = ranks.filter(|rank| rank.process.host.parse().is_ok_and(is_own));
    own.map(|rank| rank.process.host.clone()).collect()
}

/// Whether the address of a host is one of these; an unknown one may be.
fn is_local(host: &str, addresses: &HashSet<IpAddr>) -> bool {
    host.parse().map_or(true, |host: IpAddr| host.is_loopback() || addresses.is_empty() || addresses.contains(&host))
}
