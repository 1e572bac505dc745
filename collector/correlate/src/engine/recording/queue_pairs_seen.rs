//! Reads `flows_seen.csv.gz`: connected queue pairs as the agent of each end sees them.

use super::error::RecordingError;
use super::optional_table::{Table, TimedUpdate, number, number_if_known, port, time_ns};
use crate::model::routes::update::{FlowName, RouteUpdate};
use std::path::Path;

const COLUMNS: [&str; 8] = ["open_ns", "close_ns", "node", "port", "peer_node", "peer_port", "qpn", "udp_sport"];

/// Begins and ends of queue pairs in order of time; none if there is no such file. All are kept in memory, because they are
/// sorted by their begin.
///
/// # Errors
/// [`RecordingError`] if the file cannot be read, or names the line and what is wrong.
pub(super) fn open(
    dir: &Path,
    stretch: i64,
) -> Result<impl FnMut() -> Result<Option<TimedUpdate>, RecordingError> + use<>, RecordingError> {
    let mut all: Vec<TimedUpdate> = Vec::new();
    if let Some(mut table) = Table::open(dir, "flows_seen.csv.gz", COLUMNS)? {
        while let Some([opened, closed]) = table.next(|cells| row(cells, stretch))? {
            all.extend(opened.into_iter().chain(closed));
        }
    }
    all.sort_by_key(|(at_ns, _)| *at_ns);
    let mut all = all.into_iter();
    Ok(move || Ok(all.next()))
}

/// Its begin, and its end if it has one.
fn row(
    [open_ns, close_ns, node, own, peer_node, peer, qpn, source_port]: [&str; 8],
    stretch: i64,
) -> Result<[Option<TimedUpdate>; 2], String> {
    let (from, to, number) = (port(node, own), port(peer_node, peer), number(qpn)?);
    let closed = if close_ns.is_empty() { None } else { Some(time_ns(close_ns, stretch)?) };
    let closed = closed.map(|at_ns| (at_ns, RouteUpdate::Closed { port: from.clone(), number }));
    let flow = FlowName { from, to, source_port: number_if_known(source_port)? };
    Ok([Some((time_ns(open_ns, stretch)?, RouteUpdate::Connected { flow, number })), closed])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn source_port_and_end_may_be_unknown() {
        let cells = |close, sport| ["0", close, "0", "1", "7", "2", "268", sport];
        let [opened, closed] = row(cells("", ""), 1).unwrap();
        let Some((0, RouteUpdate::Connected { flow, number: 268 })) = opened else { panic!("{opened:?}") };
        assert_eq!((flow.source_port, closed), (None, None));
        let [_, closed] = row(cells("5", "53042"), 1000).unwrap();
        assert_eq!(closed.unwrap().0, 5000);
        assert_eq!(row(cells("", "x"), 1).unwrap_err(), "\"x\" is no number");
    }
}
