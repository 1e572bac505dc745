//! `rdma -j link|dev|resource show` and the recorded verbs attributes. Called by [`super::RecordedKernel`].
//!
//! Members differ between versions of iproute2, so they are looked up by name, and unknown ones are skipped.

use serde_json::{Map, Value};

use std::net::{IpAddr, SocketAddr};

use crate::{CmId, Qp, QpCounter, RdmaLink, VerbsPort, intern, table};

type Rows = Vec<Map<String, Value>>;

/// Rows of any `rdma -j` output: an array of objects.
///
/// # Errors
/// When the text is not an array of objects.
pub fn rows(text: &str) -> Result<Rows, serde_json::Error> {
    serde_json::from_str(text)
}

/// Links, completed by `rdma -j dev show` if recorded.
pub fn links(links: &Rows, devices: &Rows) -> Vec<RdmaLink> {
    links
        .iter()
        .filter_map(|row| {
            let (device, port) = device_and_port(row)?;
            let dev = devices.iter().find(|d| string(d, "ifname").as_deref() == Some(&device));
            let of_either = |key: &str| string(row, key).or_else(|| string(dev?, key));
            Some(RdmaLink {
                index: number(row, "ifindex").unwrap_or(0),
                port: port?,
                state: state(row, "state", table::PORT_STATE),
                physical_state: state(row, "physical_state", table::PHYSICAL_STATE),
                netdev: string(row, "netdev"),
                node_guid: of_either("node_guid").and_then(|guid| parse_guid(&guid)),
                firmware: of_either("fw"),
                lid: number(row, "lid"),
                smi_only: of_either("type").is_some_and(|kind| kind == "smi"),
                device,
            })
        })
        .collect()
}

/// Queue pairs; rows without device or number are skipped.
pub fn qps(rows: &Rows) -> Vec<Qp> {
    rows.iter()
        .filter_map(|row| {
            let (device, port) = device_and_port(row)?;
            Some(Qp {
                device,
                port,
                lqpn: number(row, "lqpn")?,
                rqpn: number(row, "rqpn"),
                kind: string(row, "type").unwrap_or_else(|| "UNKNOWN".into()),
                state: string(row, "state").unwrap_or_else(|| "UNKNOWN".into()),
                pid: number(row, "pid"),
                comm: string(row, "comm"),
            })
        })
        .collect()
}

/// Connections of the connection manager; rows without device are skipped.
pub fn cm_ids(rows: &Rows) -> Vec<CmId> {
    rows.iter()
        .filter_map(|row| {
            let (device, port) = device_and_port(row)?;
            let address = |end: &str| {
                let ip: IpAddr = string(row, &format!("{end}-addr"))?.parse().ok()?;
                Some(SocketAddr::new(ip, number(row, &format!("{end}-port")).and_then(|p| p.try_into().ok())?))
            };
            Some(CmId {
                device,
                port,
                lqpn: number(row, "lqpn"),
                state: string(row, "state").unwrap_or_else(|| "UNKNOWN".into()),
                pid: number(row, "pid"),
                source: address("src"),
                destination: address("dst"),
            })
        })
        .collect()
}

/// Members of a counter's row that are not values.
const NO_VALUES: &[&str] = &["ifindex", "port", "cntn", "pid"];

/// Counters of queue pairs: all numbers of a row, except for members that identify the counter.
pub fn qp_counters(rows: &Rows) -> Vec<QpCounter> {
    rows.iter()
        .filter_map(|row| {
            let (device, port) = device_and_port(row)?;
            let qps = row.get("lqpn").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
            let values = row.iter().filter(|(name, _)| !NO_VALUES.contains(&name.as_str()));
            Some(QpCounter {
                device,
                port,
                id: number(row, "cntn")?,
                qps: qps.iter().filter_map(|qp| u32::try_from(qp.as_u64()?).ok()).collect(),
                pid: number(row, "pid"),
                values: values.filter_map(|(name, value)| Some((intern::shared(name), value.as_u64()?))).collect(),
            })
        })
        .collect()
}

/// Selects the rows of a port, as the kernel does; all rows without a port.
pub fn of_port<T>(mut all: Vec<T>, of: Option<&RdmaLink>, place: impl Fn(&T) -> (&str, Option<u32>)) -> Vec<T> {
    if let Some(link) = of {
        all.retain(|one| place(one) == (&link.device, Some(link.port)));
    }
    all
}

/// Verbs attributes of one port.
pub fn verbs(rows: &Rows, device: &str, port: u32) -> Option<VerbsPort> {
    let row = rows.iter().find(|row| device_and_port(row).is_some_and(|(d, p)| d == device && p == Some(port)))?;
    Some(VerbsPort {
        rate_bits: row.get("rate_bits").and_then(Value::as_u64),
        width: number(row, "width"),
        speed: string(row, "speed").and_then(|name| table::speed(&name)),
        mtu: number(row, "mtu"),
        mtu_max: number(row, "max_mtu"),
        lid: number(row, "lid"),
        sm_lid: number(row, "sm_lid"),
    })
}

/// Device and port: `"ifname":"mlx5_0","port":1`, or `"ifname":"mlx5_0/1"`; QP0 and QP1 have no port on some versions.
fn device_and_port(row: &Map<String, Value>) -> Option<(String, Option<u32>)> {
    let name = string(row, "ifname")?;
    match name.split_once('/') {
        Some((device, port)) => Some((device.into(), port.parse().ok())),
        None => {
            let port = number(row, "port");
            Some((name, port))
        }
    }
}

fn string(row: &Map<String, Value>, key: &str) -> Option<String> {
    row.get(key)?.as_str().filter(|s| !s.is_empty()).map(Into::into)
}

fn number(row: &Map<String, Value>, key: &str) -> Option<u32> {
    match row.get(key)? {
        Value::Number(n) => u32::try_from(n.as_u64()?).ok(),
        Value::String(s) => s.parse().ok(),
        _ => None,
    }
}

fn state(row: &Map<String, Value>, key: &str, names: &[&str]) -> u8 {
    string(row, key).map_or(0, |name| match &*name {
        "PORT_CONFIGURATION_TRAINING" | "TRAINING" => 4,
        _ => table::number(names, &name),
    })
}

/// Parses a GUID such as `b8ce:f603:0000:0001`.
fn parse_guid(text: &str) -> Option<u64> {
    let digits: String = text.chars().filter(|c| *c != ':').collect();
    u64::from_str_radix(digits.strip_prefix("0x").unwrap_or(&digits), 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_of_two_versions() {
        let l = rows(r#"[{"ifindex":1,"ifname":"mlx5_0","port":1,"state":"ACTIVE","physical_state":"LINK_UP","netdev":"eth4","netdev_index":5},
                         {"ifname":"ib0/2","state":"down","physical_state":"POLLING","lid":7,"new":{}}]"#).unwrap();
        let d = rows(
            r#"[{"ifindex":1,"ifname":"mlx5_0","node_type":"ca","fw":"22.36.1010","node_guid":"b8ce:f603:0000:0001"},
                         {"ifname":"ib0","type":"smi"}]"#,
        )
        .unwrap();
        let links = links(&l, &d);
        assert_eq!(links[0].node_guid, Some(0xb8ce_f603_0000_0001));
        assert_eq!(links[0].firmware.as_deref(), Some("22.36.1010"));
        assert_eq!((links[0].state, links[0].physical_state, links[0].lid), (4, 5, None));
        assert_eq!((&*links[1].device, links[1].port, links[1].state, links[1].physical_state), ("ib0", 2, 1, 2));
        assert!(links[1].smi_only && !links[0].smi_only);
        assert_eq!(links[1].lid, Some(7));
    }

    #[test]
    fn queue_pairs() {
        let rows = rows(r#"[{"ifindex":0,"ifname":"rxe0","port":1,"lqpn":17,"rqpn":17,"type":"RC","state":"RTS","pid":171,"comm":"rping"},
                            {"ifname":"rxe0","port":"-","lqpn":1,"type":"GSI","state":"RTS","comm":"ib_core"},{"ifname":"rxe0"}]"#).unwrap();
        let qps = qps(&rows);
        assert_eq!(qps.len(), 2);
        assert_eq!((qps[0].port, qps[0].rqpn, qps[0].pid), (Some(1), Some(17), Some(171)));
        assert_eq!((qps[1].port, qps[1].rqpn, qps[1].comm.as_deref()), (None, None, Some("ib_core")));
    }

    proptest::proptest! {
        #[test]
        fn arbitrary_values_do_not_panic(key in "ifname|port|lqpn|lid|state|node_guid|cntn|dst-addr|dst-port", value in r#"-?[1-9][0-9]{0,19}|"[a-z0-9/:]{0,9}"|null|\[\]"#) {
            let rows = rows(&format!(r#"[{{"ifname":"a/1",{key:?}:{value}}}]"#)).unwrap();
            let _ = (links(&rows, &rows), qps(&rows), verbs(&rows, "a", 1), cm_ids(&rows), qp_counters(&rows));
        }
    }
}
