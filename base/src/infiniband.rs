//! Names of hosts and switches in InfiniBand node descriptions. Agents that read a subnet and topology files must name
//! a switch alike.

/// Host and device of an HCA's description: `node08 mlx5_0`, `node08 HCA-1`, `node08`. `None` for a factory default.
pub fn host(description: &str) -> Option<(&str, &str)> {
    let mut words = description.split_whitespace();
    match (words.next(), words.next(), words.next()) {
        (Some(host), Some(device), None) if is_device(device) => Some((host, device)),
        (Some(host), None, None) => Some((host, "")),
        _ => None,
    }
}

fn is_device(word: &str) -> bool {
    let rdma = word.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
    let old = word.strip_prefix("HCA-").is_some_and(|n| n.bytes().all(|b| b.is_ascii_digit()));
    old || rdma && word.starts_with(|c: char| c.is_ascii_lowercase()) && word.ends_with(|c: char| c.is_ascii_digit())
}

/// Switch name in a description: `MF0;leaf1:MQM9700/U1` is `leaf1`. Chips of a director keep their board: `ib1/L03/U1`.
pub fn switch(description: &str) -> String {
    let text = description.trim();
    let Some((_, rest)) = text.split_once(';').filter(|(mf, _)| mf.starts_with("MF")) else { return text.to_owned() };
    let Some((name, chip)) = rest.rsplit_once(':') else { return rest.to_owned() };
    match chip.split_once('/') {
        Some((_, board)) if board != "U1" => format!("{name}/{board}"),
        _ => name.to_owned(),
    }
}

/// Name of a switch: its own if no other has it and it is not the factory's, otherwise with the GUID; the GUID alone if
/// it has none. `taken` says whether another switch has the name.
pub fn unique_switch(name: &str, guid: u64, taken: bool) -> String {
    match name {
        "" => hex(guid),
        name if taken || is_factory(name) => format!("{name} {}", hex(guid)),
        name => name.to_owned(),
    }
}

/// Whether a node type (`2: switch`, `1: CA`) is that of a switch.
pub fn is_switch_type(node_type: &str) -> bool {
    node_type.ends_with("switch")
}

/// Whether a switch was never given a name: every switch of the model has it.
pub fn is_factory(name: &str) -> bool {
    name.ends_with("Mellanox Technologies")
}

/// Formats a GUID as `0x0002c90300c00081`.
pub fn hex(guid: u64) -> String {
    format!("0x{guid:016x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptions_name_hosts_and_switches() {
        assert_eq!(host("node08 mlx5_0"), Some(("node08", "mlx5_0")));
        assert_eq!(host(" o0001  HCA-1 "), Some(("o0001", "HCA-1")));
        assert_eq!(host("alone"), Some(("alone", "")));
        assert_eq!(host("MT4129 ConnectX7   Mellanox Technologies"), None);
        assert_eq!(host(""), None);
        assert_eq!(switch("MF0;A09-P1-IBLEAF-04-04:MQM9701/U1"), "A09-P1-IBLEAF-04-04");
        assert_eq!(switch("MF0;sx01:SX6536/L03/U1"), "sx01/L03/U1");
        assert_eq!(switch("MF0;leaf1:MQM9700/U1"), "leaf1");
        assert_eq!(switch("ib-i4l1s01"), "ib-i4l1s01");
        assert_eq!(switch("SwitchX -  Mellanox Technologies"), "SwitchX -  Mellanox Technologies");
        assert_eq!(switch(" leaf1 "), "leaf1");
    }

    #[test]
    fn equal_names_get_their_guid() {
        let named = |name, taken| unique_switch(name, 0x2_c903_00c0_0081, taken);
        assert_eq!(named("leaf1", false), "leaf1");
        assert_eq!(named("leaf1", true), "leaf1 0x0002c90300c00081");
        assert_eq!(named("", false), "0x0002c90300c00081");
        assert_eq!(
            named("SwitchX -  Mellanox Technologies", false),
            "SwitchX -  Mellanox Technologies 0x0002c90300c00081"
        );
    }
}
