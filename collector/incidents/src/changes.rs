//! Recent changes of incidents, in order. Event streams and notifiers follow it from their own position.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::watch;

use super::record::{Record, State};

/// Changes that are kept for readers that reconnect.
const KEPT: usize = 1024;

/// An incident changed in substance.
#[derive(Clone, Debug)]
pub struct Change {
    /// Sequence number, from 1.
    pub seq: u64,
    /// Event.
    pub states: Vec<State>,
    /// The incident after the change.
    pub record: Arc<Record>,
}

/// Some changes after the requested position are gone; the reader must fetch the whole list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Missed;

/// A bounded log of changes.
pub struct Changes {
    last: Mutex<VecDeque<Arc<Change>>>,
    seq: watch::Sender<u64>,
}

impl Default for Changes {
    fn default() -> Self {
        Self { last: Mutex::default(), seq: watch::Sender::new(0) }
    }
}

impl Changes {
    /// Adds a change and wakes followers.
    pub(super) fn push(&self, states: Vec<State>, record: Arc<Record>) {
        let mut last = self.last.lock();
        let seq = *self.seq.borrow() + 1;
        if last.len() == KEPT {
            last.pop_front();
        }
        last.push_back(Arc::new(Change { seq, states, record }));
        self.seq.send_replace(seq);
    }

    /// All changes after a sequence number.
    ///
    /// # Errors
    /// [`Missed`].
    pub fn after(&self, seq: u64) -> Result<Vec<Arc<Change>>, Missed> {
        let last = self.last.lock();
        let newest = *self.seq.borrow();
        if seq > newest || last.front().is_some_and(|first| first.seq > seq + 1) {
            return Err(Missed);
        }
        Ok(last.iter().filter(|c| c.seq > seq).cloned().collect())
    }

    /// Receiver of the latest sequence number.
    pub fn follow(&self) -> watch::Receiver<u64> {
        self.seq.subscribe()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::tests::incident;

    #[test]
    fn followers_resume_or_learn_of_a_gap() {
        let (changes, record) = (Changes::default(), Arc::new(Record::new(incident("a"), 0)));
        assert_eq!(changes.after(0).unwrap().len(), 0);
        assert_eq!(changes.after(1).unwrap_err(), Missed, "a sequence number of an earlier process");
        for _ in 0..KEPT + 5 {
            changes.push(vec![State::Victims], record.clone());
        }
        assert_eq!(changes.after(5).unwrap().len(), KEPT);
        assert_eq!(changes.after(4).unwrap_err(), Missed);
        let newest = KEPT as u64 + 5;
        assert_eq!(*changes.follow().borrow(), newest);
        assert_eq!(changes.after(newest - 2).unwrap().iter().map(|c| c.seq).collect::<Vec<_>>(), [newest - 1, newest]);
    }
}
