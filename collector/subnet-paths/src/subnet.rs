//! What readers tell: one telling for each subnet, taken request by request.

use crate::tables::{Index, Switch, Tables, adapter_bytes};
use fabriclens_base::{Sender, host_name};
use fabriclens_forwarding_tables::{ADAPTERS, AdapterPort, Invalid, LASTS, SWITCHES, TellRequest};
use std::sync::Arc;
use std::time::Instant;

/// Most subnets.
const SUBNETS: usize = 16;
/// Memory of the tables of one subnet, bytes: 1,300 switches with every LID, or 4,000 with 16,000 LIDs.
const BYTES: usize = 64 << 20;

/// A request is refused; `Display` names the remedy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// The agent does not have the lease of its subnet.
    #[error(
        "host {0:?} does not have the lease of an InfiniBand subnet; only its reader may tell its forwarding tables"
    )]
    NotReader(String),
    /// A switch is of a subnet that another host reads.
    #[error("switch 0x{guid:016x} is of the subnet that host {reader:?} reads")]
    OtherReader {
        /// The switch.
        guid: u64,
        /// Host that has the lease.
        reader: Arc<str>,
    },
    /// The request is not valid.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// The tables of the subnet are too large.
    #[error(
        "a subnet has at most {SWITCHES} switches, {ADAPTERS} adapter ports and {BYTES} bytes of forwarding tables; paths of this one are not known"
    )]
    TooLarge,
    /// No memory for the tables of all subnets, or for those of this caller.
    #[error(
        "forwarding tables may take {0} bytes (a sixteenth of limits.memory), those of a caller that is bound to no host a quarter of it; give the reader a token or certificate of its host, or raise limits.memory"
    )]
    Memory(usize),
    /// Too many subnets.
    #[error(
        "the forwarding tables of {SUBNETS} InfiniBand subnets are known already, or a quarter of them by this caller; let other readers tell another collector"
    )]
    Full,
}

/// What is known of a subnet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubnetSummary {
    /// Host that reads it.
    pub reader: Arc<str>,
    /// Number of switches.
    pub switches: usize,
    /// Number of adapter ports.
    pub adapters: usize,
    /// Memory of the tables, bytes.
    pub bytes: usize,
    /// Whether paths are computed from it: its reader has told all, and not too long ago.
    pub usable: bool,
}

/// Outcome of a request.
pub(crate) struct Taken {
    /// The reader must begin a new telling.
    pub again: bool,
    /// The request held changes, or the last ones had not been usable yet.
    pub changed: bool,
}

/// One subnet, usable for paths.
#[derive(Debug)]
pub(crate) struct Snapshot {
    pub tables: Tables,
    pub index: Index,
}

/// The telling of one reader.
#[derive(Debug)]
struct Subnet {
    reader: Arc<str>,
    agent: u64,
    /// Name of its caller, unless it is bound to the host.
    unbound: Option<Box<str>>,
    telling: u64,
    /// Number of the next request.
    next: u32,
    tables: Tables,
    bytes: usize,
    heard: Instant,
    /// The tables as they were when the reader had told all; `None` while it tells.
    snapshot: Option<Arc<Snapshot>>,
}

impl Subnet {
    fn is_of(&self, host: &str, agent: u64) -> bool {
        self.agent == agent && host_name::is_same(&self.reader, host)
    }

    fn sender(&self) -> Sender<'_> {
        Sender::of(self.unbound.as_deref())
    }

    fn is_usable(&self, now: Instant) -> bool {
        self.snapshot.is_some() && now.saturating_duration_since(self.heard) < LASTS
    }

    /// Takes a request whose bounds were checked.
    fn apply(&mut self, request: TellRequest, now: Instant) {
        (self.next, self.heard) = (self.next.saturating_add(1), now);
        let tables = &mut self.tables;
        for switch in request.switches {
            let (guid, switch) = (switch.guid, Arc::new(Switch::new(switch)));
            self.bytes += switch.bytes();
            self.bytes -= tables.switches.insert(guid, switch).map_or(0, |old| old.bytes());
        }
        for guid in request.gone_switches {
            self.bytes -= tables.switches.remove(&guid).map_or(0, |old| old.bytes());
        }
        for adapter in request.adapters {
            self.bytes += adapter_bytes(&adapter);
            let old = tables.adapters.insert((adapter.guid, adapter.port), Arc::new(adapter));
            self.bytes -= old.map_or(0, |old| adapter_bytes(&old));
        }
        for port in request.gone_adapters {
            let old = tables.adapters.remove(&(port.guid, port.port));
            self.bytes -= old.map_or(0, |old| adapter_bytes(&old));
        }
    }

    /// Bytes by which a request makes it grow, about; `None` if it is too large then.
    fn growth(&self, request: &TellRequest) -> Option<usize> {
        let new_switches = request.switches.iter().filter(|s| !self.tables.switches.contains_key(&s.guid)).count();
        let is_new = |port: &&AdapterPort| !self.tables.adapters.contains_key(&(port.guid, port.port));
        let new_adapters = request.adapters.iter().filter(is_new).count();
        let new: usize = request.switches.iter().map(Switch::bytes_of).sum::<usize>()
            + request.adapters.iter().map(adapter_bytes).sum::<usize>();
        let old = request.switches.iter().filter_map(|told| self.tables.switches.get(&told.guid));
        let old: usize = old.map(|switch| switch.bytes()).sum();
        let fits = self.tables.switches.len() + new_switches <= SWITCHES
            && self.tables.adapters.len() + new_adapters <= ADAPTERS
            && (self.bytes + new).saturating_sub(old) <= BYTES;
        fits.then(|| new.saturating_sub(old))
    }
}

/// All subnets.
#[derive(Debug)]
pub(crate) struct Subnets {
    all: Vec<Subnet>,
    /// Memory of the tables of all, bytes.
    limit: usize,
}

impl Default for Subnets {
    fn default() -> Self {
        Self { all: Vec::new(), limit: SUBNETS * BYTES }
    }
}

impl Subnets {
    /// Bounds the memory of all tables, bytes.
    pub(crate) fn limit(&mut self, bytes: usize) {
        self.limit = bytes;
    }

    /// Takes a request; see [`crate::SubnetPaths::tell`].
    pub(crate) fn tell(
        &mut self,
        sender: Sender<'_>,
        request: TellRequest,
        now: Instant,
        reads: impl Fn(&str, u64) -> bool,
    ) -> Result<Taken, Refused> {
        if !reads(&request.host, request.agent) {
            return Err(Refused::NotReader(request.host));
        }
        request.check()?;
        let is_own = |subnet: &Subnet| subnet.is_of(&request.host, request.agent);
        // A subnet has one reader: the newest one voids what the one before told, and one whose credential names its host what
        // one told that could be any host.
        let yields = |other: &Subnet| sender == Sender::Bound && other.unbound.is_some();
        for other in self.all.iter().filter(|other| !is_own(other) && !yields(other)) {
            let shared = request.switches.iter().find(|told| other.tables.switches.contains_key(&told.guid));
            if let Some(told) = shared.filter(|_| reads(&other.reader, other.agent)) {
                return Err(Refused::OtherReader { guid: told.guid, reader: Arc::clone(&other.reader) });
            }
        }
        if request.number == 0 {
            self.begin(sender, &request, now)?;
        }
        let own = self.all.iter().position(is_own);
        let Some(own) =
            own.filter(|at| (self.all[*at].telling, self.all[*at].next) == (request.telling, request.number))
        else {
            return Ok(Taken { again: true, changed: false });
        };
        let Some(growth) = self.all[own].growth(&request) else {
            self.all.remove(own);
            return Err(Refused::TooLarge);
        };
        let kept = self.all.iter().map(|subnet| (subnet.sender(), subnet.bytes));
        if growth > 0 && !sender.may_keep(self.limit, kept, growth) {
            self.all.remove(own);
            return Err(Refused::Memory(self.limit));
        }
        let subnet = &mut self.all[own];
        let empty = request.switches.is_empty()
            && request.adapters.is_empty()
            && request.gone_switches.is_empty()
            && request.gone_adapters.is_empty();
        let changed = !empty || subnet.snapshot.is_none();
        let complete = request.complete;
        let guids: Vec<u64> = request.switches.iter().map(|told| told.guid).collect();
        subnet.apply(request, now);
        if changed {
            let snapshot = || {
                let tables = subnet.tables.clone();
                Arc::new(Snapshot { index: Index::new(&tables), tables })
            };
            subnet.snapshot = complete.then(snapshot);
        }
        let mut at = 0;
        self.all.retain(|other| {
            at += 1;
            at - 1 == own || !guids.iter().any(|guid| other.tables.switches.contains_key(guid))
        });
        Ok(Taken { again: false, changed })
    }

    /// Begins a telling.
    fn begin(&mut self, sender: Sender<'_>, request: &TellRequest, now: Instant) -> Result<(), Refused> {
        self.all.retain(|subnet| {
            !subnet.is_of(&request.host, request.agent) && now.saturating_duration_since(subnet.heard) < LASTS
        });
        if !sender.may_keep(SUBNETS, self.all.iter().map(|subnet| (subnet.sender(), 1)), 1) {
            return Err(Refused::Full);
        }
        tracing::debug!(host = request.host, "reader tells the forwarding tables of an InfiniBand subnet");
        self.all.push(Subnet {
            reader: request.host.as_str().into(),
            agent: request.agent,
            unbound: match sender {
                Sender::Bound => None,
                Sender::Unbound(name) => Some(name.into()),
            },
            telling: request.telling,
            next: 0,
            tables: Tables::default(),
            bytes: 0,
            heard: now,
            snapshot: None,
        });
        Ok(())
    }

    /// Subnets whose reader has told all, and not too long ago.
    pub(crate) fn usable(&self, now: Instant) -> Vec<Arc<Snapshot>> {
        self.all.iter().filter(|subnet| subnet.is_usable(now)).filter_map(|subnet| subnet.snapshot.clone()).collect()
    }

    pub(crate) fn summaries(&self, now: Instant) -> Vec<SubnetSummary> {
        let summary = |subnet: &Subnet| SubnetSummary {
            reader: Arc::clone(&subnet.reader),
            switches: subnet.tables.switches.len(),
            adapters: subnet.tables.adapters.len(),
            bytes: subnet.bytes,
            usable: subnet.is_usable(now),
        };
        self.all.iter().map(summary).collect()
    }
}

#[cfg(test)]
mod tests;
