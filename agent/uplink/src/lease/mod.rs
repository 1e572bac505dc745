//! The lease by which the collector chooses one reader of an InfiniBand subnet: the reader's thread claims it, and a task
//! beside the uplinks asks for it over their connections.
//!
//! With several collectors a candidate asks one after the other, in the order of the configuration, and reads if those that
//! answer agree. As all candidates have the same order, two of them cannot block each other, and one reader is left as
//! long as they reach a common collector.

mod claim;

pub use claim::Outlook;

use crate::Uplink;
use crate::channel::Channel;
use crate::random_number::random_number;
use claim::{Answer, Claim};
use fabriclens_reader_lease::{ASK, ASK_EVERY, AskRequest, LEASE, lowest};
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::{Notify, watch};
use tonic::{Code, Status};

/// Timeout of one collector; several in a row fit into a lease.
const TIMEOUT: Duration = Duration::from_millis(1500);
/// Interval at which a receiver that does not know leases is asked again: it may be a collector before its upgrade.
const UNSUPPORTED: Duration = Duration::from_secs(10);
/// Shortest pause between two requests.
const PAUSE: Duration = Duration::from_millis(500);

/// The lease of this host's subnet, shared by the reader's thread and the task that asks.
#[derive(Debug)]
pub struct ReaderLease {
    host: String,
    agent: u64,
    claim: Mutex<Claim>,
    changed: Notify,
}

impl ReaderLease {
    /// A lease of a host that claims no subnet yet.
    pub fn new(host: &str) -> Self {
        Self { host: host.to_owned(), agent: random_number(), claim: Mutex::default(), changed: Notify::new() }
    }

    /// Host name of the agent.
    pub(crate) fn host(&self) -> &str {
        &self.host
    }

    /// Number of the agent process.
    pub(crate) fn agent(&self) -> u64 {
        self.agent
    }

    /// Claims the subnet that has these switches. Without switches, the claim ends: another host may read.
    pub fn claim(&self, switches: impl IntoIterator<Item = u64>) {
        self.claim.lock().set(lowest(switches));
        self.changed.notify_one();
    }

    /// Whether this host may read at `now`. The thread that reads asks this, or [`ReaderLease::is_lost`], several times a
    /// second: when it does not, it is stuck or has ended, and the lease is not renewed.
    pub fn outlook(&self, now: Instant) -> Outlook {
        let mut claim = self.claim.lock();
        claim.alive = Some(now);
        claim.outlook(now)
    }

    /// Whether this host reads although it may not at `now`.
    pub fn is_lost(&self, now: Instant) -> bool {
        let may_read = self.outlook(now).may_read();
        self.claim.lock().reading && !may_read
    }

    /// Sets whether this host reads; the collector learns it with the next request.
    pub fn set_reading(&self, reading: bool) {
        self.claim.lock().reading = reading;
    }

    /// The next request and the number of its claim; `None` while nothing is claimed, or the thread that reads is stuck.
    fn request(&self, now: Instant) -> Option<(AskRequest, u64)> {
        let claim = self.claim.lock();
        let (host, switches) = (self.host.clone(), claim.switches.clone());
        let request = AskRequest { host, agent: self.agent, switches, reading: claim.reading };
        claim.is_valid(now).then_some((request, claim.number))
    }
}

/// Task that asks for the lease.
#[derive(Debug)]
pub struct LeaseTask {
    lease: Arc<ReaderLease>,
    collectors: Vec<Channel>,
}

impl LeaseTask {
    /// Asks over the connections of these uplinks.
    pub fn new(lease: &Arc<ReaderLease>, uplinks: &[Uplink]) -> Self {
        let collectors = uplinks.iter().flat_map(|uplink| uplink.live.targets.channels()).collect();
        Self { lease: Arc::clone(lease), collectors }
    }

    /// Asks until `stop` turns true.
    pub async fn run(self, mut stop: watch::Receiver<bool>) {
        tokio::select! {
            () = self.ask_forever() => {}
            _ = stop.wait_for(|stop| *stop) => {}
        }
    }

    async fn ask_forever(&self) {
        loop {
            let sent = Instant::now();
            let Some((request, number)) = self.lease.request(sent) else {
                _ = tokio::time::timeout(PAUSE, self.lease.changed.notified()).await;
                continue;
            };
            let answer = self.ask(&request).await;
            let pause = if answer == Answer::Unsupported { UNSUPPORTED } else { ASK_EVERY };
            self.lease.claim.lock().take(number, answer, sent);
            tokio::time::sleep(pause.saturating_sub(sent.elapsed()).max(PAUSE)).await;
        }
    }

    /// Asks all collectors in order, until one refuses.
    async fn ask(&self, request: &AskRequest) -> Answer {
        let mut all = Answer::Unsupported;
        for collector in &self.collectors {
            let reply = collector.unary(ASK, request, TIMEOUT).await;
            all = all.and(answer(collector.url(), reply));
            if matches!(all, Answer::Refused { .. }) {
                break;
            }
        }
        all
    }
}

fn answer(collector: &str, reply: Result<fabriclens_reader_lease::AskReply, Status>) -> Answer {
    match reply {
        Ok(reply) if reply.granted => {
            let lasts = Duration::from_millis(reply.lasts_ms.into()).min(LEASE);
            Answer::Granted { lasts, others: reply.others }
        }
        Ok(reply) => Answer::Refused { holder: reply.holder },
        Err(status) if status.code() == Code::Unimplemented => Answer::Unsupported,
        Err(status) => Answer::Failed(format!("{collector}: {}", crate::response::text(&status))),
    }
}
