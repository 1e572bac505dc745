//! By which names this server may be asked while it tells everybody on the host.
//!
//! A page whose name is made to lead to 127.0.0.1 is of the same origin as the agent there, as far as a browser knows (DNS
//! rebinding). What gives it away is the name in the request, which page and browser cannot choose. Beyond loopback
//! whoever reaches the listener may ask anyway, and with TLS the browser compares names itself.

use crate::config::Http;
use axum::http::uri::Authority;
use axum::http::{HeaderMap, Uri, header};
use fabriclens_agent_host::sysfile::maybe;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

/// The names of this agent, beside addresses and `localhost`; `None` where they are not looked at.
pub(super) fn names(config: &Http, host: &str) -> Option<Arc<[String]>> {
    if !config.listen.ip().is_loopback() || config.identity.is_some() {
        return None;
    }
    let node = node();
    let short = [&node, host].map(|name| name.split('.').next().unwrap_or_default().to_owned());
    let own = config.names.iter().cloned().chain([node, host.to_owned()]).chain(short);
    Some(own.filter(|name| !name.is_empty()).collect())
}

/// What the kernel calls the host that the agent runs on, whichever it samples.
fn node() -> String {
    maybe(Path::new("/proc/sys/kernel/hostname")).unwrap_or_default()
}

/// The host of a request, if it is none of `names`. Not every client says it, but browsers do.
pub(super) fn foreign(headers: &HeaderMap, uri: &Uri, names: &[String]) -> Option<String> {
    let header = || headers.get(header::HOST).map(|v| String::from_utf8_lossy(v.as_bytes()).into_owned());
    let asked = uri.authority().map(ToString::to_string).or_else(header)?;
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
    use std::path::PathBuf;

    fn on(listen: &str) -> Http {
        let names = vec!["scrapes.example".to_owned()];
        Http { listen: listen.parse().unwrap(), identity: None, insecure: false, names }
    }

    #[test]
    fn names_of_others_are_told_from_own_ones() {
        let names = names(&on("127.0.0.1:7471"), "gpu-01.example").unwrap();
        let foreign = |host: &str| {
            let headers = HeaderMap::from_iter([(header::HOST, HeaderValue::from_str(host).unwrap())]);
            foreign(&headers, &Uri::from_static("/metrics"), &names)
        };
        let node = format!("{}:7471", node());
        let own = ["127.0.0.1:7471", "[::1]:7471", "::1", "10.0.0.1", "localhost:1", "LocalHost.", &node];
        for host in own.into_iter().chain(["gpu-01.example:7471", "gpu-01", "Scrapes.example"]) {
            assert_eq!(foreign(host), None, "{host}");
        }
        let others = ["evil.example:7471", "127.0.0.1.evil.example", "localhost.evil.example", "gpu-01.evil.example"];
        for host in others.into_iter().chain(["", "x@127.0.0.1.x", "[x]"]) {
            assert!(foreign(host).is_some(), "{host}");
        }
        assert_eq!(super::foreign(&HeaderMap::new(), &Uri::from_static("/"), &names), None, "no browser");
        assert!(super::foreign(&HeaderMap::new(), &Uri::from_static("http://evil.example/"), &names).is_some());
    }

    #[test]
    fn names_matter_where_only_the_way_to_the_listener_keeps_others_out() {
        assert!(names(&on("[::1]:7471"), "h").is_some());
        assert!(names(&on("0.0.0.0:7471"), "h").is_none());
        let identity = Some((PathBuf::from("cert"), PathBuf::from("key")));
        assert!(names(&Http { identity, ..on("127.0.0.1:7471") }, "h").is_none());
    }
}
