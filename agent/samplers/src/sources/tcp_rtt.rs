//! Smoothed round trips of TCP by interface and class of destination, seen by a probe in the kernel at some of the segments
//! received (`ebpf/probes/src/bin/tcp_rtt.rs`). The yardstick beside RDMA.

use crate::per_interface::ByPlace;
use crate::sampler::{Period, Sampler, Spec};
use crate::target::Subject;
use aya::include_bytes_aligned;
use aya::programs::CgroupSkbAttachType;
use fabriclens_agent_host::batch::{Batch, SampleError};
use fabriclens_agent_probes::{At, Design, Hook, SOCKETS, bounds, histogram};
use fabriclens_catalog::CounterSource;
use fabriclens_catalog::metrics::host::TCP_RTT;
use fabriclens_ebpf_abi::histogram::WORDS;
use fabriclens_wire::Value;
use std::sync::Arc;

/// See the module.
pub const SPEC: Spec = Spec {
    name: "tcp_rtt",
    source: CounterSource::Ebpf,
    period: Period::Full,
    default: true,
    needs: SOCKETS,
    applies: Subject::is_host,
    open,
};

static DESIGN: Design = Design {
    name: SPEC.name,
    object: include_bytes_aligned!("../../../../ebpf/objects/tcp_rtt.o"),
    hooks: &[Hook { program: "received", at: At::Sockets(CgroupSkbAttachType::Ingress) }],
    members: &[],
};

fn open(subject: &Subject) -> Result<Box<dyn Sampler>, SampleError> {
    Ok(Box::new(TcpRtt { probe: ByPlace::open(subject, &DESIGN, "RTT", &[])?, bounds: bounds() }))
}

struct TcpRtt {
    probe: ByPlace<WORDS>,
    bounds: Arc<[f64]>,
}

impl Sampler for TcpRtt {
    fn sample(&mut self, _: &[bool], out: &mut Batch) -> Result<(), SampleError> {
        self.probe.read(out, |out, record, labels| {
            out.fact_if(&TCP_RTT, &labels, histogram(record, &self.bounds).map(Value::Histogram));
        })
    }
}
