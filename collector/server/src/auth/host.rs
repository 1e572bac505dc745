//! By which names a collector may be asked that asks nobody who they are.
//!
//! A page whose name is made to lead to 127.0.0.1 is of the same origin as a collector there, as far as a browser knows
//! (DNS rebinding). What gives it away is the name in the request.

use std::net::IpAddr;

use axum::http::uri::Authority;
use axum::http::{HeaderMap, Uri, header};

/// The names of this collector, beside addresses and `localhost`.
pub(super) fn names(external_url: Option<&str>) -> Vec<String> {
    let external = external_url.and_then(|url| url.parse::<Uri>().ok()?.host().map(str::to_owned));
    let own = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let short = own.split('.').next().unwrap_or_default().to_owned();
    [Some(own), Some(short), external].into_iter().flatten().filter(|name| !name.is_empty()).collect()
}

/// Host and port that a request is for; HTTP/2 has them in the address. Not every client says it, but browsers do.
pub(super) fn asked(headers: &HeaderMap, uri: &Uri) -> Option<String> {
    let header = || headers.get(header::HOST).map(|v| String::from_utf8_lossy(v.as_bytes()).into_owned());
    uri.authority().map(ToString::to_string).or_else(header)
}

/// The host of a request, if it is none of `names`.
pub(super) fn foreign(headers: &HeaderMap, uri: &Uri, names: &[String]) -> Option<String> {
    let asked = asked(headers, uri)?;
    let parsed = asked.parse::<Authority>();
    let host = parsed.as_ref().map_or(asked.as_str(), Authority::host).trim_end_matches('.');
    let literal = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>().is_ok();
    let mut own = names.iter().map(String::as_str).chain(["localhost"]);
    (!literal && !own.any(|name| name.eq_ignore_ascii_case(host))).then(|| host.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    #[test]
    fn names_of_others_are_told_from_own_ones() {
        let names = names(Some("https://fabric.example:8443/x"));
        let foreign = |host: &str| {
            let headers = HeaderMap::from_iter([(header::HOST, HeaderValue::from_str(host).unwrap())]);
            foreign(&headers, &Uri::from_static("/"), &names)
        };
        let own = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let own_with_port = format!("{own}:7470");
        for host in
            ["127.0.0.1:7470", "127.0.0.1", "[::1]:7470", "10.0.0.1", "localhost:1", "LocalHost.", &own_with_port]
        {
            assert_eq!(foreign(host), None, "{host}");
        }
        assert_eq!(foreign("Fabric.example"), None);
        for host in
            ["evil.example:7470", "127.0.0.1.evil.example", "localhost.evil.example", "", "x@127.0.0.1.x", "[x]"]
        {
            assert!(foreign(host).is_some(), "{host}");
        }
        assert_eq!(super::foreign(&HeaderMap::new(), &Uri::from_static("/"), &names), None, "no browser");
        let http2 = Uri::from_static("http://evil.example/x");
        assert!(super::foreign(&HeaderMap::new(), &http2, &names).is_some());
    }
}
