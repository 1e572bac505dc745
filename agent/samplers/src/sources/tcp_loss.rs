//! What TCP had to send again, by interface and class of destination, seen by a probe in the
//! kernel (`ebpf/probes/src/bin/tcp_loss.rs`). How much the host sent again in all, and signs such as reordering that no
//! stable hook tells by connection, are in `/proc/net` (`tcpip`); this one says towards whom, and why.

use crate::per_interface::ByPlace;
use crate::sampler::{Period, Sampler, Spec};
use crate::target::Subject;
use aya::include_bytes_aligned;
use fabriclens_agent_host::batch::{Batch, SampleError};
use fabriclens_agent_probes::{At, Design, Hook, Member, TRACEPOINTS};
use fabriclens_catalog::CounterSource;
use fabriclens_catalog::metrics::host::{TCP_RETRANSMIT_IO, TCP_RETRANSMIT_SEGMENTS};
use fabriclens_ebpf_abi::tcp_loss::{BYTES, HANDSHAKE, NAMES, SEGMENTS, UNKNOWN, WORDS};
use fabriclens_wire::Value;

/// See the module.
pub const SPEC: Spec = Spec {
    name: "tcp_loss",
    source: CounterSource::Ebpf,
    period: Period::Full,
    default: true,
    needs: TRACEPOINTS,
    applies: Subject::is_host,
    open,
};

static DESIGN: Design = Design {
    name: SPEC.name,
    object: include_bytes_aligned!("../../../../ebpf/objects/tcp_loss.o"),
    hooks: &[
        Hook {
            program: "tcp_retransmit_skb",
            at: At::Tracepoint {
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
            at: At::Tracepoint {
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

fn open(subject: &Subject) -> Result<Box<dyn Sampler>, SampleError> {
    let probe = ByPlace::open(subject, &DESIGN, "LOSS", &[])?;
    let (kinds, bytes) = (probe.has("CONGESTION_STATE"), probe.has("LENGTH"));
    Ok(Box::new(TcpLoss { probe, kinds, bytes }))
}

struct TcpLoss {
    probe: ByPlace<WORDS>,
    /// Whether the probe can tell kinds apart.
    kinds: bool,
    bytes: bool,
}

impl Sampler for TcpLoss {
    fn sample(&mut self, _: &[bool], out: &mut Batch) -> Result<(), SampleError> {
        let (kinds, bytes) = (self.kinds, self.bytes);
        // What cannot be known here is no zero.
        let told = move |kind: &usize| *kind == HANDSHAKE || kinds == (*kind != UNKNOWN);
        self.probe.read(out, |out, record, [destination, netdev]| {
            for kind in (0..NAMES.len()).filter(told) {
                let labels = [destination, ("kind", NAMES[kind]), netdev];
                out.fact(&TCP_RETRANSMIT_SEGMENTS, &labels, Value::Int(record[SEGMENTS + kind]));
                if bytes {
                    out.fact(&TCP_RETRANSMIT_IO, &labels, Value::Int(record[BYTES + kind]));
                }
            }
        })
    }
}
