//! How many samples a read may find.

use fabriclens_model::ReadError;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Samples that the threads of a read have found together, and how many they may find.
pub struct SampleLimit {
    found: AtomicUsize,
    most: usize,
}

impl SampleLimit {
    /// At most so many.
    pub fn new(most: usize) -> Self {
        Self { found: AtomicUsize::new(0), most }
    }

    /// Counts samples.
    ///
    /// # Errors
    /// [`ReadError::TooManySamples`].
    pub fn add(&self, samples: usize) -> Result<(), ReadError> {
        if self.found.fetch_add(samples, Ordering::Relaxed) + samples <= self.most {
            return Ok(());
        }
        Err(ReadError::TooManySamples { limit: self.most })
    }
}
