//! Identity of a user as passed by a trusted reverse proxy (for instance with OpenID Connect). The proxy is recognized
//! by its address alone; from any other address the headers mean nothing.

use std::net::IpAddr;

use axum::http::{HeaderMap, HeaderName};

use fabriclens_config::{Proxy, Roles};

/// The identity in the headers of a request.
#[derive(Debug, PartialEq, Eq)]
pub enum ProxyIdentity {
    /// The request does not come from the proxy, or names no user.
    None,
    /// A user with the roles of its groups.
    User(String, Roles),
    /// A header occurs twice: the client sent its own next to the proxy's.
    DuplicateHeader(HeaderName),
}

/// Reads the identity from the headers of a request.
pub fn identify(proxy: &Proxy, address: IpAddr, headers: &HeaderMap) -> ProxyIdentity {
    if !proxy.networks.iter().any(|network| network.contains(address)) {
        return ProxyIdentity::None;
    }
    let one = |name: &HeaderName| {
        let mut all = headers.get_all(name).iter();
        let first = all.next().and_then(|v| v.to_str().ok()).map(str::trim).filter(|v| !v.is_empty());
        if all.next().is_some() { Err(ProxyIdentity::DuplicateHeader(name.clone())) } else { Ok(first) }
    };
    let read = || {
        let Some(user) = one(&proxy.user_header)? else { return Ok(ProxyIdentity::None) };
        let groups = proxy.groups_header.as_ref().map(one).transpose()?.flatten().unwrap_or_default();
        let mut roles = Roles::default();
        for group in groups.split(',').map(str::trim).filter(|g| *g != "*").chain(["*"]) {
            proxy.roles.get(group).iter().for_each(|of| roles.extend(of));
        }
        Ok(ProxyIdentity::User(user.chars().take(200).collect(), roles))
    };
    read().unwrap_or_else(|refused| refused)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_count_only_from_the_proxy() {
        let proxy = Proxy {
            networks: vec!["10.0.0.5".parse().unwrap()],
            user_header: HeaderName::from_static("x-forwarded-user"),
            groups_header: Some(HeaderName::from_static("x-forwarded-groups")),
            roles: [("*".to_owned(), "read".parse().unwrap()), ("fabric".to_owned(), "write".parse().unwrap())].into(),
        };
        let said = |ip: &str, headers: &[(&'static str, &str)]| {
            let mut map = HeaderMap::new();
            headers.iter().for_each(|(name, value)| _ = map.append(*name, value.parse().unwrap()));
            identify(&proxy, ip.parse().unwrap(), &map)
        };
        let user = |roles: &str| ProxyIdentity::User("ann".to_owned(), roles.parse().unwrap());
        let ann = ("x-forwarded-user", "ann");
        assert_eq!(said("10.0.0.5", &[ann]), user("read"));
        assert_eq!(said("10.0.0.5", &[ann, ("x-forwarded-groups", "staff, fabric")]), user("read,write"));
        assert_eq!(said("10.0.0.5", &[ann, ("x-forwarded-groups", "*,admins")]), user("read"));
        assert_eq!(
            said("10.0.0.6", &[ann, ("x-forwarded-groups", "fabric")]),
            ProxyIdentity::None,
            "a stranger says so"
        );
        assert_eq!(said("10.0.0.5", &[("x-forwarded-user", " ")]), ProxyIdentity::None, "the user name is empty");
        assert_eq!(
            said("10.0.0.5", &[ann, ("x-forwarded-user", "bob")]),
            ProxyIdentity::DuplicateHeader(proxy.user_header.clone())
        );
        let groups = ("x-forwarded-groups", "staff");
        assert!(matches!(said("10.0.0.5", &[ann, groups, groups]), ProxyIdentity::DuplicateHeader(_)));
    }
}
