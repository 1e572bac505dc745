//! TCP retransmissions by interface and destination class, from a probe in the kernel
//! (`ebpf/probes/src/bin/tcp_loss.rs`). Host totals, and signs such as reordering that no stable hook reports per
//! connection, are in `/proc/net` (`tcpip`); this sampler adds destination and cause.

use crate::per_interface::PerInterfaceProbe;
use crate::sampler::{Period, Sampler, Spec};
use crate::target::SamplingTarget;
use aya::include_bytes_aligned;
use fabriclens_agent_host::batch::{Batch, SampleError};
use fabriclens_agent_probes::{AttachPoint, Hook, Member, ProbeSpec, TRACEPOINTS};
use fabriclens_catalog::CounterSource;
use fabriclens_catalog::metrics::host::{TCP_RETRANSMIT_IO, TCP_RETRANSMIT_SEGMENTS};
use fabriclens_ebpf_abi::tcp_loss::{BYTES, HANDSHAKE, NAMES, SEGMENTS, UNKNOWN, WORDS};
use fabriclens_wire::Value;

/// Table row of this sampler.
pub const SPEC: Spec = Spec {
    name: "tcp_loss",
    source: CounterSource::Ebpf,
    period: Period::Full,
    default: true,
    needs: TRACEPOINTS,
    applies: SamplingTarget::is_host,
    open,
};

static DESIGN: ProbeSpec = ProbeSpec {
    name: SPEC.name,
    object: include_bytes_aligned!("../../../../ebpf/objects/tcp_loss.o"),
    hooks: &[
        Hook {
            program: "tcp_retransmit_skb",
            at: AttachPoint::Tracepoint {
                event: "tcp/tcp_retransmit_skb",
                fields: &[
                    ("SKB", "skbaddr"),
                    ("SK", "skaddr"),
                    ("STATE", "state"),
                    ("LOCAL_ADDRESS", "saddr_v6"),
                    ("REMOTE_ADDRESS", "daddr_v6"),
                ],
                optional: &[("ERROR", "err")],
            },
        },
        Hook {
            program: "tcp_retransmit_synack",
            at: AttachPoint::Tracepoint {
                event: "tcp/tcp_retransmit_synack",
                fields: &[("SYNACK_LOCAL", "saddr_v6"), ("SYNACK_REMOTE", "daddr_v6")],
                optional: &[],
            },
        },
    ],
    members: &[
        Member { global: "LENGTH", steps: &[("sk_buff", "len")] },
        Member { global: "COUNT", steps: &[("sk_buff", "cb"), ("tcp_skb_cb", "tcp_gso_segs")] },
        Member { global: "CONGESTION_STATE", steps: &[("inet_connection_sock", "icsk_ca_state")] },
        Member { global: "TIMER", steps: &[("inet_connection_sock", "icsk_pending")] },
    ],
};

fn open(target: &SamplingTarget) -> Result<Box<dyn Sampler>, SampleError> {
    let probe = PerInterfaceProbe::open(target, &DESIGN, "LOSS", &[])?;
    let (kinds, bytes) = (probe.has("CONGESTION_STATE"), probe.has("LENGTH"));
    Ok(Box::new(TcpLoss { probe, kinds, bytes }))
}

struct TcpLoss {
    probe: PerInterfaceProbe<WORDS>,
    /// Whether the probe distinguishes kinds.
    kinds: bool,
    bytes: bool,
}

impl Sampler for TcpLoss {
    fn sample(&mut self, _: &[bool], out: &mut Batch) -> Result<(), SampleError> {
        let (kinds, bytes) = (self.kinds, self.bytes);
        // Unknown values are absent, not zero.
        let known = move |kind: &usize| *kind == HANDSHAKE || kinds == (*kind != UNKNOWN);
        self.probe.read(out, |out, record, [destination, netdev]| {
            for kind in (0..NAMES.len()).filter(known) {
                let labels = [destination, ("kind", NAMES[kind]), netdev];
                out.fact(&TCP_RETRANSMIT_SEGMENTS, &labels, Value::Int(record[SEGMENTS + kind]));
                if bytes {
                    out.fact(&TCP_RETRANSMIT_IO, &labels, Value::Int(record[BYTES + kind]));
                }
            }
        })
    }
}
