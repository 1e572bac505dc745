//! Queries the peers of overloaded ports.

use std::collections::BTreeSet;

use fabriclens_correlate::{HostPort, IncidentTracker, connected_ports};

use fabriclens_state::AppState;

use crate::background_query::BackgroundQuery;

/// The query of the peers of a port, one port at a time: its index and its name.
#[derive(Default)]
pub(super) struct PeerQueries(BackgroundQuery<(usize, HostPort), BTreeSet<HostPort>>);

impl PeerQueries {
    /// Applies the finished query, and starts one for the next port at an instant (Unix ms).
    pub(super) fn round(&mut self, state: &AppState, tracker: &mut IncidentTracker, now_ms: i64) {
        if let Some(((port, of), found)) = self.0.finished() {
            // The port may have been removed and its index reused.
            if tracker.fabric().port_at(&of.0, &of.1) == Some(port) {
                // A port whose query failed is not queried again.
                let others =
                    found.iter().flatten().filter_map(|(host, port)| tracker.fabric().port_at(host, port)).collect();
                tracker.set_peers(port, others);
            }
        }
        if !self.0.is_free() {
            return;
        }
        let Some(port) = tracker.next_port_without_peers() else { return };
        let of = tracker.fabric().port_name(port);
        let (data, to) = (state.data.clone(), of.clone());
        self.0.start("connected", (port, of), move || {
            let found = connected_ports(data.reader(), &to, now_ms);
            found
                .inspect_err(
                    |error| tracing::debug!(host = to.0, port = to.1, %error, "cannot query the peers of a port"),
                )
                .ok()
        });
    }
}
