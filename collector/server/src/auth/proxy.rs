//! A proxy that knows who people are (OpenID Connect) and says so in headers. It is believed by its address alone; from
//! any other the headers are text that anybody can write.

use std::net::IpAddr;

use axum::http::{HeaderMap, HeaderName};

use fabriclens_config::{Proxy, Roles};

/// What a proxy says, or what is wrong with it.
#[derive(Debug, PartialEq, Eq)]
pub enum Said {
    /// It is not the proxy, or it names nobody.
    Nothing,
    /// This user.
    User(String, Roles),
    /// A header came twice: somebody's stands beside the proxy's.
    Twice(HeaderName),
}

/// What the headers of a request from this address mean.
pub fn said(proxy: &Proxy, address: IpAddr, headers: &HeaderMap) -> Said {
    if !proxy.networks.iter().any(|network| network.contains(address)) {
        return Said::Nothing;
    }
    let one = |name: &HeaderName| {
        let mut all = headers.get_all(name).iter();
        let first = all.next().and_then(|v| v.to_str().ok()).map(str::trim).filter(|v| !v.is_empty());
        if all.next().is_some() { Err(Said::Twice(name.clone())) } else { Ok(first) }
    };
    let read = || {
        let Some(user) = one(&proxy.user_header)? else { return Ok(Said::Nothing) };
        let groups = proxy.groups_header.as_ref().map(one).transpose()?.flatten().unwrap_or_default();
        let mut roles = Roles::default();
        for group in groups.split(',').map(str::trim).filter(|g| *g != "*").chain(["*"]) {
            proxy.roles.get(group).iter().for_each(|of| roles.and(of));
        }
        Ok(Said::User(user.chars().take(200).collect(), roles))
    };
    read().unwrap_or_else(|twice| twice)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_proxy_is_believed() {
        let proxy = Proxy {
            networks: vec!["10.0.0.5".parse().unwrap()],
            user_header: HeaderName::from_static("x-forwarded-user"),
            groups_header: Some(HeaderName::from_static("x-forwarded-groups")),
            roles: [("*".to_owned(), "read".parse().unwrap()), ("fabric".to_owned(), "write".parse().unwrap())].into(),
        };
        let said = |ip: &str, headers: &[(&'static str, &str)]| {
            let mut map = HeaderMap::new();
            headers.iter().for_each(|(name, value)| _ = map.append(*name, value.parse().unwrap()));
            said(&proxy, ip.parse().unwrap(), &map)
        };
        let user = |roles: &str| Said::User("ann".to_owned(), roles.parse().unwrap());
        let ann = ("x-forwarded-user", "ann");
        assert_eq!(said("10.0.0.5", &[ann]), user("read"));
        assert_eq!(said("10.0.0.5", &[ann, ("x-forwarded-groups", "staff, fabric")]), user("read,write"));
        assert_eq!(said("10.0.0.5", &[ann, ("x-forwarded-groups", "*,admins")]), user("read"));
        assert_eq!(said("10.0.0.6", &[ann, ("x-forwarded-groups", "fabric")]), Said::Nothing, "a stranger says so");
        assert_eq!(said("10.0.0.5", &[("x-forwarded-user", " ")]), Said::Nothing, "it names nobody");
        assert_eq!(said("10.0.0.5", &[ann, ("x-forwarded-user", "bob")]), Said::Twice(proxy.user_header.clone()));
        let groups = ("x-forwarded-groups", "staff");
        assert!(matches!(said("10.0.0.5", &[ann, groups, groups]), Said::Twice(_)));
    }
}
