//! Parses the neighbor in `lldpctl -f json0 NETDEV`. Called by [`super::RecordedKernel`].

use crate::lldp::{LldpNeighbor, is_of_one_device, port_name};
use serde_json::Value;

/// First neighbor of the output, if it has one.
pub fn neighbor(text: &str) -> Result<Option<LldpNeighbor>, serde_json::Error> {
    let answer: Value = serde_json::from_str(text)?;
    // json0 has a list for every member that may repeat.
    let of = |value: &Value, key: &str| value[key][0].clone();
    let interface = of(&of(&answer, "lldp"), "interface");
    let (chassis, port) = (of(&interface, "chassis"), of(&interface, "port"));
    let text = |value: Value| value["value"].as_str().unwrap_or_default().trim().to_owned();
    // One or several, of which the first that names one device counts.
    let addresses = chassis["mgmt-ip"].as_array().into_iter().flatten();
    let mut addresses = addresses.filter_map(|value| value["value"].as_str()?.parse().ok());
    let address = addresses.find(is_of_one_device);
    let (name, id) = (text(of(&chassis, "name")), text(of(&chassis, "id")));
    let (port_id, description) = (of(&port, "id"), text(of(&port, "descr")));
    let switch = if name.is_empty() { id } else { name };
    let (is_mac, is_local) = (port_id["type"] == "mac", port_id["type"] == "local");
    let port = port_name(text(port_id), is_mac, is_local, description);
    Ok((!switch.is_empty()).then_some(LldpNeighbor { switch, port, address }))
}
