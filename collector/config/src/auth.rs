//! Checks `[auth]`: tokens, certificates, the trusted proxy, and the roles they give.

use std::collections::BTreeMap;
use std::path::PathBuf;

use axum::http::HeaderName;
use serde::{Deserialize, Serialize};

use super::{Config, ConfigError};
use crate::{Access, HostId, Proxy, Roles};

/// Default pattern of the SPIFFE IDs of hosts.
const HOST_ID: &str = "spiffe://*/host/{host}";

/// Authentication and authorization of callers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Auth {
    /// File of bearer tokens, one per line.
    pub tokens: Option<PathBuf>,
    /// Pattern of SPIFFE IDs that name hosts.
    pub host_id: HostId,
    /// Roles by certificate name. A certificate without an entry is a host's and may write that host's samples.
    pub certificates: BTreeMap<String, Roles>,
    /// Reverse proxy that authenticates people and passes their names in headers.
    pub proxy: Option<Proxy>,
}

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RawAuth {
    pub tokens: Option<String>,
    pub host_id: Option<String>,
    pub certificates: BTreeMap<String, String>,
    pub proxy: Option<RawProxy>,
}

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RawProxy {
    networks: Vec<String>,
    user_header: String,
    groups_header: Option<String>,
    roles: BTreeMap<String, String>,
}

impl Default for Auth {
    fn default() -> Self {
        let host_id = HostId::parse(HOST_ID).expect("the default is a pattern");
        Self { tokens: None, host_id, certificates: BTreeMap::new(), proxy: None }
    }
}

impl Config {
    /// Whether callers must authenticate: true as soon as tokens, a proxy or a client CA are configured.
    pub fn requires_authentication(&self) -> bool {
        self.auth.tokens.is_some()
            || self.auth.proxy.is_some()
            || self.tls.as_ref().is_some_and(|t| t.client_ca.is_some())
    }

    /// Whether a client certificate is the only way to authenticate, so that TLS may require one.
    pub fn certificates_only(&self) -> bool {
        self.auth.tokens.is_none() && self.auth.proxy.is_none()
    }
}

pub(super) fn check(raw: RawAuth, config: &Config) -> Result<Auth, ConfigError> {
    let value = |key, message: String| ConfigError::Value { key, message };
    let host_id = match raw.host_id {
        None => Auth::default().host_id,
        Some(pattern) => HostId::parse(&pattern).map_err(|e| value("auth.host_id", e))?,
    };
    // Normalized like the names of presented certificates: DNS names in lower case, IDs as they are.
    let plain = |name: String| if name.contains(':') { name } else { name.to_ascii_lowercase() };
    let named = raw.certificates.into_iter().map(|(name, roles)| (plain(name), roles)).collect();
    let certificates = roles("auth.certificates", named)?;
    if !certificates.is_empty() && config.tls.as_ref().is_none_or(|tls| tls.client_ca.is_none()) {
        let message = "needs tls.client_ca, the authority that signs client certificates".to_owned();
        return Err(value("auth.certificates", message));
    }
    let proxy = raw.proxy.map(proxy).transpose()?;
    Ok(Auth { tokens: raw.tokens.map(PathBuf::from), host_id, certificates, proxy })
}

fn proxy(raw: RawProxy) -> Result<Proxy, ConfigError> {
    let value = |message: String| ConfigError::Value { key: "auth.proxy", message };
    let header = |name: &str| name.parse::<HeaderName>().map_err(|_| value(format!("{name:?} is not a header name")));
    if raw.networks.is_empty() {
        return Err(value("networks is missing: list the addresses of the proxy, and only those".to_owned()));
    }
    if raw.user_header.is_empty() {
        return Err(value("user_header is missing: the header in which the proxy passes the user name".to_owned()));
    }
    let roles = roles("auth.proxy", raw.roles)?;
    if !roles.values().any(|roles| roles.grant(Access::AnyRole)) {
        return Err(value(
            "roles is empty, so no user would have any role; write for instance roles = { \"*\" = \"read\" }"
                .to_owned(),
        ));
    }
    Ok(Proxy {
        networks: raw.networks.iter().map(|n| n.parse().map_err(value)).collect::<Result<_, _>>()?,
        user_header: header(&raw.user_header)?,
        groups_header: raw.groups_header.as_deref().map(header).transpose()?,
        roles,
    })
}

fn roles(key: &'static str, raw: BTreeMap<String, String>) -> Result<BTreeMap<String, Roles>, ConfigError> {
    let one = |(name, text): (String, String)| match text.parse() {
        Ok(roles) => Ok((name, roles)),
        Err(e) => Err(ConfigError::Value { key, message: format!("{name:?}: {e}") }),
    };
    raw.into_iter().map(one).collect()
}
