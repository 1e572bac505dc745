use super::*;

/// Times a hundred times shorter than in production, so that a test takes no minute.
const FAST: Timing = Timing {
    renew: Duration::from_millis(20),
    take_over: Duration::from_millis(400),
    give_up: Duration::from_millis(300),
    poll: Duration::from_millis(5),
};

struct Site {
    shared: tempfile::TempDir,
}

impl Site {
    fn new() -> Self {
        Self { shared: tempfile::tempdir().unwrap() }
    }

    fn path(&self) -> PathBuf {
        self.shared.path().join("lease")
    }

    fn data(&self, name: &str) -> PathBuf {
        let dir = self.shared.path().join(name);
        std::fs::create_dir_all(&dir).unwrap();
        dir
    }

    fn judge(&self, name: &str) -> JudgeLease {
        JudgeLease::start(&self.path(), name, &self.data("data"), FAST).unwrap()
    }

    fn record(&self) -> Record {
        Record::parse(&std::fs::read(self.path()).unwrap()).unwrap()
    }
}

async fn until(lease: &JudgeLease, is: impl Fn(&LeaseState) -> bool) -> LeaseState {
    let mut state = lease.state();
    let found = tokio::time::timeout(Duration::from_secs(60), state.wait_for(|state| is(state))).await;
    found.expect("the state of a lease").unwrap().clone()
}

async fn held(lease: &JudgeLease) -> u64 {
    match until(lease, |state| matches!(state, LeaseState::Held { .. })).await {
        LeaseState::Held { epoch } => epoch,
        state => panic!("{state:?}"),
    }
}

#[tokio::test]
async fn one_of_two_judges_holds_the_lease_and_the_other_takes_over() {
    let site = Site::new();
    let first = site.judge("a");
    assert_eq!(held(&first).await, 1);
    let second = site.judge("b");
    until(&second, |state| *state == LeaseState::Standby { of: "a".into() }).await;
    // A released lease is taken at once.
    drop(first);
    assert!(site.record().released || site.record().name == "b");
    assert_eq!(held(&second).await, 2);
    assert_eq!(site.record().name, "b");
}

#[tokio::test]
async fn a_lease_without_renewals_is_taken_and_its_holder_gives_up() {
    let site = Site::new();
    let (first, second) = (site.judge("a"), site.judge("b"));
    // Whichever holds it; the other one waits.
    let mut states = [first.state(), second.state()];
    loop {
        let holders = states.iter_mut().filter(|s| matches!(*s.borrow(), LeaseState::Held { .. })).count();
        assert!(holders < 2);
        if holders == 1 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let (holder, waiting) =
        if matches!(*first.state().borrow(), LeaseState::Held { .. }) { (first, second) } else { (second, first) };
    // The holder gives up at a later epoch, whichever process wrote it.
    LeaseFile::new(&site.path()).unwrap().write(&Record::new("c", 1, 7)).unwrap();
    let why = holder.lost().await;
    assert!(why.contains("judge \"c\" took over (epoch 7 after 1)"), "{why}");
    // `c` never renews.
    assert_eq!(held(&waiting).await, 8);
}

#[tokio::test]
async fn a_claim_fences_the_holder_before_the_record_is_written() {
    let site = Site::new();
    let first = site.judge("a");
    held(&first).await;
    assert!(LeaseFile::new(&site.path()).unwrap().claim(2).unwrap());
    let why = first.lost().await;
    assert!(why.contains("another judge takes over (epoch 2 after 1)"), "{why}");
    // The claimant died: the next one takes the epoch after.
    assert_eq!(held(&site.judge("b")).await, 3);
}

#[tokio::test]
async fn late_records_of_an_earlier_epoch_are_overwritten() {
    let site = Site::new();
    LeaseFile::new(&site.path()).unwrap().write(&Record { released: true, ..Record::new("a", 1, 4) }).unwrap();
    let second = site.judge("b");
    assert_eq!(held(&second).await, 5);
    LeaseFile::new(&site.path()).unwrap().write(&Record { renewal: 99, ..Record::new("a", 1, 4) }).unwrap();
    while site.record().name != "b" {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(*second.state().borrow(), LeaseState::Held { epoch: 5 });
}

#[tokio::test]
async fn a_holder_that_cannot_renew_gives_up() {
    let site = Site::new();
    let first = site.judge("a");
    held(&first).await;
    std::fs::remove_file(site.path()).unwrap();
    std::fs::create_dir(site.path()).unwrap();
    let why = first.lost().await;
    assert!(why.contains("renew"), "{why}");
}

#[tokio::test]
async fn judges_with_different_data_do_not_share_a_lease() {
    let site = Site::new();
    let first = site.judge("a");
    held(&first).await;
    first.bind().unwrap();
    let same = site.judge("b");
    until(&same, |state| *state == LeaseState::Standby { of: "a".into() }).await;
    let start = |data| JudgeLease::start(&site.path(), "a", &site.data(data), FAST).unwrap();
    let other = start("elsewhere");
    let LeaseState::Lost(why) = until(&other, |state| matches!(state, LeaseState::Lost(_))).await else { panic!() };
    assert!(why.starts_with("data: ") && why.contains("both must name the same directory"), "{why}");
    assert_eq!(*same.state().borrow(), LeaseState::Standby { of: "a".into() });
}

#[test]
fn what_is_no_lease_is_refused_with_a_remedy() {
    let site = Site::new();
    let error = |path: &Path| JudgeLease::start(path, "a", site.shared.path(), FAST).err().unwrap().to_string();
    std::fs::write(site.path(), "[collector]\n").unwrap();
    let text = error(&site.path());
    assert!(text.contains("is not a lease of this version; name another file"), "{text}");
    assert_eq!(std::fs::read_to_string(site.path()).unwrap(), "[collector]\n", "it is not overwritten");
    let text = error(&site.shared.path().join("missing/lease"));
    assert!(text.starts_with("judge.lease: cannot use ") && text.contains("storage that all judges share"), "{text}");
    let link = site.shared.path().join("link");
    std::os::unix::fs::symlink(site.path(), &link).unwrap();
    assert!(error(&link).contains("cannot use"), "a link");
    // The kernel lets no user create files there, not even root.
    assert!(error(Path::new("/proc/judge.lease")).contains("this user can write"));
}
