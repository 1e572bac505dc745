//! Ports that agents offered for tracing and probing.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use fabriclens_base::{Sender, host_name};
use fabriclens_probe_plan::{LASTS, Malformed, PlanRequest, ProbedPort};
use prost::Message as _;

/// Most hosts. A sender that is bound to no host may offer a quarter of each bound ([`Sender::may_keep`]).
const HOSTS: usize = 16_384;
/// Most ports of all hosts.
const PORTS: usize = 131_072;
/// Memory of an offered port with its part of all plans, bytes, besides its own size: measured 2,500.
const PORT_BYTES: usize = 3072;
/// Plans in which a port is a target, about: each holds a copy of the port.
const COPIES: usize = 10;

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
        "{HOSTS} hosts, {PORTS} ports or an eighth of limits.memory are offered for probing, or a quarter of these by this caller, which is bound to no host; set probes.enabled on fewer hosts, give them tokens or certificates of their own, or raise limits.memory"
    )]
    Full,
    /// The host's own credential offers its ports.
    #[error("host {0:?} offers its ports with a token or certificate of its own; this caller is bound to no host")]
    Taken(String),
}

/// A host that reports, and who offered its ports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reporter {
    /// Host name as in samples.
    pub host: Arc<str>,
    /// Name of the caller, unless it is bound to the host.
    pub unbound: Option<Arc<str>>,
}

impl Reporter {
    /// In whose share it is what the host reports.
    pub fn sender(&self) -> Sender<'_> {
        Sender::of(self.unbound.as_deref())
    }
}

/// The ports of a host, as its agent last offered them.
#[derive(Clone, Debug)]
pub(crate) struct Offer {
    /// Host name as in samples.
    pub host: Arc<str>,
    /// Number of the agent process.
    pub agent: u64,
    /// Name of the caller, unless it is bound to the host.
    unbound: Option<Arc<str>>,
    /// Memory that it takes with its plans, bytes.
    bytes: usize,
    /// Ports by name.
    pub ports: Arc<[ProbedPort]>,
    /// When it was last offered.
    asked: Instant,
}

impl Offer {
    /// The sender that offered them.
    pub fn sender(&self) -> Sender<'_> {
        Sender::of(self.unbound.as_deref())
    }

    /// The host, as one that reports.
    pub fn reporter(&self) -> Reporter {
        Reporter { host: self.host.clone(), unbound: self.unbound.clone() }
    }

    fn usage(&self) -> Usage {
        Usage { hosts: 1, ports: self.ports.len(), bytes: self.bytes }
    }
}

/// What offers take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Usage {
    hosts: usize,
    ports: usize,
    bytes: usize,
}

/// Offers by host. An offer that is not repeated for [`LASTS`] is forgotten.
pub(crate) struct PortRegistry {
    hosts: HashMap<String, Offer>,
    /// By name of the caller; `None`: all that are bound to hosts.
    usage: HashMap<Option<Arc<str>>, Usage>,
    /// Memory of all offers with their plans, bytes.
    limit: usize,
}

/// Memory of the ports of an offer with their plans, bytes.
fn bytes(ports: &[ProbedPort]) -> usize {
    ports.iter().map(|port| PORT_BYTES + COPIES * port.encoded_len()).sum()
}

impl PortRegistry {
    /// Without offers; all together may take so many bytes.
    pub fn new(limit: usize) -> Self {
        Self { hosts: HashMap::new(), usage: HashMap::new(), limit }
    }

    /// Takes an offer, which replaces the host's last one. Returns whether anything changed that plans depend on.
    pub fn offer(&mut self, sender: Sender<'_>, request: &PlanRequest, now: Instant) -> Result<bool, OfferRefused> {
        request.check()?;
        let mut ports = request.ports.clone();
        ports.sort_by(|a, b| a.name.cmp(&b.name));
        if let Some(twice) = ports.windows(2).find(|two| two[0].name == two[1].name) {
            return Err(OfferRefused::Twice(twice[0].name.clone()));
        }
        let key = host_name::key(&request.host);
        let known = self.hosts.get_mut(&key);
        if let Some(known) = &known
            && known.sender() == Sender::Bound
            && sender != Sender::Bound
        {
            return Err(OfferRefused::Taken(request.host.clone()));
        }
        if let Some(known) = known
            && known.agent == request.agent
            && *known.ports == *ports
            && known.sender() == sender
        {
            known.asked = now;
            return Ok(false);
        }
        let unbound = match sender {
            Sender::Bound => None,
            Sender::Unbound(name) => Some(name.into()),
        };
        let (host, bytes) = (request.host.as_str().into(), bytes(&ports));
        let offer = Offer { host, agent: request.agent, unbound, bytes, ports: ports.into(), asked: now };
        let before = self.remove(&key);
        if !self.has_room(&offer) {
            before.into_iter().for_each(|before| self.add(key.clone(), before));
            return Err(OfferRefused::Full);
        }
        self.add(key, offer);
        Ok(true)
    }

    fn has_room(&self, offer: &Offer) -> bool {
        let (sender, new) = (offer.sender(), offer.usage());
        let fits = |limit, of: fn(&Usage) -> usize| {
            let kept = self.usage.iter().map(|(unbound, usage)| (Sender::of(unbound.as_deref()), of(usage)));
            sender.may_keep(limit, kept, of(&new))
        };
        fits(HOSTS, |usage| usage.hosts) && fits(PORTS, |usage| usage.ports) && fits(self.limit, |usage| usage.bytes)
    }

    fn add(&mut self, key: String, offer: Offer) {
        let (usage, new) = (self.usage.entry(offer.unbound.clone()).or_default(), offer.usage());
        usage.hosts += new.hosts;
        usage.ports += new.ports;
        usage.bytes += new.bytes;
        self.hosts.insert(key, offer);
    }

    /// Forgets hosts that did not ask for [`LASTS`]. Returns whether there were any.
    pub fn expire(&mut self, now: Instant) -> bool {
        let is_gone = |offer: &Offer| now.saturating_duration_since(offer.asked) >= LASTS;
        let gone: Vec<String> =
            self.hosts.iter().filter(|(_, offer)| is_gone(offer)).map(|(key, _)| key.clone()).collect();
        gone.iter().for_each(|key| _ = self.remove(key));
        !gone.is_empty()
    }

    fn remove(&mut self, key: &str) -> Option<Offer> {
        let offer = self.hosts.remove(key)?;
        if let Some(usage) = self.usage.get_mut(&offer.unbound) {
            let old = offer.usage();
            usage.hosts -= old.hosts;
            usage.ports -= old.ports;
            usage.bytes -= old.bytes;
            if usage.hosts == 0 {
                self.usage.remove(&offer.unbound);
            }
        }
        Some(offer)
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

    const A: Sender<'_> = Sender::Unbound("a");
    const B: Sender<'_> = Sender::Unbound("b");

    #[test]
    fn an_offer_stays_while_it_is_repeated() {
        let (mut registry, now) = (PortRegistry::new(usize::MAX), Instant::now());
        assert_eq!(registry.offer(A, &request("gpu-01", 1, &["mlx5_1/1", "mlx5_0/1"]), now), Ok(true));
        let later = now + LASTS / 2;
        assert_eq!(registry.offer(A, &request("GPU-01", 1, &["mlx5_0/1", "mlx5_1/1"]), later), Ok(false));
        assert!(!registry.expire(now + LASTS) && registry.of("gpu-01").is_some());
        assert_eq!(registry.offer(A, &request("gpu-01", 2, &["mlx5_0/1"]), later), Ok(true));
        assert_eq!((registry.usage[&Some("a".into())].ports, registry.of("Gpu-01").unwrap().agent), (1, 2));
        assert!(registry.expire(later + LASTS) && registry.all().is_empty());
        assert_eq!(registry.usage.len(), 0);
    }

    /// Offers hosts with so many ports until one is refused; how many were taken.
    fn fill(registry: &mut PortRegistry, sender: Sender<'_>, name: &str, ports: usize) -> usize {
        let ports: Vec<String> = (0..ports).map(|port| format!("p{port}")).collect();
        let ports: Vec<&str> = ports.iter().map(String::as_str).collect();
        let now = Instant::now();
        let offer = |host| registry.offer(sender, &request(&format!("{name}{host}"), 1, &ports), now);
        (0..=HOSTS).map(offer).take_while(Result::is_ok).count()
    }

    #[test]
    fn one_sender_cannot_fill_the_registry() {
        let mut registry = PortRegistry::new(usize::MAX);
        assert_eq!(fill(&mut registry, A, "a", 1), HOSTS / 4);
        let now = Instant::now();
        assert_eq!(registry.offer(A, &request("a0", 2, &["p0"]), now), Ok(true), "a known host may change");
        assert_eq!(fill(&mut registry, B, "b", 64), PORTS / 4 / 64, "ports count, too");
        let bound = fill(&mut registry, Sender::Bound, "c", 64);
        assert_eq!(bound, (PORTS - HOSTS / 4 - PORTS / 4) / 64, "all that is left");
        registry.expire(now + Duration::from_secs(120));
        assert_eq!((registry.hosts.len(), registry.usage.len()), (0, 0));
    }

    #[test]
    fn memory_of_offers_and_their_plans_is_bounded() {
        let one = bytes(&request("h", 1, &["p0"]).ports);
        let mut registry = PortRegistry::new(100 * one);
        let filled = [A, B, Sender::Unbound("c"), Sender::Unbound("d"), Sender::Bound];
        let filled = filled.map(|sender| fill(&mut registry, sender, &format!("{sender:?}"), 1));
        assert_eq!(filled, [25, 25, 25, 0, 25]);
        assert_eq!(registry.offer(A, &request("more", 1, &["p0"]), Instant::now()), Err(OfferRefused::Full));
    }

    #[test]
    fn a_token_of_any_host_does_not_replace_the_offer_of_a_host() {
        let (mut registry, now) = (PortRegistry::new(usize::MAX), Instant::now());
        assert_eq!(registry.offer(Sender::Bound, &request("gpu-01", 1, &["p"]), now), Ok(true));
        let taken = registry.offer(A, &request("GPU-01", 2, &["p"]), now).unwrap_err();
        assert_eq!(taken, OfferRefused::Taken("GPU-01".into()));
        assert!(registry.expire(now + LASTS));
        assert_eq!(registry.offer(A, &request("gpu-01", 2, &["p"]), now), Ok(true));
        assert_eq!(registry.offer(Sender::Bound, &request("gpu-01", 1, &["p"]), now), Ok(true), "the host's own");
    }

    #[test]
    fn malformed_offers_are_named() {
        let (mut registry, now) = (PortRegistry::new(usize::MAX), Instant::now());
        let why = |request: PlanRequest, registry: &mut PortRegistry| {
            registry.offer(A, &request, now).unwrap_err().to_string()
        };
        assert!(why(request("gpu-01", 1, &["p", "p"]), &mut registry).contains("\"p\" is offered twice"));
        assert!(why(request("gpu-01", 1, &["p"; 65]), &mut registry).starts_with("65 ports; at most 64"));
        assert!(why(request("", 1, &[]), &mut registry).starts_with("name of a host"));
    }
}
