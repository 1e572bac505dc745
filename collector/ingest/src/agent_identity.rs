//! Who an agent is, as an ingest collector tells the judge in a header of what it passes on: the judge decides by the agent's
//! credential, not by that of the ingest collector.

use std::sync::Arc;

use fabriclens_config::Roles;
use fabriclens_server::auth::{Caller, Hosts};

/// Name of the header.
pub(crate) const AGENT: &str = "x-fabriclens-agent";
/// Most pairs of a header: address, name, and the hosts of a certificate.
const PAIRS: usize = 256;

/// Value of the header.
pub(crate) fn encode(caller: &Caller) -> String {
    let mut pairs = vec![("address", caller.address.to_string())];
    pairs.extend(caller.name.as_ref().map(|name| ("name", name.to_string())));
    if let Hosts::Only(own) = &caller.hosts {
        pairs.push(("bound", String::new()));
        pairs.extend(own.iter().map(|host| ("host", host.clone())));
    }
    // Pairs of text always encode.
    serde_urlencoded::to_string(pairs).unwrap_or_default()
}

/// The caller of a header; `None` if it is malformed.
pub(crate) fn decode(text: &str) -> Option<Caller> {
    let pairs: Vec<(String, String)> = serde_urlencoded::from_str(text).ok()?;
    if pairs.len() > PAIRS {
        return None;
    }
    let (mut address, mut name, mut bound, mut hosts) = (None, None, false, Vec::new());
    for (key, value) in pairs {
        match key.as_str() {
            "address" => address = Some(value.parse().ok()?),
            "name" => name = Some(Arc::from(value)),
            "bound" => bound = true,
            "host" => hosts.push(value),
            _ => return None,
        }
    }
    let hosts = if bound { Hosts::Only(hosts.into()) } else { Hosts::Any };
    Some(Caller { address: address?, name, roles: Roles::default(), hosts })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn callers_round_trip() {
        let anonymous = Caller::anonymous([10, 0, 0, 7].into());
        let named = Caller { name: Some("agents & höst=1".into()), ..anonymous.clone() };
        let bound =
            Caller { hosts: Hosts::Only(["gpu-07.example".to_owned(), "gpu-07".to_owned()].into()), ..named.clone() };
        let nobody = Caller { hosts: Hosts::Only([].into()), ..anonymous.clone() };
        for caller in [anonymous, named, bound, nobody] {
            let text = encode(&caller);
            assert!(text.is_ascii(), "{text}");
            let read = decode(&text).unwrap();
            assert_eq!(
                (read.address, read.name, read.hosts),
                (caller.address, caller.name, caller.hosts),
                "a caller without hosts stays bound"
            );
        }
    }

    #[test]
    fn malformed_headers_name_nobody() {
        let many = format!("address=10.0.0.1&bound={}", "&host=a".repeat(PAIRS));
        for text in ["", "name=a", "address=x", "address=10.0.0.1&role=admin", &many] {
            assert!(decode(text).is_none(), "{text}");
        }
    }
}
