//! Simulated ports with random counters from a fixed seed, so that every run makes the same bytes.

use crate::columns::{self, Pace};
use anyhow::Result;
use fabriclens_wire::Column;
use std::sync::Arc;

/// NICs per host, one per rail.
pub const RAILS: usize = 8;
/// Hosts per remote-write request.
pub const BATCH: usize = 16;
/// With churn: seconds after which the next tenth of the ports gets a new job.
const CHURN_SECONDS: usize = 60;

/// xorshift64.
pub struct Random(u64);

impl Random {
    /// A generator for `seed`.
    pub fn new(seed: u64) -> Self {
        Self((seed + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    /// A uniform number in `0..n`.
    pub fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % n
    }
}

/// Columns of a host's ports, shared by all hosts.
pub struct Rails(Vec<Rail>);

struct Rail {
    columns: Arc<[Column]>,
    paces: Arc<[Pace]>,
}

impl Rails {
    /// The 60 columns, or those of a fleet.
    ///
    /// # Errors
    /// When the table of columns does not fit the catalog.
    pub fn new(fleet: bool) -> Result<Self> {
        let rail = |rail| {
            let columns = columns::of_rail(rail, fleet)?;
            let paces = columns.iter().map(|c| c.0).collect();
            Ok(Rail { columns: columns.into_iter().map(|c| c.1).collect(), paces })
        };
        Ok(Self((0..RAILS).map(rail).collect::<Result<_>>()?))
    }
}

/// One port of one host.
pub struct Port {
    /// `host`
    pub host: String,
    /// Index of the NIC.
    pub rail: usize,
    /// Label `job`, with churn.
    pub job: Option<String>,
    /// Columns of the port.
    pub columns: Arc<[Column]>,
    /// Value of each column.
    pub values: Vec<u64>,
    paces: Arc<[Pace]>,
    random: Random,
}

impl Port {
    fn new(host: usize, rail: usize, what: &Rail, churn: bool) -> Self {
        let number = host * RAILS + rail;
        let mut random = Random::new(number as u64);
        let begin = |(pace, c): (&Pace, &Column)| match pace {
            Pace::Busy => random.below(1 << 40),
            _ if c.metric.name == "fabric.port.info" => 1,
            _ => random.below(1 << 12) * random.below(2),
        };
        let values = what.paces.iter().zip(what.columns.iter()).map(begin).collect();
        Self {
            host: host_name(host),
            rail,
            job: churn.then(|| job(number, 0)),
            columns: what.columns.clone(),
            values,
            paces: what.paces.clone(),
            random,
        }
    }

    fn step(&mut self) {
        for (value, pace) in self.values.iter_mut().zip(self.paces.iter()) {
            match pace {
                // 13 bits of noise: with the sparse columns about a quarter of a byte of entropy per sample.
                Pace::Busy => *value += 1_000_000 + self.random.below(8192),
                Pace::Sparse if self.random.below(50) == 0 => *value += 1 + self.random.below(9),
                Pace::Sparse | Pace::Constant => {}
            }
        }
    }
}

/// Host name; all have the same length.
pub fn host_name(host: usize) -> String {
    format!("node{host:05}")
}

/// Ports that are sent together.
pub struct Hosts {
    /// All ports, ordered by host.
    pub ports: Vec<Port>,
    tick: usize,
}

impl Hosts {
    /// `count` hosts from number `first` on. With churn each port has a job, and a tenth of the ports a new one each minute.
    pub fn new(rails: &Rails, first: usize, count: usize, churn: bool) -> Self {
        let host = |h| rails.0.iter().enumerate().map(move |(r, rail)| Port::new(h, r, rail, churn));
        Self { ports: (first..first + count).flat_map(host).collect(), tick: 0 }
    }

    /// Advances by a second; true if labels of series changed.
    pub fn step(&mut self) -> bool {
        self.ports.iter_mut().for_each(Port::step);
        self.tick += 1;
        let minute = self.tick / CHURN_SECONDS;
        if !self.tick.is_multiple_of(CHURN_SECONDS) {
            return false;
        }
        let mut changed = false;
        for (i, port) in self.ports.iter_mut().enumerate().filter(|(i, _)| i % 10 == minute % 10) {
            if port.job.is_some() {
                port.job = Some(job(i, minute));
                changed = true;
            }
        }
        changed
    }
}

fn job(port: usize, minute: usize) -> String {
    format!("train-{:05}-{minute:04}", port * 7919 % 100_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_independent_of_the_others() {
        let rails = Rails::new(false).unwrap();
        let (mut all, mut one) = (Hosts::new(&rails, 0, 4, false), Hosts::new(&rails, 2, 1, false));
        for _ in 0..100 {
            all.step();
            one.step();
        }
        let values = |ports: &[Port]| ports.iter().map(|p| p.values.clone()).collect::<Vec<_>>();
        assert_eq!(values(&all.ports[2 * RAILS..3 * RAILS]), values(&one.ports));
        assert_ne!(values(&all.ports[..RAILS]), values(&one.ports));
    }

    #[test]
    fn columns_move_at_their_pace_and_never_back() {
        let mut hosts = Hosts::new(&Rails::new(false).unwrap(), 0, 16, false);
        let mut moved = [0; 3];
        for _ in 0..50 {
            let before: Vec<Vec<u64>> = hosts.ports.iter().map(|p| p.values.clone()).collect();
            assert!(!hosts.step() || hosts.tick == CHURN_SECONDS);
            for (port, before) in hosts.ports.iter().zip(before) {
                for ((now, before), pace) in port.values.iter().zip(before).zip(port.paces.iter()) {
                    assert!(*now >= before);
                    moved[*pace as usize] += usize::from(*now > before);
                }
            }
        }
        let ports = 50 * 16 * RAILS;
        assert_eq!((moved[0], moved[2]), (9 * ports, 0));
        assert!((ports * 18 / 60..ports * 18 / 40).contains(&moved[1]), "one in fifty, not {}", moved[1]);
    }

    #[test]
    fn churn_replaces_a_tenth_of_the_ports() {
        let mut hosts = Hosts::new(&Rails::new(false).unwrap(), 0, 16, true);
        let jobs = |hosts: &Hosts| hosts.ports.iter().map(|p| p.job.clone()).collect::<Vec<_>>();
        let mut before = jobs(&hosts);
        for second in 1..=10 * CHURN_SECONDS {
            let changed = hosts.step();
            assert_eq!(changed, second % CHURN_SECONDS == 0);
            if changed {
                let now = jobs(&hosts);
                let new = now.iter().zip(&before).filter(|(a, b)| a != b).count();
                assert!((12..=13).contains(&new), "{new} of 128");
                before = now;
            }
        }
    }
}
