//! Which sender tells the ports of each host or switch, so that the topology can bound what one sender adds to it. Begins anew
//! at each start.

use std::collections::HashMap;
use std::sync::Arc;

use fabriclens_base::{Sender, SenderUsage, host_name};
use parking_lot::Mutex;

/// Most hosts that are remembered; of one sender bound to no host, see [`SenderUsage::room`].
const HOSTS: usize = 1 << 18;

/// See the module. Clones share one table.
#[derive(Clone, Default)]
pub struct HostSenders(Arc<Mutex<Table>>);

/// By host: the name of its sender, `None` if that is bound to the host.
#[derive(Default)]
struct Table {
    hosts: HashMap<String, Option<Arc<str>>>,
    usage: SenderUsage,
}

impl HostSenders {
    /// Records that a sender tells ports of a host. Of senders bound to no host the first counts; one that is bound to this host
    /// takes its place.
    pub fn tells(&self, sender: Sender<'_>, host: &str) {
        let (mut table, host) = (self.0.lock(), host_name::key(host));
        match table.hosts.get(&host) {
            None if table.usage.room(sender, HOSTS) == 0 => return,
            None => {}
            Some(Some(first)) if sender == Sender::Bound => {
                let first = first.clone();
                table.usage.remove(Sender::Unbound(&first), 1);
            }
            Some(_) => return,
        }
        let name = table.usage.add(sender, 1);
        table.hosts.insert(host, name);
    }

    /// Name of the sender of a host; `None` if it is bound to the host. Hosts that are not remembered have one sender together,
    /// which has no name.
    pub fn of(&self, host: &str) -> Option<Arc<str>> {
        self.0.lock().hosts.get(&host_name::key(host)).cloned().unwrap_or_else(|| Some("".into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_sender_counts_unless_another_is_bound_to_the_host() {
        let senders = HostSenders::default();
        let of = |host| senders.of(host).map(|name| name.to_string());
        assert_eq!(of("gpu-1"), Some(String::new()));
        senders.tells(Sender::Unbound("gateway"), "gpu-1");
        senders.tells(Sender::Unbound("other"), "GPU-1");
        assert_eq!(of("gpu-1").as_deref(), Some("gateway"));
        senders.tells(Sender::Bound, "gpu-1");
        senders.tells(Sender::Unbound("gateway"), "gpu-1");
        assert_eq!(of("GPU-1"), None);
        assert_eq!(senders.0.lock().usage.all(), 1);
    }

    #[test]
    fn one_sender_cannot_fill_the_table() {
        let senders = HostSenders::default();
        (0..HOSTS).for_each(|n| senders.tells(Sender::Unbound("a"), &n.to_string()));
        assert_eq!(senders.0.lock().hosts.len(), HOSTS / 4);
        senders.tells(Sender::Unbound("b"), "other");
        assert_eq!(senders.of("other").as_deref(), Some("b"));
    }
}
