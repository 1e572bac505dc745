//! Translates series under foreign names (switches, exporters) into catalog metrics, before ownership is checked and before
//! anything is stored. The names are rows of `fabriclens-foreign`; here series become columns of a host and its port.

mod context;
mod names;
#[cfg(test)]
mod tests;
mod translation;

use std::sync::Arc;

use fabriclens_base::infiniband::is_switch_type;
use fabriclens_config::Switches;
use fabriclens_core::host_senders::HostSenders;
use fabriclens_core::switch_list::SwitchList;
use fabriclens_core::telemetry::Telemetry;
use fabriclens_core::time::now_ms;
use fabriclens_foreign::{Describes, SOURCES, Value, canonical};
use fabriclens_model::{
    Labels, Layout, LayoutId, LayoutInterner, RowGroup, WeakLayout, absent, is_absent, is_of_histograms, is_stale,
    present,
};
use fabriclens_server::auth::Caller;
use fabriclens_wire::decode::Meta;
use foldhash::HashMap;
use prometheus::IntCounterVec;

use super::report::Report;
use context::{Context, Sender};
use translation::{Column, Senders, Translation, no_switch};

/// Source of switches that agents read in-band, in the list of switches.
const IN_BAND: &str = "in_band";
/// Series from which the topology is made: of a host's ports, and of a switch's neighbors.
const OF_TOPOLOGY: [&str; 2] = ["fabric_port_info", "fabric_port_neighbor_info"];
/// Most column lists that are remembered; beyond it all are forgotten.
const LISTS: usize = 200_000;

/// What all decoders share: the configuration, names of switches, and the list of switches.
pub(super) struct Foreign {
    context: Context,
    switches: SwitchList,
    host_senders: HostSenders,
    points: IntCounterVec,
}

impl Foreign {
    pub(super) fn new(config: Switches, telemetry: &Telemetry) -> Self {
        Self {
            context: Context { config, ..Context::default() },
            switches: telemetry.switches.clone(),
            host_senders: telemetry.host_senders.clone(),
            points: telemetry.foreign.clone(),
        }
    }

    /// Takes over how the topology calls its switches.
    pub(super) fn name_as(&self, switches: impl Iterator<Item = String>) {
        self.context.names.set_topology(switches);
    }
}

/// Translations of column lists of one decoder. Senders repeat their lists, so names are looked up once per list.
pub(super) struct Translations {
    known: HashMap<(LayoutId, Sender), Known>,
    layouts: LayoutInterner,
    /// Columns of the lists with foreign names, and the most that are remembered.
    columns: usize,
    max_columns: usize,
}

/// A column list, held weakly so that unused ones can be forgotten, and its translation; `None` if it has no foreign name.
struct Known {
    list: WeakLayout,
    /// Version of the names of switches.
    version: u64,
    translation: Option<Arc<Translation>>,
    /// InfiniBand switch whose port the list describes: an agent reads it in-band.
    switch: Option<Arc<str>>,
}

impl Known {
    fn columns(&self) -> usize {
        self.translation.as_ref().map_or(0, |translation| translation.columns.len())
    }
}

impl Translations {
    /// No lists; so many columns with foreign names are remembered at most.
    pub(super) fn new(max_columns: usize) -> Self {
        let layouts = LayoutInterner::with_columns(max_columns);
        Self { known: HashMap::default(), layouts, columns: 0, max_columns }
    }

    /// Forgets lists of a caller whose series were refused.
    pub(super) fn forget(&mut self, foreign: &Foreign, caller: &Caller, lists: &[LayoutId]) {
        let sender = foreign.context.sender(caller);
        for list in lists {
            let known = self.known.remove(&(*list, sender.clone()));
            self.columns -= known.map_or(0, |known| known.columns());
        }
    }

    /// Forgets lists that are no longer in use.
    pub(super) fn forget_unused(&mut self) {
        self.known.retain(|_, known| known.list.is_alive());
        self.known.shrink_to(2 * self.known.len());
        self.columns = self.known.values().map(Known::columns).sum();
        self.layouts.forget_unused();
    }

    /// Replaces foreign columns by canonical ones, and the metadata of foreign names by those of the catalog.
    pub(super) fn apply(
        &mut self,
        foreign: &Foreign,
        caller: &Caller,
        groups: &mut Vec<RowGroup>,
        metadata: &mut Vec<Meta>,
        report: &mut Report,
    ) {
        metadata.retain(|meta| !has_foreign_name(&meta.name));
        let sender = foreign.context.sender(caller);
        let unbound = caller.unbound();
        // Names first: series that need them may come earlier in the request.
        if let Some(unbound) = &unbound {
            let new = |group: &&RowGroup| !self.known.contains_key(&(group.series.id(), sender.clone()));
            let lists = groups.iter().filter(new).map(|group| &*group.series);
            let credential = caller.name.as_deref().unwrap_or_default();
            foreign.context.names.learn([unbound, credential], lists.flatten());
        }
        let by = fabriclens_base::Sender::of(unbound.as_deref());
        let mut out = Vec::with_capacity(groups.len());
        for group in groups.drain(..) {
            // No foreign name is one of a histogram.
            if is_of_histograms(&group) {
                out.push(group);
                continue;
            }
            let (Known { translation, switch, .. }, fresh) = self.of(foreign, &sender, &group.series);
            if fresh {
                let own = translation.iter().flat_map(|translation| &*translation.own);
                foreign.tell_hosts(caller, by, group.series.iter().chain(own));
            }
            let Some(translation) = translation else {
                if let Some(switch) = switch.as_ref().filter(|switch| caller.hosts.has(switch)) {
                    foreign.switches.received(by, switch, IN_BAND, [newest(&group), now_ms()], &[]);
                }
                out.push(group);
                continue;
            };
            if fresh {
                metadata.extend(translation.metadata());
            }
            foreign.translate(translation, (caller, by), &group, &mut out, report);
        }
        *groups = out;
    }

    /// What is known of a column list, and whether that is new.
    fn of(&mut self, foreign: &Foreign, sender: &Sender, list: &Layout) -> (&Known, bool) {
        if self.known.len() >= LISTS || self.columns > self.max_columns {
            self.known = HashMap::default();
            self.columns = 0;
            self.layouts.forget_unused();
        }
        let version = foreign.context.names.version();
        let key = (list.id(), sender.clone());
        // Column lists of agents have no foreign names, so that names of switches do not matter to them.
        let valid = |known: &Known| known.version == version || known.translation.is_none();
        let fresh = !self.known.get(&key).is_some_and(valid);
        if fresh && let Some(old) = self.known.remove(&key) {
            self.columns -= old.columns();
        }
        let (layouts, columns) = (&mut self.layouts, &mut self.columns);
        let new = || {
            let translation = Translation::new(&foreign.context, sender, list, layouts).map(Arc::new);
            let switch = list.iter().find_map(read_in_band);
            let known = Known { list: list.downgrade(), version, translation, switch };
            *columns += known.columns();
            known
        };
        (self.known.entry(key).or_insert_with(new), fresh)
    }
}

impl Foreign {
    /// Appends the canonical columns of a group and those that are no foreign ones.
    fn translate(
        &self,
        translation: &Translation,
        from: (&Caller, fabriclens_base::Sender<'_>),
        group: &RowGroup,
        out: &mut Vec<RowGroup>,
        report: &mut Report,
    ) {
        let rows = group.times.len();
        let (mut own, mut rest) = (Vec::new(), Vec::new());
        let mut counts: HashMap<(&'static str, &'static str), u64> = HashMap::default();
        for (column, values) in translation.columns.iter().zip(group.values.chunks(rows.max(1))) {
            let points = present(values);
            match column {
                Column::Kept => rest.extend_from_slice(values),
                Column::Raw { source, why } => {
                    rest.extend_from_slice(values);
                    *counts.entry((source, why)).or_default() += points;
                }
                Column::Series { source, metric, conversion, stays } => {
                    if *stays {
                        rest.extend_from_slice(values);
                    }
                    let convert = |value: &f64| match *value {
                        value if is_absent(value) || is_stale(value) => value,
                        value => canonical::value(metric, *conversion, Value::Number(value)).unwrap_or_else(absent),
                    };
                    let before = own.len();
                    own.extend(values.iter().map(convert));
                    let kept = present(&own[before..]);
                    *counts.entry((source, "translated")).or_default() += kept;
                    *counts.entry((source, "gap")).or_default() += points - kept;
                }
                Column::Dropped { source, why } => *counts.entry((source, why)).or_default() += points,
                Column::NoSwitch { source } => {
                    report.reject("switch", points, no_switch(source));
                    *counts.entry((source.name, "unknown")).or_default() += points;
                }
            }
        }
        for ((source, outcome), points) in counts {
            self.points.with_label_values(&[source, outcome]).inc_by(points);
        }
        self.record(&translation.senders, from, newest(group));
        for (series, values) in [(&translation.own, own), (&translation.rest, rest)] {
            if !series.is_empty() {
                out.push(RowGroup { series: series.clone(), times: group.times.clone(), values });
            }
        }
    }

    /// Records which hosts and switches a new column list describes, as far as its sender may write for them.
    fn tell_hosts<'a>(&self, caller: &Caller, by: fabriclens_base::Sender<'_>, list: impl Iterator<Item = &'a Labels>) {
        let hosts = list.filter(|labels| OF_TOPOLOGY.contains(&labels.metric())).map(|labels| labels.get("host"));
        hosts.filter(|host| caller.hosts.has(host)).for_each(|host| self.host_senders.tells(by, host));
    }

    /// Records that the switches of a column list sent samples, the newest at `newest` (Unix milliseconds). Switches that the
    /// sender's token or certificate does not name are left out.
    fn record(&self, senders: &Senders, (caller, by): (&Caller, fabriclens_base::Sender<'_>), newest: i64) {
        let now = now_ms();
        for ((switch, source), unknown) in senders.iter().filter(|((switch, _), _)| caller.hosts.has(switch)) {
            self.switches.received(by, switch, source, [newest, now], unknown);
        }
    }
}

/// Time of the newest row, Unix milliseconds.
fn newest(group: &RowGroup) -> i64 {
    group.times.iter().copied().max().unwrap_or_default()
}

/// The InfiniBand switch whose port a series describes, as agents do that read it in-band.
fn read_in_band(labels: &Labels) -> Option<Arc<str>> {
    let of_switch = labels.metric() == "fabric_port_info" && is_switch_type(labels.get("node_type"));
    of_switch.then(|| labels.get("host").into())
}

/// Whether metadata belong to a foreign name, whose unit and kind would mislead.
fn has_foreign_name(name: &str) -> bool {
    let mut of_switches = SOURCES.iter().filter(|source| source.describes == Describes::Switches);
    of_switches.any(|source| source.having.is_empty() && source.prefixes.iter().any(|p| name.starts_with(p)))
}
