//! Asks who is connected to ports that get too much, beside the watch: among a million queue pairs that takes a second or two.

use std::collections::BTreeSet;
use std::sync::mpsc::{Receiver, TryRecvError, sync_channel};
use std::time::{Duration, Instant};

use fabriclens_correlate::{HostPort, IncidentTracker, LinkEnd, connected_ports};

use fabriclens_state::AppState;

/// From one question to the next, beside what it took.
const PAUSE: u32 = 20;
const LEAST: Duration = Duration::from_secs(1);

/// One question at a time.
#[derive(Default)]
pub(super) struct Flows {
    asked: Option<Asked>,
    /// When is asked next, if not at once.
    next: Option<Instant>,
}

struct Asked {
    port: usize,
    of: HostPort,
    began: Instant,
    answer: Receiver<BTreeSet<HostPort>>,
}

impl Flows {
    /// Tells what was answered, and asks of the next port as of an instant (Unix ms).
    pub(super) fn round(&mut self, state: &AppState, watch: &mut IncidentTracker, now_ms: i64) {
        if let Some(asked) = &self.asked {
            let found = match asked.answer.try_recv() {
                Err(TryRecvError::Empty) => return,
                // Who could not be asked is not asked again.
                answer => answer.unwrap_or_default(),
            };
            // It may have left meanwhile, and its number be another's.
            if at(watch, &asked.of) == Some(asked.port) {
                let others = found.iter().filter_map(|other| at(watch, other)).collect();
                watch.set_peers(asked.port, others);
            }
            self.next = Some(Instant::now() + (asked.began.elapsed() * PAUSE).max(LEAST));
            self.asked = None;
        }
        if self.next.is_some_and(|next| Instant::now() < next) {
            return;
        }
        let Some(port) = watch.next_port_without_peers() else { return };
        let LinkEnd { node, port: name } = &watch.fabric().ports.list[port].end;
        let of = (watch.fabric().topology.nodes[*node].name.clone(), name.clone());
        let (tell, answer) = sync_channel(1);
        let (data, to) = (state.data.clone(), of.clone());
        let ask = move || match connected_ports(data.reader(), &to, now_ms) {
            // The collector may have stopped.
            Ok(found) => _ = tell.send(found),
            Err(error) => tracing::debug!(host = to.0, port = to.1, %error, "cannot ask who is connected"),
        };
        match std::thread::Builder::new().name("connected".to_owned()).spawn(ask) {
            Ok(_) => self.asked = Some(Asked { port, of, began: Instant::now(), answer }),
            Err(error) => {
                tracing::debug!(%error, "no thread to ask who is connected");
                self.next = Some(Instant::now() + LEAST);
            }
        }
    }
}

fn at(watch: &IncidentTracker, (host, port): &HostPort) -> Option<usize> {
    let fabric = watch.fabric();
    fabric.ports.at(&LinkEnd { node: fabric.topology.node(host)?, port: port.clone() })
}
