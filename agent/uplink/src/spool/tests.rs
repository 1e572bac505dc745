use super::*;
use proptest::prelude::*;
use std::sync::LazyLock;

const S: u64 = 1_000_000_000;
const WIDE: Limits = Limits { bytes: 64 << 20, age: Duration::from_secs(86_400) };

fn dir() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

/// A moment of a wall clock that goes right.
fn now(wall_ns: u64) -> Now {
    static BEGIN: LazyLock<Instant> = LazyLock::new(Instant::now);
    Now { wall_ns, at: *BEGIN + Duration::from_nanos(wall_ns) }
}

fn open(dir: &Path, limits: Limits) -> Spool {
    Spool::open(dir, limits, now(0)).unwrap()
}

/// A payload by which a request is told from others, of so many points.
fn put(spool: &mut Spool, n: u8, points: u64, len: usize) -> Lost {
    let (lost, kept) = spool.append(&vec![n; len], 2, points, now(S * u64::from(n)));
    kept.unwrap();
    lost
}

/// Takes everything back; the first byte of each payload, and what was lost.
fn drain(spool: &mut Spool) -> (Vec<u8>, u64) {
    let (mut got, mut lost) = (Vec::new(), 0);
    loop {
        let (gone, next) = spool.next(now(0).at);
        lost += gone.reasons().iter().map(|(_, n)| n).sum::<u64>();
        let Some(request) = next.unwrap() else { return (got, lost) };
        assert!(request.payload.iter().all(|b| *b == request.payload[0]), "nothing is given that was not put");
        got.push(request.payload[0]);
        lost += spool.done(&request).expect("it is still there").damaged;
    }
}

fn files(dir: &Path) -> Vec<PathBuf> {
    let all = std::fs::read_dir(dir).unwrap().map(|e| e.unwrap().path());
    let mut all: Vec<PathBuf> = all.filter(|p| p.extension().is_some_and(|e| e == "spool")).collect();
    all.sort();
    all
}

#[test]
fn what_is_put_comes_back_in_order_and_leaves_nothing() {
    let dir = dir();
    let mut spool = open(dir.path(), WIDE);
    assert_eq!((spool.held(), spool.next(now(0).at).1.unwrap()), (SpoolContents::default(), None));
    for n in 1..=5 {
        put(&mut spool, n, 10, 100);
    }
    let held = spool.held();
    assert_eq!((held.points, held.oldest_ns), (50, Some(S)));
    let on_disk: u64 = files(dir.path()).iter().map(|f| f.metadata().unwrap().len()).sum();
    assert_eq!(held.bytes, on_disk);
    let first = spool.next(now(0).at).1.unwrap().unwrap();
    assert_eq!((first.points, first.encoding, &first.payload[..]), (10, 2, &[1; 100][..]));
    assert_eq!(spool.next(now(0).at).1.unwrap().unwrap(), first, "it stays until it is done");
    assert_eq!(drain(&mut spool), (vec![1, 2, 3, 4, 5], 0));
    assert!(spool.is_empty() && files(dir.path()).is_empty());
    put(&mut spool, 6, 1, 1);
    assert_eq!(drain(&mut spool), (vec![6], 0));
}

#[test]
fn another_process_goes_on_where_this_one_ends() {
    let dir = dir();
    let mut spool = open(dir.path(), WIDE);
    (1..=4).for_each(|n| _ = put(&mut spool, n, 10, 100));
    assert!(matches!(Spool::open(dir.path(), WIDE, now(0)), Err(SpoolError::Busy { .. })), "one at a time");
    let first = spool.next(now(0).at).1.unwrap().unwrap();
    assert_eq!(spool.done(&first), Some(Lost::default()));
    drop(spool);
    let mut spool = open(dir.path(), WIDE);
    assert_eq!((spool.held().points, spool.held().oldest_ns), (30, Some(2 * S)));
    put(&mut spool, 5, 10, 100);
    assert_eq!(drain(&mut spool), (vec![2, 3, 4, 5], 0));
}

#[test]
fn the_oldest_go_by_size_and_by_age_and_are_counted() {
    let dir = dir();
    let limits = Limits { bytes: 1 << 20, age: Duration::from_secs(100) };
    let mut spool = open(dir.path(), limits);
    let mut lost = 0;
    for n in 1..=60 {
        lost += put(&mut spool, n, 1, 30 << 10).size;
        assert!(spool.held().bytes <= limits.bytes);
    }
    assert!((25..=32).contains(&lost), "{lost}");
    assert_eq!(spool.held().points, 60 - lost);
    let (old, next) = spool.next(now(141 * S).at);
    assert_eq!(old.age, 40 - lost, "what was put before 41 s is too old, by whole segments of two");
    assert_eq!(next.unwrap().unwrap().payload[0], 41);
    let (old, next) = spool.next(now(1000 * S).at);
    assert_eq!((old.age, next.unwrap()), (20, None));
}

#[test]
fn a_request_that_a_bound_drops_while_it_is_sent_is_counted_once() {
    let dir = dir();
    let mut spool = open(dir.path(), Limits { bytes: 128 << 10, ..WIDE });
    put(&mut spool, 1, 7, 60 << 10);
    let sent = spool.next(now(0).at).1.unwrap().unwrap();
    assert_eq!(put(&mut spool, 2, 7, 60 << 10).size + put(&mut spool, 3, 7, 60 << 10).size, 7);
    assert_eq!(spool.done(&sent), None);
    assert_eq!(drain(&mut spool), (vec![2, 3], 0));
}

/// A killed process leaves the file cut at any byte.
#[test]
fn cut_at_any_byte_all_that_was_whole_is_there() {
    let dir = dir();
    let mut spool = open(dir.path(), WIDE);
    (1..=3).for_each(|n| _ = put(&mut spool, n, 10, 20));
    drop(spool);
    let file = files(dir.path()).remove(0);
    let bytes = std::fs::read(&file).unwrap();
    let record = segment::HEAD + 20;
    for len in 0..=bytes.len() {
        std::fs::write(&file, &bytes[..len]).unwrap();
        let mut spool = open(dir.path(), WIDE);
        let whole = (len.saturating_sub(HEADER) / record) as u8;
        assert_eq!(spool.held().points, 10 * u64::from(whole), "cut at {len}");
        put(&mut spool, 9, 10, 20);
        let want: Vec<u8> = (1..=whole).chain([9]).collect();
        assert_eq!(drain(&mut spool), (want, 0), "cut at {len}");
        drop(spool);
        std::fs::remove_file(dir.path().join("cursor")).unwrap();
    }
}

#[test]
fn a_damaged_byte_costs_one_request_and_is_told() {
    let dir = dir();
    let mut spool = open(dir.path(), WIDE);
    (1..=4).for_each(|n| _ = put(&mut spool, n, 10, 20));
    drop(spool);
    let file = files(dir.path()).remove(0);
    let bytes = std::fs::read(&file).unwrap();
    let record = segment::HEAD + 20;
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x41;
        std::fs::write(&file, &damaged).unwrap();
        let mut spool = open(dir.path(), WIDE);
        let hit = at.checked_sub(HEADER).map(|at| (at / record + 1) as u8);
        let want: Vec<u8> = (1..=4).filter(|n| Some(*n) != hit).collect();
        let held = spool.held().points;
        let (got, lost) = drain(&mut spool);
        assert_eq!(got, want, "damaged at {at}");
        assert_eq!(held, 10 * got.len() as u64 + lost, "what it told it holds was given or counted, at {at}");
        drop(spool);
        std::fs::remove_file(dir.path().join("cursor")).unwrap();
    }
}

#[test]
fn what_is_damaged_while_it_waits_is_counted_when_the_cursor_is_beyond_it() {
    let dir = dir();
    let mut spool = open(dir.path(), WIDE);
    (1..=3).for_each(|n| _ = put(&mut spool, n, 10, 20));
    let file = std::fs::OpenOptions::new().write(true).open(&files(dir.path())[0]).unwrap();
    file.write_all_at(&[0xff; 4], (HEADER + segment::HEAD + 20) as u64).unwrap();
    assert_eq!(drain(&mut spool), (vec![1, 3], 10));
    assert_eq!(spool.held(), SpoolContents::default());
}

#[test]
fn a_part_that_cannot_be_read_is_told_and_costs_no_other() {
    let dir = dir();
    let mut spool = open(dir.path(), Limits { bytes: 1 << 20, ..WIDE });
    (1..=3).for_each(|n| _ = put(&mut spool, n, 10, 60 << 10));
    drop(spool);
    let second = &files(dir.path())[1];
    std::fs::remove_file(second).unwrap();
    std::os::unix::fs::symlink(second, second).unwrap();
    let mut spool = open(dir.path(), WIDE);
    assert_eq!((spool.unreadable(), spool.held().points), (1, 20));
    assert_eq!(drain(&mut spool), (vec![1, 3], 0));
    drop(spool);
    // One that opens and gives no byte.
    let first = dir.path().join(segment::name(1));
    std::fs::create_dir(&first).unwrap();
    (0..9).for_each(|n| std::fs::create_dir(first.join(n.to_string())).unwrap());
    std::fs::remove_file(dir.path().join("cursor")).unwrap();
    let mut spool = open(dir.path(), WIDE);
    put(&mut spool, 4, 10, 20);
    assert_eq!((spool.unreadable(), drain(&mut spool)), (1, (vec![4], 0)));
    assert_eq!(spool.held().aside, 2);
}

/// A segment that cannot be read: a link, which the spool does not follow.
fn spoil(segment: &Path) {
    std::fs::remove_file(segment).unwrap();
    std::os::unix::fs::symlink("/proc/self/mem", segment).unwrap();
}

#[test]
fn a_part_that_the_disk_does_not_give_is_set_aside_and_what_is_behind_it_delivered() {
    let dir = dir();
    let mut spool = open(dir.path(), Limits { bytes: 1 << 20, ..WIDE });
    (1..=4).for_each(|n| _ = put(&mut spool, n, 10, 60 << 10));
    let second = files(dir.path()).remove(1);
    let whole = std::fs::read(&second).unwrap();
    spoil(&second);
    let at = |s: u64| now(s * S).at;
    let first = spool.next(at(0)).1.unwrap().unwrap();
    assert_eq!(spool.done(&first), Some(Lost::default()));
    for s in [5, 15, 64] {
        let (lost, next) = spool.next(at(s));
        assert!(lost == Lost::default() && next.unwrap_err().to_string().contains("symbolic links"), "at {s} s");
    }
    let (lost, next) = spool.next(at(65));
    assert_eq!((lost, next.unwrap().unwrap().payload[0]), (Lost { unreadable: 10, ..Lost::default() }, 3));
    let held = spool.held();
    assert_eq!((held.points, held.aside, files(dir.path()).len()), (20, 1, 2));
    assert_eq!((drain(&mut spool), spool.is_empty()), ((vec![3, 4], 0), true));
    drop(spool);
    // The next start cannot read it either; the one after can: the disk is mended.
    let aside = dir.path().join(segment::aside_name(2));
    std::fs::remove_file(&aside).unwrap();
    std::os::unix::fs::symlink(&aside, &aside).unwrap();
    let spool = open(dir.path(), WIDE);
    assert_eq!((spool.held().points, spool.held().aside), (0, 1));
    drop(spool);
    std::fs::remove_file(&aside).unwrap();
    std::fs::write(&aside, whole).unwrap();
    let mut spool = open(dir.path(), WIDE);
    assert_eq!((spool.held().points, spool.held().aside), (10, 0));
    assert_eq!(drain(&mut spool), (vec![2], 0));
}

#[test]
fn what_is_appended_while_the_only_part_is_not_given_has_a_part_of_its_own() {
    let dir = dir();
    let mut spool = open(dir.path(), WIDE);
    put(&mut spool, 1, 10, 20);
    spoil(&files(dir.path())[0]);
    assert!(spool.next(now(0).at).1.is_err());
    put(&mut spool, 2, 10, 20);
    let (lost, next) = spool.next(now(61 * S).at);
    assert_eq!((lost.unreadable, next.unwrap().unwrap().payload[0]), (10, 2));
}

#[test]
fn a_want_of_descriptors_sets_nothing_aside() {
    let dir = dir();
    let mut spool = open(dir.path(), WIDE);
    put(&mut spool, 1, 10, 20);
    let segment = spool.segments[0];
    for s in [0, 30, 300] {
        let want = rustix::io::Errno::MFILE.into();
        assert!(spool.asks_again(&segment, &want, now(s * S).at), "at {s} s");
    }
    let disk = rustix::io::Errno::IO.into();
    assert!(spool.asks_again(&segment, &disk, now(301 * S).at), "its time begins with the first fault of its own");
    assert!(!spool.asks_again(&segment, &disk, now(361 * S).at));
}

#[test]
fn steps_of_the_wall_clock_drop_nothing() {
    let dir = dir();
    let mut spool = open(dir.path(), WIDE);
    put(&mut spool, 1, 10, 20);
    // Two days ahead, and a second later.
    let stepped = Now { wall_ns: 2 * 86_400 * S, at: now(2 * S).at };
    let (lost, kept) = spool.append(&[2; 20], 2, 10, stepped);
    assert_eq!((lost, kept.is_ok(), spool.next(stepped.at).0), (Lost::default(), true, Lost::default()));
    drop(spool);
    // A start with a wrong date: what is there has an hour.
    let wrong = Now { wall_ns: 9 * 86_400 * S, at: now(3 * S).at };
    let mut spool = Spool::open(dir.path(), WIDE, wrong).unwrap();
    assert_eq!(spool.next(wrong.at + DOUBT).0, Lost::default());
    let (lost, next) = spool.next(wrong.at + DOUBT + Duration::from_secs(1));
    assert_eq!((lost.age, next.unwrap()), (20, None));
}

#[test]
fn what_was_old_at_a_start_has_what_is_left_of_its_time() {
    let dir = dir();
    let mut spool = open(dir.path(), WIDE);
    put(&mut spool, 1, 10, 20);
    drop(spool);
    let day = WIDE.age.as_secs();
    let mut spool = Spool::open(dir.path(), WIDE, now(day / 2 * S)).unwrap();
    assert_eq!(spool.next(now((day + 1) * S).at).0, Lost::default());
    assert_eq!(spool.next(now((day + 2) * S).at).0.age, 10);
}

#[test]
fn a_damaged_cursor_gives_requests_again_and_loses_none() {
    let dir = dir();
    let mut spool = open(dir.path(), WIDE);
    (1..=3).for_each(|n| _ = put(&mut spool, n, 1, 20));
    let first = spool.next(now(0).at).1.unwrap().unwrap();
    assert_eq!(spool.done(&first), Some(Lost::default()));
    drop(spool);
    let cursor = dir.path().join("cursor");
    let bytes = std::fs::read(&cursor).unwrap();
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1;
        std::fs::write(&cursor, &damaged).unwrap();
        assert_eq!(open(dir.path(), WIDE).held().points, 3, "damaged at {at}");
    }
    std::fs::write(&cursor, &bytes).unwrap();
    assert_eq!(open(dir.path(), WIDE).held().points, 2);
}

/// A segment that a release after this one has written.
fn later(dir: &Path, number: u64) -> Vec<u8> {
    let mut later = segment::header(number);
    later[8] = 2;
    let crc = crc32fast::hash(&later[..20]).to_le_bytes();
    later[20..].copy_from_slice(&crc);
    later.extend([7; 1000]);
    std::fs::write(dir.join(segment::name(number)), &later).unwrap();
    later
}

#[test]
fn what_a_later_release_wrote_is_kept_for_it_wherever_the_cursor_stands() {
    let dir = dir();
    let aside = |number| dir.path().join(segment::aside_name(number));
    let wrote = later(dir.path(), 7);
    let mut spool = open(dir.path(), WIDE);
    assert_eq!((spool.held().points, spool.held().aside), (0, 1));
    put(&mut spool, 1, 1, 1);
    assert_eq!((drain(&mut spool), spool.at.segment), ((vec![1], 0), 9));
    drop(spool);
    // Another start, with a cursor that is far beyond it; and a part that it comes upon only now.
    let earlier = later(dir.path(), 3);
    for _ in 0..2 {
        assert_eq!(open(dir.path(), WIDE).held().aside, 2);
        assert_eq!(
            (std::fs::read(aside(7)).unwrap(), std::fs::read(aside(3)).unwrap()),
            (wrote.clone(), earlier.clone())
        );
    }
    // The release that can read it delivers it.
    let other = tempfile::tempdir().unwrap();
    let mut of_later = open(other.path(), WIDE);
    put(&mut of_later, 5, 10, 20);
    std::fs::rename(&files(other.path())[0], aside(7)).unwrap();
    let mut spool = open(dir.path(), WIDE);
    assert_eq!((spool.held().points, spool.held().aside), (10, 1));
    assert_eq!(drain(&mut spool), (vec![5], 0));
    put(&mut spool, 6, 1, 1);
    assert_eq!(drain(&mut spool), (vec![6], 0));
}

#[test]
fn the_bounds_take_what_is_set_aside_before_what_waits() {
    let dir = dir();
    later(dir.path(), 1);
    let aside = dir.path().join(segment::aside_name(1));
    let mut spool = open(dir.path(), Limits { bytes: 64 << 10, ..WIDE });
    assert!(spool.held().bytes > 1000);
    put(&mut spool, 1, 10, 40 << 10);
    assert!(aside.exists());
    assert_eq!(put(&mut spool, 2, 10, 24_000), Lost::default(), "its points are not known");
    assert!(!aside.exists() && spool.held().aside == 0);
    assert_eq!(drain(&mut spool), (vec![1, 2], 0));
    drop(spool);
    later(dir.path(), 9);
    let mut spool = open(dir.path(), WIDE);
    let aside = dir.path().join(segment::aside_name(9));
    assert_eq!(spool.next(now(0).at + WIDE.age).0, Lost::default());
    assert!(aside.exists());
    assert_eq!(spool.next(now(0).at + WIDE.age + Duration::from_secs(1)).0, Lost::default());
    assert!(!aside.exists() && spool.held() == SpoolContents::default());
}

#[test]
fn files_that_others_remove_or_shorten_are_counted() {
    let dir = dir();
    let mut spool = open(dir.path(), Limits { bytes: 1 << 20, ..WIDE });
    (1..=4).for_each(|n| _ = put(&mut spool, n, 10, 60 << 10));
    let files = files(dir.path());
    assert_eq!(files.len(), 4);
    std::fs::remove_file(&files[0]).unwrap();
    std::fs::OpenOptions::new().write(true).open(&files[2]).unwrap().set_len(100).unwrap();
    assert_eq!(drain(&mut spool), (vec![2, 4], 20));
    assert!(spool.is_empty());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    /// Appends, deliveries, bounds and restarts in any order: points put = given + lost + held.
    #[test]
    fn points_add_up(steps in proptest::collection::vec((0_u8..8, 1_u64..50, 1_usize..40_000), 1..60)) {
        let dir = dir();
        let limits = Limits { bytes: 256 << 10, age: Duration::from_secs(20) };
        let mut spool = open(dir.path(), limits);
        let (mut put, mut given, mut lost, mut time) = (0, 0, 0, S);
        for (what, points, len) in steps {
            time += S * u64::from(what == 6) * 15 + S / 10;
            let gone = match what {
                0..=3 => {
                    let (gone, kept) = spool.append(&vec![what; len], what, points, now(time));
                    put += points;
                    kept.unwrap();
                    gone
                }
                4..=6 => {
                    let (gone, next) = spool.next(now(time).at);
                    if let Some(request) = next.unwrap() {
                        prop_assert_eq!(spool.done(&request), Some(Lost::default()));
                        given += request.points;
                    }
                    gone
                }
                _ => {
                    drop(spool);
                    spool = Spool::open(dir.path(), limits, now(time)).unwrap();
                    Lost::default()
                }
            };
            lost += gone.reasons().iter().map(|(_, n)| n).sum::<u64>();
            prop_assert_eq!(put, given + lost + spool.held().points);
            prop_assert!(spool.held().bytes <= limits.bytes);
        }
    }
}

#[test]
fn links_are_not_followed() {
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    for name in ["lock", "cursor"] {
        let dir = tempfile::tempdir().unwrap();
        let (spool, victim) = (dir.path().join("spool"), dir.path().join("victim"));
        std::fs::create_dir(&spool).unwrap();
        std::fs::write(&victim, "precious").unwrap();
        symlink(&victim, spool.join(name)).unwrap();
        assert!(Spool::open(&spool, WIDE, now(0)).is_err(), "{name} is a link");
        std::fs::remove_file(spool.join(name)).unwrap();
        std::fs::hard_link(&victim, spool.join(name)).unwrap();
        let error = Spool::open(&spool, WIDE, now(0)).err().unwrap().to_string();
        assert!(error.contains("has another name"), "{error}");
        std::fs::remove_file(spool.join(name)).unwrap();
        std::fs::set_permissions(&spool, std::fs::Permissions::from_mode(0o777)).unwrap();
        let error = Spool::open(&spool, WIDE, now(0)).err().unwrap().to_string();
        assert!(error.contains("every user can write into it; run: chmod o-w"), "{error}");
        std::fs::set_permissions(&spool, std::fs::Permissions::from_mode(0o700)).unwrap();
        assert!(Spool::open(&spool, WIDE, now(0)).is_ok());
        assert_eq!(std::fs::read_to_string(&victim).unwrap(), "precious");
    }
}
