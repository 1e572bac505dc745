//! Who asks, and what they may do: by a token, by a certificate, or by what a trusted proxy says.
//!
//! Nothing of it is on without configuration: then the collector listens on loopback, and who is on the machine may do
//! everything. With any of it on, whatever is not allowed is refused (docs/security.md).

mod certificate;
mod denied;
mod gate;
mod proxy;
mod rate;
mod tokens;

pub use certificate::Certificate;
pub use denied::Denied;
pub use gate::{Form, Route, fallback, route, router};
pub use tokens::{Token, Tokens, new as new_token};

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::http::{HeaderMap, Uri, header};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use parking_lot::Mutex;

use crate::listener::Peer;
use fabriclens_base::host_check;
use fabriclens_config as config;
use fabriclens_config::{Config, Needs, Role, Roles};
use fabriclens_core::byte_quota::ByteQuota;
use fabriclens_core::client_network::client_network;
use fabriclens_core::reload::{Reload, Reloaded};
use fabriclens_core::telemetry::Telemetry;
use fabriclens_core::time::{format_time, now_ms};
use proxy::Said;
use rate::Rates;

/// Refusals are logged this often at most; the metric counts all.
const LOG_EVERY: Duration = Duration::from_secs(10);

/// Of which hosts somebody may write samples.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hosts {
    /// Of any.
    Any,
    /// Of these, in lower case.
    Only(Arc<[String]>),
}

impl Hosts {
    /// Whether this host is one of them.
    pub fn has(&self, host: &str) -> bool {
        match self {
            Self::Any => true,
            Self::Only(own) => own.iter().any(|own| own.eq_ignore_ascii_case(host)),
        }
    }
}

/// Who made a request that was let in.
#[derive(Clone, Debug)]
pub struct Caller {
    /// Where it came from.
    pub address: IpAddr,
    /// Token, certificate or user; none where nobody need say.
    pub name: Option<Arc<str>>,
    /// What it may do.
    pub roles: Roles,
    /// Whose samples it may write.
    pub hosts: Hosts,
}

/// Decides of each request. One for all listeners.
pub struct Guard {
    /// Whether callers must say who they are.
    on: bool,
    tokens: Option<Arc<Reloaded<Tokens>>>,
    config: config::Auth,
    per_second: u32,
    rates: Rates,
    own_origin: Option<String>,
    /// Names that a loopback listener has, where its pages could read and change everything.
    names: Option<Vec<String>>,
    /// Room for bodies that are not samples, bytes.
    bodies: Arc<ByteQuota>,
    telemetry: Telemetry,
    logged: Mutex<Option<Instant>>,
}

impl Guard {
    /// As the config says.
    ///
    /// # Errors
    /// Names the file of tokens and what is wrong with it.
    pub fn new(config: &Config, telemetry: &Telemetry) -> Result<Self, String> {
        let load = |path: &std::path::PathBuf| {
            let file = path.clone();
            Reloaded::new("tokens", vec![path.clone()], telemetry, move || Tokens::load(&file))
        };
        Ok(Self {
            on: config.asks_who(),
            tokens: config.auth.tokens.as_ref().map(load).transpose()?,
            config: config.auth.clone(),
            per_second: config.listen.requests,
            rates: Rates::new(config.listen.requests),
            own_origin: config.external_url.as_deref().map(gate::origin_of),
            // A certificate is for its names, and browsers look.
            names: (!config.asks_who() && config.tls.is_none()).then(|| own_names(config.external_url.as_deref())),
            bodies: ByteQuota::new(gate::BODIES),
            telemetry: telemetry.clone(),
            logged: Mutex::default(),
        })
    }

    /// The file of tokens, for those who look whether it changed.
    pub fn reloaded(&self) -> Option<Arc<dyn Reload>> {
        self.tokens.clone().map(|tokens| tokens as Arc<dyn Reload>)
    }

    /// Reads who a verified certificate says that it is.
    pub fn certificate(&self, der: &[u8]) -> Option<Arc<Certificate>> {
        Certificate::read(der, &self.config.host_id).map(Arc::new)
    }

    /// Lets a request in, or says why not.
    ///
    /// # Errors
    /// [`Denied`], counted.
    pub fn admit(&self, peer: &Peer, headers: &HeaderMap, needs: Needs) -> Result<Caller, Denied> {
        let address = peer.address.ip().to_canonical();
        self.decide(peer, address, headers, needs).inspect_err(|denied| self.note(address, denied))
    }

    /// Counts a refusal, and logs some.
    fn note(&self, address: IpAddr, denied: &Denied) {
        self.telemetry.denied.with_label_values(&[denied.reason()]).inc();
        let mut logged = self.logged.lock();
        if logged.is_none_or(|at| at.elapsed() >= LOG_EVERY) {
            *logged = Some(Instant::now());
            tracing::warn!(%address, reason = %denied, "a request was refused; fabriclens_requests_denied_total counts all");
        }
    }

    fn decide(&self, peer: &Peer, address: IpAddr, headers: &HeaderMap, needs: Needs) -> Result<Caller, Denied> {
        let nobody = Caller { address, name: None, roles: Roles::default(), hosts: Hosts::Any };
        if !self.on {
            return self.paced(nobody);
        }
        let found = self.identify(peer, address, headers);
        // Who cannot be told is held to the rate of its address, so that nobody can try tokens without end.
        let (caller, by) = match found {
            Ok(Some(found)) => found,
            Ok(None) => (nobody, ""),
            Err(denied) => {
                return self
                    .paced(nobody)
                    .and_then(|nobody| if needs == Needs::Nothing { Ok(nobody) } else { Err(denied) });
            }
        };
        let caller = self.paced(caller)?;
        let word = match needs {
            Needs::Nothing => return Ok(caller),
            _ if caller.roles.meet(needs) => return Ok(caller),
            Needs::Any => "a role",
            Needs::Ingest => "ingest",
            Needs::Read => "read",
            Needs::Write => "write",
            Needs::Admin => "admin",
        };
        let Some(name) = caller.name else { return Err(Denied::Nobody) };
        let may = if caller.roles.is_empty() { "do nothing".to_owned() } else { caller.roles.to_string() };
        Err(Denied::Role { name, may, needs: word, by })
    }

    /// This host's own processes are not held where nobody need say who they are.
    fn paced(&self, caller: Caller) -> Result<Caller, Denied> {
        let taken = match (&caller.name, caller.address) {
            // Many hosts may share a token, and many users a proxy.
            (Some(name), address) => self.rates.take((Some(&**name), address)),
            (None, own) if own.is_loopback() && !self.on => Ok(()),
            (None, address) => self.rates.take((None::<&str>, client_network(address))),
        };
        taken.map(|()| caller).map_err(|after| Denied::Rate { per_second: self.per_second, after })
    }

    /// Who it is, if anybody says so, and by which part of the config that is known.
    fn identify(
        &self,
        peer: &Peer,
        address: IpAddr,
        headers: &HeaderMap,
    ) -> Result<Option<(Caller, &'static str)>, Denied> {
        let certified = peer.certificate.as_ref().map(|certificate| self.certified(address, certificate));
        match self.config.proxy.as_ref().map(|proxy| proxy::said(proxy, address, headers)) {
            Some(Said::User(name, roles)) => {
                let caller = Caller { address, name: Some(name.into()), roles, hosts: Hosts::Any };
                return Ok(Some((caller, "proxy.roles")));
            }
            Some(Said::Twice(header)) => return Err(Denied::Twice(header)),
            Some(Said::Nothing) | None => {}
        }
        if let (Some(tokens), Some(shown)) = (&self.tokens, shown(headers)) {
            let tokens = tokens.get();
            let token = tokens.find(&shown).ok_or(Denied::Unknown)?;
            if let Some(at) = token.expires_ms.filter(|at| *at <= now_ms()) {
                return Err(Denied::Expired { name: token.name.clone(), at: format_time(at) });
            }
            let hosts = match (&token.host, certified) {
                (Some(host), _) => Hosts::Only([host.to_ascii_lowercase()].into()),
                // What a certificate binds, a token that many hosts share does not loosen.
                (None, Some(certified)) => certified.hosts,
                (None, None) => Hosts::Any,
            };
            let caller = Caller { address, name: Some(token.name.clone()), roles: token.roles.clone(), hosts };
            return Ok(Some((caller, "tokens")));
        }
        Ok(certified.map(|caller| (caller, "certificates")))
    }

    /// What the config says of a certificate; without a word it is a host's, which may write as itself.
    fn certified(&self, address: IpAddr, certificate: &Certificate) -> Caller {
        let mut roles = Roles::default();
        certificate.names().filter_map(|name| self.config.certificates.get(name)).for_each(|of| roles.and(of));
        let mut hosts = Hosts::Any;
        if !roles.meet(Needs::Ingest) {
            hosts = Hosts::Only(certificate.hosts.clone());
            if !certificate.hosts.is_empty() {
                roles.and(&Roles::new(vec![Role::Ingest]));
            }
        }
        Caller { address, name: Some(certificate.name().clone()), roles, hosts }
    }
}

/// Names by which this collector may be reached: the machine's, and the host of `external_url`.
fn own_names(external_url: Option<&str>) -> Vec<String> {
    host_check::own_names(external_url.and_then(|url| url.parse::<Uri>().ok()?.host().map(str::to_owned)))
}

/// The token of a request: a bearer's, or the password of a browser or a client that knows only those.
fn shown(headers: &HeaderMap) -> Option<String> {
    let (scheme, value) = headers.get(header::AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    if scheme.eq_ignore_ascii_case("bearer") {
        return Some(value.trim().to_owned());
    }
    let pair = scheme.eq_ignore_ascii_case("basic").then(|| STANDARD.decode(value.trim()).ok()).flatten()?;
    String::from_utf8(pair).ok()?.split_once(':').map(|(_, password)| password.to_owned())
}

impl Caller {
    /// Where nobody need say who they are: this process itself, and tests.
    pub fn anybody(address: IpAddr) -> Self {
        Self { address, name: None, roles: Roles::default(), hosts: Hosts::Any }
    }

    /// For the log.
    pub fn who(&self) -> &str {
        self.name.as_deref().unwrap_or("anybody")
    }
}
