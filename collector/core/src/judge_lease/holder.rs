//! Renews a held lease until it is lost or given back.

use std::io;
use std::time::{Duration, Instant};

use super::file::Record;
use super::{LeaseState, Shared};

impl Shared {
    pub(super) fn hold(&self, mut record: Record) {
        let epoch = record.epoch;
        self.file.remove_claims_before(epoch);
        self.state.send_replace(LeaseState::Held { epoch });
        // Failed renewals are repeated soon: a slow disk must not cost the lease.
        let retry = self.timing.poll.min(self.timing.renew);
        let mut pause = self.timing.renew;
        while self.pause(pause) {
            let began = Instant::now();
            let asleep = began.duration_since(self.inner.lock().renewed);
            if asleep >= self.timing.give_up {
                self.lose(format!("the lease was not renewed for {:.1} s", asleep.as_secs_f64()));
                return;
            }
            record.renewal += 1;
            record.data.clone_from(&self.inner.lock().identity);
            pause = match self.renew(&record) {
                Ok(None) => {
                    self.inner.lock().renewed = began;
                    self.timing.renew.saturating_sub(began.elapsed()).max(Duration::from_millis(1))
                }
                Ok(Some(why)) => {
                    self.lose(why);
                    return;
                }
                Err(error) => {
                    let lease = self.file.path().display();
                    tracing::warn!(%lease, %error, "cannot renew the judge's lease");
                    retry
                }
            };
        }
        self.release(record);
    }

    /// Writes a renewal; returns why the lease is lost.
    fn renew(&self, record: &Record) -> io::Result<Option<String>> {
        if let Some(why) = self.successor(record.epoch)? {
            return Ok(Some(why));
        }
        // What a holder of an earlier epoch wrote late is overwritten.
        self.file.write(record)?;
        Ok(None)
    }

    /// The holder of a later epoch.
    fn successor(&self, epoch: u64) -> io::Result<Option<String>> {
        let found = self.file.read()?.and_then(|bytes| Record::parse(&bytes));
        if let Some(later) = found.filter(|found| found.epoch > epoch) {
            return Ok(Some(format!("judge {:?} took over (epoch {} after {epoch})", later.name, later.epoch)));
        }
        let claimed = self.file.highest_claim()?;
        Ok((claimed > epoch).then(|| format!("another judge takes over (epoch {claimed} after {epoch})")))
    }

    fn lose(&self, why: String) {
        self.state.send_replace(LeaseState::Lost(why));
    }

    /// Gives the lease back, unless another judge has it.
    fn release(&self, mut record: Record) {
        record.released = true;
        record.renewal += 1;
        if let Err(error) = self.renew(&record) {
            tracing::warn!(lease = %self.file.path().display(), %error, "cannot give back the judge's lease");
        }
    }
}
