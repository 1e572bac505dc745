//! Host names accepted by `/metrics`. Only a plain listener on loopback checks them (DNS rebinding protection): beyond
//! loopback every client that reaches the listener is served, and with TLS the browser compares names itself.

use crate::config::Http;
use fabriclens_base::host_check::own_names;
use std::sync::Arc;

/// Accepted names besides addresses and `localhost`; `None` if names are not checked.
pub(super) fn names(config: &Http, host: &str) -> Option<Arc<[String]>> {
    if !config.listen.ip().is_loopback() || config.identity.is_some() {
        return None;
    }
    let short = host.split('.').next().unwrap_or_default();
    let further = config.names.iter().cloned().chain([host.to_owned(), short.to_owned()]);
    Some(own_names(further).into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    fn on(listen: &str) -> Http {
        let names = vec!["scrapes.example".to_owned()];
        Http { listen: listen.parse().unwrap(), identity: None, insecure: false, names }
    }

    #[test]
    fn configured_names_and_the_host_are_accepted() {
        let names = names(&on("127.0.0.1:7471"), "gpu-01.example").unwrap();
        for name in ["scrapes.example", "gpu-01.example", "gpu-01"] {
            assert!(names.iter().any(|accepted| accepted == name), "{name}");
        }
    }

    #[test]
    fn only_plain_loopback_listeners_check_names() {
        assert!(names(&on("[::1]:7471"), "h").is_some());
        assert!(names(&on("0.0.0.0:7471"), "h").is_none());
        let identity = Some((PathBuf::from("cert"), PathBuf::from("key")));
        assert!(names(&Http { identity, ..on("127.0.0.1:7471") }, "h").is_none());
    }
}
