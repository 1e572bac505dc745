//! DCB configuration (PFC, ETS, APP, buffers) and, where the driver refreshes them, PFC frame counts.
//! Several firmware commands a read, and configuration changes rarely: slow.

use crate::sampler::{Period, Sampler, Spec};
use crate::target::Subject;
use fabriclens_agent_host::batch::{Batch, SampleError};
use fabriclens_catalog::{CounterSource, metrics::dcb, metrics::pfc};
use fabriclens_wire::Value;
use std::sync::Arc;

/// See the module.
pub const SPEC: Spec = Spec {
    name: "dcb",
    source: CounterSource::Dcb,
    period: Period::Slow,
    default: true,
    needs: "",
    applies: |subject| subject.netdev.as_ref().is_some_and(|n| n.class.owns_port() && !n.infiniband),
    open,
};

/// `SEL_DSCP` of IEEE 802.1Qcd.
const SELECTOR_DSCP: u8 = 5;

fn open(subject: &Subject) -> Result<Box<dyn Sampler>, SampleError> {
    let netdev = subject.netdev.as_ref().ok_or_else(|| SampleError::Absent("no netdev".into()))?;
    subject.calls.dcb(&netdev.name)?;
    Ok(Box::new(Dcb { subject: subject.clone(), pairs: Vec::new() }))
}

struct Dcb {
    subject: Subject,
    pairs: Vec<(Arc<str>, u64)>,
}

impl Sampler for Dcb {
    fn sample(&mut self, _: &[bool], out: &mut Batch) -> Result<(), SampleError> {
        let Some(netdev) = &self.subject.netdev else { return Ok(()) };
        let told = self.subject.calls.dcb(&netdev.name)?;
        self.pairs.clear();
        for (name, counts) in [("requests", told.requests), ("indications", told.indications)] {
            for (priority, count) in counts.into_iter().flatten().enumerate() {
                self.pairs.push((format!("ieee_pfc/{name}[{priority}]").into(), count));
            }
        }
        out.set_pairs(&self.pairs);
        for priority in 0..8_u8 {
            let number = priority.to_string();
            let labels = [("priority", number.as_str())];
            let of = |table: Option<[u8; 8]>| table.map(|t| Value::Int(t[usize::from(priority)].into()));
            let on = told.pfc_enabled.map(|map| Value::Int((map >> priority & 1).into()));
            out.fact_if(&pfc::PFC_ENABLED, &labels, on);
            out.fact_if(&dcb::DCB_PRIORITY_TC, &labels, of(told.prio_tc));
            out.fact_if(&dcb::DCB_PRIORITY_BUFFER, &labels, of(told.prio_buffer));
            let size = told.buffer_size.filter(|sizes| sizes.iter().any(|size| *size > 0));
            let size = size.map(|sizes| Value::Int(sizes[usize::from(priority)].into()));
            out.fact_if(&dcb::DCB_BUFFER_SIZE, &[("buffer", number.as_str())], size);
            let labels = [("tc", number.as_str())];
            let share = told.tc_bandwidth.map(|t| Value::Float(f64::from(t[usize::from(priority)]) / 100.0));
            out.fact_if(&dcb::DCB_TC_BANDWIDTH, &labels, share);
            out.fact_if(&dcb::DCB_TC_ALGORITHM, &labels, of(told.tc_algorithm));
        }
        out.fact_if(&dcb::DCB_PFC_CAPABILITY, &[], told.pfc_capable.map(|n| Value::Int(n.into())));
        out.fact_if(&dcb::DCB_PFC_MBC, &[], told.macsec_bypass.map(|on| Value::Int(on.into())));
        out.fact_if(&dcb::DCB_PFC_DELAY, &[], told.pfc_delay.map(|n| Value::Int(n.into())));
        for (_, dscp, priority) in told.apps.iter().filter(|(selector, ..)| *selector == SELECTOR_DSCP) {
            out.fact(&dcb::DCB_DSCP_PRIORITY, &[("dscp", &dscp.to_string())], Value::Int((*priority).into()));
        }
        Ok(())
    }
}
