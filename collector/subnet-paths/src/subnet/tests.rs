use super::*;
use crate::fabric::{end, request};
use crate::{PathError, SubnetPaths};
use fabriclens_forwarding_tables::{PortId, SwitchTables};

/// The next request of the same telling, without changes.
fn next(number: u32) -> TellRequest {
    TellRequest { switches: Vec::new(), adapters: Vec::new(), number, ..request() }
}

/// The second hop from `node1` to `node3`.
fn second_hop(paths: &SubnetPaths) -> Result<String, PathError> {
    let found = paths.finder(Instant::now()).paths(&end(1), &end(3))?;
    Ok(format!("{}:{}", found.all[0][1].node, found.all[0][1].port))
}

#[test]
fn changes_replace_what_was_told() {
    let (paths, now) = (SubnetPaths::default(), Instant::now());
    let tell = |request: TellRequest| paths.tell(Sender::Bound, request, now, |_, _| true);
    assert_eq!(tell(request()), Ok(false));
    assert_eq!((second_hop(&paths).unwrap().as_str(), paths.version()), ("leaf1:3", 1));
    assert_eq!(tell(next(1)), Ok(false));
    assert_eq!(paths.version(), 1, "nothing has changed");
    let mut leaf = request().switches.remove(0);
    leaf.table = vec![255, 1, 2, 4, 4].into();
    let torn = TellRequest { switches: vec![leaf], complete: false, ..next(2) };
    assert_eq!(tell(torn), Ok(false));
    assert_eq!((second_hop(&paths), paths.version()), (Err(PathError::NoTables), 1), "not all is told yet");
    assert_eq!(tell(next(3)), Ok(false));
    assert_eq!((second_hop(&paths).unwrap().as_str(), paths.version()), ("leaf1:4", 2));
    let gone = TellRequest { gone_switches: vec![0x21], gone_adapters: vec![PortId { guid: 4, port: 1 }], ..next(4) };
    let before = paths.summaries(now)[0].bytes;
    assert_eq!(tell(gone), Ok(false));
    let after = paths.summaries(now).remove(0);
    assert_eq!((after.switches, after.adapters, &*after.reader, after.usable), (3, 3, "mgmt-01", true));
    assert!(after.bytes < before && second_hop(&paths).is_err());
}

#[test]
fn unknown_tellings_begin_anew() {
    let (paths, now) = (SubnetPaths::default(), Instant::now());
    let tell = |request: TellRequest| paths.tell(Sender::Bound, request, now, |_, _| true);
    assert_eq!(tell(next(3)), Ok(true), "the collector has restarted");
    assert_eq!(tell(request()), Ok(false));
    assert_eq!(tell(next(2)), Ok(true), "a request was lost");
    assert_eq!(tell(TellRequest { telling: 78, ..next(1) }), Ok(true));
    assert_eq!(tell(TellRequest { telling: 78, ..request() }), Ok(false));
    assert_eq!(paths.summaries(now).len(), 1);
}

#[test]
fn only_the_reader_tells() {
    let (paths, now) = (SubnetPaths::default(), Instant::now());
    let refused = paths.tell(Sender::Bound, request(), now, |_, _| false).unwrap_err();
    assert!(refused.to_string().contains("host \"mgmt-01\" does not have the lease"), "{refused}");
    assert_eq!(paths.summaries(now), []);
    paths.tell(Sender::Bound, request(), now, |_, _| true).unwrap();
    let other = || TellRequest { host: "mgmt-02".into(), agent: 6, ..request() };
    let refused = paths.tell(Sender::Bound, other(), now, |_, _| true).unwrap_err();
    let words = "switch 0x0000000000000010 is of the subnet that host \"mgmt-01\" reads";
    assert_eq!(refused.to_string(), words, "both have a lease, of different subnets");
    assert_eq!(&*paths.summaries(now)[0].reader, "mgmt-01");
    // The lease has moved.
    paths.tell(Sender::Bound, other(), now, |host, _| host == "mgmt-02").unwrap();
    let summaries = paths.summaries(now);
    assert_eq!((summaries.len(), &*summaries[0].reader), (1, "mgmt-02"));
}

#[test]
fn tables_are_bounded() {
    let (paths, now) = (SubnetPaths::default(), Instant::now());
    let mut number = 0;
    let refused = loop {
        let large = |n: u32| SwitchTables {
            guid: u64::from(number * 10 + n + 1),
            name: "s".into(),
            ports: 1,
            table: vec![1; 49_152].into(),
            ..SwitchTables::default()
        };
        let switches = (0..10).map(large).collect();
        let request = TellRequest { switches, adapters: Vec::new(), complete: false, number, ..request() };
        if let Err(refused) = paths.tell(Sender::Bound, request, now, |_, _| true) {
            break refused;
        }
        number += 1;
        assert!(paths.summaries(now)[0].bytes <= BYTES);
    };
    assert_eq!((refused, number), (Refused::TooLarge, 135));
    assert_eq!(paths.summaries(now), [], "its memory is free again");
    for subnet in 0..SUBNETS as u64 {
        let mut request = TellRequest { agent: subnet, ..request() };
        request.switches.iter_mut().for_each(|switch| switch.guid += subnet << 32);
        paths.tell(Sender::Bound, request, now, |_, _| true).unwrap();
    }
    let one_more = |at| {
        let switches = vec![SwitchTables { guid: 99 << 32, ..request().switches.remove(0) }];
        paths.tell(Sender::Bound, TellRequest { agent: 99, switches, ..request() }, at, |_, _| true)
    };
    assert_eq!(one_more(now), Err(Refused::Full));
    assert_eq!(one_more(now + LASTS), Ok(false), "the others have not been heard of for long");
}

#[test]
fn invalid_requests_are_refused_in_words() {
    let (paths, now) = (SubnetPaths::default(), Instant::now());
    let mut request = request();
    request.switches[1].table = vec![255, 3, 9].into();
    let refused = paths.tell(Sender::Bound, request, now, |_, _| true).unwrap_err();
    assert_eq!(refused.to_string(), "0x0000000000000011: the forwarding table names port 9, and the switch has 4");
    assert_eq!(paths.summaries(now), []);
}

/// Requests that fill a subnet of a caller, until one is refused; its refusal, and the bytes of all subnets then.
fn fill(paths: &SubnetPaths, sender: Sender<'_>, agent: u64) -> (Refused, usize) {
    let now = Instant::now();
    for number in 0.. {
        let large = |n: u32| SwitchTables {
            guid: (agent << 32) + u64::from(number * 10 + n + 1),
            name: "s".into(),
            ports: 1,
            table: vec![1; 49_152].into(),
            ..SwitchTables::default()
        };
        let switches = (0..10).map(large).collect();
        let request = TellRequest { agent, switches, adapters: Vec::new(), complete: false, number, ..request() };
        let before = paths.summaries(now).iter().map(|subnet| subnet.bytes).sum();
        if let Err(refused) = paths.tell(sender, request, now, |_, _| true) {
            return (refused, before);
        }
    }
    unreachable!("no bound")
}

#[test]
fn memory_of_all_subnets_is_bounded_and_one_caller_has_a_quarter() {
    const LIMIT: usize = 16 << 20;
    let paths = SubnetPaths::default();
    paths.limit(LIMIT);
    let (refused, bytes) = fill(&paths, Sender::Unbound("evil"), 1);
    assert_eq!(refused, Refused::Memory(LIMIT));
    assert!(bytes <= LIMIT / 4 && bytes > LIMIT / 5, "{bytes}");
    assert!(refused.to_string().contains("a quarter of it; give the reader a token or certificate of its host"));
    let (refused, bytes) = fill(&paths, Sender::Bound, 2);
    assert_eq!(refused, Refused::Memory(LIMIT));
    assert!(bytes <= LIMIT && bytes > LIMIT - (1 << 20), "{bytes}");
}

#[test]
fn what_a_bound_reader_tells_voids_what_any_other_told() {
    let (paths, now) = (SubnetPaths::default(), Instant::now());
    let evil = || TellRequest { host: "evil".into(), agent: 6, ..request() };
    paths.tell(Sender::Unbound("token"), evil(), now, |_, _| true).unwrap();
    paths.tell(Sender::Bound, request(), now, |_, _| true).unwrap();
    let summaries = paths.summaries(now);
    assert_eq!((summaries.len(), &*summaries[0].reader), (1, "mgmt-01"));
    let refused = paths.tell(Sender::Unbound("token"), evil(), now, |_, _| true).unwrap_err();
    assert!(matches!(refused, Refused::OtherReader { .. }), "{refused}");
}
