//! Switch and port at the other end of a cable, from LLDP: labels `switch` and `switch_port` of `fabric_port_info`.
//!
//! Frames are received, none are sent. While listening, the interface accepts the multicast address of LLDP; the kernel
//! reverts that when the socket closes.

use crate::sampler::{Period, Sampler, Spec};
use crate::target::SamplingTarget;
use fabriclens_agent_host::batch::{Batch, SampleError};
use fabriclens_catalog::CounterSource;

/// Table row of this sampler.
pub const SPEC: Spec = Spec {
    name: "lldp",
    source: CounterSource::Other,
    period: Period::Slow,
    default: true,
    needs: "CAP_NET_RAW",
    applies: |target| {
        let netdev = target.netdev.as_ref();
        target.port().is_some() && netdev.is_some_and(|n| n.class.owns_port() && !n.infiniband)
    },
    open,
};

fn open(target: &SamplingTarget) -> Result<Box<dyn Sampler>, SampleError> {
    Ok(Box::new(Lldp { target: target.clone() }))
}

struct Lldp {
    target: SamplingTarget,
}

impl Sampler for Lldp {
    fn sample(&mut self, _: &[bool], out: &mut Batch) -> Result<(), SampleError> {
        let Some(netdev) = &self.target.netdev else { return Ok(()) };
        let heard = self.target.calls.lldp_neighbor(&netdev.name);
        self.target.set_neighbor(heard.as_ref().ok());
        let neighbor = heard?;
        out.note = format!("{} {}", neighbor.switch, neighbor.port).trim_end().to_owned();
        Ok(())
    }
}
