//! Requests that wait for a decoder. The senders take turns, so that one with many or large requests delays another by one
//! request.

use std::collections::VecDeque;

use bytes::Bytes;
use fabriclens_core::protocol::Protocol;
use fabriclens_server::auth::Caller;
use tokio::sync::oneshot;

use crate::report::{IngestError, Report};
use crate::unpack::Compression;

/// Most senders whose turns are remembered: more than requests wait.
const SENDERS: usize = 256;

/// A queued request.
pub(crate) struct Job {
    pub(crate) protocol: Protocol,
    pub(crate) caller: Caller,
    pub(crate) compression: Compression,
    pub(crate) body: Bytes,
    pub(crate) answer: oneshot::Sender<Result<Report, IngestError>>,
}

/// The waiting requests of a decoder.
#[derive(Default)]
pub(super) struct Queue {
    jobs: VecDeque<Job>,
    /// A thread is at work.
    running: bool,
    /// Senders in the order of their last turn, the latest last.
    turns: VecDeque<String>,
}

impl Queue {
    /// Adds a request. Returns true if no thread is at work; one must then start.
    pub(super) fn push(&mut self, job: Job) -> bool {
        self.jobs.push_back(job);
        !std::mem::replace(&mut self.running, true)
    }

    /// Takes the oldest request of the sender whose last turn is longest ago.
    pub(super) fn take(&mut self) -> Option<Job> {
        let turn = |job: &Job| {
            let sender = job.caller.sender();
            self.turns.iter().position(|known| *known == sender).map_or(0, |at| at + 1)
        };
        let next = self.jobs.iter().enumerate().min_by_key(|(_, job)| turn(job)).map(|(at, _)| at)?;
        let job = self.jobs.remove(next)?;
        self.record(job.caller.sender());
        Some(job)
    }

    /// Ends the work: the next request needs a new thread.
    pub(super) fn end(&mut self) {
        self.running = false;
    }

    fn record(&mut self, sender: String) {
        self.turns.retain(|known| *known != sender);
        self.turns.push_back(sender);
        if self.turns.len() > SENDERS {
            self.turns.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(sender: u8, number: u8) -> Job {
        Job {
            protocol: Protocol::OtlpGrpc,
            caller: Caller::anonymous([10, 0, 0, sender].into()),
            compression: Compression::None,
            body: Bytes::copy_from_slice(&[sender, number]),
            answer: oneshot::channel().0,
        }
    }

    #[test]
    fn senders_take_turns_and_keep_their_order() {
        let mut queue = Queue::default();
        assert!(queue.push(job(1, 0)) && !queue.push(job(1, 1)), "the first one needs a thread");
        for other in [job(1, 2), job(2, 0), job(1, 3), job(3, 0), job(2, 1)] {
            queue.push(other);
        }
        let mut order = Vec::new();
        while let Some(job) = queue.take() {
            order.push((job.body[0], job.body[1]));
        }
        assert_eq!(order, [(1, 0), (2, 0), (3, 0), (1, 1), (2, 1), (1, 2), (1, 3)]);
        queue.end();
        assert!(queue.push(job(1, 4)));
    }
}
