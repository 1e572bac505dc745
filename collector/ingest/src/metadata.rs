//! Which metadata of metrics are kept: what senders say of a metric, within bounds for one text, one sender and all. The
//! collector knows the metrics of agents itself, so no sender describes them.

use std::collections::HashMap;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use fabriclens_catalog::{Metric, MetricKind, metrics};
use fabriclens_model::names::{check_name, is_reserved};
use fabriclens_server::auth::{Caller, Hosts};
use fabriclens_store::{METADATA_BYTES, Metadata, Store, StoreError};
use fabriclens_wire::decode::{Meta, cut};
use parking_lot::Mutex;

/// Bytes of each text, beyond which descriptions are cut.
const TEXT: usize = 1024;
/// Bytes that one sender may add.
const SENDER_BYTES: usize = METADATA_BYTES / 4;
/// Bytes that one request may add or change; the sender describes the others again. Samples wait for the write to the disk.
const REQUEST_BYTES: usize = 512 << 10;
/// Interval at which known entries may change: each change is a write to the disk, and two senders that disagree would
/// cause one with every request.
const CHANGE_INTERVAL: Duration = Duration::from_secs(10);

/// What the collector says of the metrics of agents, by Prometheus name.
static CATALOG: LazyLock<HashMap<String, Meta>> =
    LazyLock::new(|| metrics::all().map(of_catalog).map(|meta| (meta.name.clone(), meta)).collect());

/// Decides which metadata are kept.
#[derive(Default)]
pub(super) struct MetadataGate(Mutex<State>);

#[derive(Default)]
struct State {
    /// Bytes that each sender added since the start.
    added: HashMap<String, usize>,
    /// When known entries last changed.
    changed: Option<Instant>,
}

/// Metadata of a metric of the catalog.
pub(super) fn of_catalog(metric: &'static Metric) -> Meta {
    let kind = if metric.kind == MetricKind::Counter { "counter" } else { "gauge" };
    let (unit, help) = (metric.unit.ucum().to_owned(), metric.help.to_owned());
    Meta { name: metric.prometheus_name(), kind, unit, help }
}

impl MetadataGate {
    /// Stores what a sender says of metrics, those of reserved names only if it may write them. A sender that is bound to a
    /// host does not change what is known, because others may send the metric as well.
    ///
    /// # Errors
    /// [`StoreError::Metadata`].
    pub(super) fn store(
        &self,
        store: &Store,
        caller: &Caller,
        metadata: &[Meta],
        reserved: bool,
    ) -> Result<(), StoreError> {
        let mut state = self.0.lock();
        let State { added, changed } = &mut *state;
        let known = store.metadata();
        let may_change = caller.hosts == Hosts::Any && changed.is_none_or(|at| at.elapsed() >= CHANGE_INTERVAL);
        let (mut all, before) = (store.metadata_bytes(), added.get(&caller.sender()).copied().unwrap_or(0));
        let (mut of_sender, mut of_request, mut changes) = (before, 0, false);
        let mut entries: HashMap<&str, Metadata> = HashMap::new();
        for told in metadata {
            let in_catalog = CATALOG.get(&told.name);
            let name = &*told.name;
            if check_name(name).is_err() || told.unit.len() > TEXT || !reserved && is_reserved(name) {
                continue;
            }
            let entry = entry_of(in_catalog.unwrap_or(told));
            match known.get(name) {
                Some(before) if *before == entry => continue,
                Some(_) if !may_change && in_catalog.is_none() => continue,
                before => {
                    let bytes = entry.bytes(name).saturating_sub(before.map_or(0, |before| before.bytes(name)));
                    let written = of_request + entry.bytes(name);
                    if all + bytes > METADATA_BYTES || of_sender + bytes > SENDER_BYTES || written > REQUEST_BYTES {
                        continue;
                    }
                    of_request = written;
                    changes |= before.is_some() && in_catalog.is_none();
                    all += bytes;
                    of_sender += bytes;
                }
            }
            entries.insert(name, entry);
        }
        if entries.is_empty() {
            return Ok(());
        }
        if changes {
            *changed = Some(Instant::now());
        }
        if of_sender > before {
            added.insert(caller.sender(), of_sender);
        }
        store.put_metadata(entries)
    }
}

/// An entry without control characters, which would end up in other programs' terminals and pages.
fn entry_of(meta: &Meta) -> Metadata {
    let plain = |text: &str| text.chars().filter(|c| !c.is_control() || *c == '\n').collect::<String>();
    Metadata { kind: meta.kind.to_owned(), unit: plain(&meta.unit), help: plain(cut(&meta.help, TEXT)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fabriclens_store::Options;

    fn told(name: &str, help: &str) -> Meta {
        Meta { name: name.to_owned(), kind: "gauge", unit: "s".to_owned(), help: help.to_owned() }
    }

    fn caller(name: &str, hosts: Hosts) -> Caller {
        Caller { name: Some(name.into()), hosts, ..Caller::anonymous([10, 0, 0, 1].into()) }
    }

    /// Bytes of all entries after a sender described many metrics.
    fn filled(store: &Store, gate: &MetadataGate, name: &str) -> usize {
        let many: Vec<Meta> = (0..2500).map(|i| told(&format!("{name}_{i}"), &"x".repeat(2 * TEXT))).collect();
        // A request is bounded, too.
        for _ in 0..8 {
            let before = store.metadata_bytes();
            gate.store(store, &caller(name, Hosts::Any), &many, false).unwrap();
            assert!(store.metadata_bytes() - before <= REQUEST_BYTES);
        }
        store.metadata_bytes()
    }

    #[test]
    fn a_sender_and_all_senders_take_their_share() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path(), Options::default()).unwrap();
        let gate = MetadataGate::default();
        let first = filled(&store, &gate, "a");
        assert!(first <= SENDER_BYTES && first > SENDER_BYTES - 2 * TEXT, "{first}");
        assert_eq!(filled(&store, &gate, "a"), first, "its share is used up");
        let all = ["b", "c", "d", "e", "f"].map(|name| filled(&store, &gate, name))[4];
        assert!(all <= METADATA_BYTES && all > METADATA_BYTES - 8 * TEXT, "{all}");
        assert_eq!(store.remove_metadata(Some("a_1")).unwrap(), 1);
        assert!(store.remove_metadata(None).unwrap() > 1000 && store.metadata_bytes() == 0);
    }

    #[test]
    fn hosts_change_nothing_that_is_known() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path(), Options::default()).unwrap();
        let gate = MetadataGate::default();
        let host = caller("h", Hosts::Only(["h".to_owned()].into()));
        let any = caller("prometheus", Hosts::Any);
        let help = |name: &str| store.metadata().get(name).map(|m| m.help.clone());
        for (sender, text, wanted) in
            [(&any, "first", "first"), (&host, "evil", "first"), (&any, "new", "new"), (&any, "newer", "new")]
        {
            gate.store(&store, sender, &[told("m", text)], false).unwrap();
            assert_eq!(help("m").as_deref(), Some(wanted), "{text}");
        }
        let metric = metrics::all().next().unwrap();
        gate.store(&store, &host, &[told(&metric.prometheus_name(), "evil"), told("n", "a\u{1b}[31mb")], false)
            .unwrap();
        assert_eq!(help(&metric.prometheus_name()).as_deref(), Some(metric.help), "the catalog's own");
        assert_eq!(help("n").as_deref(), Some("a[31mb"));
    }
}
