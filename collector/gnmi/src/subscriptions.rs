//! What is asked of each kind of target: one row for each stream. Streams are separate calls on one connection, because a
//! target that lacks one path refuses the whole call.

use std::time::Duration;

use fabriclens_config::GnmiKind;

use crate::leaf::Dialect;
use crate::path::parse;
use crate::proto::{Encoding, Mode, Path, Request, SubscribeRequest, Subscription, SubscriptionList, SubscriptionMode};

/// A stream of values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stream {
    /// Name in logs and metrics.
    pub name: &'static str,
    /// Database of SONiC; empty for OpenConfig.
    pub target: &'static str,
    /// Paths.
    pub paths: &'static [&'static str],
    /// When values are sent.
    pub pace: Pace,
    /// How paths and values are read.
    pub dialect: Dialect,
}

/// When values of a stream are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// Every interval of the target, but not more often than this.
    Sample(Duration),
    /// At each change.
    OnChange,
}

/// As fast as the target is configured.
const FAST: Pace = Pace::Sample(Duration::ZERO);
/// SONiC reads queues every 10 s, and clears watermarks once a minute.
const QUEUES: Pace = Pace::Sample(Duration::from_secs(10));
const SLOW: Pace = Pace::Sample(Duration::from_secs(30));
const WATERMARKS: Pace = Pace::Sample(Duration::from_secs(60));

const fn table(name: &'static str, target: &'static str, paths: &'static [&'static str], pace: Pace) -> Stream {
    Stream { name, target, paths, pace, dialect: Dialect::SonicTable }
}

const fn model(name: &'static str, paths: &'static [&'static str], pace: Pace) -> Stream {
    Stream { name, target: "", paths, pace, dialect: Dialect::OpenConfig }
}

const SONIC: &[Stream] = &[
    table("ports", "COUNTERS_DB", &["COUNTERS/Ethernet*"], FAST),
    table("watchdog", "COUNTERS_DB", &["COUNTERS/Ethernet*/Pfcwd"], FAST),
    table("queues", "COUNTERS_DB", &["COUNTERS/Ethernet*/Queues"], QUEUES),
    table("queue_watermarks", "COUNTERS_DB", &["PERIODIC_WATERMARKS/Ethernet*/Queues"], WATERMARKS),
    table("priority_group_watermarks", "COUNTERS_DB", &["PERIODIC_WATERMARKS/Ethernet*/PriorityGroups"], WATERMARKS),
    table("state", "APPL_DB", &["PORT_TABLE"], QUEUES),
    table("lldp", "APPL_DB", &["LLDP_ENTRY_TABLE"], SLOW),
    // The heartbeat shows that the stream is alive.
    table("events", "EVENTS", &["all[heartbeat=5]"], Pace::OnChange),
];

const INTERFACES: Stream = model("interfaces", &["/interfaces/interface[name=*]/state/counters"], FAST);
const STATE: Stream = model("state", &["/interfaces/interface[name=*]/state/oper-status"], QUEUES);
const CHANGES: Stream = model("changes", &["/interfaces/interface[name=*]/state/oper-status"], Pace::OnChange);
const QOS: Stream =
    model("queues", &["/qos/interfaces/interface[interface-id=*]/output/queues/queue[name=*]/state"], FAST);
const LLDP: Stream = model("lldp", &["/lldp/interfaces/interface[name=*]/neighbors/neighbor[id=*]/state"], SLOW);
const OPENCONFIG: &[Stream] = &[
    INTERFACES,
    STATE,
    CHANGES,
    model("ethernet", &["/interfaces/interface[name=*]/ethernet/state/counters"], FAST),
    QOS,
    LLDP,
];

const CUMULUS: &[Stream] = &[
    INTERFACES,
    STATE,
    CHANGES,
    model("pfc", &["/qos/interfaces/interface[interface-id=*]/state/switch-priority[priority=*]/counters"], FAST),
    QOS,
    LLDP,
    // Before and since 5.15.
    model("phy", &["/interfaces/interface[name=*]/ethernet/phy/state"], SLOW),
    model("ber", &["/interfaces/interface[name=*]/phy/ber/state"], SLOW),
];

/// Streams of a kind of target.
pub fn streams(kind: GnmiKind) -> &'static [Stream] {
    match kind {
        GnmiKind::Sonic => SONIC,
        GnmiKind::OpenConfig => OPENCONFIG,
        GnmiKind::Cumulus => CUMULUS,
    }
}

impl Stream {
    /// Time between samples of a target with this interval; `None` if values come at changes.
    pub fn interval(&self, target: Duration) -> Option<Duration> {
        match self.pace {
            Pace::Sample(least) => Some(target.max(least)),
            Pace::OnChange => None,
        }
    }

    /// The request that opens it.
    pub(crate) fn request(&self, kind: GnmiKind, interval: Duration) -> SubscribeRequest {
        let (mode, ns) = match self.interval(interval) {
            Some(interval) => (SubscriptionMode::Sample, u64::try_from(interval.as_nanos()).unwrap_or(u64::MAX)),
            None => (SubscriptionMode::OnChange, 0),
        };
        let subscription = |path: &&str| Subscription {
            path: Some(parse(path)),
            mode: mode.into(),
            sample_interval: ns,
            ..Subscription::default()
        };
        // Cumulus offers JSON and protobuf, not JSON_IETF.
        let encoding = if kind == GnmiKind::Cumulus { Encoding::Json } else { Encoding::JsonIetf };
        let list = SubscriptionList {
            prefix: (!self.target.is_empty()).then(|| Path { target: self.target.to_owned(), ..Path::default() }),
            subscription: self.paths.iter().map(subscription).collect(),
            mode: Mode::Stream.into(),
            encoding: encoding.into(),
            updates_only: false,
        };
        SubscribeRequest { request: Some(Request::Subscribe(list)) }
    }
}
