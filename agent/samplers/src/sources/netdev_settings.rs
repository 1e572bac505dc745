//! Settings of the netdev of a port by ethtool netlink: forward error correction, ring sizes, 802.3x pause. Read slowly: a
//! read takes the RTNL lock and firmware commands, and the settings change rarely.

use crate::sampler::{Period, Sampler, Spec};
use crate::target::SamplingTarget;
use fabriclens_agent_host::batch::{Batch, SampleError};
use fabriclens_catalog::CounterSource;
use fabriclens_catalog::metrics::{fec, netdev, pause};
use fabriclens_wire::Value;

/// Table row of this sampler.
pub const SPEC: Spec = Spec {
    name: "netdev_settings",
    source: CounterSource::EthtoolStd,
    period: Period::Slow,
    default: true,
    needs: "",
    applies: |target| target.netdev.as_ref().is_some_and(|n| n.class.owns_port() && !n.infiniband),
    open,
};

fn open(target: &SamplingTarget) -> Result<Box<dyn Sampler>, SampleError> {
    let netdev = target.netdev.as_ref().ok_or_else(|| SampleError::Absent("no netdev".into()))?;
    target.calls.netdev_settings(&netdev.name)?;
    Ok(Box::new(NetdevSettings { target: target.clone() }))
}

struct NetdevSettings {
    target: SamplingTarget,
}

impl Sampler for NetdevSettings {
    fn sample(&mut self, _: &[bool], out: &mut Batch) -> Result<(), SampleError> {
        let Some(netdev) = &self.target.netdev else { return Ok(()) };
        let read = self.target.calls.netdev_settings(&netdev.name)?;
        if let Some(mode) = &read.fec {
            out.fact(&fec::FEC_MODE, &[("mode", mode)], Value::Int(1));
        }
        let size = |entries: Option<u32>| entries.map(|n| Value::Int(n.into()));
        let on = |on: Option<bool>| on.map(|on| Value::Int(on.into()));
        for (direction, ring, paused) in
            [("receive", read.receive_ring, read.receive_pause), ("transmit", read.transmit_ring, read.transmit_pause)]
        {
            let labels = [("direction", direction)];
            out.fact_if(&netdev::NETDEV_RING_SIZE, &labels, size(ring));
            out.fact_if(&pause::PAUSE_ENABLED, &labels, on(paused));
        }
        Ok(())
    }
}
