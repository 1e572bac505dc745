//! What a plan means for the tracer.

use super::settings::Probing;
use fabriclens_agent_tracer::TraceTarget;
use fabriclens_probe_plan::Target;

/// Targets of a plan to trace, and the first of those that are not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TracePlan {
    /// To trace.
    pub targets: Vec<TraceTarget>,
    /// Why some are not traced, as a sentence.
    pub refused: Option<String>,
}

/// Targets to trace, without those to which nothing may be sent.
pub fn trace_plan(probing: &Probing, targets: &[Target]) -> TracePlan {
    let mut plan = TracePlan::default();
    let (mut refused, mut first) = (0_usize, None);
    for target in targets {
        match TraceTarget::of(target, |bytes| probing.reachable(bytes)) {
            Ok(target) => plan.targets.extend(target),
            Err(why) => {
                refused += 1;
                first = first.or(Some(why));
            }
        }
    }
    plan.refused = first.map(|why| format!("{refused} targets of the plan are not traced; the first: {why}"));
    plan
}

/// Targets of a plan to probe, and the first of those that are not.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProbePlan {
    /// To probe.
    pub targets: Vec<Target>,
    /// Why some are not probed, as a sentence.
    pub refused: Option<String>,
}

/// Targets to probe, as far as the configuration permits: without those to which nothing may be sent.
pub fn probe_plan(probing: &Probing, targets: &[Target]) -> ProbePlan {
    let mut plan = ProbePlan::default();
    let (mut refused, mut first) = (0_usize, None);
    for target in targets.iter().filter(|target| target.probe_every_ms > 0) {
        let Some(to) = &target.to else { continue };
        // InfiniBand ports have a LID, which no network of IP addresses leaves out.
        let is_infiniband = to.address.is_empty() && to.lid != 0;
        if let Err(why) = if is_infiniband { Ok(()) } else { probing.reachable(&to.address).map(|_| ()) } {
            refused += 1;
            first = first.or(Some(why));
            continue;
        }
        let mut target = target.clone();
        target.tcp_twin &= probing.tcp;
        plan.targets.push(target);
    }
    plan.refused = first.map(|why| format!("{refused} targets of the plan are not probed; the first: {why}"));
    plan
}

#[cfg(test)]
mod tests {
    use super::*;
    use fabriclens_probe_plan::ProbedPort;

    #[test]
    fn targets_outside_the_networks_are_left_out_and_told() {
        let target = |address: [u8; 4], trace_every_ms| Target {
            from: "mlx5_0/1".into(),
            host: "b".into(),
            to: Some(ProbedPort { name: "mlx5_0/1".into(), address: address.into(), ..ProbedPort::default() }),
            source_ports: vec![50_000, 22],
            traffic_class: 104,
            trace_every_ms,
            ..Target::default()
        };
        let probing = Probing { networks: vec!["10.1.0.0/16".parse().unwrap()], ..Probing::default() };
        let targets = [target([10, 1, 0, 1], 60_000), target([10, 1, 0, 2], 0), target([10, 2, 0, 1], 60_000)];
        let plan = trace_plan(&probing, &targets);
        assert_eq!(plan.targets.len(), 1, "the second is probed only, the third may not be reached");
        assert_eq!((plan.targets[0].source_ports.as_slice(), plan.targets[0].traffic_class), (&[50_000][..], 104));
        let refused = plan.refused.expect("told");
        assert_eq!(refused, "1 targets of the plan are not traced; the first: 10.2.0.1 is in none of probes.networks");
    }

    #[test]
    fn probes_go_where_they_may() {
        let target = |address: &[u8], lid, probe_every_ms| Target {
            to: Some(ProbedPort { address: address.to_vec(), lid, ..ProbedPort::default() }),
            probe_every_ms,
            tcp_twin: true,
            ..Target::default()
        };
        let probing = Probing { networks: vec!["10.1.0.0/16".parse().unwrap()], tcp: false, ..Probing::default() };
        let targets = [
            target(&[10, 1, 0, 1], 0, 100),
            target(&[10, 1, 0, 2], 0, 0),
            target(&[10, 2, 0, 1], 0, 100),
            target(&[], 7, 100),
            target(&[], 0, 100),
        ];
        let plan = probe_plan(&probing, &targets);
        let lids: Vec<u32> = plan.targets.iter().filter_map(|target| Some(target.to.as_ref()?.lid)).collect();
        assert_eq!(lids, [0, 7], "of the second, nothing is probed");
        assert!(plan.targets.iter().all(|target| !target.tcp_twin), "TCP is off");
        let refused = plan.refused.expect("told");
        assert_eq!(refused, "2 targets of the plan are not probed; the first: 10.2.0.1 is in none of probes.networks");
    }
}
