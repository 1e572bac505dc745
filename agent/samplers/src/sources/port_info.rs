//! Slow facts of a port: identity for joins, negotiated rate, LIDs, GID table, MTU, limits.

use crate::sampler::{Period, Sampler, Spec};
use crate::target::SamplingTarget;
use fabriclens_agent_host::batch::{Batch, SampleError};
use fabriclens_agent_host::discover::transport;
use fabriclens_agent_host::inventory::{Class, Netdev, Port, Transport};
use fabriclens_agent_host::sysfile::maybe;
use fabriclens_catalog::metrics::{dcb, netdev, state};
use fabriclens_catalog::{CounterSource, Metric};
use fabriclens_wire::Value;
use std::path::Path;

/// Table row of this sampler.
pub const SPEC: Spec = Spec {
    name: "port_info",
    source: CounterSource::Other,
    period: Period::Slow,
    default: true,
    needs: "",
    applies: SamplingTarget::is_link,
    open,
};

/// GID and P_Key tables are filled from the front.
const TABLE_GAP: u32 = 8;
const TABLE_END: u32 = 128;
const MILLISECOND: f64 = 1e-3;

fn open(target: &SamplingTarget) -> Result<Box<dyn Sampler>, SampleError> {
    Ok(Box::new(PortInfo { target: target.clone() }))
}

struct PortInfo {
    target: SamplingTarget,
}

impl Sampler for PortInfo {
    fn sample(&mut self, _: &[bool], out: &mut Batch) -> Result<(), SampleError> {
        let target = &self.target;
        if let Some(port) = target.port() {
            rdma(target, port, out);
        }
        if let Some(netdev) = &target.netdev {
            interface(target, netdev, out);
        }
        info(target, out);
        Ok(())
    }
}

fn rdma(target: &SamplingTarget, port: &Port, out: &mut Batch) {
    let rate = maybe(&port.dir.join("rate")).unwrap_or_default();
    if let Some(bits) = rate_bits(&rate).filter(|bits| *bits > 0) {
        target.record_rate(bits);
        out.fact(&state::PORT_RATE, &[], Value::Int(bits / 8));
    }
    out.fact_if(&state::PORT_WIDTH, &[], lanes(&rate).map(Value::Int));
    let mut hex = |name: &str, metric: &'static Metric| {
        out.fact_if(metric, &[], maybe(&port.dir.join(name)).and_then(|t| hex_or_decimal(&t)).map(Value::Int));
    };
    hex("lid", &state::PORT_LID);
    hex("sm_lid", &state::PORT_SM_LID);
    hex("sm_sl", &state::PORT_SM_SL);
    hex("lid_mask_count", &state::PORT_LMC);
    hex("cap_mask", &state::PORT_CAPABILITIES);
    hex("has_smi", &state::PORT_SMI);
    let may_read = target.device.as_ref().is_some_and(|d| d.class.may_read());
    let lifespan = may_read.then(|| maybe(&port.dir.join("hw_counters/lifespan"))?.parse::<u32>().ok()).flatten();
    out.fact_if(&state::COUNTER_LIFESPAN, &[], lifespan.map(|ms| Value::Float(f64::from(ms) * MILLISECOND)));
    let types = table(&port.dir.join("gid_attrs/types"), |_| true);
    for (kind, label) in [("IB/RoCE v1", roce_v1_or_ib(port)), ("RoCE v2", "roce_v2")] {
        let used = types.iter().filter(|t| *t == kind).count();
        if !types.is_empty() {
            out.fact(&state::PORT_GIDS, &[("type", label)], Value::Int(used as u64));
        }
    }
    let keys = table(&port.dir.join("pkeys"), |key| key != "0x0000");
    if !keys.is_empty() {
        out.fact(&state::PORT_PKEYS, &[], Value::Int(keys.len() as u64));
    }
}

fn roce_v1_or_ib(port: &Port) -> &'static str {
    if port.transport == Transport::InfiniBand { "ib" } else { "roce_v1" }
}

fn interface(target: &SamplingTarget, of: &Netdev, out: &mut Batch) {
    // -1 is unknown; EINVAL while the interface is down.
    let speed = maybe(&of.dir.join("speed")).and_then(|t| t.parse::<u64>().ok()).filter(|mbit| *mbit > 0);
    if let Some(bits) = speed.and_then(|mbit| mbit.checked_mul(1_000_000)) {
        target.record_rate(bits);
        out.fact(&netdev::NETDEV_RATE, &[], Value::Int(bits / 8));
    }
    let mtu = maybe(&of.dir.join("mtu")).and_then(|t| t.parse().ok());
    out.fact_if(&netdev::NETDEV_MTU, &[], mtu.map(Value::Int));
    // Files of the vendor's own driver package.
    for (file, metric) in [("qos/trust", &dcb::DCB_TRUST), ("settings/pfc_stall_prevention", &dcb::STALL_PREVENTION)] {
        if let Some(mode) = maybe(&of.dir.join(file)).filter(|text| is_word(text)) {
            out.fact(metric, &[("mode", &mode)], Value::Int(1));
        }
    }
    if let Ok(bits) = target.calls.max_rate_bits(&of.name) {
        target.record_rate(bits);
        out.fact(&state::PORT_RATE_MAX, &[], Value::Int(bits / 8));
    }
}

/// True for a mode as drivers write it, false for a message.
fn is_word(text: &str) -> bool {
    (1..=32).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

fn info(target: &SamplingTarget, out: &mut Batch) {
    let device = target.device.as_deref();
    let port = target.port();
    let netdev = target.netdev.as_deref();
    let of_device = |name: &str| device.and_then(|d| maybe(&d.dir.join(name))).unwrap_or_default();
    let of_netdev = |name: &str| netdev.and_then(|n| maybe(&n.dir.join(name))).unwrap_or_default();
    let kind = match (port, netdev) {
        // The GID table changes with addresses, so it is read again.
        (Some(port), _) => device.map_or(port.transport, |d| transport(d, &port.dir, port.link_layer)),
        (None, Some(netdev)) if netdev.infiniband => Transport::InfiniBand,
        _ => Transport::Ethernet,
    };
    let fabric = kind.fabric();
    let roce = match kind {
        Transport::RoceV1 => "v1",
        Transport::RoceV2 => "v2",
        _ => "",
    };
    let class = device.map_or_else(|| netdev.map_or(Class::Physical, |n| n.class), |d| d.class);
    let driver = device.map(|d| &*d.driver).or(netdev.map(|n| &*n.driver)).unwrap_or_default();
    let firmware = device.and_then(|d| d.firmware.clone()).or_else(|| {
        // The netdev of a software device belongs to another vendor's device.
        let netdev = netdev.filter(|_| class != Class::Software)?;
        let driver = target.calls.driver(&netdev.name).ok()?;
        Some(driver.firmware).filter(|f| f != "N/A")
    });
    let numa = device.and_then(|d| d.numa).or(netdev.and_then(|n| n.numa)).map(|n| n.to_string()).unwrap_or_default();
    let pci = device.and_then(|d| d.pci.as_deref()).or(netdev.and_then(|n| n.pci.as_deref())).unwrap_or_default();
    let lag = device.map(|d| d.lag.join(",")).filter(|l| !l.is_empty());
    let lag = lag.or_else(|| netdev.and_then(|n| Some(n.rdma_bond.as_deref().or(n.master.as_deref())?.to_string())));
    let port_guid = port.and_then(|p| maybe(&p.dir.join("gids/0"))).map(|gid| low_half(&gid)).unwrap_or_default();
    let neighbor = target.neighbor().unwrap_or_default();
    let switch_address = neighbor.address.map(|address| address.to_string()).unwrap_or_default();
    let name = device.map(|d| &*d.name).or(netdev.map(|n| &*n.name)).unwrap_or_default();
    let rail = target.rails.of(name);
    let (rail, rail_source) = rail.as_ref().map_or(("", ""), |(rail, known)| (rail.as_str(), known.name()));
    let labels = [
        ("board", device.and_then(|d| d.board.as_deref()).unwrap_or_default()),
        ("driver", driver),
        ("fabric", fabric),
        ("firmware", firmware.as_deref().unwrap_or_default()),
        ("function", class.name()),
        ("hw_rev", &of_device("hw_rev")),
        ("lag", lag.as_deref().unwrap_or_default()),
        ("link_layer", &port.and_then(|p| maybe(&p.dir.join("link_layer"))).unwrap_or_default()),
        ("model", device.and_then(|d| d.model.as_deref()).unwrap_or_default()),
        ("netdev", netdev.map(|n| &*n.name).unwrap_or_default()),
        ("node_desc", &of_device("node_desc")),
        ("node_guid", device.and_then(|d| d.node_guid.as_deref()).unwrap_or_default()),
        ("node_type", &of_device("node_type")),
        ("numa_node", &numa),
        ("pci_address", pci),
        ("phys_port_name", &of_netdev("phys_port_name")),
        ("port_guid", &port_guid),
        ("rail", rail),
        ("rail_source", rail_source),
        ("roce", roce),
        ("switch", &neighbor.switch),
        ("switch_address", &switch_address),
        ("switch_id", &of_netdev("phys_switch_id")),
        ("switch_port", &neighbor.port),
        ("system_guid", &of_device("sys_image_guid")),
    ];
    out.fact(&state::PORT_INFO, &labels, Value::Int(1));
}

/// Used entries of a numbered table.
fn table(dir: &Path, used: fn(&str) -> bool) -> Vec<String> {
    let mut found = Vec::new();
    let mut empty = 0;
    for slot in 0..TABLE_END {
        match maybe(&dir.join(slot.to_string())).filter(|entry| used(entry)) {
            Some(entry) => {
                found.push(entry);
                empty = 0;
            }
            None => empty += 1,
        }
        if empty >= TABLE_GAP {
            break;
        }
    }
    found
}

/// `400 Gb/sec (4X NDR)` → bits per second.
pub(super) fn rate_bits(text: &str) -> Option<u64> {
    let (number, rest) = text.split_once(' ')?;
    let gigabits: f64 = number.parse().ok()?;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "bounded before")]
    (rest.starts_with("Gb/sec") && (0.0..1e6).contains(&gigabits)).then_some((gigabits * 1e9) as u64)
}

/// `400 Gb/sec (4X NDR)` → 4 lanes.
fn lanes(text: &str) -> Option<u64> {
    let (_, width) = text.split_once(" (")?;
    width.split_once('X')?.0.parse().ok().filter(|lanes| (1..=16).contains(lanes))
}

/// The kernel prints LIDs and masks as `0x1a`, levels as decimal.
fn hex_or_decimal(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    }
}

/// Interface half of a GID: `fe80:…:506b:4b03:00cc:2f18` → `506b:4b03:00cc:2f18`.
fn low_half(gid: &str) -> String {
    let groups: Vec<&str> = gid.split(':').collect();
    if groups.len() == 8 { groups[4..].join(":") } else { String::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_ib_core() {
        assert_eq!(rate_bits("400 Gb/sec (4X NDR)"), Some(400_000_000_000));
        assert_eq!(rate_bits("2.5 Gb/sec (1X SDR)"), Some(2_500_000_000));
        assert_eq!(rate_bits("unknown"), None);
        assert_eq!(rate_bits("-1 Gb/sec"), None);
        assert_eq!(lanes("25 Gb/sec (1X EDR)"), Some(1));
        assert_eq!(lanes("300 Gb/sec (12X EDR)"), Some(12));
        assert_eq!((lanes("400 Gb/sec"), lanes("2.5 Gb/sec (SDR)"), lanes("2.5 Gb/sec (0X SDR)")), (None, None, None));
        assert_eq!(hex_or_decimal("0x1a"), Some(26));
        assert_eq!(hex_or_decimal("12"), Some(12));
        assert_eq!(hex_or_decimal("zz"), None);
        assert_eq!(low_half("fe80:0000:0000:0000:506b:4b03:00cc:2f18"), "506b:4b03:00cc:2f18");
    }
}
