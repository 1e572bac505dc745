//! Names of switches in the addresses of exporters.

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
    fn hosts_have_no_scheme_port_and_path() {
        let hosts = ["leaf1:9101", "http://leaf1.example:9101/metrics", "10.0.0.7", "[fe80::1]:161", "fe80::1"];
        assert_eq!(hosts.map(instance_host), ["leaf1", "leaf1.example", "10.0.0.7", "fe80::1", "fe80::1"]);
    }
}
