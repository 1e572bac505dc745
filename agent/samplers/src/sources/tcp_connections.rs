//! TCP connection attempts, their outcome and duration, and connections ended by a reset, by interface and destination
//! class, from a probe in the kernel (`ebpf/probes/src/bin/tcp_connections.rs`).

use crate::per_interface::PerInterfaceProbe;
use crate::sampler::{Period, Sampler, Spec};
use crate::target::SamplingTarget;
use aya::include_bytes_aligned;
use aya::util::nr_cpus;
use fabriclens_agent_host::batch::{Batch, SampleError};
use fabriclens_agent_probes::{AttachPoint, Hook, Member, ProbeSpec, TRACEPOINTS, bounds, histogram};
use fabriclens_catalog::CounterSource;
use fabriclens_catalog::metrics::host::{
    TCP_CONNECTION_ATTEMPTS, TCP_CONNECTION_ESTABLISHED, TCP_CONNECTION_FAILURES, TCP_CONNECTION_LATENCY,
    TCP_CONNECTION_RESETS,
};
use fabriclens_ebpf_abi::tcp_connections::{
    ACTIVE, ATTEMPTS, FAILURES, NAMES, NO_PORT, PASSIVE, RESETS_RECEIVED, RESETS_SENT, UNKNOWN, WORDS,
};
use fabriclens_wire::Value;
use std::sync::Arc;

/// Table row of this sampler.
pub const SPEC: Spec = Spec {
    name: "tcp_connections",
    source: CounterSource::Ebpf,
    period: Period::Full,
    default: true,
    needs: TRACEPOINTS,
    applies: SamplingTarget::is_host,
    open,
};

static DESIGN: ProbeSpec = ProbeSpec {
    name: SPEC.name,
    object: include_bytes_aligned!("../../../../ebpf/objects/tcp_connections.o"),
    hooks: &[
        Hook {
            program: "inet_sock_set_state",
            at: AttachPoint::Tracepoint {
                event: "sock/inet_sock_set_state",
                fields: &[
                    ("SK", "skaddr"),
                    ("OLD", "oldstate"),
                    ("NEW", "newstate"),
                    ("PROTOCOL", "protocol"),
                    ("PORT", "sport"),
                    ("LOCAL_ADDRESS", "saddr_v6"),
                    ("REMOTE_ADDRESS", "daddr_v6"),
                ],
                optional: &[],
            },
        },
        Hook {
            program: "tcp_receive_reset",
            at: AttachPoint::Tracepoint {
                event: "tcp/tcp_receive_reset",
                fields: &[("RECEIVED_SK", "skaddr"), ("RECEIVED_LOCAL", "saddr_v6"), ("RECEIVED_REMOTE", "daddr_v6")],
                optional: &[],
            },
        },
        Hook {
            program: "tcp_send_reset",
            at: AttachPoint::Tracepoint {
                event: "tcp/tcp_send_reset",
                fields: &[
                    ("SENT_SK", "skaddr"),
                    ("SENT_STATE", "state"),
                    ("SENT_LOCAL", "saddr"),
                    ("SENT_REMOTE", "daddr"),
                ],
                // Since Linux 6.10 both families are in the two above.
                optional: &[("SENT_LOCAL_V6", "saddr_v6"), ("SENT_REMOTE_V6", "daddr_v6")],
            },
        },
    ],
    members: &[Member { global: "SK_ERROR", steps: &[("sock", "sk_err")] }],
};

/// Limit of sockets that are connecting at one time; further ones replace the oldest.
const STARTS_AT_LEAST: usize = 8192;
const STARTS_PER_CPU: usize = 256;

fn open(target: &SamplingTarget) -> Result<Box<dyn Sampler>, SampleError> {
    // Each CPU may reserve some entries, so that a fixed number would be too few on hosts with many CPUs.
    let cpus = nr_cpus().unwrap_or(1);
    let starts = (cpus * STARTS_PER_CPU).max(STARTS_AT_LEAST) as u32;
    let probe = PerInterfaceProbe::open(target, &DESIGN, "CONNECTIONS", &[("STARTS", starts)])?;
    let reasons = probe.has("SK_ERROR");
    Ok(Box::new(TcpConnections { probe, reasons, bounds: bounds() }))
}

struct TcpConnections {
    probe: PerInterfaceProbe<WORDS>,
    /// Whether the probe distinguishes reasons.
    reasons: bool,
    bounds: Arc<[f64]>,
}

impl Sampler for TcpConnections {
    fn sample(&mut self, _: &[bool], out: &mut Batch) -> Result<(), SampleError> {
        let reasons = self.reasons;
        // Unknown values are absent, not zero.
        let known = move |reason: &usize| *reason == NO_PORT || reasons == (*reason != UNKNOWN);
        self.probe.read(out, |out, record, [destination, netdev]| {
            out.fact(&TCP_CONNECTION_ATTEMPTS, &[destination, netdev], Value::Int(record[ATTEMPTS]));
            for (opened, word) in [("active", ACTIVE), ("passive", PASSIVE)] {
                let labels = [destination, netdev, ("opened", opened)];
                out.fact(&TCP_CONNECTION_ESTABLISHED, &labels, Value::Int(record[word]));
            }
            for reason in (0..NAMES.len()).filter(known) {
                let labels = [destination, netdev, ("reason", NAMES[reason])];
                out.fact(&TCP_CONNECTION_FAILURES, &labels, Value::Int(record[FAILURES + reason]));
            }
            for (direction, word) in [("receive", RESETS_RECEIVED), ("transmit", RESETS_SENT)] {
                let labels = [destination, ("direction", direction), netdev];
                out.fact(&TCP_CONNECTION_RESETS, &labels, Value::Int(record[word]));
            }
            let latency = histogram(record, &self.bounds).map(Value::Histogram);
            out.fact_if(&TCP_CONNECTION_LATENCY, &[destination, netdev], latency);
        })
    }
}
