//! Names of switches as topologies have them.

/// Switch name in an InfiniBand node description, as topologies read it: `MF0;leaf1:MQM9700/U1` is `leaf1`. Chips of a
/// director keep their board: `MF0;ib1:SX6536/L03/U1` is `ib1/L03/U1`.
pub fn switch_name(description: &str) -> String {
    let text = description.trim();
    let Some((_, rest)) = text.split_once(';').filter(|(mf, _)| mf.starts_with("MF")) else { return text.to_owned() };
    let Some((name, chip)) = rest.rsplit_once(':') else { return rest.to_owned() };
    match chip.split_once('/') {
        Some((_, board)) if board != "U1" => format!("{name}/{board}"),
        _ => name.to_owned(),
    }
}

/// Host in the address of a scrape target: without scheme, path and port.
pub fn instance_host(instance: &str) -> &str {
    let rest = instance.split_once("://").map_or(instance, |(_, rest)| rest);
    let host = rest.split('/').next().unwrap_or(rest);
    if let Some((address, _)) = host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        return address;
    }
    match host.rsplit_once(':') {
        // A bare IPv6 address has several.
        Some((name, port)) if !name.contains(':') && port.bytes().all(|b| b.is_ascii_digit()) => name,
        _ => host,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_topologies() {
        assert_eq!(switch_name("MF0;leaf1:MQM9700/U1"), "leaf1");
        assert_eq!(switch_name("MF0;sx01:SX6536/L03/U1"), "sx01/L03/U1");
        assert_eq!(switch_name("ib-i4l1s01"), "ib-i4l1s01");
        assert_eq!(switch_name("SwitchX -  Mellanox Technologies"), "SwitchX -  Mellanox Technologies");
        let hosts = ["leaf1:9101", "http://leaf1.example:9101/metrics", "10.0.0.7", "[fe80::1]:161", "fe80::1"];
        assert_eq!(hosts.map(instance_host), ["leaf1", "leaf1.example", "10.0.0.7", "fe80::1", "fe80::1"]);
    }
}
