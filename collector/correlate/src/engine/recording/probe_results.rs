//! Reads `probes.csv.gz`: results of probes in the order in which they were known.

use super::error::RecordingError;
use super::optional_table::{Table, TimedUpdate, number, number_if_known, port, time_ns};
use crate::model::routes::update::{FlowName, ProbeTransport, RouteUpdate};
use std::path::Path;

const COLUMNS: [&str; 9] = ["tick_ns", "src", "src_port", "dst", "dst_port", "udp_sport", "rtt_ns", "prio", "turn_ns"];
/// After this time, by the recording's clock, a probe without an answer is lost.
const TIME_OUT_NS: i64 = 10_000_000;
/// Priority of the probes that share queues with data. Copies in other priorities are sent at the same times.
const OF_DATA: &str = "3";

/// The rows in order of time; none if there is no such file.
///
/// # Errors
/// [`RecordingError`] if the file cannot be read.
pub(super) fn open(
    dir: &Path,
    stretch: i64,
) -> Result<impl FnMut() -> Result<Option<TimedUpdate>, RecordingError> + use<>, RecordingError> {
    let mut table = Table::open(dir, "probes.csv.gz", COLUMNS)?;
    Ok(move || {
        loop {
            let Some(table) = table.as_mut() else { return Ok(None) };
            match table.next(|cells| row(cells, stretch))? {
                None => return Ok(None),
                Some(None) => {}
                Some(update) => return Ok(update),
            }
        }
    })
}

/// `None` for copies in other priorities.
fn row(
    [at, src, src_port, dst, dst_port, source_port, rtt_ns, priority, turn_ns]: [&str; 9],
    stretch: i64,
) -> Result<Option<TimedUpdate>, String> {
    if priority != OF_DATA {
        return Ok(None);
    }
    let at_ns = time_ns(at, stretch)?;
    let rtt_ns: Option<f64> = number_if_known(rtt_ns)?;
    let sent_ns = if rtt_ns.is_some() { at_ns } else { at_ns - TIME_OUT_NS.saturating_mul(stretch) };
    let flow = FlowName { from: port(src, src_port), to: port(dst, dst_port), source_port: Some(number(source_port)?) };
    let (answer_port, transport) = (flow.source_port, ProbeTransport::Rdma);
    let turn_ns = number_if_known(turn_ns)?;
    Ok(Some((at_ns, RouteUpdate::Probe { flow, answer_port, transport, sent_ns, rtt_ns, turn_ns })))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_probe_without_an_answer_was_sent_before() {
        let cells = |rtt, priority| ["30000000", "3", "1", "4", "1", "64408", rtt, priority, ""];
        let (at_ns, update) = row(cells("", "3"), 1000).unwrap().unwrap();
        let RouteUpdate::Probe { sent_ns, rtt_ns, .. } = update else { panic!("a probe") };
        assert_eq!((at_ns, sent_ns, rtt_ns), (30_000_000_000, 20_000_000_000, None));
        assert_eq!(row(cells("4100", "1"), 1000).unwrap(), None, "no data is in its queue");
        assert_eq!(row(cells("fast", "3"), 1000).unwrap_err(), "\"fast\" is no number");
    }
}
