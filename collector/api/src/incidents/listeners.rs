//! Open event streams by caller: each holds a connection, so that one caller may not take them all.

use std::collections::HashMap;
use std::sync::Arc;

use fabriclens_base::Sender;
use fabriclens_server::auth::Caller;
use parking_lot::Mutex;

/// Most open event streams.
const MOST: usize = 256;
/// Most open event streams of one caller.
const MOST_OF_ONE: usize = MOST / 4;

/// Whether a caller may speak for any host, and its name.
type Key = (bool, String);

fn sender((is_unbound, name): &Key) -> Sender<'_> {
    Sender::of(is_unbound.then_some(name))
}

/// Number of open event streams of each caller.
#[derive(Default)]
pub(crate) struct Listeners {
    open: Mutex<HashMap<Key, usize>>,
}

/// Permission to keep one event stream open, returned on drop.
pub(super) struct Permit {
    of: Arc<Listeners>,
    key: Key,
}

impl Listeners {
    /// A permit for one more stream of a caller.
    ///
    /// # Errors
    /// What is exhausted, as text.
    pub(super) fn take(self: &Arc<Self>, caller: &Caller) -> Result<Permit, &'static str> {
        let key = caller.unbound().map_or_else(|| (false, caller.sender()), |name| (true, name));
        let mut open = self.open.lock();
        if open.get(&key).is_some_and(|own| *own >= MOST_OF_ONE) {
            return Err("too many open event streams of one caller; close some, or poll the list instead");
        }
        if !sender(&key).may_keep(MOST, open.iter().map(|(key, streams)| (sender(key), *streams)), 1) {
            return Err("too many open event streams; poll the list instead");
        }
        *open.entry(key.clone()).or_default() += 1;
        Ok(Permit { of: self.clone(), key })
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut open = self.of.open.lock();
        let left = open.get(&self.key).map_or(0, |streams| streams.saturating_sub(1));
        if left == 0 {
            open.remove(&self.key);
        } else {
            open.insert(self.key.clone(), left);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fabriclens_config::Roles;
    use fabriclens_server::auth::Hosts;

    /// A caller by name, or by address without one.
    fn caller(name: Option<&str>, address: [u8; 4], hosts: Hosts) -> Caller {
        Caller { address: address.into(), name: name.map(Into::into), roles: Roles::default(), hosts }
    }

    #[test]
    fn one_caller_leaves_streams_to_others() {
        let listeners = Arc::new(Listeners::default());
        let fill = |caller: &Caller| -> Vec<Permit> { std::iter::from_fn(|| listeners.take(caller).ok()).collect() };
        let at = |last| caller(None, [10, 0, 0, last], Hosts::Any);
        let first = fill(&at(1));
        assert_eq!((first.len(), fill(&at(1)).len()), (64, 0), "an address has a quarter");
        assert!(listeners.take(&at(1)).err().unwrap().contains("of one caller"));
        let ann = fill(&caller(Some("ann"), [10, 0, 0, 9], Hosts::Any));
        let others: usize = ann.len() + fill(&at(2)).len();
        assert_eq!(others, 128, "three quarters are open to callers that are bound to no host");
        drop(first);
        assert_eq!((fill(&at(1)).len(), ann.len()), (64, 64), "closed streams make room");
        let bound = |host: &str| caller(Some(host), [10, 0, 0, 3], Hosts::Only(vec![host.to_owned()].into()));
        let held: Vec<Vec<Permit>> = ["h1", "h2", "h3", "h4"].map(|host| fill(&bound(host))).into();
        assert_eq!(held.iter().map(Vec::len).collect::<Vec<_>>(), [64, 64, 64, 0], "no more than all");
        drop((ann, held));
        assert!(listeners.open.lock().is_empty(), "callers without a stream are forgotten");
    }
}
