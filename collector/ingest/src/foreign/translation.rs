//! Translates a list of columns.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use fabriclens_base::infiniband;
use fabriclens_catalog::Metric;
use fabriclens_foreign::{
    Attributes, Conversion, Describes, Meaning, Series, Source, SwitchFrom, canonical, instance_host, meaning,
    source_of,
};
use fabriclens_model::{Labels, Layout, LayoutInterner};
use fabriclens_wire::decode::Meta;

use super::context::{Context, Sender};
use super::names::NAME_BYTES;
use crate::metadata::of_catalog;

/// What becomes of a column.
pub(super) enum Column {
    /// Not a foreign name.
    Kept,
    /// Stored as it comes.
    Raw { source: &'static str, why: &'static str },
    /// Stored as a canonical series; and also as it comes, if it `stays`.
    Series { source: &'static str, metric: &'static Metric, conversion: Conversion, stays: bool },
    /// Not stored.
    Dropped { source: &'static str, why: &'static str },
    /// Not stored, because it names no switch.
    NoSwitch { source: &'static Source },
}

/// Names of a column list that are not understood, by switch and source.
pub(super) type Senders = BTreeMap<(Arc<str>, &'static str), Vec<String>>;

/// Translation of a column list.
pub(super) struct Translation {
    /// What becomes of each column.
    pub(super) columns: Vec<Column>,
    /// Canonical columns.
    pub(super) own: Layout,
    /// Columns that stay as they are.
    pub(super) rest: Layout,
    /// Names that are not understood, by switch and source.
    pub(super) senders: Senders,
}

/// Labels of a series as attributes.
struct OfLabels<'a>(&'a Labels);

impl Attributes for OfLabels<'_> {
    fn get(&self, name: &str) -> Option<&str> {
        Some(self.0.get(name)).filter(|value| !value.is_empty())
    }
}

impl Translation {
    /// Translates a column list; `None` if it has no foreign name.
    pub(super) fn new(context: &Context, sender: &Sender, list: &Layout, layouts: &mut LayoutInterner) -> Option<Self> {
        let sources: Vec<Option<&'static Source>> =
            list.iter().map(|labels| source_of(labels.metric(), &OfLabels(labels))).collect();
        if sources.iter().all(Option::is_none) {
            return None;
        }
        let (mut own, mut rest, mut columns) = (Vec::new(), Vec::new(), Vec::with_capacity(list.len()));
        let (mut senders, mut seen) = (Senders::new(), HashSet::new());
        for (labels, source) in list.iter().zip(sources) {
            let Some(source) = source else {
                rest.push(labels.clone());
                columns.push(Column::Kept);
                continue;
            };
            let stays = source.describes == Describes::Hosts;
            let switch = switch_of(context, source, labels, sender).filter(|host| !stays || sender.may(host));
            if stays {
                let named = switch.and_then(|host| canonical_of(source, labels, &host));
                let named = named.filter(|(labels, _)| seen.insert(labels.clone()));
                rest.push(labels.clone());
                columns.push(match named {
                    Some((labels, Series { metric, conversion, .. })) => {
                        own.push(labels);
                        Column::Series { source: source.name, metric, conversion, stays }
                    }
                    None => Column::Kept,
                });
                continue;
            }
            let Some(switch) = switch else {
                columns.push(Column::NoSwitch { source });
                continue;
            };
            let unknown: &mut Vec<String> = senders.entry((switch.clone(), source.name)).or_default();
            let name = labels.metric();
            let why = match meaning(source, name, &OfLabels(labels)) {
                Meaning::Series(series) => {
                    let canonical = canonical::labels(&switch, series.metric, series.port.as_deref(), &series.labels);
                    if seen.insert(canonical.clone()) {
                        own.push(canonical);
                        let Series { metric, conversion, .. } = series;
                        columns.push(Column::Series { source: source.name, metric, conversion, stays });
                        continue;
                    }
                    "duplicate"
                }
                Meaning::LeftOut(_) => "left_out",
                Meaning::Unknown => {
                    unknown.push(name.to_owned());
                    "unknown"
                }
            };
            if context.is_raw(name) {
                rest.push(raw(labels, &switch));
                columns.push(Column::Raw { source: source.name, why });
            } else {
                columns.push(Column::Dropped { source: source.name, why });
            }
        }
        Some(Self { columns, own: layouts.intern(own), rest: layouts.intern(rest), senders })
    }

    /// Metadata of the canonical metrics.
    pub(super) fn metadata(&self) -> Vec<Meta> {
        let mut seen = HashSet::new();
        let metrics = self.columns.iter().filter_map(|column| match column {
            Column::Series { metric, .. } => Some(*metric),
            _ => None,
        });
        metrics.filter(|metric| seen.insert(metric.name)).map(of_catalog).collect()
    }
}

/// The canonical series of a series of a host, if it has one.
fn canonical_of(source: &Source, labels: &Labels, host: &Arc<str>) -> Option<(Labels, Series)> {
    let Meaning::Series(series) = meaning(source, labels.metric(), &OfLabels(labels)) else { return None };
    Some((canonical::labels(host, series.metric, series.port.as_deref(), &series.labels), series))
}

/// The switch of a series: as it names it, or else the one that its sender is bound to.
fn switch_of(context: &Context, source: &Source, labels: &Labels, sender: &Sender) -> Option<Arc<str>> {
    let get = |name: &str| Some(labels.get(name)).filter(|value| !value.is_empty());
    let told = source.switch.iter().find_map(|from| match from {
        SwitchFrom::Attribute(name) => get(name).map(str::to_owned),
        SwitchFrom::Description(name) => get(name).map(infiniband::switch),
        SwitchFrom::Guid(name, _) => get(name).map(|guid| context.names.of_guid(guid)),
        SwitchFrom::Instance => get("instance").map(|instance| context.of_address(instance_host(instance))),
    });
    let name = told.or_else(|| sender.identity.as_deref().map(str::to_owned)).filter(|n| n.len() <= NAME_BYTES)?;
    let renamed = context.names.as_in_topology(&name);
    // A bound sender keeps to its own names.
    Some(if sender.may(&renamed) { renamed } else { name.into() })
}

pub(super) fn no_switch(source: &Source) -> String {
    format!(
        "{} does not say which switch it is, in at most {NAME_BYTES} bytes; give its sender a token with a host or a client certificate, or name its \
         address in switches.addresses",
        source.name
    )
}

/// The series as it comes, with the switch as its host.
fn raw(labels: &Labels, switch: &Arc<str>) -> Labels {
    let kept = labels.to_pairs().filter(|(name, _)| &**name != "host");
    Labels::new(kept.chain([(Arc::from("host"), switch.clone())])).with_hash()
}
