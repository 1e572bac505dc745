//! Authentication and authorization: by bearer token, client certificate, or the headers of a trusted proxy.
//!
//! Off by default: the collector then listens on loopback, and every process of the host may do everything. Once any of
//! the three is configured, every request without the required role is refused (docs/security.md).

mod certificate;
mod denied;
mod gate;
mod hosts;
mod origin;
mod proxy;
mod rate;
mod refusal;
mod tokens;

pub use certificate::Certificate;
pub use denied::Denied;
pub(crate) use gate::{Gate, authorize};
pub use hosts::Hosts;
pub use refusal::ErrorFormat;
pub use tokens::{Token, Tokens, new as new_token};

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::http::{HeaderMap, Uri, header};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use parking_lot::Mutex;

use crate::peer::Peer;
use fabriclens_base::host_check;
use fabriclens_config as config;
use fabriclens_config::{Access, Config, Role, Roles};
use fabriclens_core::byte_quota::ByteQuota;
use fabriclens_core::client_network::client_network;
use fabriclens_core::reload::{Reload, Reloaded};
use fabriclens_core::telemetry::Telemetry;
use fabriclens_core::time::{format_time, now_ms};
use proxy::ProxyIdentity;
use rate::RateLimiter;

/// Minimum interval of logged refusals; the metric counts all.
const LOG_EVERY: Duration = Duration::from_secs(10);

/// An authorized caller.
#[derive(Clone, Debug)]
pub struct Caller {
    /// Remote address.
    pub address: IpAddr,
    /// Name of token, certificate or user; `None` without authentication.
    pub name: Option<Arc<str>>,
    /// Roles.
    pub roles: Roles,
    /// Hosts whose samples it may write.
    pub hosts: Hosts,
}

impl Caller {
    /// Name in the accounts of what callers keep here: the credential's, or the address (IPv6: the /64 network).
    pub fn sender(&self) -> String {
        self.name.as_deref().map_or_else(|| client_network(self.address).to_string(), str::to_owned)
    }

    /// Name of a caller that may speak for any host, for [`fabriclens_base::Sender`]; `None` if it is bound to hosts. Credential
    /// and address, since many hosts may share a token.
    pub fn unbound(&self) -> Option<String> {
        let address = client_network(self.address);
        (self.hosts == Hosts::Any).then(|| match &self.name {
            Some(name) => format!("{name:?} at {address}"),
            None => address.to_string(),
        })
    }
}

/// Authenticates and authorizes requests; shared by all listeners.
pub struct Guard {
    /// Whether callers must authenticate.
    on: bool,
    tokens: Option<Arc<Reloaded<Tokens>>>,
    config: config::Auth,
    per_second: u32,
    rates: RateLimiter,
    own_origin: Option<String>,
    /// Host names that an unauthenticated loopback listener accepts (protection against DNS rebinding).
    names: Option<Vec<String>>,
    /// Quota of request bodies that carry no samples.
    bodies: Arc<ByteQuota>,
    telemetry: Telemetry,
    logged: Mutex<Option<Instant>>,
}

impl Guard {
    /// Creates a guard from the configuration.
    ///
    /// # Errors
    /// Describes the problem with the token file.
    pub fn new(config: &Config, telemetry: &Telemetry) -> Result<Self, String> {
        let load = |path: &std::path::PathBuf| {
            let file = path.clone();
            Reloaded::new("tokens", vec![path.clone()], telemetry, move || Tokens::load(&file))
        };
        Ok(Self {
            on: config.requires_authentication(),
            tokens: config.auth.tokens.as_ref().map(load).transpose()?,
            config: config.auth.clone(),
            per_second: config.listen.requests,
            rates: RateLimiter::new(config.listen.requests),
            own_origin: config.external_url.as_deref().map(origin::origin_of),
            // With TLS, browsers compare the name with the certificate.
            names: (!config.requires_authentication() && config.tls.is_none())
                .then(|| own_names(config.external_url.as_deref())),
            bodies: ByteQuota::new(gate::BODIES),
            telemetry: telemetry.clone(),
            logged: Mutex::default(),
        })
    }

    /// The reloaded token file.
    pub fn reloaded(&self) -> Option<Arc<dyn Reload>> {
        self.tokens.clone().map(|tokens| tokens as Arc<dyn Reload>)
    }

    /// Reads the names of a verified certificate.
    pub fn certificate(&self, der: &[u8]) -> Option<Arc<Certificate>> {
        Certificate::read(der, &self.config.host_id).map(Arc::new)
    }

    /// Authorizes a request.
    ///
    /// # Errors
    /// [`Denied`]; it is counted.
    pub fn admit(&self, peer: &Peer, headers: &HeaderMap, access: Access) -> Result<Caller, Denied> {
        let address = peer.address.ip().to_canonical();
        self.decide(peer, address, headers, access).inspect_err(|denied| self.note(address, denied))
    }

    /// Counts a refusal and logs some.
    fn note(&self, address: IpAddr, denied: &Denied) {
        self.telemetry.denied.with_label_values(&[denied.reason()]).inc();
        let mut logged = self.logged.lock();
        if logged.is_none_or(|at| at.elapsed() >= LOG_EVERY) {
            *logged = Some(Instant::now());
            tracing::warn!(%address, reason = %denied, "request refused; fabriclens_requests_denied_total counts all refusals");
        }
    }

    fn decide(&self, peer: &Peer, address: IpAddr, headers: &HeaderMap, access: Access) -> Result<Caller, Denied> {
        let anonymous = Caller::anonymous(address);
        if !self.on {
            return self.limit_rate(anonymous);
        }
        let found = self.identify(peer, address, headers);
        // Unidentified callers are limited by address, which bounds the rate of guessed tokens.
        let (caller, by) = match found {
            Ok(Some(found)) => found,
            Ok(None) => (anonymous, ""),
            Err(denied) => {
                return self
                    .limit_rate(anonymous)
                    .and_then(|anonymous| if access == Access::Public { Ok(anonymous) } else { Err(denied) });
            }
        };
        let caller = self.limit_rate(caller)?;
        let word = match access {
            Access::Public => return Ok(caller),
            _ if caller.roles.grant(access) => return Ok(caller),
            Access::AnyRole => "a role",
            Access::Ingest => "ingest",
            Access::Read => "read",
            Access::Write => "write",
            Access::Admin => "admin",
        };
        let Some(name) = caller.name else { return Err(Denied::NoCredentials) };
        let may = if caller.roles.is_empty() { "no role".to_owned() } else { caller.roles.to_string() };
        Err(Denied::MissingRole { name, may, needs: word, by })
    }

    /// Applies the rate limit. Loopback callers are exempt while authentication is off.
    fn limit_rate(&self, caller: Caller) -> Result<Caller, Denied> {
        let taken = match (&caller.name, caller.address) {
            // Per address, because many hosts may share a token, and many users a proxy.
            (Some(name), address) => self.rates.take((Some(&**name), address)),
            (None, own) if own.is_loopback() && !self.on => Ok(()),
            (None, address) => self.rates.take((None::<&str>, client_network(address))),
        };
        taken.map(|()| caller).map_err(|after| Denied::RateLimit { per_second: self.per_second, after })
    }

    /// Identifies the caller, and the config key that assigns its roles.
    fn identify(
        &self,
        peer: &Peer,
        address: IpAddr,
        headers: &HeaderMap,
    ) -> Result<Option<(Caller, &'static str)>, Denied> {
        let certified = peer.certificate.as_ref().map(|certificate| self.certificate_caller(address, certificate));
        match self.config.proxy.as_ref().map(|proxy| proxy::identify(proxy, address, headers)) {
            Some(ProxyIdentity::User(name, roles)) => {
                let caller = Caller { address, name: Some(name.into()), roles, hosts: Hosts::Any };
                return Ok(Some((caller, "proxy.roles")));
            }
            Some(ProxyIdentity::DuplicateHeader(header)) => return Err(Denied::DuplicateHeader(header)),
            Some(ProxyIdentity::None) | None => {}
        }
        if let (Some(tokens), Some(presented)) = (&self.tokens, presented_token(headers)) {
            let tokens = tokens.get();
            let token = tokens.find(&presented).ok_or(Denied::UnknownToken)?;
            if let Some(at) = token.expires_ms.filter(|at| *at <= now_ms()) {
                return Err(Denied::ExpiredToken { name: token.name.clone(), at: format_time(at) });
            }
            let hosts = match certified {
                _ if !token.hosts.is_empty() => {
                    Hosts::Only(token.hosts.iter().flat_map(|host| hosts::forms(host)).collect())
                }
                // A shared token does not widen what the certificate allows.
                Some(certified) => certified.hosts,
                None => Hosts::Any,
            };
            let caller = Caller { address, name: Some(token.name.clone()), roles: token.roles.clone(), hosts };
            return Ok(Some((caller, "tokens")));
        }
        Ok(certified.map(|caller| (caller, "certificates")))
    }

    /// The caller that a certificate identifies. A certificate without an entry in the configuration belongs to a host and
    /// may write the samples of that host.
    fn certificate_caller(&self, address: IpAddr, certificate: &Certificate) -> Caller {
        let mut roles = Roles::default();
        certificate.names().filter_map(|name| self.config.certificates.get(name)).for_each(|of| roles.extend(of));
        let mut hosts = Hosts::Any;
        if !roles.grant(Access::Ingest) {
            hosts = Hosts::Only(certificate.hosts.clone());
            if !certificate.hosts.is_empty() {
                roles.extend(&Roles::new(vec![Role::Ingest]));
            }
        }
        Caller { address, name: Some(certificate.name().clone()), roles, hosts }
    }
}

/// Names by which this collector may be reached: those of the machine, and the host of `external_url`.
fn own_names(external_url: Option<&str>) -> Vec<String> {
    host_check::own_names(external_url.and_then(|url| url.parse::<Uri>().ok()?.host().map(str::to_owned)))
}

/// The presented token: a bearer token, or the password of basic authentication for clients that know only that.
fn presented_token(headers: &HeaderMap) -> Option<String> {
    let (scheme, value) = headers.get(header::AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    if scheme.eq_ignore_ascii_case("bearer") {
        return Some(value.trim().to_owned());
    }
    let pair = scheme.eq_ignore_ascii_case("basic").then(|| STANDARD.decode(value.trim()).ok()).flatten()?;
    String::from_utf8(pair).ok()?.split_once(':').map(|(_, password)| password.to_owned())
}

impl Caller {
    /// A caller without name and roles, and not restricted to hosts.
    pub fn anonymous(address: IpAddr) -> Self {
        Self { address, name: None, roles: Roles::default(), hosts: Hosts::Any }
    }

    /// Name in logs and messages.
    pub fn log_name(&self) -> &str {
        self.name.as_deref().unwrap_or("anybody")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn callers_without_a_name_are_told_apart_by_network() {
        let of = |address: &str| Caller::anonymous(address.parse().unwrap()).sender();
        assert_eq!(of("2001:db8::1"), of("2001:db8::ffff:2"), "one client may have all addresses of its network");
        assert_ne!(of("2001:db8::1"), of("2001:db8:0:1::1"));
        assert_eq!([of("10.0.0.1"), of("::ffff:10.0.0.1")], ["10.0.0.1", "10.0.0.1"]);
        let named = Caller { name: Some("ann".into()), ..Caller::anonymous([10, 0, 0, 1].into()) };
        assert_eq!(named.sender(), "ann");
    }
}
