//! Temperature, supply, optical power and bias of the pluggable module. Slow I2C behind a privilege.

use crate::sampler::{Period, Sampler, Spec};
use crate::target::SamplingTarget;
use fabriclens_agent_host::batch::{Batch, SampleError};
use fabriclens_catalog::{CounterSource, metrics::optics};
use fabriclens_wire::Value;

/// Table row of this sampler.
pub const SPEC: Spec = Spec {
    name: "optics",
    source: CounterSource::Module,
    period: Period::Slow,
    default: true,
    needs: "CAP_NET_ADMIN",
    applies: |target| target.netdev.as_ref().is_some_and(|n| n.class.owns_port() && !n.infiniband),
    open,
};

fn open(target: &SamplingTarget) -> Result<Box<dyn Sampler>, SampleError> {
    Ok(Box::new(Optics { target: target.clone() }))
}

struct Optics {
    target: SamplingTarget,
}

impl Sampler for Optics {
    fn sample(&mut self, _: &[bool], out: &mut Batch) -> Result<(), SampleError> {
        let Some(netdev) = &self.target.netdev else { return Ok(()) };
        let module = self.target.calls.module(&netdev.name)?;
        out.fact_if(&optics::MODULE_TEMPERATURE, &[], module.temperature.map(Value::Float));
        out.fact_if(&optics::MODULE_SUPPLY, &[], module.supply.map(Value::Float));
        for (i, lane) in module.lanes.iter().enumerate() {
            let number = i.to_string();
            let labels = [("lane", number.as_str())];
            out.fact_if(&optics::MODULE_RX_POWER, &labels, lane.rx_power.map(Value::Float));
            out.fact_if(&optics::MODULE_TX_POWER, &labels, lane.tx_power.map(Value::Float));
            out.fact_if(&optics::MODULE_BIAS, &labels, lane.tx_bias.map(Value::Float));
        }
        Ok(())
    }
}
