//! Series of a port: what its probes measure, for the catalog's rows.

use crate::histogram::{Times, bounds};
use crate::prober::{PortState, Prober};
use crate::stats::{CLASSES, DISCARDS, PairStats, PortStats, TRANSPORTS};
use fabriclens_agent_host::batch::Batch;
use fabriclens_catalog::metrics::port_probes::{
    PROBE_ANSWERED, PROBE_DISCARDED, PROBE_HOST_DELAY, PROBE_LOST, PROBE_OPEN, PROBE_PROBES, PROBE_REFUSED, PROBE_RTT,
    PROBE_SHARE,
};
use fabriclens_wire::{Resource, Section, Value};
use std::sync::Arc;

/// The series of all ports, one section each.
pub fn sections(prober: &Prober, host: &Arc<str>, now_ns: u64) -> Vec<Section> {
    let bounds = bounds();
    let mut sections = Vec::new();
    for (name, entry) in prober.ports.lock().iter() {
        let Some((device, port)) = name.rsplit_once('/') else { continue };
        let mut batch = Batch::default();
        batch.begin();
        fill(&mut batch, &entry.stats, &entry.tcp_stats, &bounds);
        if entry.state != PortState::Off {
            let is_open = matches!(entry.state, PortState::Open { .. });
            batch.fact(&PROBE_OPEN, &[], Value::Int(is_open.into()));
            batch.fact_if(&PROBE_SHARE, &[], is_open.then_some(Value::Float(entry.stats.share)));
        }
        let resource = Resource { host: Arc::clone(host), device: Some(device.into()), port: port.parse().ok() };
        sections.push(batch.section(Arc::new(resource), prober.start_ns, now_ns));
    }
    sections
}

/// Series exist from their first event on, so that a port has those of its own classes only.
fn fill(batch: &mut Batch, rdma: &PortStats, tcp: &PortStats, bounds: &Arc<[f64]>) {
    let histogram = |times: &Times| Value::Histogram(Arc::new(times.value(bounds)));
    for (index, (_, class)) in CLASSES.iter().enumerate() {
        for (at, (_, transport)) in TRANSPORTS.iter().enumerate() {
            let of =
                |stats: &PortStats| stats.pairs.get(index).and_then(|pairs| pairs.get(at)).cloned().unwrap_or_default();
            let PairStats { probes, lost, rtt } = match (of(rdma), of(tcp)) {
                (rdma, tcp) if rdma.probes == 0 => tcp,
                (rdma, _) => rdma,
            };
            if probes == 0 {
                continue;
            }
            let labels = [("class", *class), ("transport", *transport)];
            batch.fact(&PROBE_PROBES, &labels, Value::Int(probes));
            batch.fact(&PROBE_LOST, &labels, Value::Int(lost));
            batch.fact_if(&PROBE_RTT, &labels, (rtt.count() > 0).then(|| histogram(&rtt)));
        }
    }
    for (end, times) in [("prober", &rdma.own), ("responder", &rdma.turn)] {
        batch.fact_if(&PROBE_HOST_DELAY, &[("end", end)], (times.count() > 0).then(|| histogram(times)));
    }
    let counted = |count: u64| (count > 0).then_some(Value::Int(count));
    for (_, reason, count) in rdma.refused.iter() {
        batch.fact_if(&PROBE_REFUSED, &[("reason", reason)], counted(count));
    }
    for (reason, count) in DISCARDS.iter().zip(rdma.discarded) {
        batch.fact_if(&PROBE_DISCARDED, &[("reason", reason)], counted(count));
    }
    for (transport, count) in [("rdma", rdma.answered), ("tcp", tcp.answered)] {
        batch.fact_if(&PROBE_ANSWERED, &[("transport", transport)], counted(count));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prober::{PortEntry, Settings};
    use fabriclens_agent_host::clock::Clock;
    use fabriclens_probe_plan::{PairClass, ProbeResult, ProbeTransport};
    use std::sync::atomic::AtomicBool;

    #[test]
    fn a_port_has_series_of_what_it_has_seen() {
        let settings = Settings { rdma: true, tcp: true, per_second: 100, tcp_port: 7472 };
        let prober = Prober::new(settings, Arc::new(Clock::new()), Box::new(|_, _| ()));
        let (mut stats, mut tcp_stats) = (PortStats::default(), PortStats::default());
        let result = |transport: ProbeTransport, rtt_ns| ProbeResult {
            transport: transport as i32,
            rtt_ns,
            turn_ns: Some(5_000),
            own_ns: 9_000,
            ..ProbeResult::default()
        };
        stats.add(PairClass::Job as i32, &result(ProbeTransport::Rdma, Some(8_000)));
        stats.add(PairClass::Job as i32, &result(ProbeTransport::Rdma, None));
        stats.refused.add(crate::refusal::Refusal::Forged);
        stats.discard("no_route");
        tcp_stats.add(99, &result(ProbeTransport::Tcp, Some(80_000)));
        let entry = PortEntry {
            source: Err("no GID".into()),
            state: PortState::Failed("no GID".into()),
            tcp: Ok(()),
            stats,
            tcp_stats,
            wanted: Arc::new(AtomicBool::new(true)),
        };
        prober.ports.lock().insert("mlx5_0/1".into(), entry);
        let sections = sections(&prober, &"gpu-01".into(), 5);
        let section = &sections[0];
        assert_eq!((section.resource.device.as_deref(), section.resource.port), (Some("mlx5_0"), Some(1)));
        let text = |at: usize| {
            let column = &section.columns[at];
            let labels: Vec<_> = column.labels.iter().map(|(name, value)| format!("{name}={value}")).collect();
            format!("{} {}", column.metric.name, labels.join(","))
        };
        let all: Vec<_> = (0..section.columns.len()).map(text).collect();
        let wanted = [
            "fabric.probe.probes class=unknown,transport=tcp",
            "fabric.probe.lost class=unknown,transport=tcp",
            "fabric.probe.rtt class=unknown,transport=tcp",
            "fabric.probe.probes class=job,transport=rdma",
            "fabric.probe.lost class=job,transport=rdma",
            "fabric.probe.rtt class=job,transport=rdma",
            "fabric.probe.host.delay end=prober",
            "fabric.probe.host.delay end=responder",
            "fabric.probe.refused reason=forged",
            "fabric.probe.discarded reason=no_route",
            "fabric.probe.open ",
        ];
        assert_eq!(all, wanted);
        assert_eq!((&section.values[3], &section.values[4]), (&Value::Int(2), &Value::Int(1)));
        assert!(matches!(&section.values[5], Value::Histogram(rtt) if rtt.count() == 1));
    }
}
