//! A transport whose nodes answer as a test says.

use super::*;
use crate::packet::SIZE;

/// Answers each request by `answer`, from the LID and the bytes sent.
struct Fake<F> {
    answer: F,
    arrived: VecDeque<Vec<u8>>,
    in_flight: usize,
    most: usize,
}

impl<F: FnMut(u16, [u8; SIZE]) -> Vec<Vec<u8>> + Send> Mad for Fake<F> {
    fn send(&mut self, get: &Get, transaction: u32) -> io::Result<()> {
        let answers = (self.answer)(get.lid(), get.encode(transaction));
        self.in_flight += 1;
        self.most = self.most.max(self.in_flight);
        self.arrived.extend(answers);
        Ok(())
    }

    fn receive(&mut self, wait: Duration, into: &mut Vec<u8>) -> io::Result<Option<()>> {
        let Some(bytes) = self.arrived.pop_front() else {
            std::thread::sleep(wait);
            return Ok(None);
        };
        self.in_flight = self.in_flight.saturating_sub(1);
        *into = bytes;
        Ok(Some(()))
    }

    fn window(&self) -> usize {
        16
    }
}

fn fake<F: FnMut(u16, [u8; SIZE]) -> Vec<Vec<u8>> + Send>(answer: F) -> Fake<F> {
    Fake { answer, arrived: VecDeque::new(), in_flight: 0, most: 0 }
}

fn good(mut mad: [u8; SIZE]) -> Vec<u8> {
    mad[3] = 0x81;
    mad.to_vec()
}

/// A rate that holds nothing back, however fast the test runs.
const PACE: Pace = Pace { per_second: u32::MAX, deadline: Duration::from_millis(20), in_flight: 16, retries: 1 };

/// Results of the ports of each node.
type ByNode = HashMap<u16, Vec<Result<(), Failure>>>;

/// Asks ten ports of each of the nodes; results by node, in the order of ports.
fn all(mad: &mut dyn Mad, nodes: std::ops::RangeInclusive<u16>) -> (ByNode, Counts) {
    let mut exchange = Exchange::new(mad, PACE, 0);
    for lid in nodes.clone() {
        (0..10).for_each(|port| exchange.ask(u64::from(lid), Get::performance(lid, 0x12, port), (lid, port)));
    }
    let mut by_node: HashMap<u16, Vec<_>> = HashMap::new();
    while let Some(((lid, port), result)) = exchange.finished().expect("no error") {
        by_node.entry(lid).or_default().push((port, result.map(|_| ())));
    }
    let sorted = |(lid, mut results): (u16, Vec<(u8, _)>)| {
        results.sort_by_key(|(port, _)| *port);
        (lid, results.into_iter().map(|(_, result)| result).collect())
    };
    (by_node.into_iter().map(sorted).collect(), exchange.counts)
}

#[test]
fn each_request_is_answered_once() {
    let mut mad = fake(|_, mad| vec![good(mad)]);
    let (results, counts) = all(&mut mad, 1..=20);
    assert!(results.len() == 20 && results.values().all(|r| *r == [Ok(()); 10]));
    assert_eq!((counts.sent, counts.answered, counts.foreign), (200, 200, 0));
    assert!(mad.most > 8, "many are in flight at once: {}", mad.most);
}

#[test]
fn no_node_gets_the_whole_window() {
    let mut mad = fake(|_, mad| vec![good(mad)]);
    let (results, _) = all(&mut mad, 1..=1);
    assert!(results[&1] == [Ok(()); 10] && mad.most == PER_NODE, "{}", mad.most);
}

#[test]
fn a_dead_node_costs_only_itself() {
    let mut mad = fake(|lid, mad| if lid == 3 { vec![] } else { vec![good(mad)] });
    let (results, counts) = all(&mut mad, 1..=20);
    let failed = |lid: &u16| results[lid].iter().filter(|r| r.is_err()).count();
    assert_eq!((1..=20).filter(|lid| failed(lid) > 0).collect::<Vec<_>>(), [3]);
    assert_eq!(counts.timed_out + counts.skipped, 10);
    assert!(results[&3].contains(&Err(Failure::TimedOut)));
    assert!(counts.sent <= 190 + 20, "{counts:?}");
}

#[test]
fn a_lost_request_is_sent_again() {
    let mut lost = false;
    let mut mad = fake(|_, mad| if std::mem::replace(&mut lost, true) { vec![good(mad)] } else { vec![] });
    let (results, counts) = all(&mut mad, 1..=2);
    assert!(results.values().all(|r| *r == [Ok(()); 10]), "{results:?}");
    assert_eq!((counts.sent, counts.timed_out, counts.skipped), (21, 0, 0));
}

#[test]
fn an_error_status_is_no_reading() {
    let mut mad = fake(|_, mut mad| {
        mad[5] = 0x0c;
        vec![good(mad)]
    });
    let (results, counts) = all(&mut mad, 1..=1);
    assert_eq!((results[&1][0], counts.refused), (Err(Failure::Status(0x0c)), 10));
}

#[test]
fn foreign_datagrams_are_counted_and_answer_nothing() {
    let mut mad = fake(|_, mad| {
        let mut other_attribute = good(mad);
        other_attribute[17] = 0x1d;
        let mut other_class = good(mad);
        other_class[1] = 0x03;
        let mut unknown = good(mad);
        unknown[12..16].fill(0xee);
        let truncated = good(mad)[..100].to_vec();
        vec![other_attribute, other_class, unknown, truncated, mad.to_vec(), good(mad), good(mad)]
    });
    let (results, counts) = all(&mut mad, 1..=1);
    assert!(results[&1] == [Ok(()); 10] && counts.answered == 10);
    assert!(counts.foreign >= 9 * 6, "requests, repeats and damaged datagrams: {counts:?}");
}

#[test]
fn a_node_that_answers_again_is_asked_all() {
    let mut mad = fake(|_, mad| vec![good(mad)]);
    let mut exchange = Exchange::new(&mut mad, PACE, 0);
    exchange.suspect(7);
    (0..10).for_each(|port| exchange.ask(7, Get::performance(7, 0x12, port), port));
    let mut answered = 0;
    while let Some((_, result)) = exchange.finished().expect("no error") {
        answered += usize::from(result.is_ok());
    }
    assert!(answered == 10 && exchange.suspects().is_empty());
}

#[test]
fn a_transport_that_is_gone_ends_it() {
    struct Gone;
    impl Mad for Gone {
        fn send(&mut self, _: &Get, _: u32) -> io::Result<()> {
            Err(io::ErrorKind::BrokenPipe.into())
        }
        fn receive(&mut self, _: Duration, _: &mut Vec<u8>) -> io::Result<Option<()>> {
            Ok(None)
        }
        fn window(&self) -> usize {
            1
        }
    }
    let mut mad = Gone;
    let mut exchange = Exchange::new(&mut mad, PACE, 0);
    exchange.ask(1, Get::performance(1, 0x12, 1), ());
    assert!(exchange.finished().is_err());
}
