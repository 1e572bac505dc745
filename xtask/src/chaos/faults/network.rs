//! Faults of the network: partition, delay, broken connections and malformed requests.

use super::{Fault, Outcome};
use crate::chaos::peers;
use crate::chaos::proxy::Proxy;
use crate::chaos::testbed::lag;
use crate::setup;
use crate::steps::call;
use std::time::{Duration, Instant};

pub const FAULTS: &[Fault] = &[
    Fault {
        name: "partition",
        often: true,
        expected: "hosts that cannot reach the collector spool; others continue",
        inject: |bed, random, hold| {
            if !setup::ensure(&setup::NETWORK)? {
                return Outcome::skipped("no nft");
            }
            let first = random.below(bed.proxies.len());
            let ports: Vec<u16> =
                bed.proxies.iter().cycle().skip(first).take(bed.proxies.len().div_ceil(3)).map(|w| w.port).collect();
            let set = ports.iter().map(u16::to_string).collect::<Vec<_>>().join(",");
            let rules = format!(
                "add table inet chaos; add chain inet chaos in {{ type filter hook input priority 0; }}; \
                 add rule inet chaos in tcp dport {{ {set} }} drop; add rule inet chaos in tcp sport {{ {set} }} drop"
            );
            call("nft", &[&rules])?;
            std::thread::sleep(2 * hold);
            call("nft", &["delete table inet chaos"])?;
            Outcome::of(format!("{} hosts cut off for {:?}", ports.len(), 2 * hold))
        },
    },
    Fault {
        name: "slow-wire",
        often: false,
        expected: "samples are late, none is missing",
        inject: |bed, _, hold| {
            bed.proxies.iter().for_each(|proxy| proxy.delay(Duration::from_millis(400)));
            std::thread::sleep(hold);
            let lag = lag(&bed.url, bed.agents.len());
            bed.proxies.iter().for_each(|proxy| proxy.delay(Duration::ZERO));
            Outcome::of(format!("0.4 s each way; the newest sample was at most {:.1} s old", lag?))
        },
    },
    Fault {
        name: "broken-connections",
        often: false,
        expected: "unacknowledged samples are sent again",
        inject: |bed, _, hold| {
            let (begin, mut cuts) = (Instant::now(), 0);
            while begin.elapsed() < hold {
                bed.proxies.iter().for_each(Proxy::cut);
                std::thread::sleep(Duration::from_millis(300));
                bed.proxies.iter().for_each(|proxy| proxy.delay(Duration::ZERO));
                std::thread::sleep(Duration::from_millis(700));
                cuts += 1;
            }
            Outcome::of(format!("all connections broken {cuts} times"))
        },
    },
    Fault {
        name: "malformed-peers",
        often: true,
        expected: "each is refused; other clients are not affected",
        inject: |bed, random, hold| {
            let [http, grpc, otlp] = bed.ports;
            Outcome::of(peers::send_malformed(&[http, grpc, otlp, bed.agent_ports[0]], random, hold)?)
        },
    },
];
