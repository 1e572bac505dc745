//! Interns counter names, which repeat in every sample and on every device. Used by both implementations of
//! `KernelCalls`.

use std::collections::HashSet;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

/// Limit of interned names, above the total of all drivers. Further names are allocated each time.
const MAX_NAMES: usize = 1 << 16;

static NAMES: LazyLock<Mutex<HashSet<Arc<str>>>> = LazyLock::new(Mutex::default);

/// The shared copy of `name`.
pub fn shared(name: &str) -> Arc<str> {
    // A panic cannot leave the set inconsistent: each insert is one call.
    let mut known = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(name) = known.get(name) {
        return Arc::clone(name);
    }
    let name: Arc<str> = name.into();
    if known.len() < MAX_NAMES {
        known.insert(Arc::clone(&name));
    }
    name
}
