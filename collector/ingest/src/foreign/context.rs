//! Which switch a series describes: configuration and names, shared by all decoders.

use std::net::IpAddr;
use std::sync::Arc;

use fabriclens_config::Switches;
use fabriclens_server::auth::{Caller, Hosts};

use super::names::SwitchNames;

/// Configuration and names of switches.
#[derive(Default)]
pub(super) struct Context {
    pub(super) config: Switches,
    pub(super) names: SwitchNames,
}

/// Of a caller: what it may speak for.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct Sender {
    /// The switch that it speaks for if a series does not name it: the host of its certificate or token, or the switch
    /// that is configured for its address.
    pub(super) identity: Option<Arc<str>>,
    /// Hosts to which it is bound; `None` for any.
    pub(super) bound: Option<Arc<[String]>>,
}

impl Sender {
    /// Whether it may write the series of this switch.
    pub(super) fn may(&self, switch: &str) -> bool {
        self.bound.as_ref().is_none_or(|own| Hosts::Only(own.clone()).has(switch))
    }
}

impl Context {
    /// What a translation depends on of a caller.
    pub(super) fn sender(&self, caller: &Caller) -> Sender {
        let bound = match &caller.hosts {
            Hosts::Only(own) => Some(own.clone()),
            Hosts::Any => None,
        };
        let configured = || self.config.addresses.get(&caller.address.to_canonical()).map(String::as_str);
        let identity = bound.as_deref().and_then(only_host).or_else(configured).map(Arc::from);
        Sender { identity, bound }
    }

    /// Whether a name is stored as it comes, too.
    pub(super) fn is_raw(&self, name: &str) -> bool {
        self.config.raw.iter().any(|raw| match raw.strip_suffix('*') {
            Some(prefix) => name.starts_with(prefix),
            None => raw == name,
        })
    }

    /// Configured name of an address, or the text itself.
    pub(super) fn of_address(&self, host: &str) -> String {
        let named = host.parse().ok().and_then(|address: IpAddr| self.config.addresses.get(&address));
        named.map_or(host, String::as_str).to_owned()
    }
}

/// The one host of a bound caller; certificates give a host's full and short name. `None` if there are several hosts.
fn only_host(own: &[String]) -> Option<&str> {
    let shortest = own.iter().min_by_key(|name| name.len())?;
    let same =
        |name: &String| name == shortest || name.strip_prefix(shortest.as_str()).is_some_and(|d| d.starts_with('.'));
    own.iter().all(same).then_some(shortest)
}
