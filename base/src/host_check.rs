//! Host names that an unauthenticated loopback listener answers to (protection against DNS rebinding).
//!
//! A web page whose name resolves to 127.0.0.1 has the same origin as a listener there, as far as a browser knows. The
//! name in the request gives it away: neither page nor browser can choose it.

use http::uri::Authority;
use http::{HeaderMap, Uri, header};
use std::net::IpAddr;

/// The names of this machine, in full and without its domain, and further ones. Addresses and `localhost` always count.
pub fn own_names(further: impl IntoIterator<Item = String>) -> Vec<String> {
    let node = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let short = node.split('.').next().unwrap_or_default().to_owned();
    [node, short].into_iter().chain(further).filter(|name| !name.is_empty()).collect()
}

/// Host and port that a request asks for: the authority of its URI (HTTP/2), or else its `Host` header. Some clients
/// send neither; browsers always do.
pub fn requested_authority(headers: &HeaderMap, uri: &Uri) -> Option<String> {
    let host = || headers.get(header::HOST).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
    uri.authority().map(ToString::to_string).or_else(host)
}

/// The host that a request asks for, if it is neither an address, `localhost` nor one of `names`.
pub fn foreign_host(headers: &HeaderMap, uri: &Uri, names: &[String]) -> Option<String> {
    let requested = requested_authority(headers, uri)?;
    let parsed = requested.parse::<Authority>();
    let host = parsed.as_ref().map_or(requested.as_str(), Authority::host).trim_end_matches('.');
    let is_address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>().is_ok();
    let mut known = names.iter().map(String::as_str).chain(["localhost"]);
    (!is_address && !known.any(|name| name.eq_ignore_ascii_case(host))).then(|| host.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    fn refused(host: &str) -> bool {
        let names = own_names(["gpu-01.example".to_owned()]);
        let headers = HeaderMap::from_iter([(header::HOST, HeaderValue::from_str(host).unwrap())]);
        foreign_host(&headers, &Uri::from_static("/metrics"), &names).is_some()
    }

    #[test]
    fn own_names_and_addresses_are_answered() {
        let node = format!("{}:7471", rustix::system::uname().nodename().to_string_lossy());
        let own = ["127.0.0.1:7471", "127.0.0.1", "[::1]:7471", "::1", "10.0.0.1", "localhost:1", "LocalHost.", &node];
        for host in own.into_iter().chain(["gpu-01.example:7471", "Gpu-01.example"]) {
            assert!(!refused(host), "{host}");
        }
        assert_eq!(foreign_host(&HeaderMap::new(), &Uri::from_static("/"), &[]), None, "no browser");
    }

    #[test]
    fn foreign_names_are_refused() {
        let foreign =
            ["evil.example:7471", "127.0.0.1.evil.example", "localhost.evil.example", "", "x@127.0.0.1.x", "[x]"];
        for host in foreign {
            assert!(refused(host), "{host}");
        }
        let http2 = Uri::from_static("http://evil.example/");
        assert_eq!(foreign_host(&HeaderMap::new(), &http2, &[]), Some("evil.example".to_owned()));
    }
}
