//! The newest signals of all ports as the detectors have them, for views of the present: queries would read the samples of every port for
//! each viewer. The live evaluation publishes a table every two seconds while the API asks for one.

use std::sync::Arc;
use std::time::{Duration, Instant};

use fabriclens_correlate::Signal;
use parking_lot::Mutex;
use tokio::sync::watch;

/// Age at which the live evaluation replaces a table.
const REFRESH: Duration = Duration::from_secs(2);
/// Oldest table that is an answer: evaluating a large fabric takes a while.
const OLDEST: Duration = Duration::from_secs(10);
/// Longest wait for a table.
const PATIENCE: Duration = Duration::from_secs(2);
/// Time after the last request during which tables are made.
const INTEREST: Duration = Duration::from_secs(60);

/// Signals of all ports.
#[derive(Debug)]
pub struct SignalTable {
    /// When it was made.
    pub made: Instant,
    /// Node and port name of each port.
    pub ports: Vec<(String, String)>,
    /// Line rate of each port, bytes per second; `NaN` if it is not known.
    pub line_rates: Vec<f32>,
    /// The newest value of each signal at each port within the last minute; `NaN` where there is none.
    pub signals: Vec<(Signal, Vec<f32>)>,
}

impl SignalTable {
    /// The values of a signal, if the table has it.
    pub fn of(&self, signal: Signal) -> Option<&[f32]> {
        self.signals.iter().find(|(known, _)| *known == signal).map(|(_, values)| &**values)
    }
}

/// The newest table, and who wants one.
pub struct NewestSignals {
    /// Signals of the tables.
    signals: Vec<Signal>,
    asked: Mutex<Option<Instant>>,
    table: watch::Sender<Option<Arc<SignalTable>>>,
}

impl NewestSignals {
    /// Tables of these signals.
    pub fn new(signals: impl IntoIterator<Item = Signal>) -> Self {
        Self { signals: signals.into_iter().collect(), asked: Mutex::default(), table: watch::Sender::new(None) }
    }

    /// A table that is at most ten seconds old; waits two seconds for the first one. `None` if none is made in that time, as after a
    /// start.
    pub async fn table(&self) -> Option<Arc<SignalTable>> {
        *self.asked.lock() = Some(Instant::now());
        let mut tables = self.table.subscribe();
        let is_new =
            |table: &Option<Arc<SignalTable>>| table.as_ref().is_some_and(|table| table.made.elapsed() < OLDEST);
        let found = tokio::time::timeout(PATIENCE, tables.wait_for(is_new)).await.ok()?.ok()?;
        (*found).clone()
    }

    /// The signals of the table to publish now: the API asked within the last minute, and the last table is two seconds old. Drops the
    /// table if the API did not ask.
    pub fn wanted(&self) -> Option<&[Signal]> {
        let is_asked = self.asked.lock().is_some_and(|asked| asked.elapsed() < INTEREST);
        let is_old = self.table.borrow().as_ref().is_none_or(|table| table.made.elapsed() >= REFRESH);
        if !is_asked {
            // Nobody looks: its memory is given back.
            self.table.send_if_modified(|table| table.take().is_some());
        }
        (is_asked && is_old).then_some(&self.signals)
    }

    /// Replaces the table.
    pub fn publish(&self, table: SignalTable) {
        self.table.send_replace(Some(Arc::new(table)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> SignalTable {
        let signals = vec![(Signal::Tx, vec![7.0])];
        SignalTable {
            made: Instant::now(),
            ports: vec![("h1".into(), "p".into())],
            line_rates: vec![f32::NAN],
            signals,
        }
    }

    #[tokio::test]
    async fn tables_are_made_while_somebody_asks() {
        let newest = NewestSignals::new([Signal::Tx]);
        assert_eq!(newest.wanted(), None, "nobody asked");
        let asks = async {
            let table = newest.table().await.unwrap();
            (table.of(Signal::Tx).map(<[f32]>::to_vec), table.of(Signal::Rx).map(<[f32]>::to_vec))
        };
        let makes = async {
            while newest.wanted().is_none() {
                tokio::task::yield_now().await;
            }
            assert_eq!(newest.wanted(), Some(&[Signal::Tx][..]));
            newest.publish(table());
        };
        let ((sent, received), ()) = tokio::join!(asks, makes);
        assert_eq!((sent, received), (Some(vec![7.0]), None));
        assert_eq!(newest.wanted(), None, "the table is new");
        assert!(newest.table().await.is_some(), "without waiting");
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_waits_for_ever_and_no_table_is_kept_for_nobody() {
        let newest = NewestSignals::new([Signal::Tx]);
        assert!(newest.table().await.is_none());
        newest.publish(table());
        *newest.asked.lock() = Instant::now().checked_sub(INTEREST);
        assert!(newest.wanted().is_none() && newest.table.borrow().is_none());
    }
}
