//! Counter names repeat at every sample: keep each once. Used by both implementations of `Calls`.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

/// More distinct names than all drivers together have; beyond it names are allocated each time.
const MAX_NAMES: usize = 1 << 16;

/// A bounded set of shared names.
#[derive(Debug, Default)]
pub struct Interner(Mutex<HashSet<Arc<str>>>);

impl Interner {
    /// The shared copy of `name`.
    pub fn get(&self, name: &str) -> Arc<str> {
        // A panic elsewhere cannot leave a half-made set: every insert is one call.
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(name) = known.get(name) {
            return Arc::clone(name);
        }
        let name: Arc<str> = name.into();
        if known.len() < MAX_NAMES {
            known.insert(Arc::clone(&name));
        }
        name
    }
}
