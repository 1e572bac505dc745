//! Who is at the other end of a port's cable, as LLDP tells it: labels `switch` and `switch_port` of `fabric_port_info`.
//!
//! Frames are received, none are sent. While it listens the interface takes in the multicast address of LLDP; the
//! kernel takes that back with the socket.

use crate::sampler::{Period, Sampler, Spec};
use crate::target::Subject;
use fabriclens_agent_host::batch::{Batch, SampleError};
use fabriclens_catalog::CounterSource;

/// See the module.
pub const SPEC: Spec = Spec {
    name: "lldp",
    source: CounterSource::Other,
    period: Period::Slow,
    default: true,
    needs: "CAP_NET_RAW",
    applies: |subject| {
        let netdev = subject.netdev.as_ref();
        subject.port().is_some() && netdev.is_some_and(|n| n.class.owns_port() && !n.infiniband)
    },
    open,
};

fn open(subject: &Subject) -> Result<Box<dyn Sampler>, SampleError> {
    Ok(Box::new(Lldp { subject: subject.clone() }))
}

struct Lldp {
    subject: Subject,
}

impl Sampler for Lldp {
    fn sample(&mut self, _: &[bool], out: &mut Batch) -> Result<(), SampleError> {
        let Some(netdev) = &self.subject.netdev else { return Ok(()) };
        let heard = self.subject.calls.lldp_neighbor(&netdev.name);
        self.subject.tell_neighbour(heard.as_ref().ok());
        let neighbour = heard?;
        out.note = format!("{} {}", neighbour.switch, neighbour.port).trim_end().to_owned();
        Ok(())
    }
}
