use super::entries::{NAME_CHARS, SWITCHES, UNKNOWN, UNKNOWN_BYTES};
use super::*;

#[test]
fn silence_is_a_matter_of_arrival_or_of_streams() {
    let list = SwitchList::new(&Registry::new()).unwrap();
    let (leaf, spine) = (Arc::from("leaf1"), Arc::from("spine1"));
    // The clock of the leaf is not set.
    list.received(Sender::Bound, &leaf, "cumulus", [1_000, 900_000], &[]);
    list.stream(&spine, "gnmi", "ports", Some("connection"));
    list.stream(&spine, "gnmi", "lldp", Some("refused"));
    let silent = |now| list.list(now).iter().map(|s| s.silent).collect::<Vec<_>>();
    assert_eq!(silent(900_000 + SILENT_MS), [false, true]);
    assert_eq!(list.list(0)[1].last_ms, None);
    // One stream that works is enough: targets refuse what they lack.
    list.stream(&spine, "gnmi", "ports", None);
    assert_eq!(silent(900_001 + SILENT_MS), [true, false]);
    let listed = list.list(0);
    let reasons: Vec<_> = listed[1].streams.iter().map(|s| (&*s.stream, s.failed.as_deref())).collect();
    assert_eq!(reasons, [("lldp", Some("refused")), ("ports", None)]);
}

#[test]
fn unknown_names_are_bounded() {
    let list = SwitchList::new(&Registry::new()).unwrap();
    let leaf = Arc::from("leaf1");
    assert!(list.unknown(&leaf, "cumulus", "a", 1));
    assert!(!list.unknown(&leaf, "cumulus", "a", 2), "known by now");
    (0..UNKNOWN).for_each(|i| {
        list.unknown(&leaf, "cumulus", &format!("b{i}"), 1);
    });
    let one = &list.list(0)[0];
    assert_eq!((one.unknown.len(), one.more_unknown, one.unknown[0].last_ms), (UNKNOWN, true, 2));
}

#[test]
fn invented_switches_are_bounded_and_make_room() {
    let list = SwitchList::new(&Registry::new()).unwrap();
    let names: Vec<String> = (0..UNKNOWN).map(|i| format!("{i}{}", "x".repeat(NAME_CHARS))).collect();
    let invent = |i: usize, now| {
        let sender = ["a", "b", "c", "d", ""][i % 5];
        let sender = Sender::of((!sender.is_empty()).then_some(sender));
        list.received(sender, &format!("invented{i}").into(), "cumulus", [now, now], &names);
    };
    list.expect(&Arc::from("spine1"), "gnmi");
    (0..2 * SWITCHES).for_each(|i| invent(i, 1000));
    assert_eq!(list.list(1000).len(), SWITCHES);
    let bytes = list.all.lock().unknown_bytes();
    assert!(bytes <= UNKNOWN_BYTES && bytes > UNKNOWN_BYTES - NAME_CHARS, "{bytes}");
    let leaf = Arc::from("leaf1");
    list.received(Sender::Bound, &leaf, "cumulus", [2000, 2000], &[]);
    let silent = 1001 + SILENT_MS;
    assert!(list.list(2000).iter().all(|switch| switch.switch != "leaf1"), "all others still send");
    list.received(Sender::Bound, &leaf, "cumulus", [silent, silent], &[]);
    let left: Vec<String> = list.list(silent).into_iter().map(|switch| switch.switch).collect();
    assert_eq!((left, list.all.lock().unknown_bytes()), (vec!["leaf1".to_owned(), "spine1".to_owned()], 0));
}

/// How many switches of this name a sender has after it told of more than the list holds.
fn fill(list: &SwitchList, sender: Sender<'_>, name: &str, now: i64) -> usize {
    (0..=SWITCHES).for_each(|i| list.received(sender, &format!("{name}{i}").into(), "cumulus", [now, now], &[]));
    list.list(now).iter().filter(|switch| switch.switch.starts_with(name)).count()
}

#[test]
fn one_sender_cannot_fill_the_list() {
    let list = SwitchList::new(&Registry::new()).unwrap();
    let [a, b, c, d] = ["a", "b", "c", "d"].map(Sender::Unbound);
    list.received(Sender::Bound, &Arc::from("quiet"), "cumulus", [0, 0], &[]);
    list.received(b, &Arc::from("quiet of b"), "cumulus", [0, 0], &[]);
    let later = SILENT_MS + 1;
    assert_eq!(fill(&list, a, "x", later), SWITCHES / 4);
    assert_eq!(list.list(later).iter().filter(|s| s.silent).count(), 2, "no place of others is taken");
    let end = 2 * later;
    assert_eq!(fill(&list, a, "y", end), SWITCHES / 4, "its own silent ones make room");
    assert_eq!(fill(&list, b, "z", end), SWITCHES / 4 - 1);
    assert_eq!(fill(&list, c, "c", end), SWITCHES / 4);
    assert_eq!(fill(&list, d, "d", end + 1000), 1, "the silent one of b makes room");
    assert_eq!(list.list(end).iter().filter(|s| s.silent).count(), 1, "one of a bound sender does not");
    assert_eq!(fill(&list, Sender::Bound, "own", end + 2000), SWITCHES / 4);
    assert_eq!(list.list(end).len(), SWITCHES);
}

#[test]
fn a_switch_belongs_to_the_sender_that_is_bound_to_it() {
    let list = SwitchList::new(&Registry::new()).unwrap();
    let names = |name: &str| vec![name.to_owned()];
    let told = |sender, switch: &str, name: &str| {
        list.received(sender, &Arc::from(switch), "cumulus", [1, 1], &names(name));
        let all = list.list(1);
        (all.len(), all[0].unknown.iter().map(|name| name.name.clone()).collect::<String>())
    };
    let (a, b) = (Sender::Unbound("a"), Sender::Unbound("b"));
    assert_eq!(told(a, "leaf1", "a"), (1, "a".into()));
    assert_eq!(told(b, "leaf1", "b"), (1, "a".into()), "it is in the share of another one");
    assert_eq!(told(Sender::Bound, "LEAF1", "c"), (1, "ac".into()), "case makes no other switch");
    assert_eq!(told(a, "leaf1", "d"), (1, "ac".into()), "it belongs to the bound one now");
    assert_eq!(list.list(1)[0].switch, "leaf1");
    assert!(list.list(1)[0].more_unknown);
}
