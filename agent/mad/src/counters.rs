//! Counters of many ports: each period one request per port, and the details at times.

use crate::congestion;
use crate::exchange::{Counts, Exchange, Failure, Pace};
use crate::packet::{Get, Reply};
use crate::pma::{self, Attribute, Capabilities};
use crate::subnet::PortId;
use crate::transport::Mad;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::io;
use std::sync::Arc;

/// Port to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    /// Node and port.
    pub port: PortId,
    /// LID of the agent that answers for it.
    pub lid: u16,
    /// Data virtual lanes in use; 0 if unknown.
    pub lanes: u8,
}

/// Groups of counters, by how often they are needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Group {
    /// Traffic, errors, discards, waiting.
    Basic,
    /// Errors and discards by reason, waiting by virtual lane, FEC, congestion control.
    Details,
}

/// Counters of a port.
#[derive(Clone, Debug, PartialEq)]
pub struct Reading {
    /// Node and port.
    pub port: PortId,
    /// Group of the counters.
    pub group: Group,
    /// Names, `Attribute/Field`; shared by all ports of equal abilities.
    pub names: Arc<[Arc<str>]>,
    /// Tick code of the node's wait counters; `None` if it does not answer PortSamplesControl.
    pub tick: Option<u8>,
    /// One value per name; `None` if its attribute was not answered this time.
    pub values: Vec<Option<u64>>,
}

/// A finished round over all ports.
#[derive(Clone, Debug)]
pub struct Round {
    /// Nodes that did not answer.
    pub silent: BTreeSet<u64>,
    /// MADs.
    pub counts: Counts,
    /// Number of the next transaction on this transport.
    pub next_transaction: u32,
}

/// What is known of a node's performance management agent.
#[derive(Debug, Clone, Default)]
struct Agent {
    capabilities: Capabilities,
    tick: Option<u8>,
    /// Attributes of congestion control that it answered at one of its ports.
    congestion: BTreeSet<u16>,
    /// Attributes that it refused as unsupported, or never answered.
    unsupported: BTreeSet<u16>,
    /// Rounds in a row in which it answered others, but not these.
    unanswered: BTreeMap<u16, u8>,
}

/// Rounds after which an attribute that a node never answers is no longer asked.
const UNANSWERED: u8 = 3;

/// Reads counters of ports, and remembers what each node can answer.
#[derive(Debug, Default)]
pub struct Poller {
    agents: HashMap<u64, Agent>,
    silent: BTreeSet<u64>,
    names: HashMap<Vec<&'static str>, Arc<[Arc<str>]>>,
}

/// Answers of a port so far.
#[derive(Default)]
struct Open {
    missing: usize,
    replies: Vec<(u16, Reply)>,
}

/// Code of a status in bits 2 to 4: the version, the method or the attribute is not supported.
fn is_unsupported(status: u16) -> bool {
    matches!(status >> 2 & 7, 1..=3)
}

impl Poller {
    /// Forgets nodes that are no longer in the subnet.
    pub fn retain(&mut self, present: impl Fn(u64) -> bool) {
        self.agents.retain(|node, _| present(*node));
        self.silent.retain(|node| present(*node));
    }

    /// Reads the counters of these ports, and passes each port's to `emit` as soon as it has answered. `first`: see
    /// [`Exchange::new`].
    ///
    /// # Errors
    /// The transport is gone.
    pub fn read(
        &mut self,
        mad: &mut dyn Mad,
        pace: Pace,
        (group, targets): (Group, &[Target]),
        first: u32,
        emit: &mut dyn FnMut(Reading),
    ) -> io::Result<Round> {
        let (met, first) = self.meet(mad, pace, targets, first)?;
        let mut exchange = Exchange::new(mad, pace, first);
        self.silent.iter().for_each(|node| exchange.suspect(*node));
        let mut open: HashMap<usize, Open> = HashMap::new();
        for (index, target) in targets.iter().enumerate() {
            let Some(agent) = self.agents.get(&target.port.0) else { continue };
            for attribute in agent.attributes(group) {
                let get = Get::performance(target.lid, attribute.id, target.port.1);
                exchange.ask(target.port.0, get, (index, attribute.id));
                open.entry(index).or_default().missing += 1;
            }
        }
        let mut refused: Vec<(u64, u16)> = Vec::new();
        let mut answers: HashMap<u64, BTreeMap<u16, bool>> = HashMap::new();
        while let Some(((index, attribute), result)) = exchange.finished()? {
            let port = open.entry(index).or_default();
            port.missing = port.missing.saturating_sub(1);
            if result != Err(Failure::Skipped) {
                let answered = !matches!(result, Err(Failure::TimedOut));
                *answers.entry(targets[index].port.0).or_default().entry(attribute).or_default() |= answered;
            }
            match result {
                Ok(reply) => port.replies.push((attribute, reply)),
                Err(Failure::Status(status)) if is_unsupported(status) => {
                    refused.push((targets[index].port.0, attribute));
                }
                Err(_) => {}
            }
            if port.missing == 0
                && let Some(port) = open.remove(&index).filter(|port| !port.replies.is_empty())
            {
                emit(self.reading(&targets[index], group, &port.replies));
            }
        }
        self.silent = exchange.suspects().iter().copied().collect();
        let (mut counts, next_transaction) = (exchange.counts, exchange.next_transaction());
        counts.add(met);
        for (node, attribute) in refused {
            self.agents.entry(node).or_default().unsupported.insert(attribute);
        }
        for (node, answers) in answers.into_iter().filter(|(_, answers)| answers.values().any(|answered| *answered)) {
            self.agents.entry(node).or_default().judge(&answers);
        }
        let unmet = targets.iter().map(|t| t.port.0).filter(|node| !self.agents.contains_key(node));
        let silent = self.silent.iter().copied().chain(unmet).collect();
        Ok(Round { silent, counts, next_transaction })
    }

    /// Asks nodes that are new what they offer.
    fn meet(&mut self, mad: &mut dyn Mad, pace: Pace, targets: &[Target], first: u32) -> io::Result<(Counts, u32)> {
        let mut exchange = Exchange::new(mad, pace, first);
        let mut asked = HashSet::new();
        // Node 0: a node that does not know one attribute may still answer the others.
        let ask = |exchange: &mut Exchange<'_, _>, target: &Target, attribute| {
            exchange.ask(0, Get::performance(target.lid, attribute, target.port.1), (*target, attribute));
        };
        for target in targets.iter().filter(|t| !self.agents.contains_key(&t.port.0)) {
            if asked.insert(target.port.0) {
                ask(&mut exchange, target, pma::CLASS_PORT_INFO);
                ask(&mut exchange, target, pma::PORT_SAMPLES_CONTROL);
            }
        }
        let mut ticks = HashMap::new();
        while let Some(((target, attribute), result)) = exchange.finished()? {
            let (node, Ok(reply)) = (target.port.0, result) else { continue };
            match attribute {
                pma::CLASS_PORT_INFO => {
                    let capabilities = Capabilities::decode(reply.data());
                    self.agents.insert(node, Agent { capabilities, ..Agent::default() });
                    congestion::ATTRIBUTES.iter().for_each(|a| ask(&mut exchange, &target, a.id));
                }
                pma::PORT_SAMPLES_CONTROL => _ = ticks.insert(node, pma::tick(reply.data())),
                attribute => {
                    self.agents.entry(node).and_modify(|agent| _ = agent.congestion.insert(attribute));
                }
            }
        }
        for (node, tick) in ticks {
            if let Some(agent) = self.agents.get_mut(&node) {
                agent.tick = Some(tick);
            }
        }
        Ok((exchange.counts, exchange.next_transaction()))
    }

    fn reading(&mut self, target: &Target, group: Group, replies: &[(u16, Reply)]) -> Reading {
        let (unknown, agents) = (Agent::default(), &self.agents);
        let agent = agents.get(&target.port.0).unwrap_or(&unknown);
        let (mut names, mut values) = (Vec::new(), Vec::new());
        for attribute in agent.attributes(group) {
            let reply = replies.iter().find(|(id, _)| *id == attribute.id).map(|(_, reply)| reply);
            for field in attribute.fields.iter().filter(|f| agent.capabilities.offers(attribute, f, target.lanes)) {
                names.push(field.name);
                values.push(reply.map(|reply| field.value(reply.data())));
            }
        }
        let tick = agent.tick;
        let names = match self.names.get(&names) {
            Some(known) => Arc::clone(known),
            None => {
                let shared: Arc<[Arc<str>]> = names.iter().map(|name| Arc::from(*name)).collect();
                self.names.insert(names, Arc::clone(&shared));
                shared
            }
        };
        Reading { port: target.port, group, names, tick, values }
    }
}

impl Agent {
    /// Counts attributes that the node did not answer while it answered others.
    fn judge(&mut self, answers: &BTreeMap<u16, bool>) {
        for (attribute, answered) in answers {
            let rounds = self.unanswered.entry(*attribute).or_default();
            *rounds = if *answered { 0 } else { *rounds + 1 };
            if *rounds >= UNANSWERED {
                self.unsupported.insert(*attribute);
            }
        }
    }

    /// Attributes of a group that the agent answers. The narrow counters are needed only as far as no wide ones are
    /// offered.
    fn attributes(&self, group: Group) -> impl Iterator<Item = &'static Attribute> {
        let has = &self.capabilities;
        let all = match group {
            Group::Basic => {
                vec![(&pma::EXTENDED, has.extended()), (&pma::PORT_COUNTERS, !has.additional())]
            }
            Group::Details => {
                let always = [&pma::RECEIVE_ERRORS, &pma::DISCARDS, &pma::LANE_WAIT].map(|a| (a, true));
                let congestion = congestion::ATTRIBUTES.iter().map(|a| (a, self.congestion.contains(&a.id)));
                always.into_iter().chain([(&pma::FEC, has.fec())]).chain(congestion).collect()
            }
        };
        all.into_iter().filter(|(a, answered)| *answered && !self.unsupported.contains(&a.id)).map(|(a, _)| a)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attribute_that_is_never_answered_is_not_asked_again() {
        let mut agent = Agent { capabilities: Capabilities { mask: 1 << 9, mask2: 0 }, ..Agent::default() };
        let asked = |agent: &Agent| agent.attributes(Group::Details).map(|a| a.id).collect::<Vec<_>>();
        let answers = BTreeMap::from([(pma::RECEIVE_ERRORS.id, true), (pma::DISCARDS.id, false)]);
        agent.judge(&answers);
        agent.judge(&answers);
        agent.judge(&BTreeMap::from([(pma::DISCARDS.id, true)]));
        agent.judge(&answers);
        agent.judge(&answers);
        assert!(asked(&agent).contains(&pma::DISCARDS.id), "it answered in between");
        agent.judge(&answers);
        assert_eq!(asked(&agent), [pma::RECEIVE_ERRORS.id, pma::LANE_WAIT.id]);
    }

    #[test]
    fn narrow_counters_are_read_only_as_far_as_no_wide_ones_are_offered() {
        let asked = |mask, mask2| {
            let agent = Agent { capabilities: Capabilities { mask, mask2 }, ..Agent::default() };
            agent.attributes(Group::Basic).map(|a| a.id).collect::<Vec<_>>()
        };
        assert_eq!(asked(0, 0), [pma::PORT_COUNTERS.id]);
        assert_eq!(asked(1 << 9, 0), [pma::EXTENDED.id, pma::PORT_COUNTERS.id]);
        assert_eq!(asked(1 << 9, 2), [pma::EXTENDED.id]);
    }

    /// A node whose agent answers these attributes, with the attribute's id as each byte of the data, and refuses others.
    struct Node {
        answers: Vec<u16>,
        arrived: Vec<[u8; crate::packet::SIZE]>,
        asked: BTreeMap<u16, usize>,
    }

    impl Mad for Node {
        fn send(&mut self, get: &Get, transaction: u32) -> io::Result<()> {
            let mut mad = get.encode(transaction);
            let attribute = u16::from_be_bytes([mad[16], mad[17]]);
            *self.asked.entry(attribute).or_default() += 1;
            mad[3] = 0x81;
            if self.answers.contains(&attribute) {
                let byte = mad[17];
                mad[68..].fill(byte);
            } else {
                mad[5] = 0x0c;
            }
            self.arrived.push(mad);
            Ok(())
        }

        fn receive(&mut self, _: std::time::Duration, into: &mut Vec<u8>) -> io::Result<Option<()>> {
            Ok(self.arrived.pop().map(|mad| *into = mad.to_vec()))
        }

        fn window(&self) -> usize {
            16
        }
    }

    #[test]
    fn congestion_counters_are_read_where_the_node_answers_them() {
        let answers = vec![pma::CLASS_PORT_INFO, pma::DISCARDS.id, 0x31, 0x33, 0x35];
        let mut node = Node { answers, arrived: Vec::new(), asked: BTreeMap::new() };
        let (mut poller, mut readings) = (Poller::default(), Vec::new());
        let targets = [1, 2, 3].map(|port| Target { port: (7, port), lid: 9, lanes: 2 });
        for first in [0, 1000] {
            let what = (Group::Details, &targets[..]);
            poller
                .read(&mut node, Pace::default(), what, first, &mut |reading| readings.push(reading))
                .expect("no error");
        }
        let asked = [0x30, 0x31, 0x32, 0x33, 0x34, 0x35].map(|id| node.asked.get(&id).copied().unwrap_or_default());
        assert_eq!(asked, [1, 1 + 6, 1, 1 + 6, 1, 1 + 6], "once of the node, then of each port in each round");
        let value = |name: &str| {
            let at = readings[0].names.iter().position(|n| **n == *name)?;
            readings[0].values[at]
        };
        assert_eq!(readings.len(), 6);
        assert_eq!(value("PortRcvConCtrl/PortPktRcvFECN"), Some(0x3131_3131));
        assert_eq!(value("PortSLRcvBECN/PortSLRcvBECN15"), Some(0x3333_3333));
        assert_eq!(value("PortVLXmitTimeCong/PortVLXmitTimeCong1"), Some(0x3535_3535));
        assert_eq!(
            (value("PortVLXmitTimeCong/PortVLXmitTimeCong2"), value("PortXmitConCtrl/PortXmitTimeCong")),
            (None, None)
        );
    }
}
