//! DCB configuration (PFC, ETS, APP, buffers) and, where the driver refreshes them, PFC frame counts.
//! Read slowly: a read takes several firmware commands, and the configuration changes rarely.

use crate::sampler::{Period, Sampler, Spec};
use crate::target::SamplingTarget;
use fabriclens_agent_host::batch::{Batch, SampleError};
use fabriclens_catalog::{CounterSource, metrics::dcb, metrics::pfc};
use fabriclens_wire::Value;
use std::sync::Arc;

/// Table row of this sampler.
pub const SPEC: Spec = Spec {
    name: "dcb",
    source: CounterSource::Dcb,
    period: Period::Slow,
    default: true,
    needs: "",
    applies: |target| target.netdev.as_ref().is_some_and(|n| n.class.owns_port() && !n.infiniband),
    open,
};

/// `SEL_DSCP` of IEEE 802.1Qcd.
const SELECTOR_DSCP: u8 = 5;

fn open(target: &SamplingTarget) -> Result<Box<dyn Sampler>, SampleError> {
    let netdev = target.netdev.as_ref().ok_or_else(|| SampleError::Absent("no netdev".into()))?;
    target.calls.dcb(&netdev.name)?;
    Ok(Box::new(Dcb { target: target.clone(), pairs: Vec::new() }))
}

struct Dcb {
    target: SamplingTarget,
    pairs: Vec<(Arc<str>, u64)>,
}

impl Sampler for Dcb {
    fn sample(&mut self, _: &[bool], out: &mut Batch) -> Result<(), SampleError> {
        let Some(netdev) = &self.target.netdev else { return Ok(()) };
        let dcb_state = self.target.calls.dcb(&netdev.name)?;
        self.pairs.clear();
        for (name, counts) in [("requests", dcb_state.requests), ("indications", dcb_state.indications)] {
            for (priority, count) in counts.into_iter().flatten().enumerate() {
                self.pairs.push((format!("ieee_pfc/{name}[{priority}]").into(), count));
            }
        }
        out.set_pairs(&self.pairs);
        for priority in 0..8_u8 {
            let number = priority.to_string();
            let labels = [("priority", number.as_str())];
            let of = |table: Option<[u8; 8]>| table.map(|t| Value::Int(t[usize::from(priority)].into()));
            let on = dcb_state.pfc_enabled.map(|map| Value::Int((map >> priority & 1).into()));
            out.fact_if(&pfc::PFC_ENABLED, &labels, on);
            out.fact_if(&dcb::DCB_PRIORITY_TC, &labels, of(dcb_state.prio_tc));
            out.fact_if(&dcb::DCB_PRIORITY_BUFFER, &labels, of(dcb_state.prio_buffer));
            let size = dcb_state.buffer_size.filter(|sizes| sizes.iter().any(|size| *size > 0));
            let size = size.map(|sizes| Value::Int(sizes[usize::from(priority)].into()));
            out.fact_if(&dcb::DCB_BUFFER_SIZE, &[("buffer", number.as_str())], size);
            let labels = [("tc", number.as_str())];
            let share = dcb_state.tc_bandwidth.map(|t| Value::Float(f64::from(t[usize::from(priority)]) / 100.0));
            out.fact_if(&dcb::DCB_TC_BANDWIDTH, &labels, share);
            out.fact_if(&dcb::DCB_TC_ALGORITHM, &labels, of(dcb_state.tc_algorithm));
        }
        out.fact_if(&dcb::DCB_PFC_CAPABILITY, &[], dcb_state.pfc_capable.map(|n| Value::Int(n.into())));
        out.fact_if(&dcb::DCB_PFC_MBC, &[], dcb_state.macsec_bypass.map(|on| Value::Int(on.into())));
        out.fact_if(&dcb::DCB_PFC_DELAY, &[], dcb_state.pfc_delay.map(|n| Value::Int(n.into())));
        for (_, dscp, priority) in dcb_state.apps.iter().filter(|(selector, ..)| *selector == SELECTOR_DSCP) {
            out.fact(&dcb::DCB_DSCP_PRIORITY, &[("dscp", &dscp.to_string())], Value::Int((*priority).into()));
        }
        Ok(())
    }
}
