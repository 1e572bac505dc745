//! Refuses series whose names only the collector writes: incidents, jobs and their sums, its own health.

use std::sync::Arc;

use fabriclens_config::Access;
use fabriclens_core::protocol::Protocol;
use fabriclens_model::names::is_reserved;
use fabriclens_model::{Layout, LayoutId, RowGroup, WeakLayout, samples_in};
use fabriclens_server::auth::{Caller, Hosts};
use foldhash::HashMap;

use super::Report;

/// Most column lists that are remembered; beyond it all are forgotten.
const LISTS: usize = 200_000;
/// Header of requests by which a collector forwards its series to another one.
pub(super) const FORWARDED: &str = "x-fabriclens-forward";

/// Whether a request may contain reserved names: what another collector forwards, or an export of one, from a caller who
/// may also report jobs and act on incidents. Credentials that are bound to a host never may.
pub(super) fn may_write_reserved(protocol: Protocol, caller: &Caller, forwarded: bool) -> bool {
    let by_collector = protocol == Protocol::Import || (protocol == Protocol::RemoteWrite && forwarded);
    // Without authentication everybody may do everything.
    let trusted = caller.name.is_none() || caller.roles.grant(Access::Write);
    by_collector && trusted && caller.hosts == Hosts::Any
}

/// Reserved columns of each known column list. Senders repeat their lists, so names are compared once per list.
#[derive(Default)]
pub(super) struct ReservedColumns(HashMap<LayoutId, Known>);

/// A column list, held weakly so that unused ones can be forgotten.
struct Known {
    list: WeakLayout,
    /// `None` if no name is reserved.
    without: Option<Arc<Without>>,
}

/// The other columns of a list.
struct Without {
    /// Whether each column stays.
    stays: Vec<bool>,
    rest: Layout,
    /// The first reserved name.
    name: String,
}

impl ReservedColumns {
    /// Number of remembered lists.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Forgets lists whose series were refused.
    pub(super) fn forget(&mut self, lists: &[LayoutId]) {
        lists.iter().for_each(|list| _ = self.0.remove(list));
    }

    /// Forgets lists that are no longer in use.
    pub(super) fn forget_unused(&mut self) {
        self.0.retain(|_, known| known.list.is_alive());
        self.0.shrink_to(2 * self.0.len());
    }

    /// Drops and reports the columns with reserved names.
    pub(super) fn drop_from(&mut self, groups: &mut Vec<RowGroup>, report: &mut Report) {
        let mut found = false;
        for group in groups.iter_mut() {
            let Some(without) = self.without(&group.series) else { continue };
            found = true;
            let (rows, samples) = (group.times.len(), samples_in(group));
            let all = std::mem::take(&mut group.values);
            let columns = all.chunks(rows.max(1)).zip(&without.stays);
            group.values = columns.filter(|(_, stays)| **stays).flat_map(|(column, _)| column).copied().collect();
            group.series = without.rest.clone();
            let text =
                format!("{} and the like are names that only the collector writes; send another name", without.name);
            report.reject("reserved", samples - samples_in(group).min(samples), text);
        }
        if found {
            groups.retain(|group| !group.series.is_empty());
        }
    }

    fn without(&mut self, list: &Layout) -> Option<Arc<Without>> {
        if self.0.len() >= LISTS {
            self.0.clear();
        }
        let known = self.0.entry(list.id()).or_insert_with(|| Known { list: list.downgrade(), without: without(list) });
        known.without.clone()
    }
}

fn without(list: &Layout) -> Option<Arc<Without>> {
    let stays: Vec<bool> = list.iter().map(|labels| !is_reserved(labels.metric())).collect();
    let name = list.iter().zip(&stays).find(|(_, stays)| !**stays)?.0.metric().to_owned();
    let rest = list.iter().zip(&stays).filter(|(_, stays)| **stays).map(|(labels, _)| labels.clone()).collect();
    Some(Arc::new(Without { stays, rest, name }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use fabriclens_config::Roles;
    use fabriclens_model::Labels;

    fn list(names: &[&str]) -> Layout {
        names.iter().map(|name| Labels::new([("__name__", *name), ("host", "h")])).collect()
    }

    #[test]
    fn only_reserved_columns_are_dropped() {
        let series = list(&["fabric_incident_info", "up", "fabric_job_info", "fabric_job_processes"]);
        let group = RowGroup { series, times: vec![1, 2], values: (0..8).map(f64::from).collect() };
        let other = RowGroup { series: list(&["fabriclens_build_info"]), times: vec![1], values: vec![1.0] };
        let mut reserved = ReservedColumns::default();
        for _ in 0..2 {
            let (mut groups, mut report) = (vec![group.clone(), other.clone()], Report::default());
            reserved.drop_from(&mut groups, &mut report);
            let [kept] = &groups[..] else { panic!("{groups:?}") };
            assert_eq!((kept.values.as_slice(), kept.series.len()), (&[2.0, 3.0, 6.0, 7.0][..], 2));
            assert!(kept.is_consistent());
            assert_eq!((report.rejected(), report.reasons().next()), (5, Some(("reserved", 4))));
            assert!(report.message().contains("fabric_incident_info and the like"), "{}", report.message());
        }
        drop(other);
        reserved.forget_unused();
        assert_eq!(reserved.0.len(), 1);
    }

    #[test]
    fn only_collectors_with_rights_write_reserved_names() {
        let caller = |roles: &str, hosts| Caller {
            name: Some("x".into()),
            roles: roles.parse::<Roles>().unwrap(),
            hosts,
            ..Caller::anonymous([127, 0, 0, 1].into())
        };
        let may = |protocol, caller: &Caller, forwarded| may_write_reserved(protocol, caller, forwarded);
        let open = Caller::anonymous([127, 0, 0, 1].into());
        assert!(may(Protocol::Import, &open, false) && may(Protocol::RemoteWrite, &open, true));
        assert!(!may(Protocol::RemoteWrite, &open, false) && !may(Protocol::OtlpHttp, &open, true));
        assert!(may(Protocol::RemoteWrite, &caller("write", Hosts::Any), true));
        assert!(!may(Protocol::RemoteWrite, &caller("ingest", Hosts::Any), true));
        assert!(!may(Protocol::Import, &caller("admin", Hosts::Only(["h".to_owned()].into())), true));
    }
}
