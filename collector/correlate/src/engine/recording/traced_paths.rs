//! Reads `paths.csv.gz`: the path of each flow, with a row when it is first known and each time that it changes. A flow with a UDP source
//! port was traced; one without follows from the forwarding tables (InfiniBand).

use super::error::RecordingError;
use super::optional_table::{Table, TimedUpdate, number, port, time_ns};
use crate::model::routes::path::PathSource;
use crate::model::routes::update::{FlowName, PortName, RouteUpdate};
use std::path::Path;

const COLUMNS: [&str; 7] = ["traced_ns", "src", "src_port", "dst", "dst_port", "udp_sport", "hops"];

/// The rows in order of time; none if there is no such file.
///
/// # Errors
/// [`RecordingError`] if the file cannot be read.
pub(super) fn open(
    dir: &Path,
    stretch: i64,
) -> Result<impl FnMut() -> Result<Option<TimedUpdate>, RecordingError> + use<>, RecordingError> {
    let mut table = Table::open(dir, "paths.csv.gz", COLUMNS)?;
    Ok(move || table.as_mut().map_or(Ok(None), |table| table.next(|cells| row(cells, stretch))))
}

fn row([at, src, src_port, dst, dst_port, source_port, hops]: [&str; 7], stretch: i64) -> Result<TimedUpdate, String> {
    let hop = |text: &str| -> Result<PortName, String> {
        let (node, name) = text.split_once(':').ok_or_else(|| format!("{text:?} is no node:port"))?;
        Ok(port(node, name))
    };
    let hops = hops.split_whitespace().map(hop).collect::<Result<Vec<_>, _>>()?;
    let (source_port, source) = match source_port {
        "" => (None, PathSource::ForwardingTable),
        _ => (Some(number(source_port)?), PathSource::Traced),
    };
    let flow = FlowName { from: port(src, src_port), to: port(dst, dst_port), source_port };
    Ok((time_ns(at, stretch)?, RouteUpdate::Path { flow, hops, source }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hops_are_node_and_port() {
        let (at_ns, update) = row(["50", "0", "1", "4", "1", "50001", "0:1 16:9"], 1000).unwrap();
        let RouteUpdate::Path { flow, hops, .. } = update else { panic!("a path") };
        assert_eq!((at_ns, flow.source_port, hops), (50_000, Some(50_001), vec![port("0", "1"), port("16", "9")]));
        let (_, by_tables) = row(["50", "0", "1", "4", "1", "", "0:1 16:9"], 1).unwrap();
        assert!(
            matches!(by_tables, RouteUpdate::Path { source: PathSource::ForwardingTable, flow, .. } if flow.source_port.is_none())
        );
        assert_eq!(row(["50", "0", "1", "4", "1", "50001", "0-1"], 1).unwrap_err(), "\"0-1\" is no node:port");
        assert_eq!(row(["50", "0", "1", "4", "1", "70000", ""], 1).unwrap_err(), "\"70000\" is no number");
    }
}
