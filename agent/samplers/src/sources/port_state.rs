//! State of links, each second: state files of RDMA ports, carrier of netdevs, and the reason why a link is down. A
//! change is urgent, also one that is already over. Ports of management-only and restricted functions are read too:
//! reading the state does not access their registers.
//!
//! The driver of EFA reports every port as active, whatever the link does: its port is up if its interface has a carrier, and
//! nothing is said without an interface.

use crate::sampler::{Period, Sampler, Spec};
use crate::target::SamplingTarget;
use fabriclens_agent_host::batch::{Batch, SampleError};
use fabriclens_agent_host::sysfile::{CachedFile, FileError, number};
use fabriclens_catalog::metrics::{link, netdev, state};
use fabriclens_catalog::{CounterSource, Metric};
use fabriclens_wire::Value;

/// Table row of this sampler.
pub const SPEC: Spec = Spec {
    name: "port_state",
    source: CounterSource::Other,
    period: Period::Full,
    default: true,
    needs: "",
    applies: SamplingTarget::is_link,
    open,
};

/// Logical state ACTIVE.
const ACTIVE: u64 = 4;
/// Reads per query of the reason for a link being down, which takes the RTNL lock.
const REASON_EVERY: u32 = 5;

fn open(target: &SamplingTarget) -> Result<Box<dyn Sampler>, SampleError> {
    let file = |name: &str| target.port().map(|p| CachedFile::new(p.dir.join(name)));
    let of_netdev = |name: &str| target.netdev.as_ref().map(|n| CachedFile::new(n.dir.join(name)));
    let mut opened = PortState {
        target: target.clone(),
        told: target.device.as_ref().is_none_or(|device| &*device.driver != "efa"),
        state: file("state"),
        physical: file("phys_state"),
        carrier: of_netdev("carrier"),
        changes: of_netdev("carrier_changes"),
        operstate: of_netdev("operstate"),
        last: None,
        reads: 0,
        reason: None,
    };
    let mut batch = Batch::default();
    opened.sample(&[], &mut batch)?;
    if batch.facts.is_empty() {
        return Err(SampleError::Absent(format!("{}: no state files", target.name())));
    }
    Ok(Box::new(opened))
}

struct PortState {
    target: SamplingTarget,
    /// The driver tells the state of the link.
    told: bool,
    state: Option<CachedFile>,
    physical: Option<CachedFile>,
    carrier: Option<CachedFile>,
    changes: Option<CachedFile>,
    operstate: Option<CachedFile>,
    last: Option<[Option<u64>; 3]>,
    reads: u32,
    reason: Option<(String, String)>,
}

impl Sampler for PortState {
    fn sample(&mut self, _: &[bool], out: &mut Batch) -> Result<(), SampleError> {
        let logical = fact(&mut self.state, leading_number, &state::PORT_STATE, out)?;
        fact(&mut self.physical, leading_number, &state::PORT_PHYSICAL_STATE, out)?;
        let carrier = fact(&mut self.carrier, plain, &netdev::NETDEV_CARRIER, out)?;
        let port_up =
            if self.told { logical.map(|state| state == ACTIVE) } else { carrier.map(|carrier| carrier == 1) };
        out.fact_if(&state::PORT_UP, &[], port_up.map(|up| Value::Int(up.into())));
        let changes = fact(&mut self.changes, plain, &link::CARRIER_CHANGES, out)?;
        let up = fact(&mut self.operstate, operational, &netdev::NETDEV_UP, out)?;
        let now = [logical, carrier.or(up), changes];
        out.urgent = self.last.is_some_and(|last| last != now);
        let down = carrier == Some(0) || up == Some(0);
        if !down {
            self.reason = None;
        } else if out.urgent || self.reads.is_multiple_of(REASON_EVERY) {
            self.reason = self.ask_reason();
        }
        if let Some((reason, detail)) = &self.reason {
            out.fact(&netdev::NETDEV_DOWN_REASON, &[("reason", reason), ("detail", detail)], Value::Int(1));
        }
        self.last = Some(now);
        self.reads = self.reads.wrapping_add(1);
        Ok(())
    }
}

impl PortState {
    fn ask_reason(&self) -> Option<(String, String)> {
        let netdev = self.target.netdev.as_ref()?;
        let link = self.target.calls.link_state(&netdev.name).ok()?;
        Some((link.reason?, link.detail.unwrap_or_default()))
    }
}

/// Reads a file into a fact; none if the file has no value.
fn fact(
    file: &mut Option<CachedFile>,
    parse: fn(&[u8]) -> Option<u64>,
    metric: &'static Metric,
    out: &mut Batch,
) -> Result<Option<u64>, SampleError> {
    let Some(file) = file else { return Ok(None) };
    let mut buf = [0; 64];
    match file.read(&mut buf) {
        Ok(text) => {
            let value = parse(text);
            out.fact_if(metric, &[], value.map(Value::Int));
            Ok(value)
        }
        Err(error @ FileError::Gone { .. }) => Err(error.into()),
        Err(error) => {
            out.drop_row(&error);
            Ok(None)
        }
    }
}

/// `4: ACTIVE`
fn leading_number(text: &[u8]) -> Option<u64> {
    number(text.split(|b| *b == b':').next()?).ok()
}

fn plain(text: &[u8]) -> Option<u64> {
    number(text).ok()
}

/// 1 for `up`; `None` for `unknown`, as some drivers never report more.
fn operational(text: &[u8]) -> Option<u64> {
    match text.trim_ascii() {
        b"up" => Some(1),
        b"unknown" | b"" => None,
        _ => Some(0),
    }
}
