//! Tells one collector the forwarding tables that this host reads.

use super::shared::SharedTables;
use crate::Uplink;
use crate::channel::Channel;
use crate::lease::ReaderLease;
use crate::random_number::random_number;
use fabriclens_forwarding_tables::{TELL, TELL_EVERY, TellReply};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tonic::{Code, Status};

/// Timeout of a request.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Pause after a request without an answer, or of a host whose lease the collector does not know yet.
const RETRY: Duration = Duration::from_secs(5);
/// Pause after a refusal that will come again: the tables are too large, or the receiver does not know the method.
const REFUSED: Duration = Duration::from_secs(600);
/// Shortest pause between two changes that are told.
const PAUSE: Duration = Duration::from_millis(500);

/// Task that tells one collector.
#[derive(Debug)]
pub struct ForwardingTask {
    lease: Arc<ReaderLease>,
    tables: Arc<SharedTables>,
    collector: Channel,
}

/// What a collector has been told.
struct Told {
    /// Number of the telling.
    telling: u64,
    /// Number of the next request.
    next: u32,
    /// Number of the last change that it knows.
    known: u64,
}

impl Told {
    fn nothing() -> Self {
        Self { telling: random_number(), next: 0, known: 0 }
    }
}

impl ForwardingTask {
    /// A task for each collector of these uplinks.
    pub fn of(lease: &Arc<ReaderLease>, tables: &Arc<SharedTables>, uplinks: &[Uplink]) -> Vec<Self> {
        let collectors = uplinks.iter().flat_map(|uplink| uplink.live.targets.channels());
        let task = |collector| Self { lease: Arc::clone(lease), tables: Arc::clone(tables), collector };
        collectors.map(task).collect()
    }

    /// Tells until `stop` turns true.
    pub async fn run(self, mut stop: watch::Receiver<bool>) {
        tokio::select! {
            () = self.tell_forever() => {}
            _ = stop.wait_for(|stop| *stop) => {}
        }
    }

    async fn tell_forever(&self) {
        let (mut told, mut changed) = (Told::nothing(), self.tables.changed());
        loop {
            changed.mark_unchanged();
            let pause = self.tell(&mut told).await;
            match pause {
                // A change ends the pause.
                None => _ = tokio::time::timeout(TELL_EVERY, changed.changed()).await,
                Some(pause) => tokio::time::sleep(pause).await,
            }
        }
    }

    /// Tells what the collector does not know; returns the pause after a failure.
    async fn tell(&self, told: &mut Told) -> Option<Duration> {
        loop {
            let Some((mut request, last)) = self.tables.after(told.known) else {
                *told = Told::nothing();
                return None;
            };
            (request.host, request.agent) = (self.lease.host().to_owned(), self.lease.agent());
            (request.telling, request.number) = (told.telling, told.next);
            let complete = request.complete;
            match self.collector.unary::<TellReply>(TELL, &request, TIMEOUT).await {
                Ok(reply) if reply.again => {
                    *told = Told::nothing();
                    return Some(PAUSE);
                }
                Ok(_) => (told.next, told.known) = (told.next + 1, last),
                Err(status) => {
                    *told = Told::nothing();
                    return Some(self.failed(&status));
                }
            }
            if complete {
                tokio::time::sleep(PAUSE).await;
                return None;
            }
        }
    }

    /// Pause after a failure.
    fn failed(&self, status: &Status) -> Duration {
        let (collector, why) = (self.collector.url(), crate::response::text(status));
        match status.code() {
            Code::Unimplemented => REFUSED,
            // The lease is being granted, or another host has it.
            Code::FailedPrecondition => RETRY,
            Code::InvalidArgument | Code::ResourceExhausted | Code::PermissionDenied => {
                tracing::warn!(
                    collector,
                    why,
                    "collector refuses the forwarding tables of the InfiniBand subnet; it does not know its paths"
                );
                REFUSED
            }
            _ => {
                tracing::debug!(collector, why, "forwarding tables were not told; trying again");
                RETRY
            }
        }
    }
}
