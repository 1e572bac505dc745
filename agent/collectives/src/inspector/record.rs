//! One JSON object of a file.
//!
//! Up to format v4.2 each record has its `header` and `metadata`. From v4.3 on, these stand in a `dump_stats` object, and the records
//! after it belong to it.

use super::objects::split;
use super::{Observation, SizeClass, label};
use crate::model::CommunicatorId;
use crate::ras::{hexadecimal, is_operation};
use serde::Deserialize;
use std::sync::Arc;

/// Communicator, rank and process of records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Context {
    communicator: Arc<str>,
    member: Arc<str>,
    host: Arc<str>,
    pid: Option<u32>,
}

#[derive(Deserialize)]
struct Object {
    header: Option<Header>,
    metadata: Option<Metadata>,
    dump_stats: Option<serde::de::IgnoredAny>,
    /// Progress of one transfer of the network, from v4.3 on.
    proxy_trace: Option<serde::de::IgnoredAny>,
    coll_perf: Option<Performance>,
    p2p_perf: Option<Performance>,
}

#[derive(Deserialize)]
struct Header {
    id: Option<String>,
    rank: Option<u32>,
}

#[derive(Deserialize)]
struct Metadata {
    hostname: Option<String>,
    pid: Option<u32>,
}

#[derive(Deserialize)]
struct Performance {
    #[serde(alias = "p2p")]
    coll: Option<String>,
    #[serde(alias = "p2p_msg_size_bytes")]
    coll_msg_size_bytes: Option<u64>,
    #[serde(alias = "p2p_exec_time_us")]
    coll_exec_time_us: Option<f64>,
    #[serde(alias = "p2p_busbw_gbs")]
    coll_busbw_gbs: Option<f64>,
}

/// What an object says.
enum Record {
    /// An operation.
    Operation(Observation),
    /// Something else of the plugin.
    Other,
    /// A record without communicator, or not of the plugin.
    Unknown,
}

/// Adds the observations of objects that begin at the begin of a line; returns how many bytes need not be read again, and how many
/// objects were lost.
pub fn records(bytes: &[u8], context: &mut Option<Context>, out: &mut Vec<Observation>) -> (usize, u64) {
    let found = split(bytes);
    let mut lost = found.lost;
    for object in found.objects {
        match parse(object, context) {
            Record::Operation(observation) => out.push(observation),
            Record::Other => {}
            Record::Unknown => lost += 1,
        }
    }
    (found.consumed, lost)
}

/// Parses an object; `context` is that of the objects before, and is replaced where this one has its own.
fn parse(object: &[u8], context: &mut Option<Context>) -> Record {
    let Ok(object) = serde_json::from_slice::<Object>(object) else { return Record::Unknown };
    if object.header.is_some() {
        *context = object.header.and_then(|header| new_context(header, object.metadata));
    }
    let Some(performance) = object.coll_perf.or(object.p2p_perf) else {
        let is_known = object.dump_stats.is_some() || object.proxy_trace.is_some();
        return if is_known { Record::Other } else { Record::Unknown };
    };
    context.as_ref().and_then(|context| observation(context, performance)).map_or(Record::Unknown, Record::Operation)
}

fn new_context(header: Header, metadata: Option<Metadata>) -> Option<Context> {
    let hash = hexadecimal(&header.id?)?;
    let metadata = metadata.unwrap_or(Metadata { hostname: None, pid: None });
    Some(Context {
        communicator: CommunicatorId { hash, secondary: 0 }.to_string().into(),
        member: header.rank?.to_string().into(),
        host: metadata.hostname.and_then(|host| label(&host)).unwrap_or_default(),
        pid: metadata.pid,
    })
}

fn observation(context: &Context, performance: Performance) -> Option<Observation> {
    let Context { communicator, member, host, pid } = context.clone();
    let operation = performance.coll.filter(|name| is_operation(name))?;
    let seconds =
        performance.coll_exec_time_us.map(|time| time / 1e6).filter(|time| time.is_finite() && *time >= 0.0)?;
    let bandwidth = performance.coll_busbw_gbs.map(|bandwidth| bandwidth * 1e9);
    Some(Observation {
        communicator,
        host,
        pid,
        slurm_job: None,
        member,
        operation: operation.into(),
        size: SizeClass::of(performance.coll_msg_size_bytes?),
        seconds,
        bus_bandwidth: bandwidth.filter(|bandwidth| bandwidth.is_finite() && *bandwidth > 0.0),
        is_mean: false,
        most_members: None,
    })
}
