//! One piece of work at a time, for work that takes much time or memory; callers take turns. A caller with many requests waits
//! for itself: in the line for the turn it stands once.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::client_network::client_network;

/// A caller: the name of its credential, if it has one, and its network.
type CallerKey = (Option<Arc<str>>, IpAddr);

/// The turn, and the lines of callers.
pub struct FairTurn {
    turn: Arc<Semaphore>,
    callers: Mutex<HashMap<CallerKey, Arc<Semaphore>>>,
}

/// The turn, until it is dropped.
pub struct Turn {
    _turn: OwnedSemaphorePermit,
    _own: OwnedSemaphorePermit,
    _line: Line,
}

/// A place in the line of a caller; the last one takes the line away.
struct Line {
    of: Arc<FairTurn>,
    caller: CallerKey,
    own: Arc<Semaphore>,
}

impl FairTurn {
    /// Nobody waits.
    pub fn new() -> Arc<Self> {
        Arc::new(Self { turn: Arc::new(Semaphore::new(1)), callers: Mutex::default() })
    }

    /// Waits for the turn.
    pub async fn take(self: &Arc<Self>, name: Option<Arc<str>>, address: IpAddr) -> Turn {
        let caller = (name, client_network(address));
        let own = {
            let mut callers = self.callers.lock();
            callers.entry(caller.clone()).or_insert_with(|| Arc::new(Semaphore::new(1))).clone()
        };
        let line = Line { of: self.clone(), caller, own: own.clone() };
        let own = permit(own).await;
        let turn = permit(self.turn.clone()).await;
        Turn { _turn: turn, _own: own, _line: line }
    }
}

async fn permit(of: Arc<Semaphore>) -> OwnedSemaphorePermit {
    of.acquire_owned().await.expect("semaphores of turns are never closed")
}

impl Drop for Line {
    fn drop(&mut self) {
        let mut callers = self.of.callers.lock();
        // One in the table, one here.
        if Arc::strong_count(&self.own) <= 2 {
            callers.remove(&self.caller);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    /// Whether a request is done soon.
    async fn is_done(task: &mut tokio::task::JoinHandle<Turn>) -> Option<Turn> {
        tokio::time::timeout(Duration::from_millis(50), task).await.ok().and_then(Result::ok)
    }

    #[tokio::test]
    async fn a_caller_with_many_requests_waits_for_itself() {
        let turns = FairTurn::new();
        let ask = |name: &str| {
            let (turns, name) = (turns.clone(), Some(Arc::from(name)));
            tokio::spawn(async move { turns.take(name, [10, 0, 0, 1].into()).await })
        };
        let first = ask("flood").await.unwrap();
        let mut flood: Vec<_> = (0..50).map(|_| ask("flood")).collect();
        tokio::time::sleep(Duration::from_millis(20)).await;
        let mut other = ask("other");
        assert!(is_done(&mut other).await.is_none(), "one at a time");
        drop(first);
        let mut turn = None;
        for task in &mut flood[..2] {
            turn = turn.or(is_done(task).await);
        }
        drop(turn);
        let turn = is_done(&mut other).await.expect("one of the flood comes before it at most");
        flood.iter().for_each(tokio::task::JoinHandle::abort);
        drop(turn);
        for task in flood {
            _ = task.await;
        }
        assert_eq!(turns.callers.lock().len(), 0, "no line is left");
        ask("flood").await.unwrap();
    }
}
