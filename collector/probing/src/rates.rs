//! Bounds on rates: of a port, of a host, of the fabric, and of traces over a leaf.

use crate::targets::{Draft, PlanPort};
use fabriclens_config::Probes;
use std::collections::HashMap;

/// Share of a bound that suspects may take while others need it too.
const SUSPECTS: f64 = 0.75;
/// A pair that is probed less often than this is not probed, seconds.
const LONGEST_S: f64 = 600.0;
/// Longest interval of tracing, seconds: paths older than that are not trusted.
const LONGEST_TRACE_S: f64 = 1800.0;

/// Lowers rates until all bounds hold. A pair with a TCP twin counts twice.
pub(crate) fn bound(drafts: &mut [Draft], ports: &[PlanPort], settings: &Probes) {
    let mut number: HashMap<&str, usize> = HashMap::new();
    let hosts: Vec<usize> = ports
        .iter()
        .map(|port| {
            let next = number.len();
            *number.entry(&port.host).or_insert(next)
        })
        .collect();
    let per_port = f64::from(settings.per_port);
    fit(drafts, per_port, |draft| draft.from);
    fit(drafts, per_port, |draft| draft.to);
    fit(drafts, f64::from(settings.per_host), |draft| hosts[draft.from]);
    fit(drafts, f64::from(settings.per_host), |draft| hosts[draft.to]);
    fit(drafts, f64::from(settings.per_fabric), |_| 0);
    for draft in drafts.iter_mut().filter(|draft| draft.rate * LONGEST_S < 1.0) {
        (draft.rate, draft.twin) = (0.0, false);
    }
    // A port whose leaf is unknown has its own.
    let leaf = |port: usize| ports[port].leaf.map_or((1, port), |leaf| (0, leaf));
    let per_leaf = f64::from(settings.traces_per_leaf);
    fit_traces(drafts, per_leaf, |draft| leaf(draft.from));
    fit_traces(drafts, per_leaf, |draft| leaf(draft.to));
}

/// Probes per second of a pair.
pub(crate) fn cost(draft: &Draft) -> f64 {
    draft.rate * if draft.twin { 2.0 } else { 1.0 }
}

fn fit<K: Eq + std::hash::Hash>(drafts: &mut [Draft], limit: f64, group: impl Fn(&Draft) -> K) {
    // Rates of suspects and of others.
    let mut sums: HashMap<K, [f64; 2]> = HashMap::new();
    for draft in drafts.iter() {
        sums.entry(group(draft)).or_default()[usize::from(!draft.is_suspect)] += cost(draft);
    }
    for draft in drafts.iter_mut() {
        let [suspects, others] = sums[&group(draft)];
        // Pairs that are only traced take no part.
        if suspects + others <= limit || draft.rate <= 0.0 {
            continue;
        }
        let of_suspects = suspects.min(limit - others.min(limit * (1.0 - SUSPECTS)));
        draft.rate *= if draft.is_suspect { of_suspects / suspects } else { (limit - of_suspects) / others };
    }
}

fn fit_traces<K: Eq + std::hash::Hash>(drafts: &mut [Draft], limit: f64, group: impl Fn(&Draft) -> K) {
    let rate = |draft: &Draft| draft.source_ports.len() as f64 / draft.trace_s;
    let mut sums: HashMap<K, f64> = HashMap::new();
    for draft in drafts.iter() {
        *sums.entry(group(draft)).or_default() += rate(draft);
    }
    for draft in drafts.iter_mut() {
        let sum = sums[&group(draft)];
        if sum > limit {
            draft.trace_s *= sum / limit;
        }
        if draft.trace_s > LONGEST_TRACE_S {
            draft.trace_s = f64::INFINITY;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fabriclens_probe_plan::PairClass;

    fn draft(is_suspect: bool, rate: f64) -> Draft {
        let class = PairClass::Job;
        let (source_ports, suspect_ports) = (vec![50_000], Vec::new());
        Draft { from: 0, to: 1, source_ports, suspect_ports, class, is_suspect, rate, twin: false, trace_s: 60.0 }
    }

    fn fitted(mut drafts: Vec<Draft>) -> Vec<f64> {
        fit(&mut drafts, 20.0, |_| 0);
        drafts.iter().map(|draft| draft.rate).collect()
    }

    #[test]
    fn suspects_get_most_of_a_bound_and_leave_the_rest() {
        assert_eq!(fitted(vec![draft(true, 10.0), draft(false, 10.0)]), [10.0, 10.0], "it fits");
        assert_eq!(fitted(vec![draft(true, 30.0), draft(true, 30.0), draft(false, 40.0)]), [7.5, 7.5, 5.0]);
        assert_eq!(fitted(vec![draft(true, 30.0), draft(false, 2.0)]), [18.0, 2.0]);
        assert_eq!(fitted(vec![draft(true, 40.0)]), [20.0]);
    }

    #[test]
    fn pairs_that_are_only_traced_do_not_disturb_the_others() {
        assert_eq!(fitted(vec![draft(true, 0.0), draft(false, 40.0)]), [0.0, 20.0]);
        assert_eq!(fitted(vec![draft(false, 0.0), draft(true, 40.0)]), [0.0, 20.0]);
    }
}
