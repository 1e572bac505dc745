//! Restricts callers that are bound to hosts: their series must carry one of these hosts in the label `host`.

use std::sync::Arc;

use fabriclens_model::{Layout, LayoutId, RowGroup, WeakLayout};
use foldhash::HashMap;

use super::Report;
use fabriclens_server::auth::{Caller, Hosts};

/// Most column lists that are remembered; beyond it all are forgotten.
const LISTS: usize = 200_000;
/// Characters of a foreign host name shown in the answer.
const NAME_CHARS: usize = 200;

/// Host of each known column list. Senders repeat their lists, so labels are compared once per list and not per point.
#[derive(Default)]
pub(super) struct Owners(HashMap<LayoutId, Owned>);

/// A column list, held weakly so that unused ones can be forgotten, and the host that all its series name.
struct Owned {
    list: WeakLayout,
    host: Result<Arc<str>, Mixed>,
}

/// The series have different hosts, or one has none.
#[derive(Clone, Copy)]
struct Mixed;

impl Owners {
    /// Forgets lists whose series were refused.
    pub(super) fn forget(&mut self, lists: &[LayoutId]) {
        lists.iter().for_each(|list| _ = self.0.remove(list));
    }

    /// Forgets lists that are no longer in use.
    pub(super) fn forget_unused(&mut self) {
        self.0.retain(|_, owned| owned.list.is_alive());
        self.0.shrink_to(2 * self.0.len());
    }

    /// Drops and reports groups with series that the caller may not write. Returns true if there were none.
    pub(super) fn keep_own(&mut self, groups: &mut Vec<RowGroup>, caller: &Caller, report: &mut Report) -> bool {
        let Hosts::Only(own) = &caller.hosts else { return true };
        let before = groups.len();
        groups.retain(|group| {
            let host = self.host(&group.series);
            if host.as_ref().is_ok_and(|host| caller.hosts.has(host)) {
                return true;
            }
            let points = fabriclens_model::samples_in(group);
            let problem = match host {
                Ok(host) => format!("host {:?} is not allowed", host.chars().take(NAME_CHARS).collect::<String>()),
                Err(Mixed) => "each series must carry such a name in the label host".to_owned(),
            };
            let (name, own) = (caller.log_name(), own.join(" or "));
            let remedy = "to write for other hosts, give the certificate a role in auth.certificates, or use a token without host";
            report.reject("host", points, format!("{name} may write only as {own}: {problem}; {remedy}"));
            false
        });
        groups.len() == before
    }

    fn host(&mut self, list: &Layout) -> Result<Arc<str>, Mixed> {
        if self.0.len() >= LISTS {
            self.0.clear();
        }
        let owned = self.0.entry(list.id()).or_insert_with(|| {
            let mut hosts = list.iter().map(|labels| labels.get("host"));
            let first = hosts.next().unwrap_or_default();
            let host = if first.is_empty() || hosts.any(|host| host != first) { Err(Mixed) } else { Ok(first.into()) };
            Owned { list: list.downgrade(), host }
        });
        owned.host.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fabriclens_model::Labels;

    fn group(hosts: &[&str]) -> RowGroup {
        let series =
            hosts.iter().enumerate().map(|(i, host)| Labels::new([("__name__", &*format!("m{i}")), ("host", *host)]));
        RowGroup { series: series.collect(), times: vec![1], values: vec![1.0; hosts.len()] }
    }

    #[test]
    fn unused_lists_are_forgotten() {
        let (mut owners, kept) = (Owners::default(), group(&["gpu-01"]));
        let gone = group(&["gpu-02"]);
        let lists = [&kept, &gone].map(|group| owners.host(&group.series).is_ok());
        drop(gone);
        owners.forget_unused();
        assert!(lists == [true; 2] && owners.0.len() == 1);
        assert!(owners.0.contains_key(&kept.series.id()));
    }

    #[test]
    fn groups_of_other_hosts_are_rejected() {
        let bound = |hosts: &[&str]| {
            let hosts = hosts.iter().map(|h| (*h).to_owned()).collect();
            Caller { hosts: Hosts::Only(hosts), ..Caller::anonymous([127, 0, 0, 1].into()) }
        };
        let caller = bound(&["gpu-01.example", "gpu-01"]);
        let mut owners = Owners::default();
        let all = [
            group(&["gpu-01", "gpu-01"]),
            group(&["GPU-01.example"]),
            group(&["gpu-02"]),
            group(&["gpu-01", "gpu-02"]),
            group(&["gpu-01", ""]),
        ];
        for _ in 0..2 {
            let (mut groups, mut report) = (all.to_vec(), Report::default());
            assert!(!owners.keep_own(&mut groups, &caller, &mut report));
            assert!(
                groups.iter().zip(&all).all(|(kept, own)| kept.series.id() == own.series.id()) && groups.len() == 2
            );
            assert_eq!(
                (report.rejected(), report.reasons().map(|r| r.0).collect::<Vec<_>>()),
                (5, vec!["host", "host"])
            );
            let text = report.message();
            assert!(
                text.contains("\"gpu-02\"")
                    && text.contains("gpu-01.example or gpu-01")
                    && text.contains("auth.certificates"),
                "{text}"
            );
        }
        assert_eq!(owners.0.len(), all.len());
        let mut groups = all.to_vec();
        assert!(owners.keep_own(&mut groups, &Caller::anonymous([127, 0, 0, 1].into()), &mut Report::default()));
        assert_eq!(groups.len(), all.len());
        let mut groups = all[..1].to_vec();
        assert!(!owners.keep_own(&mut groups, &bound(&[]), &mut Report::default()), "a caller without hosts");
    }
}
