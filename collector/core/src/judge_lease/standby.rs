//! Waits until the lease has no holder, and claims the next epoch.

use std::io;
use std::time::Instant;

use super::file::Record;
use super::{IDENTITY, LeaseState, Shared};

/// What a look at the lease found; a holder is alive while this changes.
#[derive(PartialEq, Eq)]
struct Found {
    /// Bytes of the file; `None` if it is missing or empty.
    content: Option<Vec<u8>>,
    /// The highest claimed epoch; a claim without a record is that of a judge that takes over now.
    claimed: u64,
}

impl Shared {
    /// Waits for the lease; `None` if it is no longer wanted or never can be had.
    pub(super) fn wait(&self) -> Option<Record> {
        let (mut seen, mut since) = (None, Instant::now());
        loop {
            match self.look() {
                Ok(found) => {
                    let is_new = seen.as_ref() != Some(&found);
                    if is_new {
                        since = Instant::now();
                    }
                    let record = found.content.as_deref().and_then(Record::parse);
                    if record.as_ref().is_some_and(|record| !self.is_same_data(record)) {
                        return None;
                    }
                    self.show(record.as_ref());
                    let epoch = found.claimed.max(record.as_ref().map_or(0, |record| record.epoch));
                    // The last holder gave it back, or no judge has had it yet.
                    let free = record.map_or(epoch == 0 && found.content.is_none(), |record| {
                        record.released && found.claimed <= record.epoch
                    });
                    if (free || since.elapsed() >= self.timing.take_over)
                        && let Some(taken) = self.claim(epoch + 1)
                    {
                        return Some(taken);
                    }
                    seen = Some(found);
                }
                Err(error) => {
                    // What cannot be read does not prove that nothing changed.
                    since = Instant::now();
                    tracing::warn!(lease = %self.file.path().display(), %error, "cannot read the judge's lease");
                }
            }
            if !self.pause(self.timing.poll) {
                return None;
            }
        }
    }

    fn look(&self) -> io::Result<Found> {
        Ok(Found { content: self.file.read()?.filter(|bytes| !bytes.is_empty()), claimed: self.file.highest_claim()? })
    }

    /// Takes an epoch; `None` if another process took it or the storage failed.
    fn claim(&self, epoch: u64) -> Option<Record> {
        let claim = || {
            let began = Instant::now();
            if !self.file.claim(epoch)? {
                return Ok(None);
            }
            let record = Record::new(&self.name, self.process, epoch);
            self.file.write(&record)?;
            self.inner.lock().renewed = began;
            Ok::<_, io::Error>(Some(record))
        };
        claim().unwrap_or_else(|error| {
            tracing::warn!(lease = %self.file.path().display(), %error, "cannot take the judge's lease");
            None
        })
    }

    fn show(&self, record: Option<&Record>) {
        let of = record.map(|record| record.name.clone()).unwrap_or_default();
        let state = LeaseState::Standby { of };
        self.state.send_if_modified(|shown| {
            let changed = *shown != state;
            if changed {
                if let Some(record) = record.filter(|record| record.name == self.name && record.process != self.process)
                {
                    let name = &record.name;
                    tracing::warn!(name, "another process with this judge's name held the lease; names should differ");
                }
                *shown = state;
            }
            changed
        });
    }

    /// Whether the holder's data directory is ours, as far as the lease tells.
    fn is_same_data(&self, record: &Record) -> bool {
        let Some(identity) = &record.data else { return true };
        let own = std::fs::read_to_string(self.data.join(IDENTITY));
        if own.as_ref().is_ok_and(|own| own == identity) {
            return true;
        }
        // The file may have been replaced since the lease was written.
        let again = self.file.read().ok().flatten().and_then(|bytes| Record::parse(&bytes));
        if again.is_some_and(|again| again.data != record.data) {
            return true;
        }
        let (dir, name) = (self.data.display(), &record.name);
        self.state.send_replace(LeaseState::Lost(format!(
            "data: {dir} is not the data directory of judge {name:?}, which has the same judge.lease; \
             both must name the same directory on shared storage, or different leases"
        )));
        false
    }
}
