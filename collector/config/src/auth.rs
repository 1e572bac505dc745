//! `[auth]`: who may do what, checked.

use std::collections::BTreeMap;
use std::path::PathBuf;

use axum::http::HeaderName;
use serde::{Deserialize, Serialize};

use super::{Config, ConfigError};
use crate::{HostId, Needs, Proxy, Roles};

/// The SPIFFE ID of a host, unless it is said otherwise.
const HOST_ID: &str = "spiffe://*/host/{host}";

/// Who may do what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Auth {
    /// A file with a line for each token.
    pub tokens: Option<PathBuf>,
    /// How hosts are named in SPIFFE IDs.
    pub host_id: HostId,
    /// Roles by a certificate's name; one without is a host's, which may write samples of itself.
    pub certificates: BTreeMap<String, Roles>,
    /// Who knows people and says so in headers.
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
    /// Whether callers must say who they are: as soon as anything could tell.
    pub fn asks_who(&self) -> bool {
        self.auth.tokens.is_some()
            || self.auth.proxy.is_some()
            || self.tls.as_ref().is_some_and(|t| t.client_ca.is_some())
    }

    /// Whether who shows no certificate need not be listened to.
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
    // As certificates are read: DNS names in lower case, IDs as they are.
    let plain = |name: String| if name.contains(':') { name } else { name.to_ascii_lowercase() };
    let named = raw.certificates.into_iter().map(|(name, roles)| (plain(name), roles)).collect();
    let certificates = roles("auth.certificates", named)?;
    if !certificates.is_empty() && config.tls.as_ref().is_none_or(|tls| tls.client_ca.is_none()) {
        let message = "no certificate is asked for; set tls.client_ca, the authority that signs them".to_owned();
        return Err(value("auth.certificates", message));
    }
    let proxy = raw.proxy.map(proxy).transpose()?;
    Ok(Auth { tokens: raw.tokens.map(PathBuf::from), host_id, certificates, proxy })
}

fn proxy(raw: RawProxy) -> Result<Proxy, ConfigError> {
    let value = |message: String| ConfigError::Value { key: "auth.proxy", message };
    let header = |name: &str| name.parse::<HeaderName>().map_err(|_| value(format!("{name:?} is no name of a header")));
    if raw.networks.is_empty() {
        return Err(value("networks is missing: the addresses that the proxy comes from, and nobody else".to_owned()));
    }
    if raw.user_header.is_empty() {
        return Err(value("user_header is missing: the header in which it says who asks".to_owned()));
    }
    let roles = roles("auth.proxy", raw.roles)?;
    if !roles.values().any(|roles| roles.meet(Needs::Any)) {
        return Err(value(
            "roles is empty: nobody may do anything; write for instance roles = { \"*\" = \"read\" }".to_owned(),
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
