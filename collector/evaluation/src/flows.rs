//! Queries the peers of overloaded ports on a separate thread, because among a million queue pairs that takes a second
//! or two.

use std::collections::BTreeSet;
use std::sync::mpsc::{Receiver, TryRecvError, sync_channel};
use std::time::{Duration, Instant};

use fabriclens_correlate::{HostPort, IncidentTracker, LinkEnd, connected_ports};

use fabriclens_state::AppState;

/// Pause between two queries, as a multiple of the duration of the last one, and at least this long.
const PAUSE: u32 = 20;
const LEAST: Duration = Duration::from_secs(1);

/// The query of peers in progress, one at a time.
#[derive(Default)]
pub(super) struct PeerQueries {
    pending: Option<PeerQuery>,
    /// Earliest time of the next query.
    next: Option<Instant>,
}

struct PeerQuery {
    port: usize,
    of: HostPort,
    began: Instant,
    answer: Receiver<BTreeSet<HostPort>>,
}

impl PeerQueries {
    /// Applies the finished query, and starts one for the next port at an instant (Unix ms).
    pub(super) fn round(&mut self, state: &AppState, tracker: &mut IncidentTracker, now_ms: i64) {
        if let Some(pending) = &self.pending {
            let found = match pending.answer.try_recv() {
                Err(TryRecvError::Empty) => return,
                // A port whose query failed is not queried again.
                answer => answer.unwrap_or_default(),
            };
            // The port may have been removed and its index reused.
            if at(tracker, &pending.of) == Some(pending.port) {
                let others = found.iter().filter_map(|other| at(tracker, other)).collect();
                tracker.set_peers(pending.port, others);
            }
            self.next = Some(Instant::now() + (pending.began.elapsed() * PAUSE).max(LEAST));
            self.pending = None;
        }
        if self.next.is_some_and(|next| Instant::now() < next) {
            return;
        }
        let Some(port) = tracker.next_port_without_peers() else { return };
        let LinkEnd { node, port: name } = &tracker.fabric().ports.list[port].end;
        let of = (tracker.fabric().topology.nodes[*node].name.clone(), name.clone());
        let (sender, answer) = sync_channel(1);
        let (data, to) = (state.data.clone(), of.clone());
        let ask = move || match connected_ports(data.reader(), &to, now_ms) {
            // The collector may have stopped.
            Ok(found) => _ = sender.send(found),
            Err(error) => tracing::debug!(host = to.0, port = to.1, %error, "cannot query the peers of a port"),
        };
        match std::thread::Builder::new().name("connected".to_owned()).spawn(ask) {
            Ok(_) => self.pending = Some(PeerQuery { port, of, began: Instant::now(), answer }),
            Err(error) => {
                tracing::debug!(%error, "cannot start a thread to query the peers of a port");
                self.next = Some(Instant::now() + LEAST);
            }
        }
    }
}

fn at(tracker: &IncidentTracker, (host, port): &HostPort) -> Option<usize> {
    let fabric = tracker.fabric();
    fabric.ports.at(&LinkEnd { node: fabric.topology.node(host)?, port: port.clone() })
}
