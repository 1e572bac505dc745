//! The last trace of each flow, bounded. A trace becomes a path when it is asked for, by the topology of that moment.

use std::collections::HashMap;
use std::sync::Arc;

use fabriclens_base::SenderUsage;
use fabriclens_correlate::FlowName;

use crate::hops::Trace;
use crate::registry::Reporter;

/// Flows of a host: as many as an agent traces.
const OF_HOST: usize = 8192;
/// Flows of all hosts: some 400 bytes each. Of one sender, see [`fabriclens_base::Sender::may_keep`].
const FLOWS: usize = 131_072;
/// Age at which a trace is forgotten, nanoseconds: agents report each path again within three minutes.
const OLD_NS: i64 = 3_600_000_000_000;

/// Traces by sending host.
#[derive(Default)]
pub(crate) struct KeptTraces {
    by_host: HashMap<String, OfHost>,
    usage: SenderUsage,
}

/// Traces of a host, in the share of the sender that reported first.
struct OfHost {
    by: Arc<Reporter>,
    flows: HashMap<Arc<FlowName>, Kept>,
}

struct Kept {
    trace: Trace,
    /// More knowledge of the topology may make it a path.
    waits: bool,
}

impl KeptTraces {
    /// Replaces the trace of a flow, unless a newer one is known. A new flow beyond the bounds is left out.
    pub fn keep(&mut self, trace: Trace, waits: bool) {
        let flow = Arc::clone(&trace.flow);
        if !self.by_host.contains_key(&flow.from.node) {
            if self.usage.room(trace.by.sender(), FLOWS) == 0 {
                return;
            }
            let host = OfHost { by: trace.by.clone(), flows: HashMap::new() };
            self.by_host.insert(flow.from.node.clone(), host);
        }
        let Some(OfHost { by, flows }) = self.by_host.get_mut(&flow.from.node) else { return };
        if let Some(known) = flows.get_mut(&flow) {
            if known.trace.at_ns <= trace.at_ns {
                *known = Kept { trace, waits };
            }
        } else if flows.len() < OF_HOST && self.usage.room(by.sender(), FLOWS) > 0 {
            self.usage.add(by.sender(), 1);
            flows.insert(flow, Kept { trace, waits });
        }
    }

    /// Traces that wait for more knowledge of the topology. They no longer wait until they are kept again.
    pub fn take_waiting(&mut self) -> Vec<Trace> {
        let waiting = self.by_host.values_mut().flat_map(|host| host.flows.values_mut()).filter(|kept| kept.waits);
        waiting
            .map(|kept| {
                kept.waits = false;
                kept.trace.clone()
            })
            .collect()
    }

    /// Forgets traces that are older than an hour.
    pub fn forget_old(&mut self, now_ns: i64) {
        let usage = &mut self.usage;
        self.by_host.retain(|_, OfHost { by, flows }| {
            let before = flows.len();
            flows.retain(|_, kept| kept.trace.at_ns.saturating_add(OLD_NS) > now_ns);
            usage.remove(by.sender(), before - flows.len());
            !flows.is_empty()
        });
    }

    /// The trace of a flow.
    pub fn of(&self, flow: &FlowName) -> Option<&Trace> {
        self.by_host.get(&flow.from.node)?.flows.get(flow).map(|kept| &kept.trace)
    }

    /// Traces from a host, by its ports, the ports they go to, and source ports.
    pub fn of_host(&self, host: &str) -> Vec<Trace> {
        let kept = self.by_host.get(host).into_iter().flat_map(|host| host.flows.values());
        let mut all: Vec<Trace> = kept.map(|kept| kept.trace.clone()).collect();
        let key = |trace: &Trace| {
            let FlowName { from, to, source_port } = &*trace.flow;
            (from.port.clone(), to.node.clone(), to.port.clone(), *source_port)
        };
        all.sort_by_cached_key(key);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fabriclens_correlate::PortName;

    fn trace(host: usize, source_port: u16, at_ns: i64) -> Trace {
        let port = |node: String| PortName { node, port: "p".into() };
        let flow = FlowName { from: port(format!("h{host}")), to: port("h9".into()), source_port: Some(source_port) };
        let by = Arc::new(Reporter { host: format!("h{host}").into(), unbound: None });
        Trace { by, flow: Arc::new(flow), at_ns, hops: Vec::new(), complete: true }
    }

    #[test]
    fn the_newest_trace_of_each_flow_is_kept_for_an_hour() {
        let mut kept = KeptTraces::default();
        kept.keep(trace(1, 7, 10), true);
        kept.keep(trace(1, 5, 20), false);
        kept.keep(trace(1, 7, 30), true);
        kept.keep(trace(1, 7, 29), true);
        let ages = |kept: &KeptTraces| kept.of_host("h1").iter().map(|trace| trace.at_ns).collect::<Vec<_>>();
        assert_eq!(ages(&kept), [20, 30]);
        assert_eq!(kept.of(&trace(1, 7, 0).flow).map(|trace| trace.at_ns), Some(30));
        assert!(kept.of(&trace(1, 8, 0).flow).is_none());
        assert_eq!(kept.take_waiting().len(), 1);
        assert_eq!(kept.take_waiting().len(), 0, "it was taken");
        kept.forget_old(OLD_NS + 20);
        assert_eq!(ages(&kept), [30]);
        kept.forget_old(OLD_NS + 30);
        assert_eq!((kept.usage.all(), kept.by_host.len()), (0, 0));
    }

    #[test]
    fn one_host_cannot_fill_it() {
        let mut kept = KeptTraces::default();
        (0..=OF_HOST).for_each(|port| kept.keep(trace(1, port as u16, 1), false));
        assert_eq!(kept.usage.all(), OF_HOST);
        kept.keep(trace(1, 0, 2), false);
        assert_eq!(kept.of(&trace(1, 0, 0).flow).map(|trace| trace.at_ns), Some(2), "a known flow is replaced");
        (2..40).for_each(|host| (0..OF_HOST).for_each(|port| kept.keep(trace(host, port as u16, 1), false)));
        assert_eq!(kept.usage.all(), FLOWS);
    }

    #[test]
    fn one_sender_cannot_fill_it() {
        let mut kept = KeptTraces::default();
        let mut report = |host: usize, sender: Option<&str>, flows: usize| {
            let by = Arc::new(Reporter { host: format!("h{host}").into(), unbound: sender.map(Arc::from) });
            (0..flows).for_each(|port| kept.keep(Trace { by: by.clone(), ..trace(host, port as u16, 1) }, false));
            kept.usage.all()
        };
        assert_eq!(report(0, Some("a"), 1), 1);
        assert_eq!([1, 2, 3, 4, 5].map(|host| report(host, Some("a"), OF_HOST))[4], FLOWS / 4);
        assert_eq!(report(4, Some("b"), OF_HOST), FLOWS / 4, "a known host stays in the share of the first");
        assert_eq!(report(9, None, OF_HOST), FLOWS / 4 + OF_HOST);
        kept.forget_old(OLD_NS + 1);
        assert_eq!((kept.usage.all(), kept.by_host.len()), (0, 0));
    }
}
