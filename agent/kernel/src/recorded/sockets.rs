//! Parses the recorded list of TCP sockets; [`super::write::tcp_sockets`] defines its format.

use crate::TcpSocket;
use serde_json::{Map, Value};
use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Component, Path};
use std::time::Duration;

/// Sockets; rows without both addresses are skipped. Cgroups are directories below `root`.
pub fn tcp(rows: &[Map<String, Value>], root: &Path) -> Vec<TcpSocket> {
    let socket = |(n, row): (usize, &Map<String, Value>)| {
        let end = |key: &str| row.get(key)?.as_str()?.parse::<SocketAddr>().ok();
        let number = |key: &str| row.get(key)?.as_u64();
        let group = row.get("cgroup").and_then(Value::as_str).map(Path::new);
        let below = |path: &&Path| path.components().all(|part| matches!(part, Component::Normal(_)));
        let inode = |path: &Path| std::fs::metadata(root.join(path)).ok().map(|meta| meta.ino());
        Some(TcpSocket {
            cookie: n as u64 + 1,
            local: end("local")?,
            remote: end("remote")?,
            cgroup: group.filter(below).and_then(inode),
            transferred: number("acked").zip(number("received")).map(Into::into),
            rtt: number("rtt_us").map(Duration::from_micros),
        })
    };
    rows.iter().enumerate().filter_map(socket).collect()
}
