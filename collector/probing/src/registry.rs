//! Ports that agents offered for tracing and probing.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use fabriclens_base::host_name;
use fabriclens_probe_plan::{LASTS, Malformed, PlanRequest, ProbedPort};

/// Most hosts, and most hosts of one sender, so that one sender cannot fill the registry.
const HOSTS: usize = 16_384;
const HOSTS_OF_SENDER: usize = 8192;
/// Most ports of all hosts.
const PORTS: usize = 131_072;

/// An offer is refused; `Display` names the remedy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OfferRefused {
    /// The request is out of bounds.
    #[error("{0}; offer fewer ports ([probes] in the agent's configuration)")]
    Malformed(#[from] Malformed),
    /// Two ports have one name.
    #[error("port {0:?} is offered twice; offer each port once")]
    Twice(String),
    /// No memory for more hosts or ports.
    #[error(
        "more than {HOSTS} hosts, {HOSTS_OF_SENDER} of one sender, or {PORTS} ports are offered; set probes.enabled on fewer hosts"
    )]
    Full,
}

/// The ports of a host, as its agent last offered them.
#[derive(Clone, Debug)]
pub(crate) struct Offer {
    /// Host name as in samples.
    pub host: Arc<str>,
    /// Number of the agent process.
    pub agent: u64,
    /// Name of the caller.
    sender: Arc<str>,
    /// Ports by name.
    pub ports: Arc<[ProbedPort]>,
    /// When it was last offered.
    asked: Instant,
}

/// Offers by host. An offer that is not repeated for [`LASTS`] is forgotten.
#[derive(Default)]
pub(crate) struct PortRegistry {
    hosts: HashMap<String, Offer>,
    /// Number of ports.
    ports: usize,
    hosts_of: HashMap<Arc<str>, usize>,
}

impl PortRegistry {
    /// Takes an offer, which replaces the host's last one. Returns whether anything changed that plans depend on.
    pub fn offer(&mut self, sender: &str, request: &PlanRequest, now: Instant) -> Result<bool, OfferRefused> {
        request.check()?;
        let mut ports = request.ports.clone();
        ports.sort_by(|a, b| a.name.cmp(&b.name));
        if let Some(twice) = ports.windows(2).find(|two| two[0].name == two[1].name) {
            return Err(OfferRefused::Twice(twice[0].name.clone()));
        }
        let key = host_name::key(&request.host);
        let (held, same) = match self.hosts.get_mut(&key) {
            Some(known) if known.agent == request.agent && *known.ports == *ports && *known.sender == *sender => {
                known.asked = now;
                return Ok(false);
            }
            Some(known) => (known.ports.len(), *known.sender == *sender),
            None => (0, false),
        };
        let is_new = !self.hosts.contains_key(&key);
        let of_sender = self.hosts_of.get(sender).copied().unwrap_or(0);
        if self.ports - held + ports.len() > PORTS
            || is_new && self.hosts.len() >= HOSTS
            || !same && of_sender >= HOSTS_OF_SENDER
        {
            return Err(OfferRefused::Full);
        }
        self.remove(&key);
        self.ports += ports.len();
        let sender: Arc<str> = sender.into();
        *self.hosts_of.entry(sender.clone()).or_default() += 1;
        let offer =
            Offer { host: request.host.as_str().into(), agent: request.agent, sender, ports: ports.into(), asked: now };
        self.hosts.insert(key, offer);
        Ok(true)
    }

    /// Forgets hosts that did not ask for [`LASTS`]. Returns whether there were any.
    pub fn expire(&mut self, now: Instant) -> bool {
        let is_gone = |offer: &Offer| now.saturating_duration_since(offer.asked) >= LASTS;
        let gone: Vec<String> =
            self.hosts.iter().filter(|(_, offer)| is_gone(offer)).map(|(key, _)| key.clone()).collect();
        gone.iter().for_each(|key| self.remove(key));
        !gone.is_empty()
    }

    fn remove(&mut self, key: &str) {
        let Some(offer) = self.hosts.remove(key) else { return };
        self.ports -= offer.ports.len();
        if let Some(count) = self.hosts_of.get_mut(&offer.sender) {
            *count -= 1;
            if *count == 0 {
                self.hosts_of.remove(&offer.sender);
            }
        }
    }

    /// The offer of a host.
    pub fn of(&self, host: &str) -> Option<&Offer> {
        self.hosts.get(&host_name::key(host))
    }

    /// All offers in order of their host names.
    pub fn all(&self) -> Vec<Offer> {
        let mut all: Vec<Offer> = self.hosts.values().cloned().collect();
        all.sort_by(|a, b| a.host.cmp(&b.host));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn request(host: &str, agent: u64, ports: &[&str]) -> PlanRequest {
        let port = |name: &&str| ProbedPort { name: (*name).to_owned(), ..ProbedPort::default() };
        PlanRequest { host: host.to_owned(), agent, ports: ports.iter().map(port).collect() }
    }

    #[test]
    fn an_offer_stays_while_it_is_repeated() {
        let (mut registry, now) = (PortRegistry::default(), Instant::now());
        assert_eq!(registry.offer("a", &request("gpu-01", 1, &["mlx5_1/1", "mlx5_0/1"]), now), Ok(true));
        let later = now + LASTS / 2;
        assert_eq!(registry.offer("a", &request("GPU-01", 1, &["mlx5_0/1", "mlx5_1/1"]), later), Ok(false));
        assert!(!registry.expire(now + LASTS) && registry.of("gpu-01").is_some());
        assert_eq!(registry.offer("a", &request("gpu-01", 2, &["mlx5_0/1"]), later), Ok(true));
        assert_eq!((registry.ports, registry.of("Gpu-01").unwrap().agent), (1, 2));
        assert!(registry.expire(later + LASTS) && registry.all().is_empty());
        assert_eq!((registry.ports, registry.hosts_of.len()), (0, 0));
    }

    #[test]
    fn one_sender_cannot_fill_the_registry() {
        let (mut registry, now) = (PortRegistry::default(), Instant::now());
        for host in 0..HOSTS_OF_SENDER {
            assert_eq!(registry.offer("a", &request(&format!("h{host}"), 1, &["p"]), now), Ok(true));
        }
        assert_eq!(registry.offer("a", &request("more", 1, &["p"]), now), Err(OfferRefused::Full));
        assert_eq!(registry.offer("a", &request("h0", 2, &["p", "q"]), now), Ok(true), "a known host may change");
        assert_eq!(registry.offer("b", &request("more", 1, &["p"]), now), Ok(true));
        let many: Vec<String> = (0..64).map(|port| format!("p{port}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        let filled = (0..HOSTS).find(|host| registry.offer("b", &request(&format!("b{host}"), 1, &many), now).is_err());
        assert_eq!(filled, Some((PORTS - HOSTS_OF_SENDER - 2) / 64), "all ports are bounded");
        registry.expire(now + Duration::from_secs(60));
        assert_eq!(registry.offer("a", &request("more", 1, &["p"]), now), Ok(true));
    }

    #[test]
    fn malformed_offers_are_named() {
        let (mut registry, now) = (PortRegistry::default(), Instant::now());
        let why = |request: PlanRequest, registry: &mut PortRegistry| {
            registry.offer("a", &request, now).unwrap_err().to_string()
        };
        assert!(why(request("gpu-01", 1, &["p", "p"]), &mut registry).contains("\"p\" is offered twice"));
        assert!(why(request("gpu-01", 1, &["p"; 65]), &mut registry).starts_with("65 ports; at most 64"));
        assert!(why(request("", 1, &[]), &mut registry).starts_with("name of a host"));
    }
}
