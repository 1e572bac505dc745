//! Removal of jobs by an administrator.

use super::error::RegistryError;
use super::{Registry, Run};
use crate::record::JobKey;

impl Registry {
    /// Deletes all runs of a job, and returns how many. A source that lists it later reports it again.
    ///
    /// # Errors
    /// [`RegistryError::Unknown`], [`RegistryError::Ambiguous`], [`RegistryError::Disk`].
    pub fn remove(&self, key: &JobKey) -> Result<usize, RegistryError> {
        // A stored job that is too large to be shown is deleted by its exact key.
        let key = self.find(key).map_or_else(
            |error| if matches!(error, RegistryError::Unknown(_)) { Ok(key.clone()) } else { Err(error) },
            |job| Ok(job.key()),
        )?;
        let mut jobs = self.jobs();
        let removed = self.storage.remove_job(&mut jobs, &key)?;
        self.storage.commit()?;
        match removed {
            0 => Err(RegistryError::Unknown(key)),
            runs => Ok(runs),
        }
    }

    /// Deletes all runs that only this sender reported, and returns how many.
    ///
    /// # Errors
    /// [`RegistryError::Disk`].
    pub fn remove_sender(&self, sender: &str) -> Result<usize, RegistryError> {
        let only = |_: &JobKey, run: &Run| {
            let charges = run.charges();
            !charges.is_empty() && charges.iter().all(|(of, _)| of == sender)
        };
        let mut jobs = self.jobs();
        let removed = self.storage.remove_all(&mut jobs, only);
        self.storage.commit().map(|()| removed)
    }
}
