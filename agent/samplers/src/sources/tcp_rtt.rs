//! Smoothed TCP round-trip times by interface and destination class, sampled at some of the received segments by a
//! probe in the kernel (`ebpf/probes/src/bin/tcp_rtt.rs`). A reference for RDMA latency.

use crate::per_interface::PerInterfaceProbe;
use crate::sampler::{Period, Sampler, Spec};
use crate::target::SamplingTarget;
use aya::include_bytes_aligned;
use aya::programs::CgroupSkbAttachType;
use fabriclens_agent_host::batch::{Batch, SampleError};
use fabriclens_agent_probes::{AttachPoint, Hook, ProbeSpec, SOCKETS, bounds, histogram};
use fabriclens_catalog::CounterSource;
use fabriclens_catalog::metrics::host::TCP_RTT;
use fabriclens_ebpf_abi::histogram::WORDS;
use fabriclens_wire::Value;
use std::sync::Arc;

/// Table row of this sampler.
pub const SPEC: Spec = Spec {
    name: "tcp_rtt",
    source: CounterSource::Ebpf,
    period: Period::Full,
    default: true,
    needs: SOCKETS,
    applies: SamplingTarget::is_host,
    open,
};

static DESIGN: ProbeSpec = ProbeSpec {
    name: SPEC.name,
    object: include_bytes_aligned!("../../../../ebpf/objects/tcp_rtt.o"),
    hooks: &[Hook { program: "received", at: AttachPoint::Sockets(CgroupSkbAttachType::Ingress) }],
    members: &[],
};

fn open(target: &SamplingTarget) -> Result<Box<dyn Sampler>, SampleError> {
    Ok(Box::new(TcpRtt { probe: PerInterfaceProbe::open(target, &DESIGN, "RTT", &[])?, bounds: bounds() }))
}

struct TcpRtt {
    probe: PerInterfaceProbe<WORDS>,
    bounds: Arc<[f64]>,
}

impl Sampler for TcpRtt {
    fn sample(&mut self, _: &[bool], out: &mut Batch) -> Result<(), SampleError> {
        self.probe.read(out, |out, record, labels| {
            out.fact_if(&TCP_RTT, &labels, histogram(record, &self.bounds).map(Value::Histogram));
        })
    }
}
