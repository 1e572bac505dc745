//! The metadata database survives flipped bits, truncation and lost files: its content is there, or the damage is reported
//! and the content of its copy is there. Databases of earlier releases are taken over.

use fabriclens_store::{Metadata, MetadataBatch, Options, Store};
use std::collections::BTreeMap;
use std::path::Path;

const MAIN: &str = "meta.redb";
const COPY: &str = "meta.copy.redb";

fn open(dir: &Path) -> Store {
    Store::open(dir, Options { background: false, ..Options::default() }).unwrap()
}

type All = BTreeMap<(String, Vec<u8>), Vec<u8>>;

fn entries() -> All {
    let tables = ["jobs", "incidents", "incident_silences", "topology"];
    (0..24_u8)
        .map(|n| ((tables[usize::from(n) % 4].to_owned(), vec![n, 0, n]), vec![n ^ 0x5a; 60 + usize::from(n)]))
        .collect()
}

fn write(store: &Store, all: &All) {
    for ((table, key), value) in all {
        store.table(table).put(key, value).unwrap();
    }
}

fn read(store: &Store) -> All {
    let mut all = All::new();
    for name in ["jobs", "incidents", "incident_silences", "topology"] {
        let entry = |key: &[u8], value: &[u8]| _ = all.insert((name.to_owned(), key.to_vec()), value.to_vec());
        store.table(name).each(entry).unwrap();
    }
    all
}

/// A store directory with only the metadata database.
fn with_files(files: &[(&str, &[u8])]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("FABRICLENS"), "fabriclens store\nversion 1\n").unwrap();
    for (name, bytes) in files {
        std::fs::write(dir.path().join(name), bytes).unwrap();
    }
    dir
}

/// Both files of a database that was closed (`Ok`), or whose process was killed.
fn files(closed: bool) -> [Vec<u8>; 2] {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    write(&store, &entries());
    store.maintain().unwrap();
    let read = || [MAIN, COPY].map(|name| std::fs::read(dir.path().join(name)).unwrap());
    if closed {
        drop(store);
        return read();
    }
    read()
}

/// Opens damaged files. The content is whole, and damage that cost anything is reported. Returns whether it was reported.
fn survives([main, copy]: [&[u8]; 2], what: &str) -> bool {
    let dir = with_files(&[(MAIN, main), (COPY, copy)]);
    let store = open(dir.path());
    let damage = store.stats().damage;
    assert_eq!(read(&store), entries(), "{what}: {damage:?}");
    store.table("jobs").put("new", "job").unwrap();
    drop(store);
    let again = open(dir.path());
    assert_eq!(again.stats().damage, [], "{what}: mended");
    assert_eq!(again.table("jobs").get("new").unwrap().as_deref(), Some(&b"job"[..]), "{what}");
    !damage.is_empty()
}

/// Flips a bit of one byte of each file, for bytes at increasing places. Returns how often damage was reported.
fn flip(next: impl Fn(usize) -> usize) -> u32 {
    let mut reported = 0;
    for closed in [true, false] {
        let [main, copy] = files(closed);
        let mut at = 0;
        while at < main.len().max(copy.len()) {
            let flipped = |bytes: &[u8]| {
                let mut bad = bytes.to_vec();
                bad.get_mut(at).into_iter().for_each(|byte| *byte ^= 0x10);
                bad
            };
            reported += u32::from(survives([&flipped(&main), &copy], &format!("closed {closed}, byte {at}")));
            survives([&main, &flipped(&copy)], &format!("closed {closed}, byte {at} of the copy"));
            at = next(at);
        }
    }
    reported
}

#[test]
fn flipped_bits_lose_nothing() {
    let reported = flip(|at| at + if at < 320 { 7 } else { 1499 });
    assert!(reported > 50, "many bytes are in use: {reported}");
}

#[test]
#[ignore = "an hour"]
fn any_flipped_bit_loses_nothing() {
    assert!(flip(|at| at + 1) > 1000);
}

#[test]
fn a_copy_that_cannot_be_written_stops_nothing() {
    let [main, _] = files(true);
    let dir = with_files(&[(MAIN, &main)]);
    // Neither readable as a file nor replaceable by one.
    std::fs::create_dir_all(dir.path().join(COPY).join("not empty")).unwrap();
    let store = open(dir.path());
    store.table("jobs").put("new", "job").unwrap();
    store.maintain().unwrap();
    assert_eq!((store.stats().damage.len(), store.table("jobs").get("new").unwrap()), (0, Some(b"job".to_vec())));
    assert!(!dir.path().join("meta.copy.part").exists(), "it takes no space");
    drop(store);
    // Without the database, the store waits for somebody who makes the copy readable instead of starting empty.
    std::fs::remove_file(dir.path().join(MAIN)).unwrap();
    assert!(Store::open(dir.path(), Options { background: false, ..Options::default() }).is_err());
}

#[test]
fn truncated_and_lost_files_lose_nothing() {
    let [main, copy] = files(true);
    for cut in (0..main.len()).step_by(3001) {
        assert!(survives([&main[..cut], &copy], &format!("cut at {cut}")));
    }
    for cut in (0..copy.len()).step_by(3001) {
        assert!(survives([&main, &copy[..cut]], &format!("copy cut at {cut}")));
    }
    let dir = with_files(&[(COPY, &copy)]);
    let store = open(dir.path());
    assert_eq!((read(&store), store.stats().damage.len()), (entries(), 1), "only the copy is left");
    let dir = with_files(&[(MAIN, &main)]);
    let store = open(dir.path());
    assert_eq!((read(&store), store.stats().damage.len()), (entries(), 0));
    drop(store);
    assert!(dir.path().join(COPY).exists());
}

#[test]
fn without_a_copy_damage_is_reported_and_kept() {
    let [main, copy] = files(true);
    let dir = with_files(&[(MAIN, &main[..5000]), (COPY, &copy[..100])]);
    let store = open(dir.path());
    let damage = store.stats().damage;
    assert_eq!((read(&store).len(), damage.len()), (0, 2), "{damage:?}");
    for (damage, bytes) in damage.iter().zip([&copy[..100], &main[..5000]]) {
        assert_eq!(std::fs::read(&damage.path).unwrap(), bytes, "{damage:?}");
    }
}

#[test]
fn an_older_database_is_replaced_by_its_copy() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    store.table("jobs").put("1", "old").unwrap();
    drop(store);
    let old = std::fs::read(dir.path().join(MAIN)).unwrap();
    let store = open(dir.path());
    store.table("jobs").put("1", "new").unwrap();
    drop(store);
    std::fs::write(dir.path().join(MAIN), &old).unwrap();
    let store = open(dir.path());
    assert_eq!(store.table("jobs").get("1").unwrap().as_deref(), Some(&b"new"[..]));
    assert!(store.stats().damage[0].message.contains("newest writes"), "{:?}", store.stats().damage);
    // The database of a snapshot is another one, and its copy is made anew.
    let snapshot = tempfile::tempdir().unwrap();
    store.snapshot(snapshot.path()).unwrap();
    store.table("jobs").put("1", "newest").unwrap();
    drop(store);
    std::fs::copy(snapshot.path().join(MAIN), dir.path().join(MAIN)).unwrap();
    let store = open(dir.path());
    assert_eq!((store.table("jobs").get("1").unwrap().as_deref(), store.stats().damage.len()), (Some(&b"new"[..]), 0));
}

#[test]
fn batches_are_whole_and_ranges_ordered() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let (jobs, late) = (store.table("jobs"), store.table("late"));
    let mut batch = MetadataBatch::default();
    ["b", "a1", "a2"].into_iter().for_each(|key| batch.put(&jobs, key, key));
    batch.put(&late, "x", "y");
    batch.remove(&jobs, "a1");
    jobs.commit(&batch).unwrap();
    let entry = |key: &str| Some((key.as_bytes().to_vec(), key.as_bytes().to_vec()));
    assert_eq!((jobs.first().unwrap(), jobs.last().unwrap()), (entry("a2"), entry("b")));
    assert_eq!((jobs.last_until("az").unwrap(), jobs.last_until("a").unwrap()), (entry("a2"), None));
    assert_eq!(jobs.keys_with("a").unwrap(), [b"a2"]);
    let mut later = MetadataBatch::default();
    later.remove(&jobs, "b");
    later.add_earlier(batch);
    jobs.commit(&later).unwrap();
    assert_eq!((jobs.last().unwrap(), late.get("x").unwrap()), (entry("a2"), Some(b"y".to_vec())));
}

/// A database as earlier releases wrote it.
fn written_by_sled(dir: &Path, all: &All, number: u64) {
    let db = sled::open(dir.join("meta")).unwrap();
    for ((table, key), value) in all {
        db.open_tree(table).unwrap().insert(key, value.as_slice()).unwrap();
    }
    db.open_tree("metadata").unwrap().insert("m", b"\x05gauge\x01s\x04Help").unwrap();
    db.open_tree("rolled").unwrap().insert(7_u64.to_be_bytes(), &[]).unwrap();
    db.open_tree("witness").unwrap().insert("number", &number.to_le_bytes()).unwrap();
    db.flush().unwrap();
    drop(db);
    let bytes = 5_u64.to_le_bytes();
    std::fs::write(dir.join("meta.witness"), [&bytes[..], &crc32fast::hash(&bytes).to_le_bytes()].concat()).unwrap();
}

#[test]
fn databases_of_earlier_releases_are_taken_over() {
    let dir = with_files(&[]);
    written_by_sled(dir.path(), &entries(), 5);
    let mut expected = entries();
    for round in 0..2 {
        let store = open(dir.path());
        assert_eq!(store.stats().damage, [], "round {round}");
        assert_eq!(read(&store), expected, "round {round}");
        assert_eq!(store.metadata()["m"], Metadata { kind: "gauge".into(), unit: "s".into(), help: "Help".into() });
        assert!(store.table("witness").first().unwrap().is_none());
        store.table("jobs").put("new", "job").unwrap();
        expected.insert(("jobs".into(), b"new".to_vec()), b"job".to_vec());
        assert!(!dir.path().join("meta").exists() && !dir.path().join("meta.witness").exists());
        assert!(dir.path().join("meta.sled").is_dir());
    }
    // The process ended before it moved the directory aside; or an earlier release ran once more.
    std::fs::rename(dir.path().join("meta.sled"), dir.path().join("meta")).unwrap();
    let changed: All = entries().into_iter().take(3).map(|(key, _)| (key, b"changed".to_vec())).collect();
    written_by_sled(dir.path(), &changed, 4);
    expected.extend(changed);
    let store = open(dir.path());
    assert_eq!(read(&store), expected);
    let damage = store.stats().damage;
    assert!(damage.len() == 1 && damage[0].message.contains("newest writes"), "{damage:?}");
}

#[test]
fn unreadable_databases_of_earlier_releases_are_kept() {
    let dir = with_files(&[]);
    written_by_sled(dir.path(), &entries(), 5);
    std::fs::write(dir.path().join("meta/conf"), "not a configuration of sled").unwrap();
    let store = open(dir.path());
    let damage = store.stats().damage;
    assert!(read(&store).is_empty() && damage.len() == 1 && damage[0].path.join("db").exists(), "{damage:?}");
}
